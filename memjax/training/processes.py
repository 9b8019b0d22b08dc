"""Several processes, one run: how a process joins the others, and what only the first of them does."""

import contextlib
import secrets
import time
from collections.abc import Callable

import jax
import numpy as np
from etils import epath
from jax.experimental import multihost_utils

from memjax.errors import MemjaxError, one_line, require
from memjax.files import writing

LONGEST = 2000  # bytes of a message that all are told


def devices() -> str:
    """The devices of all processes together, for people to read: "8 x cpu"."""
    return f"{jax.device_count()} x {jax.devices()[0].device_kind}"


def join(
    distributed: bool = False,
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Waits until all processes of the run are there. To be called before JAX is asked for its devices.

    Args:
        distributed: whether a TPU VM, Slurm, Kubernetes or MPI tells who they are. Without it and the others nothing is
            done: one process is all.
        coordinator: HOST:PORT of the first.
        num_processes: how many there are.
        process_id: which of them this is, from 0.

    Raises:
        MemjaxError: for arguments that do not fit together, and if it cannot join.
    """
    said = coordinator, num_processes, process_id
    if not distributed and said == (None, None, None):
        return
    complete = distributed or None not in said
    require(complete, "--coordinator=HOST:PORT, --num_processes=N and --process_id=I belong together; give all three")
    host, _, port = (coordinator or "host:1").rpartition(":")
    valid = bool(host) and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535
    require(valid, f"--coordinator={coordinator} must be HOST:PORT, with a port from 1 to 65535")
    below = num_processes is None or process_id is None or 0 <= process_id < num_processes
    require(below, f"--process_id={process_id} must be below --num_processes={num_processes}")
    try:
        jax.distributed.initialize(*said)
    except (RuntimeError, ValueError) as error:
        hint = "nothing here tells who they are: give --coordinator" if coordinator is None else "see --coordinator"
        raise MemjaxError(f"cannot join the other processes ({one_line(error)}); {hint}") from None


def require_shared(place: epath.Path) -> None:
    """Raises `MemjaxError` in all processes unless all of them see what the first one writes there."""
    if jax.process_count() == 1:
        return
    number = int(multihost_utils.broadcast_one_to_all(np.array(secrets.randbits(31))))
    file = place / f".seen-{number}"

    def write() -> None:
        with writing(place):
            file.write_text(str(number))

    by_first(write)
    seen = False
    for _ in range(20):  # a network's file system may be late
        with contextlib.suppress(Exception):
            seen = file.read_text() == str(number)
        if seen:
            break
        time.sleep(0.5)
    everyone = bool(np.all(multihost_utils.process_allgather(np.array(seen))))
    by_first(lambda: file.unlink(missing_ok=True))
    require(
        everyone,
        f"not every process sees what the first one writes to {place}; give a --run that all hosts see, or a "
        "config.training.checkpoints",
    )


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
