"""Networks over a few items at a time: Transformer blocks, GRU and LSTMs of one or two directions; segment encoders."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.errors import require
from memjax.memories.memory import for_each
from memjax.memories.weights import gru_params, lstm_params
from memjax.ops.recurrence import carry_like, tree_where
from memjax.typing import Any, Array, Bool, Float

EPSILON = 1e-6


class Attention(nn.Module):
    """Multi-head attention of x over a context; the mask says which of the context is real."""

    heads: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(
        self, x: Float[Array, "*axes N d"], context: Float[Array, "*context K d"], mask: Bool[Array, "*context K"]
    ) -> Float[Array, "*axes N d"]:
        short = jnp.dtype(self.dtype).itemsize < 4  # what masks float64 is -inf in float32: NaN where all is masked
        attention = nn.MultiHeadDotProductAttention(self.heads, dtype=self.dtype, force_fp32_for_softmax=short)
        return attention(x, context, mask=mask[..., None, None, :])


class FeedForward(nn.Module):
    """`W_2 relu(W_1 x)`, four times as wide inside (Vaswani et al. 2017, Eq. 2)."""

    width: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Float[Array, "*axes d"]) -> Float[Array, "*axes d"]:
        hidden = nn.relu(nn.Dense(4 * self.width, dtype=self.dtype)(x))
        return nn.Dense(self.width, dtype=self.dtype)(hidden)


class TransformerEncoder(nn.Module):
    """Pre-norm Transformer encoder with learned positions inside a segment; every segment on its own.

    Source: Rehearsal Memory, 3.2. Pre-norm is our choice (the paper does not say): it trains without warm-up.

    Args:
        width: of an item.
        segment: the most items of a segment.
        layers: how many.
        heads: of their attention.
        dtype: of the products.
        position_std: the standard deviation of the positions at the start.
    """

    width: int
    segment: int
    layers: int
    heads: int
    dtype: Any = jnp.float32
    position_std: float = 0.02

    @nn.compact
    def __call__(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Float[Array, "T N d"]:
        length = items.shape[-2]
        require(length <= self.segment, f"got segments of {length} items; this memory was made for {self.segment}")
        positions = self.param("positions", nn.initializers.normal(self.position_std), (self.segment, self.width))
        x = jnp.where(mask[..., None], items, 0).astype(self.dtype) + positions[:length].astype(self.dtype)
        for _ in range(self.layers):
            y = nn.LayerNorm(EPSILON, dtype=self.dtype)(x)
            x = x + Attention(self.heads, self.dtype)(y, y, mask)
            x = x + FeedForward(self.width, self.dtype)(nn.LayerNorm(EPSILON, dtype=self.dtype)(x))
        return nn.LayerNorm(EPSILON, dtype=self.dtype)(x)


class BidirectionalGRU(nn.Module):
    """A GRU from the left and one from the right, each half as wide: `(final states, all states)`, side by side.

    Args:
        width: of what comes out.
        inputs: the width of what comes in.
        dtype: of the products.
    """

    width: int
    inputs: int
    dtype: Any = jnp.float32

    def setup(self):
        self.rightward = gru_params(self, "rightward", self.inputs, self.width // 2)
        self.leftward = gru_params(self, "leftward", self.inputs, self.width // 2)

    def __call__(
        self, items: Float[Array, "N d"], mask: Bool[Array, "N"]
    ) -> tuple[Float[Array, "d2"], Float[Array, "N d2"]]:
        items = items.astype(self.dtype)
        start = jnp.zeros_like(items, shape=(self.width // 2,), dtype=jnp.float32)
        right_last, right = ops.gru_scan(self.rightward, start, items, mask)
        left_last, left = ops.gru_scan(self.leftward, start, items, mask, reverse=True)
        return jnp.concatenate([right_last, left_last]), jnp.concatenate([right, left], axis=-1)


class BidirectionalLSTM(nn.Module):
    """An LSTM from the left and one from the right, each half as wide: `(final states, all states)`, side by side.

    An item of padding leaves hidden state and cell as they are.

    Args:
        width: of what comes out.
        inputs: the width of what comes in.
        dtype: of the products.
    """

    width: int
    inputs: int
    dtype: Any = jnp.float32

    def setup(self):
        half = self.width // 2
        self.rightward = lstm_params(self, "rightward", self.inputs, half, half)
        self.leftward = lstm_params(self, "leftward", self.inputs, half, half)

    def __call__(
        self, items: Float[Array, "N d"], mask: Bool[Array, "N"]
    ) -> tuple[Float[Array, "d2"], Float[Array, "N d2"]]:
        items = jnp.where(mask[:, None], items, 0).astype(self.dtype)
        right_last, right = lstm_scan(self.rightward, items, mask)
        left_last, left = lstm_scan(self.leftward, items, mask, reverse=True)
        return jnp.concatenate([right_last, left_last]), jnp.concatenate([right, left], axis=-1)


class LSTM(nn.Module):
    """An LSTM from the left: `(last hidden state, all of them)`. An item of padding leaves state and cell as they are.

    Args:
        width: of what comes out.
        inputs: the width of what comes in.
        dtype: of the products.
    """

    width: int
    inputs: int
    dtype: Any = jnp.float32

    def setup(self):
        self.weights = lstm_params(self, "lstm", self.inputs, self.width, self.width)

    def __call__(
        self, items: Float[Array, "N d"], mask: Bool[Array, "N"]
    ) -> tuple[Float[Array, "d2"], Float[Array, "N d2"]]:
        return lstm_scan(self.weights, jnp.where(mask[:, None], items, 0).astype(self.dtype), mask)


def lstm_scan(
    params: ops.LSTMParams, items: Float[Array, "N d"], mask: Bool[Array, "N"], *, reverse: bool = False
) -> tuple[Float[Array, "h"], Float[Array, "N h"]]:
    """One direction of an LSTM: the last hidden state, and all of them.

    Args:
        params: of the LSTM.
        items: finite in padding too.
        mask: which of them are no padding.
        reverse: whether it reads from the right.
    """

    def step(state, inputs):
        gates, real = inputs
        after = ops.lstm_step(params, *state, gates, dtype=items.dtype)
        state = tree_where(real, after, state)
        return state, state[0]

    zeros = jnp.zeros_like(items, shape=(params.w_h.shape[0],), dtype=jnp.float32)
    start, gates = carry_like((zeros, zeros), items), ops.lstm_inputs(params, items)
    (last, _), states = jax.lax.scan(step, start, (gates, mask), reverse=reverse)
    return last, states


class GRUEncoder(nn.Module):
    """Segment encoder by a bidirectional GRU: the ablation "GRU encoder" of Rehearsal Memory, Table 6."""

    width: int
    dtype: Any = jnp.float32

    def setup(self):
        self.gru = BidirectionalGRU(self.width, self.width, self.dtype)

    def __call__(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Float[Array, "T N d"]:
        _, states = for_each(BidirectionalGRU.__call__)(self.gru, items, mask)
        return states.astype(self.dtype)
