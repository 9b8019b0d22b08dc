"""MemN2N, the End-To-End Memory Network (Sukhbaatar et al. 2015): a row for each sentence, read in hops."""

import math
from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import one_of
from memjax.errors import require, require_count
from memjax.memories import Slots
from memjax.ops.sentence_hops import Encoding, hop_over
from memjax.tasks.stream_task import TaskShape
from memjax.typing import Any, Array, Bool, Float, Int, Key, Literal

NOISE = 0.1


def answer_rows(vocabulary: Sequence[str], answers: Sequence[str]) -> tuple[int, ...]:
    """For each answer, its row of the output table W. An answer that is a word is that word's row.

    With adjacent tying W is the last embedding, so that a word of a sentence and the same word as an answer learn from
    each other. Any other answer, like "apple,milk" or a word that no sentence has, gets a row of its own behind the
    vocabulary: it is one more entry of the dictionary, which occurs in no sentence.

    Args:
        vocabulary: the words, padding first.
        answers: of the task.

    Returns:
        A row for each answer.

    >>> answer_rows(("<pad>", "apple", "milk"), ("apple,milk", "milk"))
    (3, 2)
    """
    rows = {word: row for row, word in enumerate(vocabulary)}
    return tuple(rows.setdefault(answer, len(rows)) for answer in answers)


def time_indices(count: Int[Array, ""], rows: int, limit: int, *, key: Key | None = None) -> Int[Array, "rows"]:
    """The time index of each of the last sentences, newest first, from 1.

    Random noise: with a key, 0 to `ceil(count / 10)` empty indices, as many as chance says, are put at random places
    among the sentences (before the newest and behind the oldest too; each arrangement is as likely as any other). They
    are indices that no sentence has: no row is added. The order of the sentences stays, and no index exceeds `limit`,
    which the oldest then share. Source: End-To-End Memory Networks, section 4.1, and its authors' code for the limit.

    Args:
        count: how many sentences there are; what is behind them is none.
        rows: how many indices are given.
        limit: the largest.
        key: for the noise.

    >>> import jax.numpy as jnp
    >>> time_indices(jnp.array(3), 4, 50).tolist()
    [1, 2, 3, 4]
    """
    ages = jnp.arange(1, rows + 1)
    if key is None:
        return ages
    for_number, for_place = jax.random.split(key)
    most = math.ceil(rows * NOISE)
    # 1 / NOISE is whole, and count * NOISE in floats may be a hair above a whole number.
    empties = jax.random.randint(for_number, (), 0, -(-count // round(1 / NOISE)) + 1)
    # The i-th empty index goes behind any of those that there are by then, or before all of them.
    behind = jax.random.randint(for_place, (most,), 0, count + jnp.arange(most) + 1)
    for i in range(most):
        ages = ages + ((i < empties) & (ages > behind[i]))
    return jnp.minimum(ages, limit)


class MemN2N(nn.Module):
    """Questions over sentences: `u = B q`; per hop `p = softmax(u · m_i)`, `u <- u + sum_i p_i c_i`; logits `W u`.

    A sentence is `m_i = sum_j l_j A_k x_ij + T_A(i)`, `c_i` the same with C and T_C (`ops.embed_sentence`); i is 1 for
    the newest. Source: End-To-End Memory Networks, sections 2 and 4.1. What is not in the paper but in its authors'
    code, and what its error depends on (`benchmarks/memory_networks.py`): rows that no sentence fills are zeros that
    have their share of the softmax; position weights are twice the printed ones, so that a word counts 1 on average, as
    in a bag; and with `places` they are `ops.centred_weights`, which know one J for all texts, with T_A and T_C weighed
    as a word is at the last place, behind the longest text.

    All parameters are drawn from N(0, 0.1); the row of padding is zero, and stays so.

    Args:
        shape: of a task whose answers are classes, and whose question is a text in the words of its stream.
        answers: for each class its row of W (`answer_rows`).
        width: of the embeddings.
        hops: how many.
        tying: "adjacent" (`A_{k+1} = C_k`, `W = C_K^T`, `B = A_1`, and the times like them) or "layer_wise" (one A and
            one C for all hops, B and W of their own, `u <- H u + o`).
        encoding: "position" or "bag".
        temporal: whether there are T_A and T_C.
        places: J of all texts; None for each text's own words.
        memory: how many of the last sentences are kept.
        dtype: of the products.

    Raises:
        MemjaxError: for what does not fit.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.models import MemN2N
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(items=9, segments=4, segment=5, queries=9, query_words=3, answer="classes", classes=2)
    >>> model = MemN2N(shape, answers=(7, 8), width=6, hops=3)  # the words 7 and 8 are the answers
    >>> stream, mask, query = jnp.ones((4, 5), int), jnp.ones((4, 5), bool), jnp.array([1, 2, 0])
    >>> params = model.init(jax.random.key(0), stream, mask, query)
    >>> model.apply(params, stream, mask, query).shape
    (2,)

    `memorize` and `answer` are those of every system here; `memorize` with a key adds random noise. `embed` and `ask`
    are the same in parts, for a batch whose examples keep their rows in one pool (`benchmarks/memn2n_pool.py`).
    """

    shape: TaskShape
    answers: tuple[int, ...]
    width: int
    hops: int
    tying: Literal["adjacent", "layer_wise"] = "adjacent"
    encoding: Encoding = "position"
    temporal: bool = True
    places: int | None = None
    memory: int = 50
    dtype: Any = jnp.float32

    def setup(self):
        self._check()
        adjacent = self.tying == "adjacent"
        normal = nn.initializers.normal(0.1)
        # Adjacent: A_1, C_1 = A_2, ..., C_K. Layer-wise: A, C, B, W.
        tables = self.hops + 1 if adjacent else 4
        self.words = self.param("words", _padding_at_zero(normal), (tables, self.entries, self.width))
        if self.temporal:
            self.times = self.param("times", normal, (self.tables, self.rows, self.width))
        if not adjacent:
            self.transition = self.param("transition", normal, (self.width, self.width))

    @property
    def entries(self) -> int:
        """The rows of W, which are the words and the answers that are none of them."""
        return max(self.shape.items, *(row + 1 for row in self.answers))

    @property
    def rows(self) -> int:
        """The most sentences in memory."""
        return min(self.memory, self.shape.segments)

    @property
    def tables(self) -> int:
        """How many embeddings a sentence has."""
        return self.hops + 1 if self.tying == "adjacent" else 2

    def __call__(
        self, stream: Int[Array, "T N"], mask: Bool[Array, "T N"], query: Int[Array, "W"]
    ) -> Float[Array, "C"]:
        return self.answer(self.memorize(stream, mask)[0], query)

    def memorize(
        self, stream: Int[Array, "T N"], mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        """Reads the stream once.

        Args:
            stream: word ids of its sentences.
            mask: which of them are no padding.
            key: for random noise in the time indices.

        Returns:
            A row for each of the last sentences, newest first: all its embeddings, side by side; and a loss, 0.
        """
        expected = self.shape.segments, self.shape.segment
        require(
            stream.shape == mask.shape == expected,
            f"a stream and its mask are {list(expected)}, one story padded, not {list(stream.shape)} and "
            f"{list(mask.shape)}; jax.vmap is for several",
        )
        real = mask.any(1)
        age = jnp.cumsum(real[::-1])[::-1]
        newest = jnp.argsort(jnp.where(real, age, len(real) + 1))[: self.rows]
        weights = jax.vmap(self.weigh)(stream[newest], mask[newest])
        times = time_indices(real.sum().clip(max=self.rows), self.rows, self.rows, key=key)
        return Slots(self.embed(weights, times), real[newest]), jnp.zeros((), jnp.float32)

    def answer(
        self, slots: Slots, query: Int[Array, "W"], candidates: Int[Array, "C W"] | None = None
    ) -> Float[Array, "C"]:
        """Logits of the classes; the stream is not an argument.

        Args:
            slots: of `memorize`.
            query: word ids, 0 padding.
            candidates: must be None.
        """
        require(candidates is None, "MemN2N answers with a word, not with one of several candidates")
        logits = self.ask(slots.values, slots.mask, self.weigh(query, query != 0))
        return logits[jnp.array(self.answers)]

    def weigh(self, ids: Int[Array, "N"], mask: Bool[Array, "N"]) -> Float[Array, "2 V"]:
        """A text as `ops.sentence_weights`, which nothing that is learned changes; by position, twice as large."""
        if self.places is not None:
            return ops.centred_sentence_weights(
                jnp.where(mask, ids, 0), mask, self.shape.items, self.width, self.places
            )
        weights = ops.sentence_weights(jnp.where(mask, ids, 0), mask, self.shape.items, encoding=self.encoding)
        return weights * (2 if self.encoding == "position" else 1)

    def embed(self, weights: Float[Array, "R 2 V"], times: Int[Array, "R"]) -> Float[Array, "R F"]:
        """Sentences given by `weigh` and time index as rows: the embeddings of each, `tables * width` numbers."""
        embedded = _embed_all(self.words[: self.tables, : self.shape.items], weights.astype(self.dtype))
        if self.temporal:
            clock = jax.nn.one_hot(times - 1, self.rows, dtype=embedded.dtype)
            ages = self.times
            if self.places is not None:
                ages = ages * ops.centred_weights(jnp.ones(self.places, bool), self.width, self.places)[-1]
            embedded = embedded + jnp.einsum("rm,tmd->rtd", clock, ages)
        return embedded.reshape(len(times), self.tables * self.width).astype(self.dtype)

    def ask(
        self,
        values: Float[Array, "R F"],
        mask: Bool[Array, "R"],
        weights: Float[Array, "2 V"],
        *,
        linear: bool | Bool[Array, ""] = False,
    ) -> Float[Array, "E"]:
        """Logits over all entries of W, after the hops; padding is no answer.

        Args:
            values: the rows.
            mask: which of them there are.
            weights: of the question, by `weigh`.
            linear: without the softmax in the hops (linear start), which may differ from example to example.
        """
        adjacent = self.tying == "adjacent"
        query_table = self.words[0 if adjacent else 2, : self.shape.items]
        query = ops.embed_weights(query_table, weights.astype(self.dtype))
        rows = values.reshape(len(values), self.tables, self.width)
        transition, empty = None if adjacent else self.transition, self.rows - mask.sum()
        for hop in range(self.hops):
            keys, read = (rows[:, hop], rows[:, hop + 1]) if adjacent else (rows[:, 0], rows[:, 1])
            _, query = hop_over(query, keys, read, mask, transition=transition, linear=linear, empty=empty)
        logits = jnp.matmul(self.words[-1], query, preferred_element_type=jnp.float32)
        return jnp.where(jnp.arange(len(logits)) == 0, jnp.finfo(jnp.float32).min, logits)

    def _check(self) -> None:
        shape = self.shape
        one_of(self, ("adjacent", "layer_wise"), "tying")
        one_of(self, ("position", "bag"), "encoding")
        for name in ("width", "hops", "memory"):
            require_count(f"{name} of MemN2N", getattr(self, name))
        if self.places is not None:
            longest = max(shape.segment, shape.query_words or 0)
            require(
                self.encoding == "position" and self.places > longest,
                f"places are for encoding position, and more than the {longest} words of the longest text",
            )
        require(shape.answer == "classes", f"MemN2N needs answers that are classes, not {shape.answer}")
        require(
            shape.query_words is not None and shape.queries == shape.items,
            "MemN2N needs questions that are texts in the words of the stream",
        )
        require(
            len(self.answers) == shape.classes and min(self.answers) >= 1,
            f"answers must have a row of at least 1 for each of the {shape.classes} classes; see answer_rows",
        )


_embed_all = jax.vmap(jax.vmap(ops.embed_weights, (0, None)), (None, 0))


def _padding_at_zero(initializer):
    def init(key, shape, dtype=jnp.float32):
        return initializer(key, shape, dtype).at[:, 0].set(0)

    return init
