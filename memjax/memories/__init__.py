"""The memories, behind one contract; `create` makes any of them by name."""

import dataclasses
import typing

import jax.numpy as jnp
import numpy as np

from memjax.deprecated import renamed
from memjax.errors import MemjaxError, require, unknown
from memjax.memories.compressive import CompressiveMemory
from memjax.memories.continual import ContinualMemory
from memjax.memories.contract import Memory, Slots, memorize
from memjax.memories.dmsdnc import DMSDNC
from memjax.memories.dnc import DNC
from memjax.memories.eviction_memory import EvictionMemory
from memjax.memories.memn2n import MemN2NMemory
from memjax.memories.ntm import NTM
from memjax.memories.nutm import NUTM
from memjax.memories.rehearsal import RehearsalMemory
from memjax.memories.stm import TwoMemory
from memjax.memories.surprise import SurpriseMemory

registry: dict[str, type[Memory]] = {
    "compressive": CompressiveMemory,
    "continual": ContinualMemory,
    "dmsdnc": DMSDNC,
    "dnc": DNC,
    "ntm": NTM,
    "nutm": NUTM,
    "memn2n": MemN2NMemory,
    "rehearsal": RehearsalMemory,
    "retention": EvictionMemory,
    "stm": TwoMemory,
    "surprise": SurpriseMemory,
}

# Each of these is traced and compiled by itself: of many more than that nobody sees the end.
COUNTS = {"layers", "rate", "read_heads", "recent"}
MOST = 100
LARGEST = 2**20  # of the other sizes: far more than fits; products of larger ones end the process in XLA

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a name"}

__all__ = [
    "DMSDNC",
    "DNC",
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
    "registry",
]


def __getattr__(name: str) -> typing.Any:
    return renamed(__name__, {"RetentionMemory": EvictionMemory}, name)


def create(name: str, *, slots: int | np.integer, **sizes) -> Memory:
    """Makes a memory by its name in the registry, with K = `slots` and the sizes that it takes.

    Raises `MemjaxError`, in one line, for an unknown name or size, and for sizes that the memory cannot have.

    >>> create("rehearsal", slots=20, width=128, segment=10).num_slots
    20
    >>> create("rehersal", slots=20, width=128, segment=10)
    Traceback (most recent call last):
        ...
    memjax.errors.MemjaxError: unknown memory 'rehersal'; did you mean 'rehearsal'?
    """
    if name not in registry:
        raise unknown("memory", name, registry)
    cls = registry[name]
    fields = _fields(cls)
    for size in sizes:
        check_size(name, size)
        if size not in fields:
            raise unknown(f"size of the {name} memory", size, [*fields, "slots"])
    missing = [n for n, f in fields.items() if f.default is dataclasses.MISSING and n not in sizes]
    if missing:
        raise MemjaxError(f"the {name} memory needs {', '.join(missing)}")
    hints = typing.get_type_hints(cls)
    given = {"num_slots": slots, **sizes}
    memory = cls(**{size: _checked(size, hints[size], value) for size, value in given.items()})
    memory.validate()
    return memory


def _checked(size: str, kind: typing.Any, value: typing.Any) -> typing.Any:
    """The value of a size, of the kind that it must be; NumPy's numbers count as Python's."""
    name, choices = size.removeprefix("num_"), typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal and value not in choices:
        raise unknown(name, value, choices)
    if size == "dtype":
        require(_is_floating(value), f"dtype must be one of floating point, such as 'bfloat16', not {value!r}")
    if kind not in WORDS:
        return value
    value = value.item() if isinstance(value, np.generic) else value
    value = float(value) if kind is float and type(value) is int else value
    require(type(value) is kind, f"{name} must be {WORDS[kind]}, not {value!r}")
    if kind is int:
        most = MOST if size in COUNTS else LARGEST
        require(value <= most, f"{name} must be at most {most}, not {value}")
    return value


def _is_floating(dtype: typing.Any) -> bool:
    try:
        return jnp.issubdtype(dtype, jnp.floating)
    except TypeError:
        return False


def check_size(name: str, size: str) -> None:
    """Raises `MemjaxError` for a size that only other memories have; see `create`."""
    others = sorted(other for other, cls in registry.items() if size in _fields(cls))
    known = name in registry and size in _fields(registry[name])
    require(known or not others, f"{size} is a size of memory={', '.join(others)}, not of memory={name}; leave it out")


def _fields(cls: type[Memory]) -> dict[str, dataclasses.Field]:
    return {f.name: f for f in dataclasses.fields(cls) if f.name not in ("parent", "name", "num_slots")}
