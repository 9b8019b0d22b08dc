"""Yardsticks of video question answering, E-VQA, E-MN and E-SA: an LSTM over the frames, and one over the question."""

from typing import ClassVar

import flax.linen as nn

from memjax import ops
from memjax.memories import Slots
from memjax.memories.encoders import LSTM
from memjax.memories.weights import additive_params
from memjax.models.direct import AllStates, LastState, WithStates
from memjax.models.embeddings import embed_stream
from memjax.models.readers import TextNetwork
from memjax.ops.attention import accumulated, masked_softmax
from memjax.typing import Array, Bool, Float, Int, Stream


class VideoReader(WithStates):
    """What the three share: an LSTM over all frames, end to end, and one over the question's words.

    They are yardsticks, not memories. Items may be ids too, and the question an id. Of one direction in all three, so
    that a film can be asked while it runs (ours: where these systems are described for videos first, in Xu et al. 2017,
    *Video Question Answering via Gradually Refined Attention*, E-MN has an LSTM of both directions, and E-SA attends to
    the features of the frames).

    Args:
        shape: of the task.
        width: of frames, states and queries.
        head_layers: hidden layers before the answer.
        dtype: of the products.
        shared_words: as of a `MemoryModel`.
    """

    _asks: ClassVar[TextNetwork] = LSTM

    def setup(self):
        super().setup()
        self.frames = LSTM(self.width, self.width, self.dtype)

    def states(self, stream: Stream, mask: Bool[Array, "T N"]) -> tuple[Float[Array, "d"], Float[Array, "L d"]]:
        """The last state of the frames' LSTM, and all of them."""
        return self.frames(embed_stream(self.embed, stream, mask).reshape(-1, self.width), mask.reshape(-1))


class EVQA(LastState, VideoReader):
    """E-VQA: the last state of the frames times that of the question, `head(h_v * h_q)`.

    Source: ActivityNet-QA (Yu et al. 2019, 1906.02467), its extension of VQA to videos.

    Args:
        shape: of the task.
        width: of frames, states and queries.
        head_layers: hidden layers before the answer.
        dtype: of the products.
        shared_words: as of a `MemoryModel`.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(0, 2, 3, queries=9, query_words=4, answer="classes", classes=5, item_width=6)
    >>> model = EVQA(shape, width=8, head_layers=0, dtype=jnp.float32)
    >>> video, mask, question = jnp.ones((2, 3, 6)), jnp.ones((2, 3), bool), jnp.array([4, 7, 2, 0])
    >>> answered = lambda model: model.answer(model.memorize(video, mask)[0], question)
    >>> logits, _ = model.init_with_output(jax.random.key(0), method=answered)
    >>> logits.shape
    (5,)
    """

    def answer(
        self, slots: Slots, query: Int[Array, "*W"], candidates: Int[Array, "C W2"] | None = None
    ) -> Float[Array, "C"]:
        return self.head(slots.values[0].astype(self.dtype) * self.encode_query(query), candidates)


class EMN(AllStates, VideoReader):
    """E-MN: the states of the frames are the rows of an End-To-End Memory Network, that of the question asks it.

    `p = softmax_i(u · W_m s_i)`, `u <- u + sum_i p_i W_c s_i`, with its own W_m and W_c for each hop; `head(u)`.
    Source: ActivityNet-QA (Yu et al. 2019, 1906.02467); Sukhbaatar et al. 2015. The order of the rows is in the
    states, which are of one direction (`VideoReader`): there are no vectors of their places.

    Args:
        shape: of the task.
        width: of frames, states and queries.
        head_layers: hidden layers before the answer.
        dtype: of the products.
        shared_words: as of a `MemoryModel`.
        hops: how many.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(0, 2, 3, queries=9, query_words=4, answer="classes", classes=5, item_width=6)
    >>> model = EMN(shape, width=8, head_layers=0, dtype=jnp.float32, hops=2)
    >>> video, mask, question = jnp.ones((2, 3, 6)), jnp.ones((2, 3), bool), jnp.array([4, 7, 2, 0])
    >>> answered = lambda model: model.answer(model.memorize(video, mask)[0], question)
    >>> logits, _ = model.init_with_output(jax.random.key(0), method=answered)
    >>> logits.shape
    (5,)
    """

    hops: int = 2

    def setup(self):
        super().setup()
        self.keys = [nn.Dense(self.width, use_bias=False, dtype=self.dtype) for _ in range(self.hops)]
        self.values = [nn.Dense(self.width, use_bias=False, dtype=self.dtype) for _ in range(self.hops)]

    def answer(
        self, slots: Slots, query: Int[Array, "*W"], candidates: Int[Array, "C W2"] | None = None
    ) -> Float[Array, "C"]:
        asked, states = self.encode_query(query), slots.values.astype(self.dtype)
        for keys, values in zip(self.keys, self.values, strict=True):
            _, after = ops.memory_hop(asked, keys(states), values(states), slots.mask)
            asked = after.astype(self.dtype)
        return self.head(asked, candidates)


class ESA(AllStates, VideoReader):
    """E-SA: soft attention of the question over the states of the frames.

    `a = softmax_i(w · tanh(W_1 u + W_2 s_i + b))`, `v = sum_i a_i s_i`, `head(v * u)`. Source: ActivityNet-QA (Yu et
    al. 2019, 1906.02467); fused as in `EVQA`. States, and not features, are ours (`VideoReader`).

    Args:
        shape: of the task.
        width: of frames, states and queries.
        head_layers: hidden layers before the answer.
        dtype: of the products.
        shared_words: as of a `MemoryModel`.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(0, 2, 3, queries=9, query_words=4, answer="classes", classes=5, item_width=6)
    >>> model = ESA(shape, width=8, head_layers=0, dtype=jnp.float32)
    >>> video, mask, question = jnp.ones((2, 3, 6)), jnp.ones((2, 3), bool), jnp.array([4, 7, 2, 0])
    >>> answered = lambda model: model.answer(model.memorize(video, mask)[0], question)
    >>> logits, _ = model.init_with_output(jax.random.key(0), method=answered)
    >>> logits.shape
    (5,)
    """

    def setup(self):
        super().setup()
        self.attention = additive_params(self, "attention", self.width, self.width, self.width)

    def answer(
        self, slots: Slots, query: Int[Array, "*W"], candidates: Int[Array, "C W2"] | None = None
    ) -> Float[Array, "C"]:
        asked, states = self.encode_query(query), slots.values.astype(self.dtype)
        scores = ops.additive_scores(self.attention, asked[None], states)[0]
        weights = masked_softmax(scores, slots.mask, axis=0)
        seen = accumulated(weights.astype(self.dtype), states).astype(self.dtype)
        return self.head(seen * asked, candidates)
