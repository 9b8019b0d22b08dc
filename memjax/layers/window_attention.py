"""Causal attention over the last W tokens, streamed: its state is the keys and values of those, of fixed size."""

from collections.abc import Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.checks import at_least, check_whole
from memjax.errors import require
from memjax.layers.stream_state import check_documents, checked_stream, persistent_tokens
from memjax.ops.exportable import exportable
from memjax.ops.recurrence import separate
from memjax.typing import Any, Array, Bool, Float, Int

FAR = -1e30  # a score that no softmax sees; -inf would be NaN where nothing may be seen


@exportable
class WindowState(NamedTuple):
    """Keys and values of the last W tokens, the newest last, and how many of them there are."""

    keys: Float[Array, "W H dh"]
    values: Float[Array, "W H dh"]
    seen: Int[Array, ""]


class WindowAttention(nn.Module):
    """Every token attends to itself, the W - 1 tokens before it, and `persistent` learned tokens in front of all.

    Rotary positions (Su et al. 2021, RoFormer), so that only distances count; tokens in front have none. One
    example, `[L, width]`; any length, any number of calls: the state goes in and comes out. O(L W) time.

    Args:
        width: of the tokens.
        heads: of the attention.
        window: W.
        persistent: how many learned tokens stand in front of all.
        dtype: of the projections; attention is in float32, whatever it is.
    """

    width: int
    heads: int
    window: int
    persistent: int = 0
    dtype: Any = jnp.float32

    def __post_init__(self):
        check_whole(self, "width", "heads", "window", "persistent")
        at_least(self, 1, "window")
        at_least(self, 0, "persistent")
        rotated = self.heads >= 1 and self.width % (2 * self.heads) == 0
        require(rotated, f"width {self.width} must be a multiple of 2 * heads (positions turn pairs), not {self.heads}")
        super().__post_init__()

    def setup(self):
        self.project = nn.Dense(3 * self.width, use_bias=False, dtype=self.dtype)
        self.out = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
        self.in_front = persistent_tokens(self, self.persistent, self.width)

    def initial_state(self) -> WindowState:
        empty = jnp.zeros((self.window, self.heads, self.width // self.heads))
        return separate(WindowState(empty, empty, jnp.zeros((), jnp.int32)))

    def __call__(
        self,
        x: Float[Array, "L d"],
        state: WindowState | None = None,
        in_front: Float[Array, "P d"] | None = None,
        *,
        reset: Bool[Array, "L"] | None = None,
    ) -> tuple[Float[Array, "L d"], WindowState]:
        """What every token attends to, and the state.

        Args:
            x: the tokens.
            state: to go on from.
            in_front: tokens in the place of its own persistent ones, which every token sees.
            reset: the first tokens of documents, which see nothing before themselves.
        """
        state = checked_stream(self, x, state, self.initial_state())
        check_documents(reset, len(x))
        length, state = x.shape[0], self.initial_state() if state is None else state
        if not length:
            return x, state
        q, k, v = self.projected(x)
        keys, values = jnp.concatenate([state.keys, k]), jnp.concatenate([state.values, v])
        # Positions within this call: those of a whole stream would outgrow float32.
        places = jnp.arange(self.window + length)
        turned = rotate(q, places[self.window :])
        front = self.projected(self.in_front if in_front is None else in_front)[1:]
        before = preceding(length, state.seen, reset)
        out = banded(q, turned, rotate(keys, places), values, front, before).reshape(length, self.width)
        seen = jnp.minimum(before[-1] + 1, self.window)
        state = WindowState(keys[-self.window :], values[-self.window :], seen)
        return self.out(out.astype(self.dtype)), state

    def projected(self, x: Float[Array, "L d"]) -> list[Float[Array, "L H dh"]]:
        """Queries, keys and values, in float32."""
        heads = self.project(x).reshape(x.shape[0], self.heads, 3 * self.width // self.heads)
        return jnp.split(heads.astype(jnp.float32), 3, axis=-1)


def preceding(length: int, seen: Int[Array, ""], reset: Bool[Array, "L"] | None) -> Int[Array, "L"]:
    """How many tokens of its own document stand before each.

    Args:
        length: of the tokens.
        seen: how many of the first one's document went before.
        reset: the first tokens of further documents.

    >>> preceding(4, jnp.array(2), jnp.array([False, False, True, False])).tolist()
    [2, 3, 0, 1]
    """
    places = jnp.arange(length, dtype=seen.dtype)  # or else a count of float64 streams would be another type
    if reset is None:
        return seen + places
    return places - jax.lax.cummax(jnp.where(reset, places, -seen))


def rotate(x: Float[Array, "L H dh"], positions: Int[Array, "L"]) -> Float[Array, "L H dh"]:
    """Rotary positions: pairs of numbers turned by angles that grow with the position."""
    half = x.shape[-1] // 2
    angles = positions[:, None].astype(x.dtype) * 10_000.0 ** (-jnp.arange(half, dtype=x.dtype) / half)[None]
    sin, cos = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def banded(
    q: Float[Array, "L H dh"],
    turned: Float[Array, "L H dh"],
    keys: Float[Array, "all H dh"],
    values: Float[Array, "all H dh"],
    in_front: Sequence[Float[Array, "P H dh"]],
    before: Int[Array, "L"],
) -> Float[Array, "L H dh"]:
    """Attention of L queries to themselves and to `before` keys, where `keys` begins W tokens before the first query.

    Block by block of W queries.
    """
    length, window = q.shape[0], keys.shape[0] - q.shape[0]
    block = min(window, length)
    padding = -length % block
    q, turned, keys, values = (jnp.pad(x, ((0, padding), (0, 0), (0, 0))) for x in (q, turned, keys, values))
    before = jnp.pad(before, (0, padding)).reshape(-1, block)

    def one_block(q, turned, before, start):
        near_k, near_v = (jax.lax.dynamic_slice_in_dim(x, start, window + block) for x in (keys, values))
        # Query i of the block stands at place window + i of these.
        back = window + jnp.arange(block)[:, None] - jnp.arange(window + block)[None]
        visible = (back >= 0) & (back < window) & (back <= before[:, None])
        return attend(q, turned, near_k, near_v, visible, in_front)

    q, turned = (x.reshape(-1, block, *x.shape[1:]) for x in (q, turned))
    out = jax.vmap(one_block)(q, turned, before, jnp.arange(0, length + padding, block))
    return out.reshape(-1, *out.shape[2:])[:length]


def attend(
    q: Float[Array, "L H dh"],
    turned: Float[Array, "L H dh"],
    k: Float[Array, "M H dh"],
    v: Float[Array, "M H dh"],
    visible: Bool[Array, "L M"],
    in_front: Sequence[Float[Array, "P H dh"]],
) -> Float[Array, "L H dh"]:
    """Softmax attention of `turned` over what is visible, and of q over keys and values in front, which always are."""
    near = jnp.where(visible, jnp.einsum("lhd,mhd->hlm", turned, k), FAR)
    scores = jnp.concatenate([jnp.einsum("lhd,phd->hlp", q, in_front[0]), near], axis=-1) * q.shape[-1] ** -0.5
    return jnp.einsum("hlm,mhd->lhd", jax.nn.softmax(scores, axis=-1), jnp.concatenate([in_front[1], v]))
