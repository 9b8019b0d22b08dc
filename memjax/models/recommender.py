"""What the systems share that read a user's clicks themselves, and say whether an item is clicked next."""

from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.checks import check_widths
from memjax.errors import require
from memjax.memories import Slots
from memjax.models.embeddings import embed_query, is_like_an_item, item_embedding
from memjax.tasks.stream_task import TaskShape
from memjax.typing import Any, Array, Bool, Float, Int, Key


class Recommender(nn.Module):
    """A published system on tasks whose questions are items, or consist of their parts, and whose answers are clicks.

    It is a yardstick, not a memory.

    It sees the stream as one list of clicks: what stands in which segment does not matter to it, and padding is passed
    over. What it keeps for `answer` may grow with the list. All items are ranked by `jax.vmap(answer, (None, 0))`; not
    where `ranks_items` is false: there each item costs another pass over what is kept.

    Args:
        shape: of the task.
        width: of items and states.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.models import RUM
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(9, 2, 3, queries=9, query_words=None, answer="click", classes=2, query_is_item=True)
    >>> model, stream, mask = RUM(shape, width=4), jnp.arange(6).reshape(2, 3), jnp.ones((2, 3), bool)
    >>> params = model.init(jax.random.key(0), stream, mask, method="memorize")
    >>> slots, _ = model.apply(params, stream, mask, method="memorize")
    >>> logits = jax.vmap(lambda item: model.apply(params, slots, item, method="answer"))(jnp.arange(9))
    >>> logits.shape
    (9, 2)
    """

    shape: TaskShape
    width: int
    dtype: Any = jnp.float32
    ranks_items: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        self.validate()

    def validate(self) -> None:
        """Raises `MemjaxError` for a task and for sizes that it cannot have."""
        name = type(self).__name__
        require(
            self.shape.answer == "click" and is_like_an_item(self.shape),
            f"{name} says whether an item is clicked next; it needs a task whose answers are clicks and whose queries "
            "are items, or consist of their parts",
        )
        require(self.shape.items > 1, f"{name} needs a task with at least 2 items, as ids")
        check_widths(self, "width")

    def setup(self):
        self.embed = item_embedding(self.shape, self.width, self.dtype)

    def memorize(
        self, stream: Int[Array, "T N"], mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        """What is kept of a stream.

        Args:
            stream: item ids.
            mask: which of them are no padding.
            key: for dropout and drawn negatives, in training; without one there is neither.

        Returns:
            The slots, and an auxiliary loss.
        """
        slots, aux_loss = self.memorize_at(stream, mask, jnp.full(1, len(stream)), key=key)
        return jax.tree.map(lambda leaf: leaf[0], slots), aux_loss

    def memorize_at(
        self,
        stream: Int[Array, "T N"],
        mask: Bool[Array, "T N"],
        after: Int[Array, "Q"],
        *,
        key: Key | None = None,
    ) -> tuple[Slots, Float[Array, ""]]:
        """What is kept of some prefixes of a stream, in one pass.

        Args:
            stream: as of `memorize`.
            mask: as of `memorize`.
            after: of how many segments each prefix is, from 0 to T.
            key: as of `memorize`.

        Returns:
            The slots of each prefix, and an auxiliary loss of the whole stream.
        """
        real = mask.reshape(-1)
        total = real.sum()
        clicks = stream.reshape(-1)[jnp.argsort(~real, stable=True)]
        clicks = jnp.where(jnp.arange(real.size) < total, clicks, 0)
        counts = jnp.pad(mask.sum(1).cumsum(), (1, 0))[after]
        return self.read(clicks, total, counts, key)

    def read(
        self, clicks: Int[Array, "L"], total: Int[Array, ""], counts: Int[Array, "Q"], key: Key | None
    ) -> tuple[Slots, Float[Array, ""]]:
        """What `memorize_at` returns.

        Args:
            clicks: oldest first, behind the last one padding.
            total: how many there are.
            counts: how many of them each prefix has.
            key: as of `memorize`.
        """
        raise NotImplementedError(f"{type(self).__name__} reads no clicks")

    def embed_query(self, query: Int[Array, ""]) -> Float[Array, "d"]:
        """The vector of what is asked."""
        return embed_query(self.shape, self.embed, query)

    def newest(
        self, clicks: Int[Array, "L"], counts: Int[Array, "Q"], size: int
    ) -> tuple[Float[Array, "Q K d"], Bool[Array, "Q K"]]:
        """The last clicked items of each prefix, at the end, zeros before them; and which of these rows are filled."""
        places = counts[:, None] - size + jnp.arange(size)
        filled = places >= 0
        return jnp.where(filled[..., None], self.embed(clicks[jnp.maximum(places, 0)]), 0), filled

    def next_click_loss(
        self,
        states: Float[Array, "L d"],
        items: Float[Array, "L d"],
        clicks: Int[Array, "L"],
        total: Int[Array, ""],
        key: Key,
    ) -> Float[Array, ""]:
        """`-log s(h_t · e_t+1) - log(1 - s(h_t · e'))`, mean over the clicks; e' is drawn from all other items."""
        drawn = jax.random.randint(key, clicks.shape, 0, self.shape.items - 1)
        others = self.embed(drawn + (drawn >= jnp.roll(clicks, -1)))
        right, wrong = (
            jnp.einsum("ld,ld->l", states.astype(self.dtype), vectors, preferred_element_type=jnp.float32)
            for vectors in (jnp.roll(items, -1, axis=0), others)
        )
        losses = jax.nn.softplus(-right) + jax.nn.softplus(wrong)
        followed = jnp.arange(clicks.size) < total - 1
        return jnp.where(followed, losses, 0).sum() / jnp.maximum(total - 1, 1)


def one_slot(states: Float[Array, "Q d"]) -> Slots:
    """A state for each prefix as its only slot."""
    return Slots(states[:, None], jnp.ones((len(states), 1), bool))


def inner(left: Float[Array, "*axes d"], right: Float[Array, "d"]) -> Float[Array, "*axes"]:
    """Inner products with right, in its dtype, summed in float32."""
    return jnp.matmul(left.astype(right.dtype), right, preferred_element_type=jnp.float32)


def as_click(logit: Float[Array, ""]) -> Float[Array, "2"]:
    """The logits of (no click, click)."""
    return jnp.stack([jnp.zeros_like(logit), logit])


def no_loss() -> Float[Array, ""]:
    return jnp.zeros((), jnp.float32)
