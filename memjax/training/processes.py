"""Several processes, one run: how a process joins the others, and what only the first of them does."""

import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from etils import epath
from jax.experimental import multihost_utils

from memjax.errors import MemjaxError, one_line, remark, require
from memjax.files import writing

LONGEST = 2000  # bytes of a message that all are told
PATIENCE = 10  # seconds that a process which has failed waits for the others
GONE = "Gloo", "gloo", "UNAVAILABLE", "DEADLINE_EXCEEDED", "heartbeat"  # in what JAX says of a process that is gone
COMING = 300  # seconds in which the first process is to come
T = TypeVar("T")


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
    if coordinator is not None and process_id is not None:
        _reach_first(host.strip("[]"), int(port), process_id == 0)
    try:
        jax.distributed.initialize(*said)
    except (RuntimeError, ValueError) as error:
        hint = "nothing here tells who they are: give --coordinator" if coordinator is None else "see --coordinator"
        raise MemjaxError(f"cannot join the other processes ({one_line(error)}); {hint}") from None


def _reach_first(host: str, port: int, own: bool) -> None:
    """Raises `MemjaxError` where the first process cannot be at its port, or does not come: JAX would be aborted."""
    if own:
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                free.bind(("", port))
            except OSError as error:
                raise MemjaxError(f"port {port} of --coordinator: {error.strerror}; give another port") from None
        return
    end, said = time.monotonic() + COMING, False
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
            return
        except OSError as error:
            reason = error.strerror or one_line(error)
        if not said:
            remark(f"waiting for the first process at {host}:{port} ({reason})")
            said = True
        require(time.monotonic() < end, f"no process is at --coordinator={host}:{port} ({reason}); start the first one")
        time.sleep(0.5)


def within(seconds: float, action: Callable[[], object]) -> None:
    """Does something that may wait for others, for so long at most; what goes wrong with it is not told."""

    def quietly() -> None:
        with contextlib.suppress(Exception):
            action()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(seconds)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What several processes do as one, once they have joined. One that fails leaves the others, if they leave, too.

    Raises:
        MemjaxError: in place of what JAX raises where another process is gone.
    """
    try:
        yield
    except BaseException as error:
        if jax.distributed.is_initialized():
            within(PATIENCE, jax.distributed.shutdown)  # it waits for all of them
            if isinstance(error, jax.errors.JaxRuntimeError) and any(word in str(error) for word in GONE):
                said = f"another process of this run has failed or is out of reach ({one_line(error)})"
                raise MemjaxError(f"{said}; see what it says") from None
        raise


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
        problem = _text(multihost_utils.broadcast_one_to_all(_bytes(problem)))
        require(not problem, problem)


def everywhere(action: Callable[[], T]) -> T:
    """Has every process do something. If that ends in a `MemjaxError` in any of them, every process raises it."""
    problem, found = "", []
    try:
        found.append(action())
    except MemjaxError as error:
        if jax.process_count() == 1:
            raise
        problem = str(error) or "it failed"
    if jax.process_count() > 1:
        told = [_text(each) for each in multihost_utils.process_allgather(_bytes(problem))]
        for number, text in enumerate(told):
            alike = text in ("", problem)
            require(not text, text if alike else f"process {number}: {text}")
    return found[0]


def of_first(value: Any) -> Any:
    """What the first process has, of numbers, texts, lists and dicts, in all of them."""
    text = json.dumps(value)  # ASCII: as many bytes as characters
    length = int(multihost_utils.broadcast_one_to_all(np.array(len(text))))
    return json.loads(_text(multihost_utils.broadcast_one_to_all(_bytes(text, length))))


def _bytes(text: str, length: int = LONGEST) -> np.ndarray:
    return np.frombuffer(text.encode()[:length].ljust(length, b"\0"), np.uint8)


def _text(padded: Any) -> str:
    return np.asarray(padded).astype(np.uint8).tobytes().rstrip(b"\0").decode(errors="replace")
