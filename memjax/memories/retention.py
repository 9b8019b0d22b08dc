"""A memory that keeps a row for each of K segments, and learns which of them (LEMN)."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.errors import unknown
from memjax.memories.contract import Memory, Slots, check_features
from memjax.memories.memn2n import check_rows, encode_bags
from memjax.memories.policies import Candidates, policies
from memjax.typing import Any, Array, Bool, Float, Key


class Retained(NamedTuple):
    """The rows that were kept, oldest first, and with each what the policy keeps and when it was last attended to.

    nothing: what the policy keeps with its cell for "keep all". filled: how many rows there are. step: segments so far,
    which float32 counts to 2^24.
    """

    values: Float[Array, "K d"]
    kept: Float[Array, "K k"]
    used: Float[Array, "K"]
    nothing: Float[Array, "k"]
    filled: Float[Array, ""]
    step: Float[Array, ""]


class RetentionMemory(Memory):
    """The rows of `MemN2NMemory`, but a policy says which one goes when the K + 1st comes; it may be that one itself.

    policy: one of `memories.policies.policies`; with "fifo" it is `MemN2NMemory`. Slots: `row + T(age)`, the age a
    row's place from the newest. With a key, as in training, what goes is drawn; without one the likeliest goes, or with
    "uniform" one that is drawn by the segment's number, so that every test is the same.

    Source: Learning What to Remember, Long-term Episodic Memory Networks (LEMN), 3.1. There a reward teaches the
    policy (`models.StreamReader`); here the gradient of whatever is asked of the slots, through
    `ops.straight_through_evict`, so that it trains on every task and beside every other memory. LRU and IM attend with
    the new row, IM by `(row + T) · row W / sqrt(d)`: under the contract no question is known while the stream is read.

    The state is `Retained`, float32, zeros at the start. Items must be `width` wide.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import RetentionMemory, memorize
    >>> memory = RetentionMemory(num_slots=2, width=8, policy="st")
    >>> params = memory.init(jax.random.key(0), jnp.ones((3, 2, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((5, 2, 8)), key=jax.random.key(1), method=memorize)
    >>> memory.apply(params, state, method="slots").mask.tolist()
    [True, True]
    """

    width: int
    policy: str
    dtype: Any = jnp.float32

    def validate(self) -> None:
        check_rows(self.num_slots, self.width)
        if self.policy not in policies:
            raise unknown("policy", self.policy, policies)

    def setup(self):
        self.validate()
        self.project = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
        self.chooses = policies[self.policy](self.width)
        # A policy that learns sees one row more than there are slots.
        ages = self.num_slots + self.chooses.learned
        self.ages = self.param("ages", nn.initializers.normal(0.1), (ages, self.width))
        if self.chooses.own_cell:
            self.attention = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
            self.nothing = self.param("nothing", nn.initializers.normal(0.1), (self.width,))

    def initial_state(self) -> Retained:
        size, kept = self.num_slots, self.chooses.kept()
        rows = jnp.zeros((size, self.width)), jnp.zeros((size, len(kept))), jnp.zeros(size)
        return Retained(*rows, kept, jnp.zeros(()), jnp.zeros(()))

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Float[Array, "T N d"]:
        return encode_bags(self.project, items, mask)

    def write(
        self, state: Retained, features: Float[Array, "N d"], mask: Bool[Array, "N"], *, key: Key | None = None
    ) -> tuple[Retained, Float[Array, ""]]:
        check_features(features, self.width)
        row = jnp.where(mask[:, None], features, 0).astype(state.values.dtype).sum(0)
        size, policy = self.num_slots, self.chooses
        filled = jnp.arange(size) < state.filled
        candidates = self._candidates(state, filled, row)
        last = state.nothing if policy.own_cell else policy.kept()
        if key is None and policy.drawn:
            key = jax.random.fold_in(jax.random.key(0), state.step.astype(jnp.int32))
        choice, kept = policy.choose(candidates, _behind(state.kept, last), key)

        new = row, policy.kept() if policy.own_cell else kept[size], state.step
        before = ops.Buffer((state.values, kept[:size], candidates.used[:size]), state.filled.astype(jnp.int32))
        (values, kept_after, used), count = ops.straight_through_evict(before, choice.goes, new, choice.probabilities)
        nothing = kept[size] if policy.own_cell else state.nothing
        written = Retained(values, kept_after, used, nothing, count.astype(state.filled.dtype), state.step + 1)
        return jax.tree.map(lambda new, old: jnp.where(mask.any(), new, old), written, state), jnp.zeros(())

    def slots(self, state: Retained) -> Slots:
        filled = jnp.arange(self.num_slots) < state.filled
        return Slots(jnp.where(filled[:, None], self._timed(state.values, state.filled - 1), 0), filled)

    def _candidates(self, state: Retained, filled: Bool[Array, "K"], row: Float[Array, "d"]) -> Candidates:
        """The rows as they will be if the new one comes, one older each, and behind them that one or "keep all"."""
        policy = self.chooses
        last = self.nothing if policy.own_cell else row
        rows = _behind(self._timed(state.values, state.filled), last + self.ages[0])
        mask, used = jnp.pad(filled, (0, 1), constant_values=True), _behind(state.used, state.step)
        logits = jnp.zeros_like(used)
        if policy.own_cell:
            logits = (rows @ self.attention(row)).astype(jnp.float32) * self.width**-0.5
        if policy.by_use:
            attended = jnp.where(filled, rows[:-1] @ row, -jnp.inf)
            used = jnp.where(mask & jnp.pad(attended == attended.max(), (0, 1)), state.step, used)
        return Candidates(rows, mask, used, row, logits)

    def _timed(self, values: Float[Array, "K d"], oldest: Float[Array, ""]) -> Float[Array, "K d"]:
        """Rows with the vectors of their ages, that of the first being `oldest`."""
        ages = oldest - jnp.arange(self.num_slots)
        one_hot = (ages[:, None] == jnp.arange(len(self.ages))).astype(values.dtype)
        return values + jnp.matmul(one_hot, self.ages, precision="highest")


def _behind(rows: Float[Array, "K *d"], last: Float[Array, "*d"]) -> Float[Array, "M *d"]:
    # The sum, so that on an Explicit mesh the last one, though a constant, is split as the others are.
    return jnp.concatenate([rows, (last + jnp.zeros_like(rows[0]))[None]])
