"""The memories, behind one contract; `create` makes any of them by name."""

from typing import Any

from memjax.deprecated import renamed
from memjax.memories.compressive_memory import CompressiveMemory
from memjax.memories.continual import ContinualMemory
from memjax.memories.dmsdnc import DMSDNC
from memjax.memories.dnc_memory import DNC
from memjax.memories.eviction_memory import EvictionMemory
from memjax.memories.hpmn import HPMN
from memjax.memories.memn2n import MemN2NMemory
from memjax.memories.memorizing import memorize, memorize_at
from memjax.memories.memory import Memory, Slots
from memjax.memories.memory_registry import check_size, create, register_memory, registry
from memjax.memories.mimn import MIMN
from memjax.memories.ntm_memory import NTM
from memjax.memories.nutm import NUTM
from memjax.memories.rehearsal import RehearsalMemory
from memjax.memories.stm import TwoMemory
from memjax.memories.surprise_memory import SurpriseMemory

__all__ = [
    "DMSDNC",
    "DNC",
    "HPMN",
    "MIMN",
    "NTM",
    "NUTM",
    "CompressiveMemory",
    "ContinualMemory",
    "EvictionMemory",
    "MemN2NMemory",
    "Memory",
    "RehearsalMemory",
    "Slots",
    "SurpriseMemory",
    "TwoMemory",
    "check_size",
    "create",
    "memorize",
    "memorize_at",
    "register_memory",
    "registry",
]


def __getattr__(name: str) -> Any:
    return renamed(__name__, {"RetentionMemory": EvictionMemory}, name)
