"""What reads the stream itself: Directly Reason, Multi-Hop Reason, and the history sampler.

They have the two methods of every system here, `memorize` (the stream) and `answer` (the query), but what they
carry from one to the other may grow with the stream: they are yardsticks and a teacher, not memories.
"""

from dataclasses import field
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp

from memjax import ops
from memjax.memories import Slots
from memjax.memories.encoders import BidirectionalGRU
from memjax.memories.weights import additive_params, gru_params
from memjax.models.embeddings import embed_query, embed_stream, is_like_an_item, item_embedding
from memjax.models.readers import Head, MultiHopReader, QueryEncoder, TextNetwork
from memjax.ops.attention import masked_softmax
from memjax.tasks.stream_task import TaskShape
from memjax.typing import Any, Array, Bool, Float, Int, Key, Stream


class Direct(nn.Module):
    """The parts that all of them have: item embeddings, query encoder, head.

    Args:
        shape: of the task.
        width: of items and queries.
        head_layers: hidden layers before the answer.
        dtype: of the products.
        shared_words: as of a `MemoryModel`.
    """

    shape: TaskShape
    width: int
    head_layers: int
    dtype: Any
    shared_words: bool = field(default=False, kw_only=True)
    _asks: ClassVar[TextNetwork] = BidirectionalGRU  # what reads a question that is a text

    def setup(self):
        self.embed = item_embedding(self.shape, self.width, self.dtype)
        words = self.embed if self.shared_words else None
        self.query = QueryEncoder(self.shape.queries, self.width, self.dtype, self._asks, words)
        self.head = Head(self.shape, self.width, self.head_layers, self.dtype, words)

    def encode_query(self, query: Int[Array, "*W"]) -> Float[Array, "d"]:
        """A query as a vector: that of the item where it is one, or of its parts where they are those of items."""
        return embed_query(self.shape, self.embed, query) if is_like_an_item(self.shape) else self.query(query)


def read_by(slots: Slots, count: Int[Array, "Q"]) -> Slots:
    """For each question the same vectors, of which the first so many can be asked."""
    mask = slots.mask & (jnp.arange(len(slots.mask)) < count[:, None])
    return Slots(jnp.broadcast_to(slots.values, (len(count), *slots.values.shape)), mask)


def state_after(states: Float[Array, "L d"], count: Int[Array, "Q"]) -> Slots:
    """For each question one vector: the state after so many items, which of padding is that before it.

    >>> state_after(jnp.array([[1.0], [2.0]]), jnp.array([0, 2])).values.tolist()
    [[[0.0]], [[2.0]]]
    """
    states = jnp.concatenate([jnp.zeros_like(states[:1]), states])
    return Slots(states[count, None], jnp.ones((len(count), 1), bool))


class WithStates(Direct):
    """What makes a state of each item of the stream, from the left."""

    def states(self, stream: Stream, mask: Bool[Array, "T N"]) -> tuple[Array, Array]:
        """The last state `[d]` and all of them `[T * N, d]`."""
        raise NotImplementedError(f"{type(self).__name__} has no states")


class LastState(WithStates):
    """What keeps the last of its `states`, and of a question on the way that up to then."""

    def memorize(
        self, stream: Stream, mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        last, _ = self.states(stream, mask)
        return Slots(last[None], jnp.ones(1, bool)), jnp.zeros((), jnp.float32)

    def memorize_at(
        self, stream: Stream, mask: Bool[Array, "T N"], after: Int[Array, "Q"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        _, states = self.states(stream, mask)
        return state_after(states, after * stream.shape[1]), jnp.zeros((), jnp.float32)


class AllStates(WithStates):
    """What keeps all of its `states`, and of a question on the way those up to then."""

    def memorize(
        self, stream: Stream, mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        """All states, and an auxiliary loss of 0.

        Args:
            stream: its items.
            mask: which of them are no padding.
            key: not needed.
        """
        _, states = self.states(stream, mask)
        return Slots(states, mask.reshape(-1)), jnp.zeros((), jnp.float32)

    def memorize_at(
        self, stream: Stream, mask: Bool[Array, "T N"], after: Int[Array, "Q"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        """What is kept of the first segments, each time that the stream is asked.

        Args:
            stream: its items.
            mask: which of them are no padding.
            after: how many segments have been read each time.
            key: not needed.
        """
        slots, aux_loss = self.memorize(stream, mask, key=key)
        return read_by(slots, after * stream.shape[1]), aux_loss


class DirectlyReason(LastState):
    """A GRU over the stream; its last state with the query into the head (Rehearsal Memory, appendix B).

    Args:
        shape: of the task.
        width: of items, states and queries.
        head_layers: hidden layers before the answer.
        dtype: of the products.
        shared_words: as of a `MemoryModel`.
    """

    def setup(self):
        super().setup()
        self.gru = gru_params(self, "gru", self.width, self.width)

    def states(self, stream: Stream, mask: Bool[Array, "T N"]) -> tuple[Array, Array]:
        """The GRU's last state `[d]` and all of them `[T * N, d]`."""
        items = embed_stream(self.embed, stream, mask).reshape(-1, self.width)
        start = jnp.zeros_like(items, shape=(self.width,), dtype=jnp.float32)
        return ops.gru_scan(self.gru, start, items, mask.reshape(-1))

    def answer(
        self, slots: Slots, query: Int[Array, "*W"], candidates: Int[Array, "C W"] | None = None
    ) -> Float[Array, "C"]:
        feature = jnp.concatenate([slots.values[0].astype(self.dtype), self.encode_query(query)])
        return self.head(feature, candidates)


class MultiHopReason(AllStates, DirectlyReason):
    """A GRU over the stream; the multi-hop reader over all of its states.

    Args:
        shape: of the task.
        width: of items, states and queries.
        head_layers: hidden layers before the answer.
        dtype: of the products.
        hops: of the reader; the paper has two.
        shared_words: as of a `MemoryModel`.
    """

    hops: int = 2

    def setup(self):
        super().setup()
        self.reader = MultiHopReader(self.width, self.hops)

    def answer(
        self, slots: Slots, query: Int[Array, "*W"], candidates: Int[Array, "C W"] | None = None
    ) -> Float[Array, "C"]:
        return self.head(self.reader(slots, self.encode_query(query)), candidates)


class HistorySampler(Direct):
    """Answers by attention over whole segments; trained first, its attention then says what is worth rehearsing.

    Rehearsal Memory, 3.3.2 (Eq. 5): `h_c` = mean item embedding of segment c, `b_c = w · tanh(W_1 q + W_2 h_c + b)`,
    answer from `[softmax(b) · h; q]`.

    Args:
        shape: of the task.
        width: of items and queries.
        head_layers: hidden layers before the answer.
        dtype: of the products.
        shared_words: as of a `MemoryModel`.
    """

    def setup(self):
        super().setup()
        self.attention = additive_params(self, "attention", self.width, self.width, self.width)

    def memorize(
        self, stream: Stream, mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        items = jnp.where(mask[..., None], embed_stream(self.embed, stream, mask), 0)
        means = items.sum(1) / jnp.maximum(mask.sum(1, keepdims=True), 1).astype(items.dtype)
        return Slots(means, mask.any(1)), jnp.zeros((), jnp.float32)

    def memorize_at(
        self, stream: Stream, mask: Bool[Array, "T N"], after: Int[Array, "Q"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        slots, aux_loss = self.memorize(stream, mask, key=key)
        return read_by(slots, after), aux_loss

    def scores(self, slots: Slots, query: Int[Array, "*W"]) -> Float[Array, "T"]:
        """How much each segment matters to the query: logits, to be drawn from."""
        return ops.additive_scores(self.attention, self.encode_query(query)[None], slots.values)[0]

    def answer(
        self, slots: Slots, query: Int[Array, "*W"], candidates: Int[Array, "C W"] | None = None
    ) -> Float[Array, "C"]:
        weights = masked_softmax(self.scores(slots, query), slots.mask, axis=0)
        evidence = weights.astype(slots.values.dtype) @ slots.values
        return self.head(jnp.concatenate([evidence, self.encode_query(query)]), candidates)
