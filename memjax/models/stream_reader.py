"""LEMN: a MemN2N whose memory is a buffer of few entries, a policy that says what leaves it, and a critic."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least, one_of
from memjax.errors import require
from memjax.memories.eviction import BaseView
from memjax.memories.memory import scan_module
from memjax.memories.policies import policies
from memjax.memories.weights import glorot_gru_params
from memjax.models.buffer_step import Carry, Entry, buffer_step, empty_carry
from memjax.models.memory_network import MemN2N
from memjax.tasks.stream_task import TaskShape
from memjax.typing import Array, Bool, Float, Int, Key


class Read(NamedTuple):
    """What a stream gave, step by step.

    Attributes:
        logits: of the answers, where there was a question; zeros elsewhere.
        acted: whether something had to be evicted that a policy learns about.
        log_prob: of the eviction.
        entropy: of the eviction.
        value: the critic's.
        entries: the step at which each entry came, -1 for none, before the line of the step was written.
        eviction: each entry's probability to be evicted.
    """

    logits: Float[Array, "T C"]
    acted: Bool[Array, "T"]
    log_prob: Float[Array, "T"]
    entropy: Float[Array, "T"]
    value: Float[Array, "T"]
    entries: Int[Array, "T N"]
    eviction: Float[Array, "T N"]


class StreamReader(nn.Module):
    """Reads lines one by one: a question is answered from the buffer as it is, then written like any other line.

    The base is a `MemN2N` of `hops` hops with adjacent tying and position encoding, whose time index is an entry's
    place from the newest. Entries are encoded, for the policy, by its first hop's values. Critic: sum of the encodings
    of what may be evicted (so of IM's own cell in place of the line), linear, GRU over time, linear. Source: LEMN, 3
    and 4.2.

    ::

        rows = answer_rows(task.vocabulary, task.answers)
        reader = StreamReader(shape.words, shape.line, shape.questions, rows, 20, 3, 5, "st")
        params = reader.init(key, task.lines, line, asked, key)
        read = reader.apply(params, task.lines, line, asked, key)    # draws what is evicted
        read = reader.apply(params, task.lines, line, asked)         # the likeliest is evicted

    Args:
        words: as of an `EpisodeShape`.
        line: as of an `EpisodeShape`.
        questions: as of an `EpisodeShape`; what is asked beyond that many is not answered.
        answers: for each class its row of the output table (`answer_rows`).
        width: of the embeddings.
        hops: of the network that answers.
        entries: N, how many lines are held. The network has N + 1 rows, and at each hop attends to at least one empty
            one besides, in which it may look where no line tells.
        policy: one of `memories.policies.policies`.
        nop: whether the line itself may be evicted.
    """

    words: int
    line: int
    questions: int
    answers: tuple[int, ...]
    width: int
    hops: int
    entries: int
    policy: str
    nop: bool = True

    def setup(self):
        at_least(self, 1, "width", "hops", "entries")
        require(len(self.answers) > 0, "a reader needs at least one answer")
        one_of(self, policies, "policy")
        rows = self.entries + 1  # the line itself is one of the candidates
        shape = TaskShape(self.words, rows, self.line, self.words, self.line, "classes", len(self.answers))
        self.base = MemN2N(shape, self.answers, self.width, self.hops, memory=rows)
        # Their names in checkpoints are those of the first version.
        self.evictor = policies[self.policy](self.width, name="chooses")
        self.critic_in = nn.Dense(self.width, name="expects")
        self.value_head = nn.Dense(1, name="worth")
        self.critic = glorot_gru_params(self, "critic", self.width, self.width)
        self.own = self.evictor.own(self._declare_own)

    def _declare_own(self) -> tuple[ops.GRUParams, Array]:
        """How IM reads a line as a question, and its own cell."""
        words = glorot_gru_params(self, "words", self.width, self.width)
        return words, self.param("nothing", nn.initializers.normal(0.1), (self.base.tables, self.width))

    def __call__(
        self, lines: Int[Array, "U W"], line: Int[Array, "T"], asked: Bool[Array, "T"], key: Key | None = None
    ) -> Read:
        """lines: the words of all distinct lines, row 0 padding. line: the stream, 0 behind its end."""
        weights = jax.vmap(self.base.weigh)(lines, lines != 0)
        rows = self.base.embed(weights, jnp.zeros(lines.shape[0], jnp.int32)).reshape(len(lines), -1, self.width)
        seen = self.evictor.seen(rows, rows[:, 1:2])
        inputs = rows[:, 0] if self.own is None else self._by_words(lines)  # of a line as a question: B = A_1
        keys = None if key is None else jax.random.split(key, line.shape[0])
        start = empty_carry(self, seen[0], jnp.zeros(self.width))
        steps = seen[line], inputs[line], line != 0, asked, keys
        _, steps = scan_module(StreamReader._step, self)(self, start, steps)
        *_, entries, _ = steps
        return Read(self._answers(rows, weights, line, asked, entries), *steps)

    def _answers(
        self,
        rows: Float[Array, "U F d"],
        weights: Float[Array, "U 2 V"],
        line: Int[Array, "T"],
        asked: Bool[Array, "T"],
        entries: Int[Array, "T N"],
    ) -> Float[Array, "T C"]:
        """What is answered at each step that asks, of all of them at once: who is in the buffer is known by now."""
        steps = line.shape[0]
        places = jnp.nonzero(asked, size=self.questions, fill_value=steps)[0]

        def answer(place: Int[Array, ""]) -> Float[Array, "C"]:
            held = entries[jnp.minimum(place, steps - 1)]
            filled = held >= 0
            timed = self._timed(rows[line[held]], filled.sum() - jnp.arange(self.entries))
            question = weights[line[jnp.minimum(place, steps - 1)]]
            return self.base.ask(timed.reshape(self.entries, -1), filled, question)[jnp.array(self.answers)]

        return jax.nn.one_hot(places, steps).T @ jax.vmap(answer)(places)

    def _by_words(self, lines: Int[Array, "U W"]) -> Float[Array, "U d"]:
        """Every line as a question: the last state of a GRU over its words (IM-LEMN)."""
        words = jax.nn.one_hot(lines, self.words) @ self.base.words[0, : self.words]
        begin = jnp.zeros(self.width)
        return jax.vmap(lambda x, mask: ops.gru_scan(self.own[0], begin, x, mask)[0])(words, lines != 0)

    def _step(self, carry: Carry, inputs) -> tuple[Carry, tuple[Array, ...]]:
        seen, input, real, asked, key = inputs
        filled = jnp.arange(self.entries) < carry.buffer.filled
        view = partial(self._view, carry, input=input, asked=asked, filled=filled)
        after, did, eviction = buffer_step(self, carry, seen, real, key, view)
        return after, (*did, jnp.where(filled, carry.buffer.entries.step, -1), eviction)

    def _view(
        self,
        carry: Carry,
        new: Entry,
        input: Float[Array, "d"],
        asked: Bool[Array, ""],
        filled: Bool[Array, "N"],
    ) -> BaseView:
        """What the policy may ask: of the candidates the last is the newest, whose time index is 1."""
        (entries, count), places = carry.buffer, jnp.arange(self.entries)

        def candidates(last: Entry, ask: Callable) -> tuple[Float[Array, "M d"], Float[Array, "M"] | None]:
            times = jnp.append(count + 1 - places, 1)
            rows = self._timed(jnp.append(entries.seen, last.seen[None], axis=0), times)
            logits = ask(lambda: self._attention(rows, jnp.append(filled, True), input))
            return rows[:, 1 if rows.shape[1] == self.base.tables else 0], logits

        def attended() -> Bool[Array, "N"]:
            # Of the entries alone, the newest has time index 1.
            logits = self._attention(self._timed(entries.seen, count - places), filled, input)
            attention = jnp.where(filled, logits, -jnp.inf)
            return asked & filled & (attention == attention.max())

        return BaseView(
            input=input,
            mask=jnp.append(filled, self.nop),
            nop=self.nop,
            nothing=carry.nothing,
            own_cell=lambda: new._replace(seen=self.own[1]),
            candidates=candidates,
            attended=attended,
        )

    def _timed(self, rows: Float[Array, "R S d"], times: Int[Array, "R"]) -> Float[Array, "R S d"]:
        """Embeddings with those of their time indices, from 1; of all tables, or of the first values alone."""
        clocks = self.base.times if rows.shape[1] == self.base.tables else self.base.times[1:2]
        return rows + jnp.einsum("rm,tmd->rtd", jax.nn.one_hot(times - 1, self.base.rows), clocks)

    def _attention(
        self, rows: Float[Array, "R F d"], mask: Bool[Array, "R"], query: Float[Array, "d"]
    ) -> Float[Array, "R"]:
        """The scores of the hops of a question, their mean."""
        total = jnp.zeros(len(rows))
        for hop in range(self.hops):
            total = total + rows[:, hop] @ query
            _, query = ops.memory_hop(query, rows[:, hop], rows[:, hop + 1], mask, empty=self.base.rows - mask.sum())
        return total / self.hops
