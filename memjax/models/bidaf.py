"""BiDAF: attention between a text and a question, both ways, and where in the text the answer begins and ends."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.checks import at_least, check_shares
from memjax.errors import require
from memjax.memories.encoders import BidirectionalGRU
from memjax.memories.memory import for_each
from memjax.ops.attention import masked_softmax
from memjax.tasks.words import PAD, UNKNOWN
from memjax.typing import Array, Float, Int, Key

NOWHERE = -1e30  # the logit of what is no word: unlike -inf it is never NaN


class SpanLogits(NamedTuple):
    """Of each word of a text the logits that the answer begins and that it ends there.

    Attributes:
        first: that it begins.
        last: that it ends.
    """

    first: Float[Array, "J"]
    last: Float[Array, "J"]


class BiDAF(nn.Module):
    """Bidirectional Attention Flow (Seo et al. 2017, 1611.01603), of words without their characters, with GRUs.

    Words of the text and of the question are embedded alike and read by one bidirectional GRU: h_j and u_i. The text
    is read block by block, each on its own, so that it may be read before anybody knows which blocks are left.

        s_ji = w · [h_j; u_i; h_j * u_i]
        u~_j = sum_i softmax_i(s_ji) u_i,    h~ = sum_j softmax_j(max_i s_ji) h_j
        g_j = [h_j; u~_j; h_j * u~_j; h_j * h~; e_j],    e_j = 1 if word j is one of the question's, else 0
        M = GRUs over G,    M2 = GRU over M,    first_j = w_1 · [g_j; m_j],    last_j = w_2 · [g_j; m2_j]

    The vectors of words are not trained, as the paper's are not: of few questions they are memorised. Where they
    come from is the caller's choice (`memjax.tasks.word_vectors`); they begin at random. The paper has LSTMs, a CNN
    over characters, two layers in M, and width 200, and no e: that is the exact match of DrQA (Chen et al. 2017,
    1704.00051), by which words are found that have no vector of their own.

    Args:
        words: ids from there on are read as the unknown word.
        width: of the embeddings and of all states; even.
        layers: of the GRUs of M.
        dropout: the share of the inputs of all layers that is dropped where there is a key, for all words the same
            (Gal and Ghahramani 2016, 1512.05287): drawing for each word would take a CPU longer than the rest. The
            paper has .2, for each word.

    >>> model, blocks = BiDAF(words=9, width=4, layers=1, dropout=0.0), jnp.array([[2, 3], [4, 0]])
    >>> logits, _ = model.init_with_output(jax.random.key(0), blocks, jnp.array([3, 5, 0]))
    >>> logits.first.shape
    (4,)
    """

    words: int
    width: int
    layers: int
    dropout: float

    def setup(self):
        at_least(self, 2, "words", "width")
        at_least(self, 1, "layers")
        require(self.width % 2 == 0, f"width must be even, not {self.width}")
        check_shares(self, "dropout")
        width = self.width
        self.embed = nn.Embed(self.words, width)
        self.contextual = BidirectionalGRU(width, width)
        self.of_text, self.of_question, self.of_product = (
            self.param(name, nn.initializers.normal(width**-0.5), (width,))
            for name in ("of_text", "of_question", "of_product")
        )
        self.modelling = [BidirectionalGRU(width, width if layer else 4 * width + 1) for layer in range(self.layers)]
        self.ending = BidirectionalGRU(width, width)
        self.begins, self.ends = nn.Dense(1), nn.Dense(1)
        self.drop, self.drop_blocks = (nn.Dropout(self.dropout, broadcast_dims=axes) for axes in ((0,), (0, 1)))

    def __call__(self, blocks: Int[Array, "T N"], query: Int[Array, "W"], key: Key | None = None) -> SpanLogits:
        """Where in blocks, one after another, an answer begins and ends.

        Args:
            blocks: ids of words, 0 where there is none.
            query: as of `answer`.
            key: to drop inputs with.
        """
        text_key, answer_key = (None, None) if key is None else jax.random.split(key)
        _, states = self.read(blocks, text_key)
        words = blocks.reshape(-1)
        return self.answer(states.reshape(len(words), -1), words, query, answer_key)

    def read(
        self, blocks: Int[Array, "T N"], key: Key | None = None
    ) -> tuple[Float[Array, "T d"], Float[Array, "T N d"]]:
        """h, and of each block the last states of its two GRUs.

        Args:
            blocks: ids of words, 0 where there is none.
            key: to drop inputs with.
        """
        embedded = jax.lax.stop_gradient(self.embed(jnp.where(blocks < self.words, blocks, UNKNOWN)))
        embedded = self.drop_blocks(embedded, deterministic=key is None, rng=key)
        return for_each(BidirectionalGRU.__call__)(self.contextual, embedded, blocks != PAD)

    def similarity(self, text: Float[Array, "J d"], question: Float[Array, "W d"]) -> Float[Array, "J W"]:
        """s: of each vector of a text and each of a question.

        Args:
            text: h.
            question: u.
        """
        both = (text * self.of_product) @ question.T
        return (text @ self.of_text)[:, None] + (question @ self.of_question)[None, :] + both

    def answer(
        self, text: Float[Array, "J d"], words: Int[Array, "J"], query: Int[Array, "W"], key: Key | None = None
    ) -> SpanLogits:
        """Where an answer begins and ends.

        Args:
            text: h, of at least one word.
            words: their ids, 0 where there is none.
            query: ids of the words of the question, 0 behind them.
            key: to drop inputs with.
        """
        keys = [None] * (self.layers + 4) if key is None else list(jax.random.split(key, self.layers + 4))
        _, question = jax.tree.map(lambda states: states[0], self.read(query[None], keys.pop()))
        mask, real = words != PAD, query != PAD
        text = jnp.where(mask[:, None], text, 0)
        scores = self.similarity(text, question)
        asked = masked_softmax(scores, real[None, :], axis=1) @ question
        strongest = jnp.where(real, scores, NOWHERE).max(1)
        summed = masked_softmax(strongest, mask, axis=0) @ text
        same = (mask[:, None] & (words[:, None] == query)).any(1, keepdims=True).astype(text.dtype)
        flow = jnp.concatenate([text, asked, text * asked, text * summed, same], axis=1)
        states = flow

        def dropped(x: Array) -> Array:
            return self.drop(x, deterministic=key is None, rng=keys.pop())

        for layer in self.modelling:
            _, states = layer(dropped(states), mask)
        _, ending = self.ending(dropped(states), mask)

        def logits(head: nn.Dense, states: Array) -> Array:
            both = dropped(jnp.concatenate([flow, states], axis=1))
            return jnp.where(mask, head(both)[:, 0], NOWHERE)

        return SpanLogits(logits(self.begins, states), logits(self.ends, ending))


def best_span(logits: SpanLogits, longest: int) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The likeliest span: of `first <= last < first + longest` that with the largest sum of logits.

    Args:
        logits: of a text.
        longest: the most words that a span may have.

    Returns:
        The places of its first and its last word.

    >>> logits = SpanLogits(jnp.array([0.0, 3.0, 0.0]), jnp.array([3.5, 0.0, 1.0]))
    >>> [int(place) for place in best_span(logits, 2)]
    [1, 2]
    """
    count = logits.first.shape[0]
    lasts = jnp.pad(logits.last, (0, longest - 1), constant_values=NOWHERE)
    sums = jnp.stack([logits.first + lasts[more : more + count] for more in range(longest)], axis=1)
    best = sums.argmax()
    return best // longest, best // longest + best % longest
