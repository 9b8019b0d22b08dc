"""GRU4REC: a GRU over the clicks, whose last state scores every item."""

import flax.linen as nn
import jax.numpy as jnp

from memjax import ops
from memjax.memories import Slots
from memjax.memories.weights import gru_params
from memjax.models.recommender import Recommender, as_click, inner, no_loss, one_slot
from memjax.typing import Array, Float, Int, Key


class GRU4Rec(Recommender):
    """`h_t = GRU(h_t-1, e_t)`, `logit(i) = h · e_i + b_i`.

    Source: Hidasi et al. 2016, *Session-based Recommendations with Recurrent Neural Networks*: one layer of 100 units
    and a score for each item from the last state. Here the items' vectors in the scores are those of the input (tied,
    as in the authors' later code), so that the state is as wide as an item; and the loss is that of all systems here,
    binary cross-entropy. The tables of MIMN and HPMN give `[h; e_i]` to a perceptron in place of the inner product.

    Args:
        shape: of the task.
        width: of items and states.
        dtype: of the products.
    """

    def setup(self):
        super().setup()
        self.gru = gru_params(self, "gru", self.width, self.width)
        self.bias = self.param("bias", nn.initializers.zeros, (self.shape.queries,))

    def read(
        self, clicks: Int[Array, "L"], total: Int[Array, ""], counts: Int[Array, "Q"], key: Key | None
    ) -> tuple[Slots, Float[Array, ""]]:
        items = self.embed(clicks)
        start = jnp.zeros_like(items, shape=(self.width,), dtype=jnp.float32)
        _, states = ops.gru_scan(self.gru, start, items)
        return one_slot(jnp.pad(states, ((1, 0), (0, 0)))[counts]), no_loss()

    def answer(self, slots: Slots, query: Int[Array, ""], candidates: None = None) -> Float[Array, "2"]:
        return as_click(inner(slots.values[0], self.embed_query(query)) + self.bias[query])
