"""LEMN: a MemN2N whose memory is a buffer of few entries, a policy that says what leaves it, and a critic."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.errors import require, unknown
from memjax.memories.policies import Candidates, gru_params, policies
from memjax.models.memory_network import MemN2N
from memjax.tasks.stream_task import TaskShape
from memjax.typing import Array, Bool, Float, Int, Key


class Entry(NamedTuple):
    """What is kept of a line: what the policy sees of it, what it keeps with it, when it was used, when it came."""

    seen: Float[Array, "S d"]
    kept: Float[Array, "k"]
    used: Int[Array, ""]
    step: Int[Array, ""]


class Read(NamedTuple):
    """What a stream gave, step by step. logits: of the answers, where there was a question; zeros elsewhere.

    acted: whether something had to go. log_prob, entropy: of what went. value: the critic's. entries: the step at which
    each entry came, -1 for none, before the line of the step was written. eviction: each entry's probability to go.
    """

    logits: Float[Array, "T C"]
    acted: Bool[Array, "T"]
    log_prob: Float[Array, "T"]
    entropy: Float[Array, "T"]
    value: Float[Array, "T"]
    entries: Int[Array, "T N"]
    eviction: Float[Array, "T N"]


class _Step(NamedTuple):
    """As `Read`, of one step; answers come later."""

    acted: Bool[Array, ""]
    log_prob: Float[Array, ""]
    entropy: Float[Array, ""]
    value: Float[Array, ""]
    entries: Int[Array, "N"]
    eviction: Float[Array, "N"]


class _Carry(NamedTuple):
    buffer: ops.Buffer
    nothing: Float[Array, "k"]  # what the policy keeps with a cell of its own
    critic: Float[Array, "d"]
    step: Int[Array, ""]


class StreamReader(nn.Module):
    """Reads lines one by one: a question is answered from the buffer as it is, then written like any other line.

    The base is a `MemN2N` of `hops` hops with adjacent tying and position encoding, whose time index is an entry's
    place from the newest. Entries are encoded, for the policy, by its first hop's values. Critic: sum of the encodings
    of what may go (so of IM's own cell in place of the line), linear, GRU over time, linear. Source: LEMN, 3 and 4.2.

        rows = answer_rows(task.vocabulary, task.answers)
        reader = StreamReader(shape.words, shape.line, shape.questions, rows, 20, 3, 5, "st")
        params = reader.init(key, task.lines, line, asked, key)
        read = reader.apply(params, task.lines, line, asked, key)    # samples what goes
        read = reader.apply(params, task.lines, line, asked)         # the likeliest goes

    Args:
        words: as of an `EpisodeShape`.
        line: as of an `EpisodeShape`.
        questions: as of an `EpisodeShape`; what is asked beyond that many is not answered.
        answers: for each class its row of the output table (`answer_rows`).
        width: of the embeddings.
        hops: of the network that answers.
        entries: N, how many lines are held.
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
        for name in ("width", "hops", "entries"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
        require(len(self.answers) > 0, "a reader needs at least one answer")
        if self.policy not in policies:
            raise unknown("policy", self.policy, policies)
        rows = self.entries + 1  # the line itself is one of the candidates
        shape = TaskShape(self.words, rows, self.line, self.words, self.line, "classes", len(self.answers))
        self.base = MemN2N(shape, self.answers, self.width, self.hops, memory=rows)
        self.chooses = policies[self.policy](self.width)
        self.expects = nn.Dense(self.width)
        self.worth = nn.Dense(1)
        self.critic = gru_params(self, "critic", self.width, self.width)
        if self.chooses.own_cell:
            self.reads_words = gru_params(self, "words", self.width, self.width)
            self.nothing = self.param("nothing", nn.initializers.normal(0.1), (self.base.tables, self.width))

    def __call__(
        self, lines: Int[Array, "U W"], line: Int[Array, "T"], asked: Bool[Array, "T"], key: Key | None = None
    ) -> Read:
        """lines: the words of all distinct lines, row 0 padding. line: the stream, 0 behind its end."""
        weights = jax.vmap(self.base.weigh)(lines, lines != 0)
        rows = self.base.embed(weights, jnp.zeros(lines.shape[0], jnp.int32)).reshape(len(lines), -1, self.width)
        seen = rows if self.attends else rows[:, 1:2]
        inputs = self._inputs(lines) if self.chooses.own_cell else rows[:, 0]  # of a line as a question: B = A_1
        keys = None if key is None else jax.random.split(key, line.shape[0])
        scan = nn.scan(StreamReader._step, variable_broadcast="params", split_rngs={"params": False})
        _, steps = scan(self, self._start(), (seen[line], inputs[line], line != 0, asked, keys))
        return Read(self._answers(rows, weights, line, asked, steps.entries), *steps)

    @property
    def attends(self) -> bool:
        """Whether the policy wants the base network's attention, and so all embeddings of a line."""
        return self.chooses.own_cell or self.chooses.by_use

    def _start(self) -> _Carry:
        size, tables = self.entries, self.base.tables if self.attends else 1
        kept = jnp.tile(self.chooses.kept(), (size, 1))
        entries = Entry(jnp.zeros((size, tables, self.width)), kept, jnp.zeros(size, jnp.int32), jnp.full(size, -1))
        return _Carry(ops.Buffer(entries, jnp.array(0)), self.chooses.kept(), jnp.zeros(self.width), jnp.array(0))

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

    def _inputs(self, lines: Int[Array, "U W"]) -> Float[Array, "U d"]:
        """Every line as a question: the last state of a GRU over its words (IM-LEMN)."""
        words = jax.nn.one_hot(lines, self.words) @ self.base.words[0, : self.words]
        begin = jnp.zeros(self.width)
        return jax.vmap(lambda x, mask: ops.gru_scan(self.reads_words, begin, x, mask)[0])(words, lines != 0)

    def _step(self, carry: _Carry, inputs) -> tuple[_Carry, _Step]:
        seen, input, real, asked, key = inputs
        buffer, size = carry.buffer, self.entries
        filled = jnp.arange(size) < buffer.filled
        used = buffer.entries.used
        if self.chooses.by_use:
            # Of the entries, the newest has time index 1.
            timed = self._timed(buffer.entries.seen, buffer.filled - jnp.arange(size))
            attended = jnp.where(filled, self._attention(timed, filled, input), -jnp.inf)
            used = jnp.where(asked & filled & (attended == attended.max()), carry.step, used)

        new = Entry(seen, self.chooses.kept(), carry.step, carry.step)
        own_cell = self.chooses.own_cell
        candidates = self._candidates(buffer, filled, used, new, input)
        kept = jnp.append(buffer.entries.kept, (carry.nothing if own_cell else new.kept)[None], axis=0)
        choice, kept = self.chooses.choose(candidates, kept, key)

        summed = jnp.where(candidates.mask[:, None], candidates.encodings, 0).sum(0)
        critic = ops.gru_step(self.critic, carry.critic, self.expects(summed))
        acted = real & (buffer.filled >= size)
        step = _Step(
            acted & self.chooses.learned,
            choice.log_prob,
            choice.entropy,
            self.worth(critic)[0],
            jnp.where(filled, buffer.entries.step, -1),
            jnp.where(acted, choice.probabilities[:size], 0.0),
        )
        entries = buffer.entries._replace(kept=kept[:size], used=used)
        if self.nop and not own_cell:
            new = new._replace(kept=kept[size])  # it was a candidate already
        after = ops.buffer_evict(ops.Buffer(entries, buffer.filled), choice.goes, new)
        carry_after = _Carry(after, kept[size] if own_cell else carry.nothing, critic, carry.step + 1)
        return jax.tree.map(lambda new, old: jnp.where(real, new, old), carry_after, carry), step

    def _candidates(
        self,
        buffer: ops.Buffer,
        filled: Bool[Array, "N"],
        used: Int[Array, "N"],
        new: Entry,
        input: Float[Array, "d"],
    ) -> Candidates:
        """The entries, and behind them the line, or the policy's own cell: the newest, whose time index is 1."""
        last = self.nothing if self.chooses.own_cell else new.seen
        times = jnp.append(buffer.filled + 1 - jnp.arange(self.entries), 1)
        rows = self._timed(jnp.append(buffer.entries.seen, last[None], axis=0), times)
        matched = self.chooses.own_cell
        logits = self._attention(rows, jnp.append(filled, True), input) if matched else jnp.zeros(len(rows))
        encodings = rows[:, 1 if self.attends else 0]
        return Candidates(encodings, jnp.append(filled, self.nop), jnp.append(used, new.used), input, logits)

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
