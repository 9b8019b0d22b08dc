"""Caser: the last clicks as an image, and convolutions over it."""

import flax.linen as nn
import jax.numpy as jnp

from memjax.checks import check_counts, check_shares, check_widths
from memjax.memories import Slots
from memjax.models.recommender import Recommender, as_click, inner, no_loss, one_slot
from memjax.typing import Array, Float, Int, Key


class Caser(Recommender):
    """`z = relu(W [o~; o] + b)`, `logit(i) = z · e_i + b_i`, of the image E of the last L items, a row each.

    Horizontal filters of every height h from 1 to L: `o_h = max_i relu(F_h * E_i:i+h-1 + b)`; vertical ones, the height
    of the image: `o~ = F~ E + b`. Rows that are not there yet are zeros.

    Source: Tang and Wang 2018, *Personalized Top-N Sequential Recommendation via Convolutional Sequence Embedding*,
    with the settings of the authors' code for MovieLens. Without the user's embedding, since a stream comes without its
    user; and the items' vectors in the scores are those of the input, where the paper has a second table.

    Args:
        shape: of the task.
        width: of items and of z.
        dtype: of the products.
        last: L.
        horizontal: filters of each height.
        vertical: filters.
        dropout: the share of what the filters give that training zeroes.
    """

    last: int = 5
    horizontal: int = 16
    vertical: int = 4
    dropout: float = 0.5

    def validate(self) -> None:
        super().validate()
        check_counts(self, 1, "last")
        check_widths(self, "horizontal", "vertical")
        check_shares(self, "dropout")

    def setup(self):
        super().setup()
        self.across = [
            nn.Dense(self.horizontal, dtype=self.dtype, name=f"horizontal_{height}") for height in range(self.last)
        ]
        self.down = nn.Dense(self.vertical, dtype=self.dtype, name="vertical")
        self.drop = nn.Dropout(self.dropout)
        self.dense = nn.Dense(self.width, dtype=self.dtype)
        self.bias = self.param("bias", nn.initializers.zeros, (self.shape.queries,))

    def read(
        self, clicks: Int[Array, "L"], total: Int[Array, ""], counts: Int[Array, "Q"], key: Key | None
    ) -> tuple[Slots, Float[Array, ""]]:
        image, _ = self.newest(clicks, counts, self.last)
        prefixes = len(counts)
        found = [self.down(image.swapaxes(1, 2)).swapaxes(1, 2).reshape(prefixes, -1)]
        for height, across in enumerate(self.across, start=1):
            rows = [image[:, i : i + height].reshape(prefixes, -1) for i in range(self.last - height + 1)]
            found.append(nn.relu(across(jnp.stack(rows, axis=1))).max(axis=1))
        found = self.drop(jnp.concatenate(found, axis=-1), deterministic=key is None, rng=key)
        return one_slot(nn.relu(self.dense(found))), no_loss()

    def answer(self, slots: Slots, query: Int[Array, ""], candidates: None = None) -> Float[Array, "2"]:
        return as_click(inner(slots.values[0], self.embed_query(query)) + self.bias[query])
