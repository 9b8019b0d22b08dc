"""memjax: memories that read a long stream once, keep a state of fixed size, and answer questions asked later."""

from memjax import memories, ops
from memjax.errors import MemjaxError
from memjax.functional import FunctionalMemory, functional
from memjax.memories import register_memory

__all__ = ["FunctionalMemory", "MemjaxError", "functional", "memories", "ops", "register_memory"]
__version__ = "0.1.0"
