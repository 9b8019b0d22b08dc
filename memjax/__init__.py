"""memjax: memories that read a long stream once, keep a state of fixed size, and answer questions asked later."""

from typing import Any

from memjax import program  # noqa: F401 - first: a Ctrl-C may come while the others are imported

# isort: split
from memjax import memories, ops
from memjax.errors import MemjaxError
from memjax.functional import FunctionalMemory, functional
from memjax.memories import register_memory

__all__ = [
    "FunctionalMemory",
    "MemjaxError",
    "functional",
    "memories",
    "ops",
    "register_family",
    "register_memory",
    "register_task",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What needs more than jax and flax is imported when it is asked for."""
    if name == "register_task":
        from memjax.tasks import register_task

        return register_task
    if name == "register_family":
        from memjax.experiments.register_family import register_family

        return register_family
    raise AttributeError(f"module 'memjax' has no attribute {name!r}")
