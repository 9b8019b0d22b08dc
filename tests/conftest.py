"""Before any backend starts: 8 CPU devices, and run-time checks of every shape that memjax's annotations state."""

import gc
import os
import signal
import sys
from pathlib import Path

import jax
import jaxtyping
import numpy as np
import pytest
import room
import slowest

gc.set_threshold(50_000, 20, 50)  # tracing makes many objects and little garbage: a sixth of the time was collecting
jax.config.update("jax_num_cpu_devices", 8)
jaxtyping.install_import_hook("memjax", "beartype.beartype")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as behind "&": what tests start inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # what only a benchmark needs is tested too
# Little is optimized, in one piece: more of them, to be compiled side by side, take a third longer in all.
FLAGS = ("--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1")
if jax.__version_info__ < (0, 11):  # newer XLA has no such flag, and ends a process that is given one it does not know
    FLAGS += ("--xla_cpu_use_fusion_emitters=false",)


def pytest_configure(config):
    """Most of the tests' time is compiling: little is optimized, and what one process compiled the others load.

    The processes that tests start find both in their environment. `pytest --cache-clear` forgets what is kept.
    """
    config.pluginmanager.register(room)  # after doctests too, which are outside of this folder
    config.pluginmanager.register(slowest)
    os.environ["XLA_FLAGS"] = " ".join(FLAGS)
    kept = {
        "jax_compilation_cache_dir": str(config.cache.mkdir("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
        "jax_traceback_in_locations_limit": 0,  # whence each operation comes: a twentieth of the time
    }
    for name, value in kept.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


def pytest_collection_finish():
    """What was imported stays: no collection looks at it again, which is the larger half of what collecting costs."""
    gc.collect()
    gc.freeze()


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
