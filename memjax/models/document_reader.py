"""LEMN's reader of long documents: a buffer of few blocks of words, a policy over it, and BiDAF on what it holds."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.checks import at_least, one_of
from memjax.memories.eviction import BaseView
from memjax.memories.memory import scan_module
from memjax.memories.policies import policies
from memjax.memories.weights import glorot_gru_params
from memjax.models.bidaf import BiDAF, SpanLogits
from memjax.models.buffer_step import Carry, Entry, buffer_step, empty_carry
from memjax.tasks.words import PAD
from memjax.typing import Array, Bool, Float, Int, Key


class Retained(NamedTuple):
    """What the policy did in a document, block by block.

    Attributes:
        acted: whether something had to be evicted that a policy learns about.
        log_prob: of the eviction.
        entropy: of the eviction.
        value: the critic's.
        held: the numbers of the blocks in the buffer, in order, -1 for none, after the block was written.
        eviction: the probability to be evicted of each that was held before.
    """

    acted: Bool[Array, "T"]
    log_prob: Float[Array, "T"]
    entropy: Float[Array, "T"]
    value: Float[Array, "T"]
    held: Int[Array, "T N"]
    eviction: Float[Array, "T N"]


class DocumentReader(nn.Module):
    """Reads a document block by block into a buffer of N of them, and then answers a question from these.

    `retain` reads: of a block the policy sees the last states of BiDAF's contextual GRUs over its words. Nobody knows
    the question then. `answer` gives what is held to BiDAF, in the order of the document. IM and LRU attend with the
    new block, by BiDAF's similarity. Critic: sum of the encodings of what may be evicted, linear, GRU over time,
    linear. Source: LEMN, 3 and 4.3.

    ::

        reader = DocumentReader(words=10_000, width=64, layers=1, dropout=0.2, entries=10, policy="st")
        params = reader.init(key, blocks, query)
        retained = reader.apply(params, blocks, key, method="retain")    # draws what is evicted
        retained = reader.apply(params, blocks, method="retain")         # the likeliest is evicted
        logits = reader.apply(params, blocks, retained.held[-1], query, method="answer")

    Args:
        words: as of a `BiDAF`.
        width: as of a `BiDAF`.
        layers: as of a `BiDAF`.
        dropout: as of a `BiDAF`.
        entries: N, how many blocks are held.
        policy: one of `memories.policies.policies`.
    """

    words: int
    width: int
    layers: int
    dropout: float
    entries: int
    policy: str

    def setup(self):
        at_least(self, 1, "entries")
        one_of(self, policies, "policy")
        self.base = BiDAF(self.words, self.width, self.layers, self.dropout)
        self.evictor = policies[self.policy](self.width)
        self.critic_in, self.value_head = nn.Dense(self.width), nn.Dense(1)
        self.critic = glorot_gru_params(self, "critic", self.width, self.width)
        self.own = self.evictor.own(lambda: self.param("nothing", nn.initializers.normal(0.1), (self.width,)))

    def __call__(self, blocks: Int[Array, "T W"], query: Int[Array, "Q"]) -> SpanLogits:
        """The answer as it is tested: the likeliest is evicted; but with "uniform", which draws in tests, the oldest.

        Args:
            blocks: ids of words, 0 behind the last one.
            query: as of `BiDAF.answer`.
        """
        return self.answer(blocks, self.retain(blocks).held[-1], query)

    def retain(self, blocks: Int[Array, "T W"], key: Key | None = None) -> Retained:
        """What the policy keeps of a document.

        Args:
            blocks: ids of words, 0 behind the last one.
            key: to draw with what is evicted; without one it is the likeliest, of equal ones the oldest.
        """
        encodings, _ = self.base.read(blocks)
        keys = None if key is None else jax.random.split(key, blocks.shape[0])
        start = empty_carry(self, encodings[0], jnp.zeros_like(encodings[0]))
        real = (blocks != PAD).any(1)
        _, retained = scan_module(DocumentReader._step, self)(self, start, (encodings, real, keys))
        return retained

    def answer(
        self, blocks: Int[Array, "T W"], held: Int[Array, "N"], query: Int[Array, "Q"], key: Key | None = None
    ) -> SpanLogits:
        """Where in some blocks of a document the answer begins and ends; places count on from block to block.

        Args:
            blocks: ids of words, 0 behind the last one.
            held: the numbers of the blocks, -1 for none.
            query: as of `BiDAF.answer`.
            key: to drop inputs with.
        """
        return self.base(held_words(blocks, held), query, key)

    def _step(self, carry: Carry, inputs) -> tuple[Carry, Retained]:
        encoding, real, key = inputs
        after, did, eviction = buffer_step(self, carry, encoding, real, key, partial(self._view, carry))
        held = jnp.where(jnp.arange(self.entries) < after.buffer.filled, after.buffer.entries.step, -1)
        return after, Retained(*did, held, eviction)

    def _view(self, carry: Carry, new: Entry) -> BaseView:
        """What the policy may ask."""
        entries, filled = carry.buffer.entries, jnp.arange(self.entries) < carry.buffer.filled

        def attention(rows: Float[Array, "M d"]) -> Float[Array, "M"]:
            return self.base.similarity(rows, new.seen[None])[:, 0]

        def candidates(last: Entry, ask: Callable) -> tuple[Float[Array, "M d"], Float[Array, "M"] | None]:
            rows = jnp.concatenate([entries.seen, last.seen[None]])
            return rows, ask(lambda: attention(rows))

        def attended() -> Bool[Array, "N"]:
            logits = jnp.where(filled, attention(entries.seen), -jnp.inf)
            return filled & (logits == logits.max())

        return BaseView(
            input=new.seen,
            mask=jnp.append(filled, True),
            nop=True,
            nothing=carry.nothing,
            own_cell=lambda: new._replace(seen=self.own),
            candidates=candidates,
            attended=attended,
        )


def held_words(blocks: Int[Array, "T W"], held: Int[Array, "N"]) -> Int[Array, "N W"]:
    """The words of some blocks, padding for those numbered -1.

    >>> held_words(jnp.array([[2, 3], [4, 5]]), jnp.array([1, -1])).tolist()
    [[4, 5], [0, 0]]
    """
    return jnp.where(held[:, None] >= 0, blocks[held], PAD)
