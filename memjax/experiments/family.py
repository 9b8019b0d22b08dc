"""What a family of experiments is: one record, and what several families share of their configs."""

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from memjax.errors import require
from memjax.training.phase import Recipe

PolicyName = Literal["fifo", "im", "lifo", "lru", "s", "shuffled_s", "shuffled_st", "st", "uniform"]
DtypeName = Literal["float32", "bfloat16"]


def _fits(config: Any, kind: str) -> None:
    """A config of any kind is right."""


class Compared(NamedTuple):
    """What `memjax compare` trains side by side.

    Attributes:
        argument: of the config file, as in `--config=FILE.py:VARIANT,ARGUMENT=VALUE`.
        values: what there is for it.
        kinds: of each value, what is added to a row's name and to its settings.
        check: raises `MemjaxError` for a config that is not of the kind of its row.
    """

    argument: str
    values: Callable[[], Sequence[str]]
    kinds: Mapping[str, tuple[str, ...]] = {"": ()}
    check: Callable[[Any, str], None] = _fits


class Family(NamedTuple):
    """A family of experiments: all that is its own, reached from here alone.

    Attributes:
        name: by which a task says what family it is for.
        config: the dataclass of a whole config. It has `system`, the names of what the family trains; `task`, of any
            type; and at least `optimizer`, `training` and `mesh`. Each section checks itself.
        shape: the type of the `shape` of its tasks, which says what an example is.
        check: raises `MemjaxError` for sections that contradict each other.
        make: the recipe of a config and its task: model, losses, what is measured, what the report is told.
        compared: what its runs are compared by.
        yardsticks: systems whose runs, on the same task, stand in the tables of the others.
    """

    name: str
    config: type
    shape: type
    check: Callable[[Any], None]
    make: Callable[[Any, Any], Recipe]
    compared: Compared
    yardsticks: tuple[str, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        """What `config.system` may be."""
        return choices(self.config, "system")


def choices(section: type, field: str) -> tuple[str, ...]:
    """The values that a field of a section of a config may have.

    Args:
        section: a dataclass.
        field: one of its `Literal` fields.
    """
    return typing.get_args(typing.get_type_hints(section)[field])


def require_whole_streams(config: Any) -> None:
    """For families that do not encode segment by segment, and so cannot split streams.

    Raises:
        MemjaxError: for a mesh whose axis "sequence" is not 1.
    """
    parts = config.mesh.sequence
    require(
        parts == 1,
        f"config.mesh.sequence is for streams that are encoded segment by segment; for this task it must be 1, not "
        f"{parts}",
    )
