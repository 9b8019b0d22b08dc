"""Several processes, one run: how a process joins the others, and what only the first of them does."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from memjax.errors import MemjaxError, one_line, require

LONGEST = 2000  # bytes of a message that all are told


class Launch(NamedTuple):
    """How a command was started: by what tells its processes of each other, or with all of it said.

    distributed: a TPU VM, Slurm, Kubernetes or MPI tells. Otherwise coordinator is host:port of the first process.
    """

    distributed: bool = False
    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None


def join(launch: Launch) -> None:
    """Waits until all processes of the run are there. To be called before JAX is asked for its devices."""
    said = launch.coordinator, launch.num_processes, launch.process_id
    if not launch.distributed and said == (None, None, None):
        return
    complete = launch.distributed or None not in said
    require(complete, "--coordinator=HOST:PORT, --num_processes=N and --process_id=I belong together; give all three")
    if not launch.distributed:
        number, count = launch.process_id, launch.num_processes
        require(number is not None and count is not None and 0 <= number < count, f"--process_id must be below {count}")
    try:
        jax.distributed.initialize(*said)
    except (RuntimeError, ValueError) as error:
        raise MemjaxError(f"cannot join the other processes ({one_line(error)}); see --coordinator") from None


def is_first() -> bool:
    """Whether this process writes what a run has once: its config, its log, its report."""
    return jax.process_index() == 0


def by_first(action: Callable[[], object]) -> None:
    """Has the first process do something. If that ends in a `MemjaxError`, every process raises it."""
    problem = ""
    if is_first():
        try:
            action()
        except MemjaxError as error:
            if jax.process_count() == 1:
                raise
            problem = str(error) or "the first process failed"
    if jax.process_count() > 1:
        text = np.frombuffer(problem.encode()[:LONGEST].ljust(LONGEST, b"\0"), np.uint8)
        told = np.asarray(multihost_utils.broadcast_one_to_all(text)).astype(np.uint8).tobytes()
        problem = told.rstrip(b"\0").decode(errors="replace")
        require(not problem, problem)
