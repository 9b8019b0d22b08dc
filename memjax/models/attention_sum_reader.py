"""AS Reader: attention over the words of a text, summed over the places where a word of the answer stands."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp

from memjax.memories import Slots
from memjax.memories.encoders import BidirectionalGRU
from memjax.models.text_reader import TextReader
from memjax.ops.attention import masked_softmax
from memjax.typing import Array, Bool, Float, Int, Key

SMALLEST = 1e-6  # what a candidate has none of whose words stands in the text


class AttentionSumReader(TextReader):
    """The Attention Sum Reader (Kadlec et al. 2016, 1603.01547); candidates of several words as in Rehearsal Memory.

    A bidirectional GRU over all words of the text gives `f_i`; the last states of another one over the question, of the
    same embeddings, are `g`:

        s = softmax_i(f_i · g)
        p(w) = sum of s_i over the places i at which the word w stands
        score of a candidate = mean of p over its words,    logit = log(score + 1e-6)

    All words that training has too seldom are one word here, with one id: one of a candidate stands wherever any does.
    It reads the text itself, and is a yardstick, not a memory. What it keeps of a word is its state, and behind it the
    word's id.

    Args:
        shape: of a task whose candidates are texts of the words of its stream.
        width: of words and states; even.
        dtype: of the products.

    >>> import jax
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(9, 2, 3, queries=9, query_words=2, answer="candidates", classes=2)
    >>> model, story, mask = AttentionSumReader(shape, width=4), jnp.arange(1, 7).reshape(2, 3), jnp.ones((2, 3), bool)
    >>> question, answers = jnp.array([4, 5]), jnp.array([[3, 0], [8, 2]])
    >>> answered = lambda model: model.answer(model.memorize(story, mask)[0], question, answers)
    >>> logits, _ = model.init_with_output(jax.random.key(0), method=answered)
    >>> logits.shape
    (2,)
    """

    does: ClassVar[str] = "the AS Reader finds words of an answer in the stream"

    def setup(self):
        self.embed = nn.Embed(self.shape.items, self.width, dtype=self.dtype)
        self.text = BidirectionalGRU(self.width, self.width, self.dtype)
        self.question = BidirectionalGRU(self.width, self.width, self.dtype)

    def memorize(
        self, stream: Int[Array, "T N"], mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        words, real = stream.reshape(-1), mask.reshape(-1)
        _, states = self.text(self.embed(words), real)
        values = jnp.concatenate([states.astype(jnp.float32), words[:, None].astype(jnp.float32)], axis=1)
        return Slots(values, real), jnp.zeros((), jnp.float32)

    def answer(self, slots: Slots, query: Int[Array, "W"], candidates: Int[Array, "C W2"]) -> Float[Array, "C"]:
        states, words = slots.values[:, :-1], slots.values[:, -1].astype(jnp.int32)
        asked, _ = self.question(self.embed(query), query != 0)
        attention = masked_softmax(states @ asked.astype(jnp.float32), slots.mask, axis=0)
        of_word = jnp.zeros(self.shape.items).at[words].add(attention)
        real = candidates != 0
        score = jnp.where(real, of_word[candidates], 0).sum(1) / jnp.maximum(real.sum(1), 1)
        return jnp.where(real.any(1), jnp.log(score + SMALLEST), -jnp.inf)
