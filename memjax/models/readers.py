"""Asking: query encoders, the multi-hop reader over slots, and heads for classes, candidates and clicks."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.memories import Slots
from memjax.memories.encoders import LSTM, BidirectionalGRU, BidirectionalLSTM
from memjax.memories.memory import for_each
from memjax.memories.weights import additive_params, dot_params
from memjax.ops.attention import read_by_hops
from memjax.tasks.stream_task import TaskShape
from memjax.typing import Any, Array, Float, Int, Params, ReadScores

TextNetwork = type[BidirectionalGRU] | type[BidirectionalLSTM] | type[LSTM]


class QueryEncoder(nn.Module):
    """A query as a vector: an embedding for an id, a network's final states for a text (0 is its padding).

    Args:
        vocabulary: ids are in [0, vocabulary).
        width: of the vector.
        dtype: of the products.
        network: which one reads a text.
        words: the embedding of another module that it shares; without one it has its own.
        scale: how many times larger than their embeddings ids and words are taken.
    """

    vocabulary: int
    width: int
    dtype: Any = jnp.float32
    network: TextNetwork = BidirectionalGRU
    words: nn.Embed | None = None
    scale: float = 1.0

    def setup(self):
        if self.words is None:
            self.embed = nn.Embed(self.vocabulary, self.width, dtype=self.dtype)
        self.text = self.network(self.width, self.width, self.dtype)

    def __call__(self, query: Int[Array, "*W"]) -> Float[Array, "d"]:
        embed = self.embed if self.words is None else self.words
        if query.ndim == 0:
            return self.scale * embed(query[None])[0]  # of a table of one row Flax takes arrays alone
        embedded = self.scale * embed(query)
        return self.text(embedded, query != 0)[0].astype(self.dtype)


class MultiHopReader(nn.Module):
    """Rehearsal Memory, appendix A: `ops.multi_hop_read` with its own weights.

    Args:
        width: of a query and of a slot.
        hops: how many.
        scores: of a query and the slots.
    """

    width: int
    hops: int
    scores: ReadScores = "additive"

    def setup(self):
        make = dot_params if self.scores == "dot" else additive_params
        sizes = self.width, self.width, self.width
        hops = tuple(ops.HopParams(make(self, f"hop{hop}", *sizes)) for hop in range(self.hops))
        shape = (2 * self.width, self.width)
        self.read = ops.ReadParams(hops, self.param("w_query", nn.initializers.lecun_normal(), shape))

    def __call__(self, slots: Slots, query: Float[Array, "d"]) -> Float[Array, "d"]:
        return ops.multi_hop_read(self.read, slots.values.astype(query.dtype), query, slots.mask)

    def weights(self, slots: Slots, query: Float[Array, "d"]) -> Float[Array, "C K"]:
        """How much of each slot each hop reads."""
        return read_by_hops(self.read, slots.values.astype(query.dtype), query, slots.mask)[0]


class ClassHead(nn.Module):
    """Logits over a fixed set of answers, after `layers` hidden ones; the paper (appendix A) prints none.

    The reader is linear in what it has read, so that without a hidden layer "is what was found what was asked?" is out
    of reach: yes-or-no questions need one, and so do clicks.
    """

    classes: int
    layers: int

    @nn.compact
    def __call__(self, feature: Float[Array, "d"]) -> Float[Array, "C"]:
        width = 2 * feature.shape[-1]
        for _ in range(self.layers):
            feature = nn.relu(nn.Dense(width, dtype=jnp.float32)(feature))
        return nn.Dense(self.classes, dtype=jnp.float32)(feature)


class ClickHead(nn.Module):
    """One logit, as the logits of (no click, click): binary cross-entropy is their cross-entropy."""

    layers: int

    @nn.compact
    def __call__(self, feature: Float[Array, "d"]) -> Float[Array, "2"]:
        logit = ClassHead(1, self.layers, name="logit")(feature)
        return jnp.concatenate([jnp.zeros_like(logit), logit])


def click_log_odds(model: Any, params: Params, slots: Slots, items: Int[Array, "V"]) -> Float[Array, "V"]:
    """Of a click on each of these items, asked of what a system keeps of one stream; nothing is read again.

    Args:
        model: a system whose questions are items and whose answers are clicks.
        params: of the model.
        slots: what it keeps.
        items: their ids.
    """
    logits = jax.vmap(lambda item: model.apply(params, slots, item, method="answer"))(items)
    return logits[:, 1] - logits[:, 0]


class CandidateHead(nn.Module):
    """A logit for each candidate text: another bidirectional GRU reads it, and `[candidate; feature]` is scored.

    Of an empty text, which is padding, it is minus infinity.

    Args:
        vocabulary: ids are in [0, vocabulary).
        width: of what is read of a candidate.
        dtype: of the products.
        words: as of `QueryEncoder`.
        scale: as of `QueryEncoder`.
    """

    vocabulary: int
    width: int
    dtype: Any = jnp.float32
    words: nn.Embed | None = None
    scale: float = 1.0

    @nn.compact
    def __call__(self, feature: Float[Array, "d"], candidates: Int[Array, "C W"]) -> Float[Array, "C"]:
        read = QueryEncoder(self.vocabulary, self.width, self.dtype, words=self.words, scale=self.scale)
        encoded = for_each(QueryEncoder.__call__)(read, candidates)
        feature = jnp.broadcast_to(feature, (encoded.shape[0], feature.shape[-1]))
        joined = jnp.concatenate([encoded, feature.astype(encoded.dtype)], axis=-1)
        hidden = nn.relu(nn.Dense(self.width, dtype=self.dtype)(joined))
        return jnp.where((candidates != 0).any(-1), nn.Dense(1, dtype=jnp.float32)(hidden)[:, 0], -jnp.inf)


class Head(nn.Module):
    """The head that the task's answers need.

    Args:
        shape: of the task.
        width: of what is read of a candidate.
        layers: hidden ones, of a `ClassHead` or `ClickHead`.
        dtype: of the products of a `CandidateHead`.
        words: of a `CandidateHead`.
        scale: of a `CandidateHead`.
    """

    shape: TaskShape
    width: int
    layers: int
    dtype: Any = jnp.float32
    words: nn.Embed | None = None
    scale: float = 1.0

    def setup(self):
        if self.shape.answer == "classes":
            self.score = ClassHead(self.shape.classes, self.layers)
        elif self.shape.answer == "click":
            self.score = ClickHead(self.layers)
        else:
            self.score = CandidateHead(self.shape.queries, self.width, self.dtype, self.words, self.scale)

    def __call__(self, feature: Float[Array, "d"], candidates: Int[Array, "C W"] | None = None) -> Float[Array, "C"]:
        return self.score(feature) if candidates is None else self.score(feature, candidates)
