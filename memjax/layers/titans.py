"""Attention and surprise memory together (Titans, 4): as a gate (MAG), as a layer (MAL), as a context (MAC)."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least
from memjax.errors import require
from memjax.layers.lmm import LMM, HeadMemory, SurpriseLayerState
from memjax.layers.stream_state import check_stream, persistent_tokens
from memjax.layers.surprise_settings import SurpriseLayer
from memjax.layers.window_attention import WindowAttention, WindowState, attend
from memjax.memories.memory import scan_module
from memjax.memories.surprise import EPSILON, empty_memory, unit
from memjax.typing import Array, Bool, Float, Int


class BothState(NamedTuple):
    """Of attention and of the memory beside it or before it."""

    attention: WindowState
    memory: SurpriseLayerState


def _both(layer: nn.Module, state: BothState | None) -> BothState:
    require(state is None or isinstance(state, BothState), f"this state is another layer's: {type(state).__name__}")
    return layer.initial_state() if state is None else state


class MAG(SurpriseLayer):
    """Memory as a gate: `rmsnorm(attention(x)) * silu(rmsnorm(LMM(x)))`, attention over a sliding window.

    Source: Titans (2501.00663), 4.2: both outputs normalised with learned weights, then gated together; on the
    non-linearity the paper is silent. Persistent tokens stand before both. See `WindowAttention` and `LMM`; with
    gradient_at="chunk" a stream can be cut only where `LMM` says.

    Args:
        width: of the tokens.
        heads: of both.
        window: how many tokens attention sees.
        persistent: how many learned tokens stand before both.
        momentum: as of `LMM`, and so are the next four.
        forgetting: False is the paper's ablation.
        gradient_at: "token" or "chunk".
        chunk: how many tokens are written at once.
        time_constant: for about how many tokens a memory keeps what is not written over, at the start.
        dtype: of the products.
    """

    window: int

    def setup(self):
        self.attention = WindowAttention(self.width, self.heads, self.window, self.persistent, self.dtype)
        self.memory = LMM.of(self)
        self.norms = [nn.RMSNorm(EPSILON, dtype=self.dtype) for _ in "ab"]

    def initial_state(self) -> BothState:
        return BothState(self.attention.initial_state(), self.memory.initial_state())

    def __call__(self, x: Float[Array, "L d"], state: BothState | None = None) -> tuple[Float[Array, "L d"], BothState]:
        state = _both(self, state)
        attended, attention = self.attention(x, state.attention)
        remembered, memory = self.memory(x, state.memory)
        return self.norms[0](attended) * nn.silu(self.norms[1](remembered)), BothState(attention, memory)


class MAL(SurpriseLayer):
    """Memory as a layer: `attention(LMM(x))`, over a sliding window. Source: Titans (2501.00663), 4.3.

    Persistent tokens stand before the memory; see `WindowAttention` and `LMM`.

    Args:
        width: of the tokens.
        heads: of both.
        window: how many tokens attention sees.
        persistent: how many learned tokens stand before the memory.
        momentum: as of `LMM`, and so are the next four.
        forgetting: False is the paper's ablation.
        gradient_at: "token" or "chunk".
        chunk: how many tokens are written at once.
        time_constant: for about how many tokens a memory keeps what is not written over, at the start.
        dtype: of the products.
    """

    window: int

    def setup(self):
        self.attention = WindowAttention(self.width, self.heads, self.window, 0, self.dtype)
        self.memory = LMM.of(self)

    def initial_state(self) -> BothState:
        return BothState(self.attention.initial_state(), self.memory.initial_state())

    def __call__(self, x: Float[Array, "L d"], state: BothState | None = None) -> tuple[Float[Array, "L d"], BothState]:
        state = _both(self, state)
        remembered, memory = self.memory(x, state.memory)
        attended, attention = self.attention(remembered, state.attention)
        return attended, BothState(attention, memory)


class ContextState(NamedTuple):
    """Memory now and as it was before the unfinished segment, and what attention has seen of that segment."""

    memory: ops.SurpriseState
    before: ops.SurpriseState
    keys: Float[Array, "2 S H dh"]  # of what was read, and of the tokens
    values: Float[Array, "2 S H dh"]
    filled: Int[Array, ""]


class MAC(SurpriseLayer):
    """Memory as a context: attention over `[persistent | h | x]` of a segment, its output written and read again.

    For segments of `window` tokens: `h_t = M(x_t W_q)`, M as it was before the segment; `y = attention`, where token t
    sees h and x up to t (as printed, over all of h, it would see tokens to come); y is written; `out_t = y_t *
    M_t(y_t W_q)`, M_t being the memory after y_t. Source: Titans (2501.00663), 4.1. The state holds one segment:
    any length in any number of calls gives what one call would have given. Gradients are exact: a chunk's own start is
    not in the state.

    Args:
        width: of the tokens.
        heads: of both.
        window: the tokens of a segment.
        persistent: how many learned tokens stand before all.
        momentum: as of `LMM`, and so are the next four.
        forgetting: False is the paper's ablation.
        gradient_at: "token" alone.
        chunk: how many tokens are written at once.
        time_constant: for about how many tokens a memory keeps what is not written over, at the start.
        dtype: of the products.
    """

    window: int

    def __post_init__(self):
        super().__post_init__()
        require(
            self.gradient_at == "token",
            "gradient_at=chunk is not for MAC, whose state has no chunk's start; leave it out, or take MAG or MAL",
        )

    def setup(self):
        self.remember = HeadMemory(self.settings)
        at_least(self, 1, "window")

        def dense(width):
            return nn.Dense(width, use_bias=False, dtype=self.dtype)

        self.query, self.stored = dense(self.width), dense(2 * self.width)
        self.of_tokens, self.of_read, self.out = dense(3 * self.width), dense(2 * self.width), dense(self.width)
        self.norm = nn.RMSNorm(EPSILON, dtype=self.dtype)
        self.in_front = persistent_tokens(self, 2, self.persistent, self.heads, self.width // self.heads)
        self.places = self.param("places", nn.initializers.normal(0.02), (self.window, self.width))

    def initial_state(self) -> ContextState:
        empty, none = empty_memory(self.heads, self.width), jnp.zeros((2, self.window, *self.in_front.shape[2:]))
        return ContextState(empty, empty, none, none, jnp.zeros((), jnp.int32))

    def __call__(
        self, x: Float[Array, "L d"], state: ContextState | None = None
    ) -> tuple[Float[Array, "L d"], ContextState]:
        check_stream(x, self.width, state, self.initial_state())
        length, state = x.shape[0], self.initial_state() if state is None else state
        if not length:
            return x, state
        # The tokens may begin anywhere in a segment: they are moved to their places in as many as they can touch.
        start, total = state.filled, self.window * (1 + -(-(length - 1) // self.window))
        x = jax.lax.dynamic_update_slice_in_dim(jnp.zeros((total, self.width), x.dtype), x, start, axis=0)
        place = jnp.arange(total)
        segments = (
            x.reshape(-1, self.window, self.width),
            ((place >= start) & (place < start + length)).reshape(-1, self.window),
        )

        def step(layer, state, segment):
            return layer.segment(state, *segment)

        state, out = scan_module(step, self)(self, state, segments)
        return jax.lax.dynamic_slice_in_dim(out.reshape(total, self.width), start, length, axis=0), state

    def segment(
        self, state: ContextState, x: Float[Array, "S d"], new: Bool[Array, "S"]
    ) -> tuple[ContextState, Float[Array, "S d"]]:
        """One segment, of which some tokens are new, and those before them in the state."""
        window, old = self.window, jnp.arange(self.window) < state.filled
        read = jnp.einsum("lhd,hde->lhe", self.asked(x), state.before.memory)
        placed = x + self.places
        q, *of_tokens = self.split(self.of_tokens(placed), 3)
        of_read = self.split(self.of_read(read.reshape(x.shape).astype(x.dtype) + self.places), 2)
        both = (jnp.stack(pair) for pair in zip(of_read, of_tokens, strict=True))
        keys, values = (
            jnp.where(old[:, None, None], kept, made)
            for kept, made in zip((state.keys, state.values), both, strict=True)
        )
        visible = jnp.tril(jnp.ones((window, window), bool)) & (old | new)
        flat_keys, flat_values = (kept.reshape(2 * window, *kept.shape[2:]) for kept in (keys, values))
        y = attend(q, q, flat_keys, flat_values, jnp.concatenate([visible, visible], axis=1), self.in_front)
        y = self.out(y.reshape(x.shape).astype(self.dtype))
        stored = self.split(nn.silu(self.stored(y)), 2)
        read, memory = self.remember(self.asked(y), *stored, y, state.memory, new)
        filled = state.filled + new.sum()
        full = filled == window
        before = jax.tree.map(lambda now, then: jnp.where(full, now, then), memory, state.before)
        out = y * self.norm(read).reshape(y.shape)
        return ContextState(memory, before, keys, values, jnp.where(full, 0, filled)), out

    def asked(self, x: Float[Array, "L d"]) -> Float[Array, "L H dh"]:
        """What the memory is asked, of tokens and of attention's outputs alike: W_q of the paper."""
        return unit(self.split(nn.silu(self.query(x)), 1)[0])

    def split(self, x: Float[Array, "L dn"], parts: int) -> list[Float[Array, "L H dh"]]:
        """Into parts, and each into heads, in float32."""
        x = x.astype(jnp.float32).reshape(x.shape[0], parts, self.heads, -1)
        return [x[:, part] for part in range(parts)]
