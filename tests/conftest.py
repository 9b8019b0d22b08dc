"""Before any backend starts: 8 CPU devices, and run-time checks of every shape that memjax's annotations state."""

import ctypes
import gc
import os
import sys
from pathlib import Path

import jax
import jaxtyping
import numpy as np
import pytest

gc.set_threshold(50_000, 20, 50)  # tracing makes many objects and little garbage: a sixth of the time was collecting
jax.config.update("jax_num_cpu_devices", 8)
jaxtyping.install_import_hook("memjax", "beartype.beartype")
STATM = Path("/proc/self/statm")
LARGEST = 1_300_000_000  # bytes after a test; a single test adds less than the rest of 2 GB
KEPT = [0]  # bytes that were left when compiled functions were last forgotten
LIBC = ctypes.CDLL(None)
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # what only a benchmark needs is tested too


def pytest_configure(config):
    """Most of the tests' time is compiling: little is optimized, and what one process compiled the others load.

    The processes that tests start find both in their environment. `pytest --cache-clear` forgets what is kept.
    """
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    kept = {
        "jax_compilation_cache_dir": str(config.cache.mkdir("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in kept.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


def resident() -> int:
    """The bytes of memory that this process has; 0 where nobody tells."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if STATM.exists() else 0


@pytest.fixture(autouse=True)
def room_to_compile():
    """Compiled functions pile up: they are forgotten before a worker has 2 GB, and before Linux has no memory maps left
    for it, 65,530, without which XLA crashes. What is needed again is loaded from the kept ones.
    """
    yield
    if resident() > max(LARGEST, KEPT[0] + 200_000_000):
        jax.clear_caches()
        gc.collect()
        if hasattr(LIBC, "malloc_trim"):
            LIBC.malloc_trim(0)  # what was freed goes back
        KEPT[0] = resident()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=["Auto", "Explicit"])
def mesh(request):
    """All 8 devices on one axis, "data"; the test enters it with `jax.set_mesh`."""
    return jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType[request.param],))


@pytest.fixture
def unchecked():
    """Without the checks of annotations: what a user of the library sees."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
