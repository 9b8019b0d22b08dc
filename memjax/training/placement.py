"""Which axis of a parameter lies along which axis of the mesh: the rules, by the parameter's path, and their table.

The first rule that matches the end of a path holds. An axis of the mesh that does not divide its dimension is left out,
and the parameter is whole along it. Vectors are not cut over fsdp: they are not worth a message. An optimizer's moments
have their parameters' paths, and lie where these lie.

fsdp: kept in parts, gathered once at the start of a step. model: kept and multiplied in parts (heads, hidden units,
words); what writes into a memory is not, for that would be a message between devices at every segment.
"""

import math
import re
from collections.abc import Mapping, Sequence

import jax
from rich.table import Table

from memjax.typing import PyTree

Spec = tuple[str | None, ...]

RULES: Sequence[tuple[str, Spec]] = (
    (r"(query|key|value)/kernel", ("fsdp", "model", None)),
    (r"(query|key|value)/bias", ("model", None)),
    (r"out/kernel", ("model", None, "fsdp")),
    (r"FeedForward_\d+/Dense_0/kernel", ("fsdp", "model")),
    (r"FeedForward_\d+/Dense_0/bias", ("model",)),
    (r"FeedForward_\d+/Dense_1/kernel", ("model", "fsdp")),
    (r"embedding", ("model", "fsdp")),
    (r".*", ("fsdp",)),
)


def spec_of(path: str, shape: Sequence[int], sizes: Mapping[str, int]) -> Spec:
    """The axes of a mesh along which the dimensions of a parameter lie.

    Args:
        path: of the parameter, its names with "/" between them.
        shape: of the parameter.
        sizes: of the mesh's axes, by their names.

    Returns:
        For each dimension an axis, or None where it is whole.

    >>> spec_of("params/encoder/Attention_0/query/kernel", (64, 4, 16), {"fsdp": 2, "model": 4})
    ('fsdp', 'model', None)
    >>> spec_of("params/reader/w_query", (65, 64), {"fsdp": 2, "model": 4})
    (None, None)
    """
    rule = next(spec for pattern, spec in RULES if re.fullmatch(rf"(.*/)?{pattern}", path))
    rule = (*rule, *(None,) * len(shape))[: len(shape)]
    parts = [1 if axis is None or (axis == "fsdp" and len(shape) == 1) else sizes[axis] for axis in rule]
    return tuple(axis if many > 1 and size % many == 0 else None for axis, many, size in zip(rule, parts, shape))


def placement_table(state: PyTree) -> Table:
    """What lies where, for arrays that have been placed: a row for each group of leaves that lie alike."""
    groups: dict[tuple[str, str], list[jax.Array]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        parts = jax.tree_util.keystr(path, simple=True, separator="/").split("/")
        cut = [f"{axis} cuts axis {i} of {leaf.ndim}" for i, axis in enumerate(leaf.sharding.spec) if axis]
        groups.setdefault((parts[0], ", ".join(cut) or "whole"), []).append(leaf)
    table = Table(title="Where the state lies", title_justify="left", box=None)
    for column in ("part", "placement"):
        table.add_column(column)
    for column in ("arrays", "numbers", "bytes per device"):
        table.add_column(column, justify="right")
    for (part, placement), leaves in [*sorted(groups.items()), (("all", ""), jax.tree.leaves(state))]:
        row = len(leaves), sum(leaf.size for leaf in leaves), sum(map(bytes_per_device, leaves))
        table.add_row(part, placement, *(f"{value:,}" for value in row))
    return table


def bytes_per_device(leaf: jax.Array) -> int:
    """The bytes of an array that each device has."""
    return math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
