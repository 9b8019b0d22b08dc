"""DIEN: a GRU finds interests in the clicks; the target attends to them, and a second GRU follows its attention."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least
from memjax.errors import require_count
from memjax.memories import Slots
from memjax.memories.weights import gru_params
from memjax.models.direct import read_by
from memjax.models.recommender import Recommender, as_click, inner, no_loss
from memjax.ops.attention import masked_softmax
from memjax.ops.gru import update_from_gates
from memjax.ops.recurrence import carry_like
from memjax.typing import Array, Float, Int, Key


class DIEN(Recommender):
    """Interests `h_t = GRU(h_t-1, e_t)`; for a target `a = softmax_t(h_t · W e_i)`, `g_t = AUGRU(g_t-1, h_t, a_t)`.

    AUGRU is a GRU whose update gate, the share of the new, is multiplied by a_t: `g' = g + a (GRU(g, h) - g)`.
    `logit(i) = MLP([g_T; e_i])`. The auxiliary loss teaches each interest the next click against one item that is drawn
    from all others: `-log s(h_t · e_t+1) - log(1 - s(h_t · e'))`, a mean over the clicks, where the paper has a sum
    over them; so its weight does not depend on the length of a stream. Without a key nothing is drawn, and it is 0.

    Source: Zhou et al. 2019, *Deep Interest Evolution Network for Click-Through Rate Prediction*. The layers of the
    perceptron are those of the authors' code, with PReLU; without batch normalization and without the user's profile.
    Every target is followed through all interests again: to rank all items costs a second GRU for each of them.

    Args:
        shape: of the task.
        width: of items, interests and states.
        dtype: of the products; states stay float32.
        hidden: units of the two layers of the perceptron.
        auxiliary: the weight of the auxiliary loss.
    """

    ranks_items = False
    hidden: tuple[int, int] = (200, 80)
    auxiliary: float = 1.0

    def validate(self) -> None:
        super().validate()
        at_least(self, 0, "auxiliary")
        for units in self.hidden:
            require_count("a layer of hidden", units)

    def setup(self):
        super().setup()
        self.interest = gru_params(self, "interest", self.width, self.width)
        self.w_attention = self.param("w_attention", nn.initializers.lecun_normal(), (self.width, self.width))
        self.evolve = gru_params(self, "evolve", self.width, self.width)
        self.layers = [nn.Dense(units, dtype=self.dtype, name=f"hidden_{i}") for i, units in enumerate(self.hidden)]
        self.slopes = [nn.PReLU(name=f"slope_{i}") for i, _ in enumerate(self.hidden)]
        self.score = nn.Dense(1, dtype=jnp.float32)

    def read(
        self, clicks: Int[Array, "L"], total: Int[Array, ""], counts: Int[Array, "Q"], key: Key | None
    ) -> tuple[Slots, Float[Array, ""]]:
        items = self.embed(clicks)
        start = jnp.zeros_like(items, shape=(self.width,), dtype=jnp.float32)
        _, interests = ops.gru_scan(self.interest, start, items)
        slots = read_by(Slots(interests, jnp.ones(clicks.size, bool)), counts)
        if key is None:
            return slots, no_loss()
        return slots, self.auxiliary * self.next_click_loss(interests, items, clicks, total, key)

    def answer(self, slots: Slots, query: Int[Array, ""], candidates: None = None) -> Float[Array, "2"]:
        item, interests = self.embed_query(query), slots.values.astype(self.dtype)
        weights = masked_softmax(inner(interests, self.w_attention.astype(self.dtype) @ item), slots.mask, axis=0)

        def step(state, inputs):
            gates, weight = inputs
            new = update_from_gates(self.evolve, state[None], gates[None], self.dtype)[0]
            return state + weight * (new - state), None

        start = carry_like(jnp.zeros(self.width), weights)
        state, _ = jax.lax.scan(step, start, (ops.project_aligned(self.evolve, interests), weights))
        feature = jnp.concatenate([state.astype(self.dtype), item])
        for layer, slope in zip(self.layers, self.slopes, strict=True):
            feature = slope(layer(feature))
        return as_click(self.score(feature)[0])
