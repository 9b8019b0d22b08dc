"""LMM: surprise memory alone as a sequence layer (Titans), streamed."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.layers.documents import by_token
from memjax.layers.head_memory import HeadMemory
from memjax.layers.stream_state import check_documents, checked_state, checked_stream, persistent_tokens
from memjax.layers.surprise_settings import SurpriseLayer
from memjax.memories.surprise_memory import EPSILON
from memjax.ops.exportable import exportable
from memjax.ops.recurrence import separate
from memjax.typing import Array, Bool, Float, Int

TAPS = 4  # tokens that the convolution spans


@exportable
class SurpriseLayerState(NamedTuple):
    """The memory of every head, and the last inputs of the convolution."""

    memory: ops.SurpriseState
    recent: Float[Array, "R d3"]


class LMM(SurpriseLayer):
    """`out = (rmsnorm(M_t(q_t)) * silu(x W_g)) W_o`, each head a `HeadMemory`, which says what its settings do.

    `q, k, v = silu(conv(x W))`, with a causal convolution over 4 tokens for each channel. Source: Titans (2501.00663),
    3.1 and 4.4. `persistent` learned tokens are written before the first of any stream.

    One example, `[L, width]`, of any length; the state goes in and comes out. A stream may be cut anywhere.

    Args:
        width: of the tokens.
        heads: how many memories there are side by side.
        persistent: how many learned tokens are written before the first of any stream.

    >>> import jax, jax.numpy as jnp
    >>> layer, x = LMM(width=8, heads=2), jnp.ones((5, 8))
    >>> params = layer.init(jax.random.key(0), x)
    >>> out, state = layer.apply(params, x[:3])
    >>> more, state = layer.apply(params, x[3:], state)
    >>> more.shape, state.memory.memory.shape
    ((2, 8), (2, 4, 4))
    """

    def setup(self):
        self.remember = HeadMemory(self.settings)
        self.project = nn.Dense(3 * self.width, use_bias=False, dtype=self.dtype)
        if self.convolution:
            self.taps = self.param("taps", nn.initializers.normal(0.5), (TAPS, 3 * self.width))
        self.norm = nn.RMSNorm(EPSILON, dtype=self.dtype)
        self.open = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
        self.out = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
        self.in_front = persistent_tokens(self, self.persistent, self.width)

    def initial_state(self) -> SurpriseLayerState:
        return separate(self(self.in_front, self.empty())[1] if self.persistent else self.empty())

    def empty(self) -> SurpriseLayerState:
        """That of a layer which has read nothing, not even its persistent tokens."""
        recent = jnp.zeros((TAPS - 1 if self.convolution else 0, 3 * self.width))
        return SurpriseLayerState(self.remember.initial_state(), recent)

    def __call__(
        self,
        x: Float[Array, "L d"],
        state: SurpriseLayerState | None = None,
        *,
        reset: Bool[Array, "L"] | None = None,
        fresh: SurpriseLayerState | None = None,
    ) -> tuple[Float[Array, "L d"], SurpriseLayerState]:
        """What every token reads, and the state.

        Args:
            x: the tokens.
            state: to go on from.
            reset: the first tokens of documents, each of which is read as in a row of its own. A linear memory without
                persistent tokens reads them as without, but with gradient_at="chunk" it takes twice the products; other
                memories go token by token.
            fresh: for a layer around this one, the state that documents begin in, token by token then; if not given,
                that of a stream.
        """
        state = checked_stream(self, x, state, self.empty())
        fresh = checked_state(fresh, self.empty())
        check_documents(reset, len(x))
        if reset is None or not (self.deep or self.persistent or fresh is not None):
            state = self.initial_state() if state is None else state
            return self.part(x, state, reset=reset) if x.shape[0] else (x, state)
        fresh = self.initial_state() if fresh is None else fresh
        state = fresh if state is None else state
        return by_token(self, LMM.part, x, state, reset, fresh) if x.shape[0] else (x, state)

    def part(
        self,
        x: Float[Array, "S d"],
        state: SurpriseLayerState,
        new: Bool[Array, "S"] | None = None,
        start: Int[Array, ""] | int = 0,
        reset: Bool[Array, "S"] | None = None,
    ) -> tuple[Float[Array, "S d"], SurpriseLayerState]:
        """Of the tokens x those alone that are new, the first of them at the place `start`; others write nothing."""
        length, back = x.shape[0], len(state.recent)
        inputs = jnp.concatenate([jnp.zeros_like(state.recent), self.project(x).astype(jnp.float32)])
        inputs = jax.lax.dynamic_update_slice_in_dim(inputs, state.recent, start, axis=0)
        # The document of each input; the inputs before these tokens are of the first one's, whose number is 0.
        document = jnp.pad(jnp.zeros(length, int) if reset is None else jnp.cumsum(reset), (back, 0))
        if self.convolution:
            mixed = sum(
                tap[None] * jnp.where((document[i : i + length] == document[back:])[:, None], inputs[i : i + length], 0)
                for i, tap in enumerate(self.taps)
            )
        else:
            mixed = inputs
        heads = nn.silu(mixed).reshape(length, 3, self.heads, self.width // self.heads)
        read, memory = self.remember(*(heads[:, i] for i in range(3)), x, state.memory, new, reset)
        read = self.norm(read).reshape(length, self.width)
        end = start + (length if new is None else new.sum())
        recent = jax.lax.dynamic_slice_in_dim(inputs, end, back, axis=0)
        if reset is not None:
            recent = jnp.where((document[length:] == document[-1])[:, None], recent, 0)
        return self.out(read * nn.silu(self.open(x))), SurpriseLayerState(memory, recent)
