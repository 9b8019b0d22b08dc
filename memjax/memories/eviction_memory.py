"""A memory that keeps a row for each of K segments, and learns which of them (LEMN)."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least, one_of
from memjax.memories.eviction import BaseView
from memjax.memories.memn2n import encode_bags
from memjax.memories.memory import Memory, Slots, check_features
from memjax.memories.policies import policies
from memjax.ops.exportable import exportable
from memjax.ops.recurrence import tree_where
from memjax.typing import Any, Array, Bool, Float, Key


@exportable
class Retained(NamedTuple):
    """The rows that were kept, oldest first, and with each what the policy keeps and when it was last attended to.

    Attributes:
        values: the rows, oldest first.
        kept: with each, what the policy keeps.
        used: with each, when it was last attended to.
        nothing: what the policy keeps with its cell for "keep all".
        filled: how many rows there are.
        step: segments so far, which float32 counts to 2^24.
    """

    values: Float[Array, "K d"]
    kept: Float[Array, "K k"]
    used: Float[Array, "K"]
    nothing: Float[Array, "k"]
    filled: Float[Array, ""]
    step: Float[Array, ""]


class Row(NamedTuple):
    """An entry of the buffer.

    Attributes:
        values: the row.
        kept: what the policy keeps with it.
        used: when it was last attended to.
    """

    values: Float[Array, "*K d"]
    kept: Float[Array, "*K k"]
    used: Float[Array, "*K"]


class EvictionMemory(Memory):
    """The rows of `MemN2NMemory`, but a policy says which is evicted when the K + 1st comes; that one itself, perhaps.

    Slots: `row + T(age)`, the age a row's place from the newest. With a key, as in training, what is evicted is drawn;
    without one it is the likeliest row, or with "uniform" one that is drawn by the segment's number, so that every test
    is the same.

    Source: Learning What to Remember, Long-term Episodic Memory Networks (LEMN), 3.1. There a reward teaches the policy
    (`models.StreamReader`); here the gradient of whatever is asked of the slots, through `ops.straight_through_evict`,
    so that it trains on every task and beside every other memory. LRU and IM attend with the new row, IM by `(row + T)
    · row W / sqrt(d)`: under the contract no question is known while the stream is read.

    The state is `Retained`, float32, zeros at the start. Items must be `width` wide.

    Args:
        num_slots: K, how many rows are kept.
        width: of an item and of a row.
        policy: one of `memories.policies.policies`; with "fifo" it is `MemN2NMemory`.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import EvictionMemory, memorize
    >>> memory = EvictionMemory(num_slots=2, width=8, policy="st")
    >>> params = memory.init(jax.random.key(0), jnp.ones((3, 2, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((5, 2, 8)), key=jax.random.key(1), method=memorize)
    >>> memory.apply(params, state, method="slots").mask.tolist()
    [True, True]
    """

    width: int
    policy: str
    dtype: Any = jnp.float32

    def validate(self) -> None:
        at_least(self, 1, "num_slots", "width")
        one_of(self, policies, "policy")

    def setup(self):
        self.validate()
        self.project = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
        # Its name in checkpoints is that of the first version.
        self.evictor = policies[self.policy](self.width, name="chooses")
        ages = self.evictor.places(self.num_slots)
        self.ages = self.param("ages", nn.initializers.normal(0.1), (ages, self.width))
        self.own = self.evictor.own(self._declare_own)

    def _declare_own(self) -> tuple[nn.Dense, Array]:
        """What IM attends with, and its own cell."""
        nothing = self.param("nothing", nn.initializers.normal(0.1), (self.width,))
        return nn.Dense(self.width, use_bias=False, dtype=self.dtype, name="attention"), nothing

    def initial_state(self) -> Retained:
        size, kept = self.num_slots, self.evictor.kept()
        rows = jnp.zeros((size, self.width)), jnp.zeros((size, len(kept))), jnp.zeros(size)
        return Retained(*rows, kept, jnp.zeros(()), jnp.zeros(()))

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Float[Array, "T N d"]:
        return encode_bags(self.project, items, mask)

    def write(
        self, state: Retained, features: Float[Array, "N d"], mask: Bool[Array, "N"], *, key: Key | None = None
    ) -> tuple[Retained, Float[Array, ""]]:
        check_features(features, self.width)
        row = jnp.where(mask[:, None], features, 0).astype(state.values.dtype).sum(0)
        # The sum, so that on an Explicit mesh what is kept, though a constant, is split as the rest is.
        new = Row(row, self.evictor.kept() + jnp.zeros_like(state.kept[0]), state.step)
        before = ops.Buffer(Row(state.values, state.kept, state.used), state.filled.astype(jnp.int32))
        if key is None:
            key = self.evictor.test_key(jax.random.fold_in(jax.random.key(0), state.step.astype(jnp.int32)))
        eviction = self.evictor.evict(before, new, key, self._view(state, new))
        after, nothing = eviction.write(
            partial(ops.straight_through_evict, probabilities=eviction.choice.probabilities)
        )
        filled = after.filled.astype(state.filled.dtype)
        written = Retained(*cast(Row, after.entries), nothing, filled, state.step + 1)
        return tree_where(mask.any(), written, state), jnp.zeros(())

    def slots(self, state: Retained) -> Slots:
        filled = self._filled(state)
        return Slots(jnp.where(filled[:, None], self._timed(state.values, state.filled - 1), 0), filled)

    def _view(self, state: Retained, new: Row) -> BaseView:
        """The rows as they will be if the new one comes, one older each, which stands behind them."""
        timed, filled = self._timed(state.values, state.filled), self._filled(state)

        def candidates(last: Row, ask: Callable) -> tuple[Float[Array, "M d"], Float[Array, "M"] | None]:
            newest = last.values + self.ages[0] + jnp.zeros_like(timed[0])  # the sum: as above
            rows = jnp.concatenate([timed, newest[None]])
            scale = self.width**-0.5
            return rows, ask(lambda: (rows @ self.own[0](new.values)).astype(jnp.float32) * scale)

        def attended() -> Bool[Array, "K"]:
            # Before it comes: the newest of them has the first age.
            now = self._timed(state.values, state.filled - 1)
            attention = jnp.where(filled, now @ new.values, -jnp.inf)
            return filled & (attention == attention.max())

        return BaseView(
            input=new.values,
            mask=jnp.pad(filled, (0, 1), constant_values=True),
            nop=True,
            nothing=state.nothing,
            own_cell=lambda: new._replace(values=self.own[1]),
            candidates=candidates,
            attended=attended,
        )

    def _filled(self, state: Retained) -> Bool[Array, "K"]:
        return jnp.arange(self.num_slots, dtype=state.filled.dtype) < state.filled

    def _timed(self, values: Float[Array, "K d"], oldest: Float[Array, ""]) -> Float[Array, "K d"]:
        """Rows with the vectors of their ages, that of the first being `oldest`."""
        ages = oldest - jnp.arange(self.num_slots, dtype=oldest.dtype)
        one_hot = (ages[:, None] == jnp.arange(len(self.ages), dtype=ages.dtype)).astype(values.dtype)
        return values + jnp.matmul(one_hot, self.ages, precision="highest")
