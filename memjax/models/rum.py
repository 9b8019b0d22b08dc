"""RUM: a user's memory holds the last items (item level), or values under keys of all users (feature level)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import check_widths
from memjax.memories import Slots
from memjax.models.recommender import Recommender, as_click, inner, no_loss
from memjax.ops.attention import masked_softmax
from memjax.ops.recurrence import carry_like
from memjax.typing import Array, Float, Int, Key


class RUM(Recommender):
    """Item level: the last items, `z = softmax_k(m_k · e_i)`, `logit(i) = sum_k z_k m_k · e_i`.

    Source: Chen et al. 2018, *Sequential Recommendation with User Memory Networks*, with a strength beta of 1 in the
    softmax; five items, as in the code that HPMN's authors publish. There the user is `a_u + 0.2 memory`; a stream
    comes without its user, so that the user is the memory alone, and beside nothing a factor of it has no meaning.

    Args:
        shape: of the task.
        width: of items.
        dtype: of the products.
        last: how many items are kept.
    """

    last: int = 5

    def validate(self) -> None:
        super().validate()
        check_widths(self, "last")

    def read(
        self, clicks: Int[Array, "L"], total: Int[Array, ""], counts: Int[Array, "Q"], key: Key | None
    ) -> tuple[Slots, Float[Array, ""]]:
        return Slots(*self.newest(clicks, counts, self.last)), no_loss()

    def answer(self, slots: Slots, query: Int[Array, ""], candidates: None = None) -> Float[Array, "2"]:
        likeness = inner(slots.values, self.embed_query(query))
        return as_click(masked_softmax(likeness, slots.mask, axis=0) @ likeness)


class RUMFeatures(Recommender):
    """Feature level: F keys for all users, F values of each, `z = softmax_k(key_k · e)`.

    An item is written as in an NTM: `m_k <- m_k * (1 - z_k s(E e + b)) + z_k tanh(A e + c)`, from zeros. And
    `logit(i) = sum_k z_k m_k · e_i`. Source, strength and user: as of `RUM`; five features.

    Args:
        shape: of the task.
        width: of items, keys and values.
        dtype: of the products; values stay float32.
        features: F.
    """

    features: int = 5

    def validate(self) -> None:
        super().validate()
        check_widths(self, "features")

    def setup(self):
        super().setup()
        self.keys = self.param("keys", nn.initializers.normal(self.width**-0.5), (self.features, self.width))
        self.erase = nn.Dense(self.width, dtype=self.dtype)
        self.add = nn.Dense(self.width, dtype=self.dtype)

    def read(
        self, clicks: Int[Array, "L"], total: Int[Array, ""], counts: Int[Array, "Q"], key: Key | None
    ) -> tuple[Slots, Float[Array, ""]]:
        items = self.embed(clicks)
        erase, add = (x.astype(jnp.float32) for x in (nn.sigmoid(self.erase(items)), jnp.tanh(self.add(items))))

        def write(values, inputs):
            values = ops.erase_and_add(values, *inputs)
            return values, values

        start = carry_like(jnp.zeros((self.features, self.width)), items)
        _, written = jax.lax.scan(write, start, (self.shares(items), erase, add))
        values = jnp.concatenate([start[None], written])[counts]
        return Slots(values, jnp.ones(values.shape[:2], bool)), no_loss()

    def shares(self, items: Float[Array, "*axes d"]) -> Float[Array, "*axes F"]:
        """How much each feature is of an item."""
        keys = self.keys.astype(items.dtype)
        return jax.nn.softmax(jnp.matmul(items, keys.T, preferred_element_type=jnp.float32))

    def answer(self, slots: Slots, query: Int[Array, ""], candidates: None = None) -> Float[Array, "2"]:
        item = self.embed_query(query)
        return as_click(self.shares(item) @ inner(slots.values, item))
