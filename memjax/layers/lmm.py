"""LMM: surprise memory alone as a sequence layer (Titans), streamed."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.layers.stream_state import check_stream, persistent_tokens
from memjax.layers.surprise_settings import SurpriseLayer, SurpriseSettings
from memjax.memories.surprise import EPSILON, empty_memory, surprise_gates, unit
from memjax.typing import Array, Bool, Float


class HeadMemory(nn.Module):
    """A linear surprise memory for each head, with gates that are functions of the token: `ops.surprise_linear`.

    `log_keep` and `log_momentum` are log-sigmoids and `lr` a sigmoid of x W + b: with keys of length 1, rates below 1
    are stable. What the settings do: see `SurpriseSettings`.
    """

    settings: SurpriseSettings

    @nn.compact
    def __call__(
        self,
        q: Float[Array, "L H dh"],
        k: Float[Array, "L H dh"],
        v: Float[Array, "L H dh"],
        x: Float[Array, "L d"],
        state: ops.SurpriseState,
        mask: Bool[Array, "L"] | None = None,
    ) -> tuple[Float[Array, "L H dh"], ops.SurpriseState]:
        """Writes every token and reads the memory after it; what is masked writes nothing."""
        # In float32 whatever dtype the rest has: gates are near 1, and many are multiplied.
        own = self.settings
        logits = nn.Dense(3 * own.heads, name="gates")(x.astype(jnp.float32))
        gates = surprise_gates(
            logits, momentum=own.momentum, forgetting=own.forgetting, time_constant=own.time_constant
        )

        def one_head(state, *tokens):
            return ops.surprise_linear(*tokens, state, mask=mask, gradient_at=own.gradient_at, chunk_size=own.chunk)

        tokens = (unit(q), unit(k), v, *gates)
        return jax.vmap(one_head, (0, *[1] * 6), (1, 0))(state, *tokens)


class SurpriseLayerState(NamedTuple):
    """The memory of every head, and the last inputs of the convolution."""

    memory: ops.SurpriseState
    recent: Float[Array, "3 d3"]


class LMM(SurpriseLayer):
    """`out = (rmsnorm(M_t(q_t)) * silu(x W_g)) W_o`, each head a `HeadMemory`, which says what its settings do.

    `q, k, v = silu(conv(x W))`, with a causal convolution over 4 tokens for each channel. Source: Titans (2501.00663),
    3.1 and 4.4. `persistent` learned tokens are written before the first of any stream.

    One example, `[L, width]`, of any length; the state goes in and comes out. A stream may be cut anywhere; with
    gradient_at="chunk", at multiples of `chunk` only.

    Args:
        width: of the tokens.
        heads: how many memories there are side by side.
        persistent: how many learned tokens are written before the first of any stream.
        momentum: False is the paper's ablation.
        forgetting: False is the paper's ablation.
        gradient_at: "token", exact; or "chunk", as published for training.
        chunk: how many tokens are written at once.
        time_constant: for about how many tokens a memory keeps what is not written over, at the start.
        dtype: of the products.

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
        self.taps = self.param("taps", nn.initializers.normal(0.5), (4, 3 * self.width))
        self.norm = nn.RMSNorm(EPSILON, dtype=self.dtype)
        self.open = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
        self.out = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
        self.in_front = persistent_tokens(self, self.persistent, self.width)

    def initial_state(self) -> SurpriseLayerState:
        return self(self.in_front, self.empty())[1] if self.persistent else self.empty()

    def empty(self) -> SurpriseLayerState:
        """That of a layer which has read nothing, not even its persistent tokens."""
        return SurpriseLayerState(empty_memory(self.heads, self.width), jnp.zeros((3, 3 * self.width)))

    def __call__(
        self, x: Float[Array, "L d"], state: SurpriseLayerState | None = None
    ) -> tuple[Float[Array, "L d"], SurpriseLayerState]:
        check_stream(x, self.width, state, self.empty())
        length, state = x.shape[0], self.initial_state() if state is None else state
        if not length:
            return x, state
        inputs = jnp.concatenate([state.recent, self.project(x).astype(jnp.float32)])
        mixed = sum(self.taps[i] * inputs[i : i + length] for i in range(4))
        heads = nn.silu(mixed).reshape(length, 3, self.heads, self.width // self.heads)
        read, memory = self.remember(*(heads[:, i] for i in range(3)), x, state.memory)
        read = self.norm(read).reshape(length, self.width)
        return self.out(read * nn.silu(self.open(x))), SurpriseLayerState(memory, inputs[length:])
