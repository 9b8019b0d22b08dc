"""The memories by name: the registry, what other packages put into it, and `create`, which makes any of them."""

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

import numpy as np

from memjax.checks import LARGEST_COUNT, LARGEST_WIDTH
from memjax.deprecated import new_names, warn_of_keywords
from memjax.errors import MemjaxError, require, unknown
from memjax.memories.compressive_memory import CompressiveMemory
from memjax.memories.continual import ContinualMemory
from memjax.memories.dmsdnc import DMSDNC
from memjax.memories.dnc_memory import DNC
from memjax.memories.eviction_memory import EvictionMemory
from memjax.memories.hpmn import HPMN
from memjax.memories.memn2n import MemN2NMemory
from memjax.memories.memory import Memory
from memjax.memories.mimn import MIMN
from memjax.memories.ntm_memory import NTM
from memjax.memories.nutm import NUTM
from memjax.memories.rehearsal import RehearsalMemory
from memjax.memories.stm import TwoMemory
from memjax.memories.surprise_memory import SurpriseMemory
from memjax.ops.arrays import described, is_float_dtype

registry: dict[str, type[Memory]] = {
    "compressive": CompressiveMemory,
    "continual": ContinualMemory,
    "dmsdnc": DMSDNC,
    "dnc": DNC,
    "hpmn": HPMN,
    "mimn": MIMN,
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

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a name"}

M = TypeVar("M", bound=type[Memory])


@overload
def register_memory(name: str) -> Callable[[M], M]: ...
@overload
def register_memory(name: str, cls: M) -> M: ...
def register_memory(name: str, cls: Any = None) -> Any:
    """Enters a memory of your own under a name, by which `create`, configs and the command line then find it.

    A function, `register_memory("mine", Mine)`, or a decorator of the class. To define a class anew, as when a
    notebook's cell runs again, takes the place of the old one.

    Args:
        name: what `create` and configs call it.
        cls: the class; without it, the decorator.

    Returns:
        The class, or its decorator.

    Raises:
        MemjaxError: for a name that another class has or that has other characters than letters, digits, `_` and `-`,
            and for what is no subclass of `Memory`.

    >>> @register_memory("sums")
    ... class Sums(Memory):
    ...     width: int
    >>> create("sums", slots=1, width=8).width
    8
    >>> registry.pop("sums") is Sums  # leaves no trace, for the next example
    True
    """
    fine = isinstance(name, str) and name.replace("-", "_").isidentifier()
    require(fine, f"a memory's name has letters, digits, _ and - alone, and begins with a letter; not {name!r:.80}")
    if cls is None:
        return lambda cls: register_memory(name, cls)
    is_one = isinstance(cls, type) and issubclass(cls, Memory)
    require(is_one, f"a memory is a subclass of memjax.memories.Memory, not {cls!r:.80}")
    own, taken = (f"{each.__module__}.{each.__qualname__}" for each in (cls, registry.get(name, cls)))
    require(own == taken, f"the name {name!r} is taken by {taken}; register {cls!r:.80} under another")
    registry[name] = cls
    return cls


def create(name: str, *, slots: int | np.integer, **sizes: Any) -> Memory:
    """Makes a memory by its name in the registry, with K = `slots` and the sizes that it takes.

    Args:
        name: in the registry, such as "dnc".
        slots: K.
        sizes: those that the memory takes; see its class. `width` is needed by all.

    Returns:
        The memory, a Linen module.

    Raises:
        MemjaxError: for an unknown name or size, and for sizes that the memory cannot have.

    >>> create("rehearsal", slots=20, width=128, segment=10).num_slots
    20
    >>> create("rehersal", slots=20, width=128, segment=10)
    Traceback (most recent call last):
        ...
    memjax.errors.MemjaxError: unknown memory 'rehersal'; did you mean 'rehearsal'?
    """
    if not isinstance(name, str) or name not in registry:
        raise unknown("memory", name if isinstance(name, str) else described(name), registry)
    cls = registry[name]
    warn_of_keywords(cls, sizes)
    fields, sizes = size_fields(cls), new_names(cls, sizes)
    for size in sizes:
        check_size(name, size)
        if size not in fields:
            raise unknown(f"size of the {name} memory", size, [*fields, "slots"])
    required = (n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING)
    missing = [n for n in required if n not in sizes]
    if missing:
        raise MemjaxError(f"the {name} memory needs {', '.join(missing)}")
    hints = _kinds(cls)
    given = {"num_slots": slots, **sizes}
    memory = cls(**{size: _checked(size, hints[size], value) for size, value in given.items()})
    memory.validate()
    return memory


def _kinds(cls: type[Memory]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except NameError as error:
        raise MemjaxError(f"of what kind the sizes of {cls.__name__} are is unknown: {error}; import it") from None


def _checked(size: str, kind: Any, value: Any) -> Any:
    """The value of a size, of the kind that it must be; NumPy's numbers count as Python's."""
    name, choices = size.removeprefix("num_"), typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal and (not isinstance(value, str) or value not in choices):
        raise unknown(name, value if isinstance(value, str) else described(value), choices)
    if size == "dtype":
        floating = "float16, bfloat16, float32 or float64"
        require(is_float_dtype(value), f"dtype must be {floating}, not {described(value)}")
    if kind not in WORDS:
        return value
    value = value.item() if isinstance(value, np.generic) else value
    value = float(value) if kind is float and type(value) is int and abs(value) < 1e30 else value
    require(type(value) is kind, f"{name} must be {WORDS[kind]}, not {described(value)}")
    if kind is int:
        most = LARGEST_COUNT if size in COUNTS else LARGEST_WIDTH
        require(value <= most, f"{name} must be at most {most}, not {described(value)}")
        require(value >= -LARGEST_WIDTH, f"{name} must be at least 0, not {described(value)}")
    return value


def check_size(name: str, size: str) -> None:
    """Checks that a size is one of this memory's; see `create`.

    Args:
        name: of a memory.
        size: of which it may be one.

    Raises:
        MemjaxError: for a size that only other memories have.
    """
    others = sorted(other for other, cls in registry.items() if size in size_fields(cls))
    known = name in registry and size in size_fields(registry[name])
    require(known or not others, f"{size} is a size of memory={', '.join(others)}, not of memory={name}; leave it out")


def size_fields(cls: type[Memory]) -> dict[str, dataclasses.Field]:
    """What a memory can be given by `create`, beside the slots."""
    return {f.name: f for f in dataclasses.fields(cls) if f.init and f.name not in ("parent", "name", "num_slots")}


def memory_settings(
    name: str, slots: int, sizes: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """What a config says of a memory: its name, K, and sizes.

    Args:
        name: of the registry.
        slots: K.
        sizes: for all memories; those that it does not have are left out.
        own: by the name of a memory, what it has in their place or besides.

    Raises:
        MemjaxError: for a memory that there is not.

    >>> memory_settings("ntm", 4, {"hidden": 8, "layers": 2}, {"dnc": {"hidden": 16}})
    {'name': 'ntm', 'slots': 4, 'hidden': 8}
    """
    if name not in registry:
        raise unknown("memory", name, registry)
    fields = size_fields(registry[name])
    shared = {size: value for size, value in sizes.items() if size in fields}
    return {"name": name, "slots": slots} | shared | dict(own.get(name, {}))
