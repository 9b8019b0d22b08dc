"""MemN2N over the sentences of a text, with which it ranks candidates that are texts."""

from itertools import pairwise
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import check_counts
from memjax.memories import Slots
from memjax.models.text_reader import TextReader
from memjax.ops.attention import accumulated
from memjax.typing import Array, Bool, Float, Int, Key


class MemN2NRanker(TextReader):
    """End-To-End Memory Networks (Sukhbaatar et al. 2015) that choose texts (Bordes et al. 2016, 1605.07683).

    A segment is a sentence. With `l_j` by `ops.position_weights`, i from the newest sentence, and adjacent tying,

        m_i^k = sum_j l_j A_k x_ij + T_k(i),    u_1 = sum_j l_j A_1 q_j
        u_{k+1} = u_k + sum_i softmax_i(u_k · m_i^k) m_i^{k+1}
        logit of candidate y = u_{K+1} · sum_j l_j A_{K+1} y_j

    As in `MemN2N` all parameters are drawn from N(0, 0.1), and l is twice the printed one. It differs where a
    vocabulary has thousands of words: they are looked up, and all sentences are held.

    It reads the text itself, and is a yardstick, not a memory.

    Args:
        shape: of a task whose candidates are texts of the words of its stream.
        width: of words and sentences; even.
        dtype: of the products.
        hops: K.

    >>> import jax
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(9, 2, 3, queries=9, query_words=2, answer="candidates", classes=2)
    >>> model, text, mask = MemN2NRanker(shape, width=4), jnp.arange(1, 7).reshape(2, 3), jnp.ones((2, 3), bool)
    >>> question, answers = jnp.array([4, 5]), jnp.array([[3, 0], [8, 2]])
    >>> answered = lambda model: model.answer(model.memorize(text, mask)[0], question, answers)
    >>> logits, _ = model.init_with_output(jax.random.key(0), method=answered)
    >>> logits.shape
    (2,)
    """

    hops: int = 3
    does: ClassVar[str] = "MemN2N embeds the words of a candidate as those of the stream"

    def validate(self) -> None:
        super().validate()
        check_counts(self, 1, "hops")

    def setup(self):
        normal, tables = nn.initializers.normal(0.1), self.hops + 1
        self.words = self.param("words", normal, (tables, self.shape.items, self.width))
        self.times = self.param("times", normal, (tables, self.shape.segments, self.width))

    def memorize(
        self, stream: Int[Array, "T N"], mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        slots, aux_loss = self.memorize_at(stream, mask, jnp.array([len(stream)]), key=key)
        return jax.tree.map(lambda leaf: leaf[0], slots), aux_loss

    def memorize_at(
        self, stream: Int[Array, "T N"], mask: Bool[Array, "T N"], after: Int[Array, "Q"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        embed = jax.vmap(jax.vmap(self.embed, (None, 0, 0)), (0, None, None), 1)
        sentences = embed(self.words, stream, mask)  # whenever it is asked; their ages differ
        real = mask.any(1) & (jnp.arange(len(mask)) < after[:, None])
        age = jnp.cumsum(real[:, ::-1], axis=1)[:, ::-1] - 1  # of the newest sentence 0
        rows = sentences + self.times[:, age].transpose(1, 2, 0, 3).astype(self.dtype)
        return Slots(rows.reshape(*real.shape, -1), real), jnp.zeros((), jnp.float32)

    def embed(self, words: Float[Array, "V d"], text: Int[Array, "N"], mask: Bool[Array, "N"]) -> Float[Array, "d"]:
        """A text by a table."""
        return 2 * ops.embed_sentence(words[text].astype(self.dtype), mask)

    def answer(self, slots: Slots, query: Int[Array, "W"], candidates: Int[Array, "C W2"]) -> Float[Array, "C"]:
        rows, asked = jnp.split(slots.values, self.hops + 1, axis=1), self.embed(self.words[0], query, query != 0)
        for keys, values in pairwise(rows):
            _, asked = ops.memory_hop(asked, keys, values, slots.mask)
        texts = jax.vmap(self.embed, (None, 0, 0))(self.words[-1], candidates, candidates != 0)
        return jnp.where((candidates != 0).any(1), accumulated(texts, asked), -jnp.inf)
