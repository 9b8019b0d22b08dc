"""MSAN: a hypothesis, that is a question with one of its answers, finds its moment in a text and reasons over it."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp

from memjax.checks import at_least, check_multiple
from memjax.memories import Slots
from memjax.memories.encoders import EPSILON, Attention, BidirectionalGRU, FeedForward
from memjax.memories.memory import for_each
from memjax.models.text_reader import TextReader
from memjax.typing import Any, Array, Bool, Float, Int, Key


class AttentionBlock(nn.Module):
    """`x + attention(norm x, norm context)`, then `x + W_2 relu(W_1 norm x)`; without a context, over x itself.

    Args:
        width: of a row.
        heads: of the attention.
        dtype: of the products.
    """

    width: int
    heads: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(
        self, x: Float[Array, "L d"], mask: Bool[Array, "K"], context: Float[Array, "K d"] | None = None
    ) -> Float[Array, "L d"]:
        y = nn.LayerNorm(EPSILON, dtype=self.dtype, name="norm")(x)
        seen = y if context is None else nn.LayerNorm(EPSILON, dtype=self.dtype, name="norm_context")(context)
        x = x + Attention(self.heads, self.dtype, name="attention")(y, seen, mask)
        y = nn.LayerNorm(EPSILON, dtype=self.dtype, name="norm_forward")(x)
        return x + FeedForward(self.width, self.dtype, name="forward")(y)


def mean_of_real(x: Float[Array, "*axes N d"], real: Bool[Array, "*axes N"]) -> Float[Array, "*axes d"]:
    """The mean of the rows that are real, zeros where none is.

    >>> mean_of_real(jnp.array([[2.0], [4.0], [9.0]]), jnp.array([True, True, False])).tolist()
    [3.0]
    """
    total = jnp.where(real[..., None], x, 0).astype(jnp.float32).sum(-2)
    return total / jnp.maximum(real.sum(-1, keepdims=True), 1)


class MSAN(TextReader):
    """The Modality Shifting Attention Network (Kim et al. 2020, 2007.02036), on text alone.

    There is no video here, and so nothing between whose importance could be shifted. No moments are labelled, so that
    the moment is soft, and learned from the answers alone.

    A bidirectional GRU, added to the embeddings, reads the text, and each hypothesis: the question's words and behind
    them a candidate's. Of segment t the mean `s_t` and of the hypothesis the mean `h` say how far t is the moment,

        b_t = w · relu(W [s_t; h; s_t * h] + b),    each of its words is multiplied by sigmoid(b_t)

    A block of attention over themselves for these words and one for the hypothesis, then one for each over the other;
    of their means `v` and `u` is `logit = w' · relu(W' [v; u] + b')`. Where the paper leaves open how a block is made
    it is a pre-norm one, as everywhere here, and so are a GRU for its encoder and means for its pooling our choice.

    It reads the text itself, and is a yardstick, not a memory. What it keeps of a word is its vector, and behind it the
    mean of its segment. Each candidate costs attention of all words over all words.

    Args:
        shape: of a task whose candidates are texts of the words of its stream.
        width: of words and states; even, and a multiple of `heads`.
        dtype: of the products.
        heads: of attention.

    >>> import jax
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(9, 2, 3, queries=9, query_words=2, answer="candidates", classes=2)
    >>> model, text, mask = MSAN(shape, width=4), jnp.arange(1, 7).reshape(2, 3), jnp.ones((2, 3), bool)
    >>> question, answers = jnp.array([4, 5]), jnp.array([[3, 0], [8, 2]])
    >>> answered = lambda model: model.answer(model.memorize(text, mask)[0], question, answers)
    >>> logits, _ = model.init_with_output(jax.random.key(0), method=answered)
    >>> logits.shape
    (2,)
    """

    heads: int = 4
    does: ClassVar[str] = "MSAN looks for the moment of a candidate in the stream"

    def validate(self) -> None:
        super().validate()
        at_least(self, 1, "heads")
        check_multiple(self, "width", "heads")

    def setup(self):
        self.embed = nn.Embed(self.shape.items, self.width, dtype=self.dtype)
        self.text = BidirectionalGRU(self.width, self.width, self.dtype)
        self.moment = nn.Dense(self.width, dtype=self.dtype)
        self.moment_score = nn.Dense(1, use_bias=False, dtype=jnp.float32)
        self.within_words = AttentionBlock(self.width, self.heads, self.dtype)
        self.within_hypothesis = AttentionBlock(self.width, self.heads, self.dtype)
        self.from_words = AttentionBlock(self.width, self.heads, self.dtype)
        self.from_hypothesis = AttentionBlock(self.width, self.heads, self.dtype)
        self.joined = nn.Dense(self.width, dtype=self.dtype)
        self.score = nn.Dense(1, use_bias=False, dtype=jnp.float32)

    def memorize(
        self, stream: Int[Array, "T N"], mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        real = mask.reshape(-1)
        words = self.read(stream.reshape(-1), real)
        segments = mean_of_real(words.reshape(*stream.shape, -1), mask)
        values = jnp.concatenate([words, jnp.repeat(segments, stream.shape[1], axis=0)], axis=1)
        return Slots(values, real), jnp.zeros((), jnp.float32)

    def read(self, words: Int[Array, "L"], real: Bool[Array, "L"]) -> Float[Array, "L d"]:
        """The vector of each word of a text, which has seen the others; zeros for padding."""
        embedded = self.embed(words)
        _, states = self.text(embedded, real)
        return jnp.where(real[:, None], embedded.astype(jnp.float32) + states, 0)

    def answer(self, slots: Slots, query: Int[Array, "W"], candidates: Int[Array, "C W2"]) -> Float[Array, "C"]:
        logits = for_each(MSAN.logit, (None, None, 0))(self, slots, query, candidates)
        return jnp.where((candidates != 0).any(1), logits, -jnp.inf)

    def logit(self, slots: Slots, query: Int[Array, "W"], candidate: Int[Array, "W2"]) -> Float[Array, ""]:
        """That of one candidate."""
        hypothesis = jnp.concatenate([query, candidate])
        there = hypothesis != 0
        claimed = self.read(hypothesis, there)
        found = self.located(slots, mean_of_real(claimed, there))
        found = self.within_words(found.astype(self.dtype), slots.mask)
        claimed = self.within_hypothesis(claimed.astype(self.dtype), there)
        found, claimed = (
            self.from_words(found, there, claimed),
            self.from_hypothesis(claimed, slots.mask, found),
        )
        means = jnp.concatenate([mean_of_real(found, slots.mask), mean_of_real(claimed, there)])
        return self.score(nn.relu(self.joined(means)))[0]

    def located(self, slots: Slots, hypothesis: Float[Array, "d"]) -> Float[Array, "L d"]:
        """The words of the text, those of each segment as large as it is the moment of the hypothesis."""
        words, segments = jnp.split(slots.values, 2, axis=1)
        hypotheses = jnp.broadcast_to(hypothesis, segments.shape)
        joined = jnp.concatenate([segments, hypotheses, segments * hypothesis], axis=1)
        return nn.sigmoid(self.moment_score(nn.relu(self.moment(joined)))) * words
