"""Records that may stand in the arguments of a function which `jax.export` writes down."""

from typing import TypeVar

from jax import export

R = TypeVar("R", bound=tuple)


def exportable(record: type[R]) -> type[R]:
    """The same named tuple, known to `jax.export` by its module and name: without, what takes it cannot be kept.

    >>> from typing import NamedTuple
    >>> @exportable
    ... class State(NamedTuple):
    ...     memory: int
    """
    export.register_namedtuple_serialization(record, serialized_name=f"{record.__module__}.{record.__qualname__}")
    return record
