"""The vectors of items and of queries like them: one for each id, the sum of its parts', or a projection of vectors."""

from typing import NamedTuple

import flax.linen as nn
import jax.numpy as jnp

from memjax.tasks.parts import Parts
from memjax.tasks.stream_task import TaskShape
from memjax.typing import Any, Array, Bool, Float, Int, Shaped


class PartEmbed(nn.Module):
    """`e(id) = sum_p E[parts(id)_p]`; it stands where `flax.linen.Embed` stands for items without parts.

    The table starts so that an item has the size that it would have without parts.

    Args:
        parts: of the items.
        width: of a vector.
        dtype: of the vectors.

    >>> import jax, jax.numpy as jnp, numpy as np
    >>> embed = PartEmbed(Parts(np.array([[0, 2], [1, 2]]), 3), 4)
    >>> params = embed.init(jax.random.key(0), jnp.array(0))
    >>> embed.apply(params, jnp.array([[0, 1, 1]])).shape
    (1, 3, 4)
    """

    parts: Parts
    width: int
    dtype: Any = jnp.float32

    def setup(self):
        start = nn.initializers.normal((self.width * self.parts.table.shape[1]) ** -0.5)
        self.rows = nn.Embed(self.parts.count, self.width, dtype=self.dtype, embedding_init=start)

    def __call__(self, ids: Int[Array, "*axes"]) -> Float[Array, "*axes d"]:
        return self.of(ids, self.parts)

    def of(self, ids: Int[Array, "*axes"], parts: Parts) -> Float[Array, "*axes d"]:
        """The vectors of ids that consist of the same parts otherwise, as a problem does that has no outcome yet.

        Args:
            ids: of these.
            parts: of each of them.
        """
        found = jnp.asarray(parts.table)[ids]
        return jnp.where((found >= 0)[..., None], self.rows(jnp.maximum(found, 0)), 0).sum(-2)

    @property
    def num_embeddings(self) -> int:
        """How many items there are."""
        return len(self.parts)

    @property
    def embedding(self) -> Float[Array, "V d"]:
        """The vectors of all items."""
        return self(jnp.arange(self.num_embeddings))


class Table(NamedTuple):
    """Vectors by their ids, as `flax.linen.Embed` has them.

    Attributes:
        embedding: the vectors.
    """

    embedding: Float[Array, "V d"]

    def __call__(self, ids: Int[Array, "*axes"]) -> Float[Array, "*axes d"]:
        return self.embedding[ids]

    @property
    def num_embeddings(self) -> int:
        """How many there are."""
        return len(self.embedding)


ItemEmbed = nn.Embed | PartEmbed | nn.Dense  # what embeds ids, ids with parts, vectors


def item_embedding(shape: TaskShape, width: int, dtype: Any) -> ItemEmbed:
    """The module that embeds a task's items; those that are vectors are projected.

    Vectors whose numbers are of size 1 start as large as embedded ids.

    Args:
        shape: of the task.
        width: of a vector.
        dtype: of the vectors.
    """
    if shape.item_width is not None:
        start = nn.initializers.variance_scaling(1 / width, "fan_in", "normal")
        return nn.Dense(width, dtype=dtype, kernel_init=start)
    if shape.item_parts is None:
        return nn.Embed(shape.items, width, dtype=dtype)
    return PartEmbed(shape.item_parts, width, dtype)


def embed_stream(
    embed: ItemEmbed, stream: Shaped[Array, "*axes"], mask: Bool[Array, "*items"]
) -> Float[Array, "*items d"]:
    """The vectors of a stream's items, whatever stands in the padding.

    Args:
        embed: of the task's items.
        stream: ids, with any leading axes; or vectors.
        mask: which of them are no padding.
    """
    return embed(jnp.where(mask[..., None] if stream.ndim > mask.ndim else mask, stream, 0))


def is_like_an_item(shape: TaskShape) -> bool:
    """Whether a task's query is an item, or consists of the parts of items."""
    return shape.query_is_item or shape.query_parts is not None


def embed_query(shape: TaskShape, embed: ItemEmbed, query: Int[Array, ""]) -> Float[Array, "d"]:
    """The vector of a query that is like an item.

    Args:
        shape: of the task.
        embed: of its items.
        query: its id.
    """
    return embed(query) if shape.query_parts is None else embed.of(query, shape.query_parts)
