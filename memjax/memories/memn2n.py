"""The memory of MemN2N (Sukhbaatar et al. 2015) under the contract: a row for each segment, the last K of them."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least
from memjax.errors import require
from memjax.memories.memory import Memory, Slots, check_features, replicate_over_sequence
from memjax.ops.exportable import exportable
from memjax.ops.recurrence import tree_where
from memjax.typing import Any, Array, Bool, Float, Key


@exportable
class Rows(NamedTuple):
    """The last K segments, newest last; `filled` is 1 for those that there are."""

    values: Float[Array, "K d"]
    filled: Float[Array, "K"]


class MemN2NMemory(Memory):
    """`row = sum over j of l_j * (A x_j)`; the slots are the last K rows, `slot = row + T(age)`, newest last.

    Source: End-To-End Memory Networks (1503.08895), 4.1: position encoding `l` over the real items of a segment, `A`
    without a bias, and a learned vector for each age, number 0 that of the newest row. As a member of a comparison it
    hands its rows to whatever reader the other memories have; that has one embedding of a row, where MemN2N's hops have
    two. Ours: a segment of nothing but padding is no row, and makes none older.

    The state is `[K, width]` and which of it is filled, float32, zero at the start. Items must be `width` wide.

    Args:
        num_slots: K, how many rows are kept.
        width: of an item and of a row.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import MemN2NMemory, memorize
    >>> memory = MemN2NMemory(num_slots=4, width=8)
    >>> params = memory.init(jax.random.key(0), jnp.ones((3, 2, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((3, 2, 8)), method=memorize)
    >>> memory.apply(params, state, method="slots").mask.tolist()
    [False, True, True, True]
    """

    width: int
    dtype: Any = jnp.float32

    def validate(self) -> None:
        at_least(self, 1, "num_slots", "width")

    def setup(self):
        self.validate()
        self.project = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
        self.ages = self.param("ages", nn.initializers.normal(0.1), (self.num_slots, self.width))

    def initial_state(self) -> Rows:
        return Rows(jnp.zeros((self.num_slots, self.width)), jnp.zeros(self.num_slots))

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Float[Array, "T N d"]:
        return encode_bags(self.project, items, mask)

    def write(
        self, state: Rows, features: Float[Array, "N d"], mask: Bool[Array, "N"], *, key: Key | None = None
    ) -> tuple[Rows, Float[Array, ""]]:
        return self.write_stream(state, features[None], mask[None], key=key)

    def write_stream(
        self, state: Rows, features: Float[Array, "T N d"], mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Rows, Float[Array, ""]]:
        check_features(features, self.width)
        features, mask = replicate_over_sequence((features, mask))
        new = jnp.where(mask[..., None], features, 0).astype(state.values.dtype).sum(1)
        rows, real = jnp.concatenate([state.values, new]), jnp.concatenate([state.filled > 0, mask.any(1)])
        values, filled = ops.newest_rows(rows, real, self.num_slots)
        written = Rows(values, filled.astype(state.filled.dtype))
        return tree_where(mask.any(), written, state), jnp.zeros((), jnp.float32)

    def slots(self, state: Rows) -> Slots:
        filled = state.filled > 0
        return Slots(jnp.where(filled[:, None], state.values + self.ages[::-1], 0), filled)


def encode_bags(project: nn.Dense, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Float[Array, "T N d"]:
    """What the items add to the row of their segment: `l_j * (A x_j)`.

    Args:
        project: A.
        items: of all segments.
        mask: which of them are no padding.

    Raises:
        MemjaxError: for items of another width than A's.
    """
    width = items.shape[-1]
    require(width == project.features, f"items are {width} wide, this memory {project.features}; project them first")
    x = project(jnp.where(mask[..., None], items, 0))
    return x * jax.vmap(ops.position_weights, (0, None))(mask, width).astype(x.dtype)
