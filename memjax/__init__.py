"""memjax: memories that read a long stream once, keep a state of fixed size, and answer questions asked later."""

from memjax import program  # noqa: F401, I001 - first: a Ctrl-C may come while the others are imported
from memjax import memories, ops
from memjax.errors import MemjaxError
from memjax.functional import FunctionalMemory, functional

__all__ = ["FunctionalMemory", "MemjaxError", "functional", "memories", "ops"]
__version__ = "0.1.0"
