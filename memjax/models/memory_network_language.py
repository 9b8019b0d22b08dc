"""MemN2N's language model (Sukhbaatar et al. 2015): the last words are the memory, the question is a constant."""

from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.checks import check_shares
from memjax.errors import require, require_count
from memjax.layers.stream_state import checked_state
from memjax.layers.window_attention import FAR
from memjax.models.tokens import check_tokens
from memjax.typing import Any, Array, Bool, Float, Int

QUESTION = 0.1  # every number of the first query, which is learned nowhere


class WordsState(NamedTuple):
    """The last M words, the newest last, and how many of them there are."""

    words: Int[Array, "M"]
    seen: Int[Array, ""]


class MemN2NLanguage(nn.Module):
    """Logits of the next word: `u_0 = .1`, K times `u <- f(H u + sum_i softmax_i(u · m_i) c_i)`, then `W u`.

    Word i of the last `memory`, i = 1 the newest, is `m_i = A x_i + T_A(i)`, `c_i = C x_i + T_C(i)`; f is a ReLU on the
    second half of the units. All hops share A, C and H (layer-wise tying). Weights are drawn from N(0, 0.05).

    One example, of any length in any number of calls: the state, `memory` words, goes in and comes out. Time O(hops *
    memory) for a word. Source: End-To-End Memory Networks, sections 2 and 5.

    Args:
        vocabulary: token ids are below it.
        width: of the embeddings.
        hops: K.
        memory: how many words are kept.
        dropout: the share of what is read of A and C, and of the last u, that training zeroes; the paper has none.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> model = MemN2NLanguage(vocabulary=10, width=8, hops=2, memory=4)
    >>> tokens = jnp.arange(6)
    >>> params = model.init(jax.random.key(0), tokens)
    >>> logits, state = model.apply(params, tokens)
    >>> logits.shape, state.words.tolist()
    ((6, 10), [2, 3, 4, 5])
    """

    vocabulary: int
    width: int
    hops: int
    memory: int
    dropout: float = 0.0
    dtype: Any = jnp.float32

    def setup(self):
        for name in ("vocabulary", "width", "hops", "memory"):
            require_count(name, getattr(self, name))
        check_shares(self, "dropout")
        weights = partial(self.param, init_fn=nn.initializers.normal(0.05))
        words, times = (self.vocabulary, self.width), (self.memory, self.width)
        self.key_words, self.key_times = weights("key_words", shape=words), weights("key_times", shape=times)
        self.value_words, self.value_times = weights("value_words", shape=words), weights("value_times", shape=times)
        self.transition = weights("transition", shape=(self.width, self.width))
        self.out = weights("out", shape=words)
        self.drop = nn.Dropout(self.dropout)

    def initial_state(self) -> WordsState:
        return WordsState(jnp.zeros(self.memory, jnp.int32), jnp.zeros((), jnp.int32))

    def __call__(
        self,
        tokens: Int[Array, "L"],
        state: WordsState | None = None,
        *,
        at: Int[Array, "A"] | None = None,
        reset: Bool[Array, "L"] | None = None,
        train: bool = False,
    ) -> tuple[Float[Array, "A V"], WordsState]:
        """Logits of the token after each, and the state.

        Args:
            tokens: of one sequence.
            state: to go on from.
            at: the places whose logits are wanted, if not those of all.
            reset: it has no documents in a row.
            train: whether there is dropout, which needs the rng "dropout".
        """
        check_tokens(tokens, self.vocabulary)
        state = checked_state(state, self.initial_state())
        require(reset is None, "reset is not for MemN2N; give each document a row of its own")
        state = self.initial_state() if state is None else state
        length = tokens.shape[0]
        words = jnp.concatenate([state.words, tokens.astype(jnp.int32)])
        drop = partial(self.drop, deterministic=not train)
        keys, values = (drop(table.astype(self.dtype)[words]) for table in (self.key_words, self.value_words))
        # Token l sees the rows l + 1 to l + M: itself and those before it, but none from before the stream.
        real = jnp.arange(1, length + self.memory) >= self.memory - state.seen
        queries = jnp.full((length, self.width), QUESTION, self.dtype)
        for _ in range(self.hops):
            queries = self._hop(queries, keys[1:], values[1:], real)
        queries = queries if at is None else queries[at]
        logits = jnp.matmul(drop(queries), self.out.astype(self.dtype).T, preferred_element_type=jnp.float32)
        seen = jnp.minimum(state.seen + length, self.memory)
        return logits, WordsState(words[length:], seen)

    def _hop(
        self,
        queries: Float[Array, "L d"],
        keys: Float[Array, "R d"],
        values: Float[Array, "R d"],
        real: Bool[Array, "R"],
    ) -> Float[Array, "L d"]:
        """One hop of every position; row l + j is the j-th that position l sees, oldest first, `R = L + M - 1`."""
        exact = partial(jnp.matmul, preferred_element_type=jnp.float32)
        key_times, value_times = (times[::-1].astype(self.dtype) for times in (self.key_times, self.value_times))
        scores = _to_window(jnp.where(real, exact(queries, keys.T), FAR), self.memory)
        shares = jax.nn.softmax(scores + exact(queries, key_times.T)).astype(self.dtype)
        read = exact(_to_rows(shares), values) + exact(shares, value_times)
        after = exact(queries, self.transition.astype(self.dtype).T) + read
        half = self.width // 2
        return jnp.concatenate([after[:, :half], nn.relu(after[:, half:])], axis=1).astype(self.dtype)


def _to_window(scores: Float[Array, "L R"], memory: int) -> Float[Array, "L M"]:
    """`out[l, j] = scores[l, l + j]`: along the diagonals, by reshaping alone (a gather has a slow gradient)."""
    length, rows = scores.shape
    return jnp.pad(scores.ravel(), (0, length)).reshape(length, rows + 1)[:, :memory]


def _to_rows(shares: Float[Array, "L M"]) -> Float[Array, "L R"]:
    """The inverse: `out[l, l + j] = shares[l, j]`, 0 elsewhere."""
    length, memory = shares.shape
    rows = length + memory - 1
    return jnp.pad(shares, ((0, 0), (0, length))).ravel()[: length * rows].reshape(length, rows)
