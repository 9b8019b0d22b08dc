"""What the systems share that read the words of a text themselves, and choose among candidates that are texts."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp

from memjax.checks import check_widths
from memjax.errors import require
from memjax.memories import Slots
from memjax.memories.memory import for_each
from memjax.tasks.stream_task import TaskShape
from memjax.typing import Any, Array, Bool, Float, Int, Key


class TextReader(nn.Module):
    """A published system on tasks whose candidates and questions are texts of the words of the stream.

    It is a yardstick, not a memory: what it keeps for `answer` grows with the text. A subclass says in `memorize` what
    that is, and in `answer` what it makes of it. A 0 is padding in questions and candidates.

    Args:
        shape: of a task whose candidates are texts of the words of its stream.
        width: of words and states; even.
        dtype: of the products.

    >>> import jax
    >>> from memjax.models import MultiStream
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(9, 2, 3, queries=9, query_words=2, answer="candidates", classes=2)
    >>> model, text, mask = MultiStream(shape, width=4), jnp.arange(1, 7).reshape(2, 3), jnp.ones((2, 3), bool)
    >>> params = model.init(jax.random.key(0), text, mask, method="memorize")
    >>> slots, _ = model.apply(params, text, mask, jnp.array([0, 1, 2]), method="memorize_at")
    >>> slots.mask.sum(1).tolist()
    [0, 3, 6]
    """

    shape: TaskShape
    width: int
    dtype: Any = jnp.float32
    does: ClassVar[str] = "a reader of texts chooses among texts"  # as the error of a task of others begins

    def __post_init__(self):
        super().__post_init__()
        self.validate()

    def validate(self) -> None:
        """Raises `MemjaxError` for a task and for sizes that it cannot have."""
        shape = self.shape
        require(
            shape.answer == "candidates" and shape.items == shape.queries and shape.query_words is not None,
            f"{self.does}: it needs a task whose candidates and questions are texts of the stream's items, as those of "
            "configs/stories.py",
        )
        check_widths(self, "width")
        require(self.width % 2 == 0, f"width must be even (two directions), not {self.width}")

    def memorize(
        self, stream: Int[Array, "T N"], mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        """What is kept of a text, and an auxiliary loss of 0.

        Args:
            stream: ids of words.
            mask: which of them are no padding.
            key: not needed.
        """
        raise NotImplementedError(f"{type(self).__name__} has no memorize")

    def memorize_at(
        self, stream: Int[Array, "T N"], mask: Bool[Array, "T N"], after: Int[Array, "Q"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        """What is kept of the first segments, each time that the text is asked.

        Args:
            stream: ids of words.
            mask: which of them are no padding.
            after: how many segments have been read each time.
            key: not needed.
        """
        # What reads from the right must not have read on: each time the text is read again.
        read = mask & (jnp.arange(len(mask)) < after[:, None])[..., None]
        slots, aux_losses = for_each(type(self).memorize, (None, 0))(self, stream, read)
        return slots, aux_losses.sum()

    def answer(self, slots: Slots, query: Int[Array, "W"], candidates: Int[Array, "C W2"]) -> Float[Array, "C"]:
        """A logit for each candidate, minus infinity for one that is empty.

        Args:
            slots: what `memorize` kept.
            query: ids of the question's words.
            candidates: ids of theirs.
        """
        raise NotImplementedError(f"{type(self).__name__} has no answer")
