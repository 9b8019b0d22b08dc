"""Multi-Stream: subtitles matched with the question and with a candidate, read by an LSTM."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp

from memjax.memories import Slots
from memjax.memories.encoders import BidirectionalLSTM
from memjax.memories.memory import for_each
from memjax.models.text_reader import TextReader
from memjax.ops.attention import accumulated, masked_softmax
from memjax.typing import Array, Bool, Float, Int, Key


def matched(x: Float[Array, "L d"], y: Float[Array, "n d"], real: Bool[Array, "n"]) -> Float[Array, "L d"]:
    """Of each row of x, the rows of y as they match it: `G = softmax_rows(x y^T) y`; zeros where none of y is real.

    >>> matched(jnp.ones((1, 2)), jnp.array([[4.0, 0.0], [0.0, 4.0], [9.0, 9.0]]), jnp.array([True, True, False]))
    Array([[2., 2.]], dtype=float32)
    """
    weights = masked_softmax(accumulated(x, y.T), real, axis=1)
    return accumulated(weights.astype(x.dtype), y).astype(x.dtype)


class MultiStream(TextReader):
    """TVQA's Multi-Stream (Lei et al. 2018, 1809.01696), of which the subtitles' stream alone: there is no video here.

    One bidirectional LSTM reads the words of all subtitles end to end, `S`, those of the question, `q`, and those of a
    candidate, `a`. Where `G^{S,y} = softmax_rows(S y^T) y`, another one reads

        M = [S; G^{S,q}; G^{S,a}; S * G^{S,q}; S * G^{S,a}]
        logit = w · (maximum over the words of LSTM(M)) + b

    It reads the text itself, and is a yardstick, not a memory. Each candidate costs another pass of the second LSTM.

    Args:
        shape: of a task whose candidates are texts of the words of its stream.
        width: of words and states; even.
        dtype: of the products.

    >>> import jax
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(9, 2, 3, queries=9, query_words=2, answer="candidates", classes=2)
    >>> model, subtitles, mask = MultiStream(shape, width=4), jnp.arange(1, 7).reshape(2, 3), jnp.ones((2, 3), bool)
    >>> question, answers = jnp.array([4, 5]), jnp.array([[3, 0], [8, 2]])
    >>> answered = lambda model: model.answer(model.memorize(subtitles, mask)[0], question, answers)
    >>> logits, _ = model.init_with_output(jax.random.key(0), method=answered)
    >>> logits.shape
    (2,)
    """

    does: ClassVar[str] = "Multi-Stream matches the words of a candidate with those of the stream"

    def setup(self):
        self.embed = nn.Embed(self.shape.items, self.width, dtype=self.dtype)
        self.text = BidirectionalLSTM(self.width, self.width, self.dtype)
        self.fused = BidirectionalLSTM(self.width, 5 * self.width, self.dtype)
        self.score = nn.Dense(1, dtype=jnp.float32)

    def memorize(
        self, stream: Int[Array, "T N"], mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        real = mask.reshape(-1)
        return Slots(self.read(stream.reshape(-1), real), real), jnp.zeros((), jnp.float32)

    def read(self, words: Int[Array, "L"], real: Bool[Array, "L"]) -> Float[Array, "L d"]:
        """The state at each word of a text."""
        return self.text(self.embed(words), real)[1]

    def answer(self, slots: Slots, query: Int[Array, "W"], candidates: Int[Array, "C W2"]) -> Float[Array, "C"]:
        subtitles = slots.values.astype(self.dtype)
        asked = self.by_text(subtitles, query)
        each = for_each(MultiStream.logit, (None, None, None, 0))
        return jnp.where((candidates != 0).any(1), each(self, subtitles, slots.mask, asked, candidates), -jnp.inf)

    def by_text(self, subtitles: Float[Array, "L d"], text: Int[Array, "W"]) -> Float[Array, "L d"]:
        """The question, or a candidate, as it matches each word of the subtitles."""
        real = text != 0
        return matched(subtitles, self.read(text, real), real)

    def logit(
        self,
        subtitles: Float[Array, "L d"],
        real: Bool[Array, "L"],
        asked: Float[Array, "L d"],
        candidate: Int[Array, "W2"],
    ) -> Float[Array, ""]:
        """That of one candidate."""
        answered = self.by_text(subtitles, candidate)
        joined = [subtitles, asked, answered, subtitles * asked, subtitles * answered]
        _, states = self.fused(jnp.concatenate(joined, axis=1), real)
        largest = jnp.where(real[:, None], states, -jnp.inf).max(0)
        return self.score(jnp.where(real.any(), largest, 0))[0]
