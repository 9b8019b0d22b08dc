"""SASRec: a causal Transformer over the clicks."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.checks import at_least, check_counts, check_shares, check_widths
from memjax.errors import require
from memjax.memories import Slots
from memjax.memories.encoders import EPSILON
from memjax.models.recommender import Recommender, as_click, inner, no_loss, one_slot
from memjax.ops.attention import masked_softmax
from memjax.typing import Any, Array, Float, Int, Key


class CausalBlock(nn.Module):
    """`x + attention(norm(x))`, then `x + W_2 relu(W_1 norm(x))` as wide inside as outside; one head.

    Args:
        width: of an item.
        dropout: the share of what either adds that training zeroes.
        dtype: of the products.
    """

    width: int
    dropout: float
    dtype: Any

    @nn.compact
    def __call__(self, x: Float[Array, "W L d"], key: Key | None) -> Float[Array, "W L d"]:
        dense, drop = partial(nn.Dense, self.width, dtype=self.dtype), nn.Dropout(self.dropout)
        keys = (None, None) if key is None else jax.random.split(key)
        y = nn.LayerNorm(EPSILON, dtype=self.dtype, name="norm_attention")(x)
        query, keyed, value = (dense(use_bias=False, name=name)(y) for name in ("query", "key", "value"))
        scores = jnp.einsum("wqd,wkd->wqk", query, keyed, preferred_element_type=jnp.float32) * self.width**-0.5
        weights = masked_softmax(scores, jnp.tri(x.shape[1], dtype=bool), axis=-1).astype(self.dtype)
        x = x + drop(weights @ value, deterministic=key is None, rng=keys[0])
        y = nn.relu(dense(name="wide")(nn.LayerNorm(EPSILON, dtype=self.dtype, name="norm_forward")(x)))
        return x + drop(dense(name="narrow")(y), deterministic=key is None, rng=keys[1])


class SASRec(Recommender):
    """Items with learned positions through causal Transformer blocks; `logit(i) = h · e_i`, h the last state.

    Source: Kang and McAuley 2018, *Self-Attentive Sequential Recommendation*: two blocks, one head, as many places and
    as much dropout as for MovieLens-1M; items times sqrt(width) and a last norm, as in the authors' code. Its own loss,
    the next click at every place against one item that is drawn from all others, is the auxiliary loss; without a key
    nothing is drawn, and it is 0.

    Positions count from the first click. A stream of more than `window` clicks is read in windows that overlap by half,
    so that many questions share one pass: the state after a click sees more than `window / 2` clicks and at most
    `window`, where the paper reads the last `window` again for each question. Up to `window` clicks there is no
    difference.

    Args:
        shape: of the task.
        width: of items and states.
        dtype: of the products.
        window: places; even.
        layers: blocks.
        dropout: the share of items, and of what each part of a block adds, that training zeroes.
        auxiliary: the weight of the auxiliary loss.
    """

    window: int = 200
    layers: int = 2
    dropout: float = 0.2
    auxiliary: float = 1.0

    def validate(self) -> None:
        super().validate()
        check_widths(self, "window")
        require(self.window % 2 == 0, f"window must be even, not {self.window}")
        check_counts(self, 1, "layers")
        at_least(self, 0, "auxiliary")
        check_shares(self, "dropout")

    def setup(self):
        super().setup()
        start = nn.initializers.normal(self.width**-0.5)  # of the embeddings
        self.positions = self.param("positions", start, (self.window, self.width))
        self.drop = nn.Dropout(self.dropout)
        self.blocks = [CausalBlock(self.width, self.dropout, self.dtype) for _ in range(self.layers)]
        self.norm = nn.LayerNorm(EPSILON, dtype=self.dtype)

    def read(
        self, clicks: Int[Array, "L"], total: Int[Array, ""], counts: Int[Array, "Q"], key: Key | None
    ) -> tuple[Slots, Float[Array, ""]]:
        drop_key, loss_key = (None, None) if key is None else jax.random.split(key)
        items = self.embed(clicks)
        states = self.states(items, drop_key)
        slots = one_slot(jnp.pad(states, ((1, 0), (0, 0)))[counts])
        if loss_key is None:
            return slots, no_loss()
        return slots, self.auxiliary * self.next_click_loss(states, items, clicks, total, loss_key)

    def states(self, items: Float[Array, "L d"], key: Key | None) -> Float[Array, "L d"]:
        """The state after each click."""
        length, half = len(items), self.window // 2
        windows = items[None]
        if length > self.window:
            halves = jnp.pad(items, ((0, -length % half), (0, 0))).reshape(-1, half, self.width)
            windows = jnp.concatenate([halves[:-1], halves[1:]], axis=1)
        keys = (None,) * (self.layers + 1) if key is None else jax.random.split(key, self.layers + 1)
        x = windows * jnp.asarray(self.width**0.5, self.dtype)
        x = x + self.positions[: windows.shape[1]].astype(self.dtype)
        x = self.drop(x, deterministic=key is None, rng=keys[-1])
        for block, block_key in zip(self.blocks, keys[:-1], strict=True):
            x = block(x, block_key)
        x = self.norm(x)
        # The first half of a window is the second half of the one before, which has seen more.
        return jnp.concatenate([x[0], x[1:, half:].reshape(-1, self.width)])[:length]

    def answer(self, slots: Slots, query: Int[Array, ""], candidates: None = None) -> Float[Array, "2"]:
        return as_click(inner(slots.values[0], self.embed_query(query)))
