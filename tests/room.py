"""Memory of a worker of the suite: compiled functions pile up in a process, and are forgotten before it has 2 GB.

That is also before Linux has no memory maps left for it, 65,530, without which XLA crashes.
"""

import ctypes
import gc
import os
import resource
import sys
from pathlib import Path

import jax
import pytest

LARGEST = 1_500_000_000  # bytes; what comes between two calls of `make_room` adds less than the rest of 2 GB
STATM = Path("/proc/self/statm")
_peaks: dict[str, int] = {}  # bytes that each worker had at most
_left = [0]  # bytes that nothing could be done about the last time


def make_room() -> None:
    """Forgets what is compiled, if that is much. What is needed again is loaded from the suite's compile cache.

    What was freed goes back to the system before: an eighth of it all, after which there may be nothing to forget.
    """
    most = max(LARGEST, _left[0] + 200_000_000)
    if _resident() > most:
        _trim()
    if _resident() > most:
        jax.clear_caches()
        gc.collect()
        _trim()
        _left[0] = _resident()


def _trim() -> None:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def pytest_runtest_teardown() -> None:
    """After every test."""
    make_room()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the process that has started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peak"] = _peak()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """A worker is over. One that crashed has told nothing."""
    told = getattr(node, "workeroutput", {})
    if "peak" in told:
        _peaks[node.gateway.id] = told["peak"]


def pytest_terminal_summary(terminalreporter) -> None:
    """A line for each worker: the most memory that it had. Nothing fails by it."""
    for name, peak in (_peaks or {"this process": _peak()}).items():
        terminalreporter.write_line(f"memory of {name}: at most {peak / 1e9:.2f} GB")


def _peak() -> int:
    """The most bytes of memory that this process had; Linux tells kB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _resident() -> int:
    """The bytes of memory that this process has; 0 where nobody tells."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if STATM.exists() else 0
