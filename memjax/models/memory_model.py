"""A memory with what is needed to train and ask it: item embeddings, a reader, a head, and a rehearser."""

import flax.linen as nn
import jax.numpy as jnp

from memjax.memories import Memory, Slots, memorize, memorize_at
from memjax.models.embeddings import PartEmbed, Table, embed_query, embed_stream, is_like_an_item, item_embedding
from memjax.models.fragments import Among, Fragments
from memjax.models.readers import Head, MultiHopReader, QueryEncoder
from memjax.models.rehearser import Rehearser, rehearsal_losses
from memjax.tasks.stream_task import TaskShape
from memjax.typing import Any, Array, Bool, Float, Int, Key, ReadScores, Shaped, State, Stream


class MemoryModel(nn.Module):
    """Any memory on any task. `memorize` sees the stream, `answer` the slots and the query alone.

    The rehearser is used in training only; any memory can be rehearsed, since it reaches the memory through the slots.

    Args:
        shape: of the task.
        memory: any.
        width: of items, slots and queries.
        hops: of the reader.
        head_layers: hidden layers before the answer.
        rehearser_layers: of its decoder.
        rehearser_heads: of its attention.
        rehearser_norm_slots: LayerNorm on the slots before the rehearser asks them.
        dtype: of the products.
        item_scale: how many times larger than their embeddings items come into the memory and the rehearser; with
            `sqrt(width)` they are of unit size (Vaswani et al. 2017, 3.4).
        rehearser_position_std: the standard deviation of the rehearser's positions at the start, before `item_scale`.
        shared_words: whether stream, question and candidates, texts of the same words, share one embedding.
        rehearser_tied: whether what the rehearser says is compared with the items' embeddings as it is, as printed.
        query_scale: how many times larger than their embeddings questions, and candidates that are texts, are read. Far
            smaller than the slots they have little effect beside them, and are learned late. Of questions that are
            items it is `item_scale`.
        read_scores: of the reader; "additive", as printed, or "dot", dot products.
    """

    shape: TaskShape
    memory: Memory
    width: int
    hops: int
    head_layers: int
    rehearser_layers: int
    rehearser_heads: int
    rehearser_norm_slots: bool = False
    dtype: Any = jnp.float32
    item_scale: float = 1.0
    rehearser_position_std: float = 0.02
    shared_words: bool = False
    rehearser_tied: bool = False
    query_scale: float = 1.0
    read_scores: ReadScores = "additive"

    def setup(self):
        self.embed = item_embedding(self.shape, self.width, self.dtype)
        words = self.embed if self.shared_words else None
        scale = self.query_scale
        self.query = QueryEncoder(self.shape.queries, self.width, self.dtype, words=words, scale=scale)
        self.reader = MultiHopReader(self.width, self.hops, self.read_scores)
        self.head = Head(self.shape, self.width, self.head_layers, self.dtype, words, scale)
        self.rehearser = Rehearser(
            self.width,
            self.shape.segment,
            self.rehearser_layers,
            self.rehearser_heads,
            self.rehearser_norm_slots,
            self.dtype,
            self.item_scale,
            self.rehearser_position_std,
            self.rehearser_tied,
        )

    def memorize(
        self, stream: Stream, mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        """Reads the stream once.

        Args:
            stream: item ids, in range, or vectors, finite; see `tasks.check_batch`.
            mask: which of them are no padding.
            key: as of `memories.memorize`.

        Returns:
            The slots, and an auxiliary loss.
        """
        state, aux_loss = self.write(self.memory.initial_state(), stream, mask, key=key)
        return self.memory.slots(state), aux_loss

    def memorize_at(
        self, stream: Stream, mask: Bool[Array, "T N"], after: Int[Array, "Q"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        """Reads the stream once, and shows the slots at each question.

        Args:
            stream: as of `memorize`.
            mask: as of `memorize`.
            after: how many segments have been read when a question comes.
            key: as of `memorize`.

        Returns:
            The slots, with a leading axis Q, and an auxiliary loss.
        """
        slots, _, aux_loss = memorize_at(self.memory, self.embed_items(stream, mask), after, mask, key=key, remat=True)
        return slots, aux_loss

    def initial_state(self) -> State:
        """The memory's state before anything was read."""
        return self.memory.initial_state()

    def write(
        self, state: State, stream: Stream, mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[State, Float[Array, ""]]:
        """Reads a stream on from a state, as if all of it had come at once.

        Args:
            state: before what comes now.
            stream: as of `memorize`.
            mask: as of `memorize`.
            key: as of `memorize`.

        Returns:
            The state after it, and an auxiliary loss.
        """
        return memorize(self.memory, self.embed_items(stream, mask), mask, state=state, key=key)

    def embed_items(self, stream: Shaped[Array, "*axes"], mask: Bool[Array, "*items"]) -> Float[Array, "*items d"]:
        """Items as they come into the memory.

        Args:
            stream: item ids or vectors, with any leading axes.
            mask: which of them are no padding.
        """
        return embed_stream(self.embed, stream, mask) * self.item_scale

    def slots(self, state: State) -> Slots:
        """What a state can be asked through."""
        return self.memory.slots(state)

    def answer(
        self, slots: Slots, query: Int[Array, "*W"], candidates: Int[Array, "C W"] | None = None
    ) -> Float[Array, "C"]:
        """Logits of the answers; the stream is not an argument.

        Args:
            slots: of the memory.
            query: an id, or a text of ids.
            candidates: the texts among which the answer is, for tasks that have them.
        """
        return self.head(self.reader(slots, self.encode_query(query)), candidates)

    def read_weights(self, slots: Slots, query: Int[Array, "*W"]) -> Float[Array, "C K"]:
        """How much of each slot each hop of the reader reads to answer.

        Args:
            slots: of the memory.
            query: as of `answer`.
        """
        return self.reader.weights(slots, self.encode_query(query))

    def encode_query(self, query: Int[Array, "*W"]) -> Float[Array, "d"]:
        """A query as a vector: of the size of the items where it is one, or has parts of theirs."""
        if is_like_an_item(self.shape):
            return embed_query(self.shape, self.embed, query) * self.item_scale
        return self.query(query)

    def rehearse(
        self,
        slots: Slots,
        fragments: Fragments,
        *,
        negatives: int,
        key: Key,
        vectors: Float[Array, "V dv"] | None = None,
        among: Among | None = None,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """What rehearsal teaches: to recall fragments from the slots, and to know them again.

        Args:
            slots: of the memory.
            fragments: of its stream.
            negatives: from how many drawn items a hidden one is told; 0 for all items.
            key: to draw them with.
            vectors: of the fragments' ids, where items are vectors; see `fragments.as_ids`.
            among: the stream's items, from which they are drawn; without, from all items.

        Returns:
            The recollection and the familiarity loss.
        """
        return rehearsal_losses(
            self.rehearser,
            slots,
            fragments,
            self._table(vectors),
            negatives=negatives,
            key=key,
            among=among,
            vectors=vectors,
        )

    def recollect(
        self,
        slots: Slots,
        fragments: Fragments,
        vectors: Float[Array, "V dv"] | None = None,
        among: Among | None = None,
    ) -> Int[Array, "F N"]:
        """The item that the rehearser holds likeliest at each place of some fragments.

        Args:
            slots: of the memory.
            fragments: of its stream; what is hidden in them is not looked at.
            vectors: as of `rehearse`.
            among: the items of which it is one; without, all items.
        """
        table = self._table(vectors)
        predicted, _ = self.rehearser(slots, table(fragments.items), fragments.real, fragments.hidden)
        if among is None:
            return jnp.einsum("fnd,vd->fnv", predicted, table.embedding.astype(predicted.dtype)).argmax(-1)
        scores = jnp.einsum("fnd,vd->fnv", predicted, table(among.ids).astype(predicted.dtype))
        return among.ids[jnp.where(among.real, scores, -jnp.inf).argmax(-1)]

    def _table(self, vectors: Array | None) -> nn.Embed | PartEmbed | Table:
        return self.embed if vectors is None else Table(self.embed(vectors))
