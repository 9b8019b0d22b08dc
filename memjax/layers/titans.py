"""Attention and surprise memory together (Titans, 4): as a gate (MAG), as a layer (MAL), as a context (MAC)."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least, check_whole
from memjax.errors import require
from memjax.layers.documents import by_token
from memjax.layers.lmm import LMM, SurpriseLayerState
from memjax.layers.stream_state import check_documents, checked_stream, persistent_tokens
from memjax.layers.surprise_settings import SurpriseLayer
from memjax.layers.window_attention import WindowAttention, WindowState, attend
from memjax.memories.memory import scan_module
from memjax.memories.surprise_memory import EPSILON
from memjax.ops.exportable import exportable
from memjax.ops.recurrence import separate, tree_where
from memjax.typing import Array, Bool, Float, Int

SMALL_READ = 1e-3  # mean square of what is read below which a norm does not enlarge it: an almost empty memory's


@exportable
class BothState(NamedTuple):
    """Of attention and of the memory beside it or before it."""

    attention: WindowState
    memory: SurpriseLayerState


class Windowed(SurpriseLayer):
    """A memory with attention over a window of tokens."""

    window: int

    def __post_init__(self):
        super().__post_init__()
        check_whole(self, "window")
        at_least(self, 1, "window")


class Both(Windowed):
    """What MAG and MAL have in common: attention, an LMM, and persistent tokens before both."""

    def setup(self):
        self.attention = WindowAttention(self.width, self.heads, self.window, dtype=self.dtype)
        self.memory = LMM.of(self, persistent=0)
        self.in_front = persistent_tokens(self, self.persistent, self.width)

    def initial_state(self) -> BothState:
        return separate(BothState(self.attention.initial_state(), self.memory(self.in_front)[1]))

    def begun(self, x: Array, state: BothState | None, reset: Array | None) -> BothState:
        """The state to go on from, once all that was given is checked."""
        checked_stream(self, x, None, None)
        require(state is None or isinstance(state, BothState), f"this state is another layer's: {type(state).__name__}")
        state = self.initial_state() if state is None else state
        check_documents(reset, len(x))
        return state

    def remembered(self, x: Array, state: BothState, reset: Array | None) -> tuple[Array, SurpriseLayerState]:
        """What the memory says; where documents begin in it, it is what it was behind the persistent tokens."""
        fresh = self.memory(self.in_front)[1] if reset is not None and self.persistent else None
        return self.memory(x, state.memory, reset=reset, fresh=fresh)


class MAG(Both):
    """Memory as a gate: `rmsnorm(attention(x)) * silu(rmsnorm(LMM(x)))`, attention over a sliding window.

    Source: Titans (2501.00663), 4.2: both outputs normalised with learned weights, then gated together; on the
    non-linearity the paper is silent. The same persistent tokens stand before both (Eq. 26). See `WindowAttention` and
    `LMM`.

    Args:
        width: of the tokens.
        heads: of both.
        window: how many tokens attention sees.
        persistent: how many learned tokens stand before both.
    """

    def setup(self):
        super().setup()
        self.norms = [nn.RMSNorm(EPSILON, dtype=self.dtype) for _ in "ab"]

    def __call__(
        self, x: Float[Array, "L d"], state: BothState | None = None, *, reset: Bool[Array, "L"] | None = None
    ) -> tuple[Float[Array, "L d"], BothState]:
        """What comes out for every token, and the state; reset: as of `LMM`."""
        state = self.begun(x, state, reset)
        attended, attention = self.attention(x, state.attention, self.in_front, reset=reset)
        remembered, memory = self.remembered(x, state, reset)
        return self.norms[0](attended) * nn.silu(self.norms[1](remembered)), BothState(attention, memory)


class MAL(Both):
    """Memory as a layer: `m = LMM(x)`, `out = m + attention(rmsnorm(x + m))`, attention over a sliding window.

    Source: Titans (2501.00663), 4.3, Eq. 29 to 31, where attention reads the memory's bare output; the residuals and
    the norm are ours, as two layers have them. Persistent tokens stand before the memory, and what becomes of them
    before attention. See `WindowAttention` and `LMM`.

    Args:
        width: of the tokens.
        heads: of both.
        window: how many tokens attention sees.
        persistent: how many learned tokens stand before both.
    """

    def setup(self):
        super().setup()
        self.norm = nn.RMSNorm(EPSILON, dtype=self.dtype)

    def __call__(
        self, x: Float[Array, "L d"], state: BothState | None = None, *, reset: Bool[Array, "L"] | None = None
    ) -> tuple[Float[Array, "L d"], BothState]:
        """What comes out for every token, and the state; reset: as of `LMM`."""
        state = self.begun(x, state, reset)
        remembered, memory = self.remembered(x, state, reset)
        in_front = self.norm(self.in_front + self.memory(self.in_front)[0])
        attended, attention = self.attention(self.norm(x + remembered), state.attention, in_front, reset=reset)
        return remembered + attended, BothState(attention, memory)


@exportable
class ContextState(NamedTuple):
    """The memory, whose anchor is what it was before the unfinished segment, and what attention has seen of that."""

    memory: SurpriseLayerState
    keys: Float[Array, "2 S H dh"]  # of what was read, and of the tokens
    values: Float[Array, "2 S H dh"]
    filled: Int[Array, ""]


class MAC(Windowed):
    """Memory as a context: attention over `[persistent | h | x]` of a segment, its output written and read again.

    For segments of `window` tokens: `h_t = rmsnorm(M(x_t W_q))`, M as it was before the segment; `y = x + attention`,
    where token t sees h and x up to t (as printed, over all of h, it would see tokens to come); `out = LMM(y)`, which
    writes y and reads the memory after it. Source: Titans (2501.00663), 4.1. Eq. 25 has `y * M(y)` in place of LMM's
    way out, and neither the residual nor LMM's convolution stands there: without all three it does not learn to bind.
    The norm is ours, too, and attention's way out begins at 0: what is read is written again, and might grow. The state
    holds one segment: any length in any number of calls gives what one call would have given.

    Args:
        width: of the tokens.
        heads: of both.
        window: the tokens of a segment; with gradient_at="chunk" chunk must be the same.
        persistent: how many learned tokens stand before all.
    """

    def __post_init__(self):
        super().__post_init__()
        require(
            self.gradient_at == "token" or self.chunk == self.window,
            f"chunk {self.chunk} must be window {self.window} for MAC with gradient_at=chunk, whose chunk is a segment",
        )

    def setup(self):
        def dense(width):
            return nn.Dense(width, use_bias=False, dtype=self.dtype)

        self.memory = LMM.of(self, persistent=0)
        self.query, self.of_tokens = dense(self.width), dense(3 * self.width)
        self.of_read, self.norm = dense(2 * self.width), nn.RMSNorm(SMALL_READ, dtype=self.dtype)
        # At the start y is x, and the layer LMM: from random attention, it stays at chance for long.
        zeros = nn.initializers.zeros
        self.attended = nn.Dense(self.width, use_bias=False, dtype=self.dtype, kernel_init=zeros)
        self.in_front = persistent_tokens(self, self.persistent, self.width)
        self.places = self.param("places", nn.initializers.normal(0.02), (self.window, self.width))

    def initial_state(self) -> ContextState:
        none = jnp.zeros((2, self.window, self.heads, self.width // self.heads))
        memory, recent = self.memory.empty()
        memory = ops.SurpriseState(memory.memory, memory.momentum, anchor=memory.memory)
        return separate(ContextState(SurpriseLayerState(memory, recent), none, none, jnp.zeros((), jnp.int32)))

    def __call__(
        self, x: Float[Array, "L d"], state: ContextState | None = None, *, reset: Bool[Array, "L"] | None = None
    ) -> tuple[Float[Array, "L d"], ContextState]:
        """What comes out for every token, and the state; reset: as of `LMM`, token by token."""
        fresh = self.initial_state()
        state = checked_stream(self, x, state, fresh)
        check_documents(reset, len(x))
        state = fresh if state is None else state
        if not x.shape[0]:
            return x, state
        return self.part(x, state) if reset is None else by_token(self, MAC.part, x, state, reset, fresh)

    def part(self, x: Float[Array, "L d"], state: ContextState) -> tuple[Float[Array, "L d"], ContextState]:
        """Tokens of one document."""
        length = x.shape[0]
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
        window, old, before = self.window, jnp.arange(self.window) < state.filled, state.memory.memory.anchor
        read = self.memory.remember.ask(before, self.split(nn.silu(self.query(x)), 1)[0])
        placed = x + self.places
        q, *of_tokens = self.split(self.of_tokens(placed), 3)
        of_read = self.split(self.of_read(self.norm(read.reshape(x.shape)).astype(x.dtype) + self.places), 2)
        both = (jnp.stack(pair) for pair in zip(of_read, of_tokens, strict=True))
        keys, values = (
            jnp.where(old[:, None, None], kept, made)
            for kept, made in zip((state.keys, state.values), both, strict=True)
        )
        visible = jnp.tril(jnp.ones((window, window), bool)) & (old | new)[None]
        flat_keys, flat_values = (kept.reshape(2 * window, *kept.shape[2:]) for kept in (keys, values))
        in_front = self.split(self.of_tokens(self.in_front), 3)[1:]
        y = attend(q, q, flat_keys, flat_values, jnp.concatenate([visible, visible], axis=1), in_front)
        y = x + self.attended(y.reshape(x.shape).astype(self.dtype))
        out, (memory, recent) = self.memory.part(y, state.memory, new, state.filled)
        filled = state.filled + new.sum(dtype=state.filled.dtype)
        full = filled == window
        anchor = tree_where(full, memory.memory, before)
        memory = ops.SurpriseState(memory.memory, memory.momentum, anchor)
        state = ContextState(SurpriseLayerState(memory, recent), keys, values, jnp.where(full, 0, filled))
        return state, out

    def split(self, x: Float[Array, "L dn"], parts: int) -> list[Float[Array, "L H dh"]]:
        """Into parts, and each into heads, in float32."""
        x = x.astype(jnp.float32).reshape(x.shape[0], parts, self.heads, self.width // self.heads)
        return [x[:, part] for part in range(parts)]
