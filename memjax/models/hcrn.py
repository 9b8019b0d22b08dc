"""HCRN: relations among a clip's frames, and among a video's clips, first given their motion, then the question."""

from collections.abc import Sequence
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.checks import check_counts, check_widths
from memjax.errors import require
from memjax.memories import Slots
from memjax.memories.encoders import LSTM, BidirectionalLSTM
from memjax.memories.memory import for_each
from memjax.models.direct import Direct, read_by, state_after
from memjax.models.embeddings import embed_stream
from memjax.models.readers import TextNetwork
from memjax.ops.attention import accumulated
from memjax.typing import Any, Array, Bool, Float, Int, Key, Stream


def subset_sizes(objects: int, largest: int) -> tuple[int, ...]:
    """The sizes of the subsets of so many objects: 2 to all but one, at most `largest`; 2 alone, if there are fewer.

    >>> subset_sizes(5, 9), subset_sizes(9, 3), subset_sizes(1, 9)
    ((2, 3, 4), (2, 3), (2,))
    """
    return tuple(range(2, max(2, min(objects - 1, largest)) + 1))


def subset_shares(real: Bool[Array, "n"], size: int, subsets: int) -> Float[Array, "t n"]:
    """What each object counts in the mean of each subset.

    Of m real objects, in their order from 0, subset s of t has those at `floor((i t + s) m / (k t))`, i = 0..k-1:
    evenly spread, and shifted from subset to subset. Where m is less than k, some are in it more than once.

    >>> subset_shares(jnp.array([True, False, True, True]), 2, 2).tolist()
    [[0.5, 0.0, 0.5, 0.0], [0.5, 0.0, 0.0, 0.5]]
    """
    steps = jnp.arange(size) * subsets + jnp.arange(subsets)[:, None]
    chosen = steps * real.sum() // (size * subsets)
    return ((chosen[..., None] == jnp.cumsum(real) - 1) & real).mean(1)


class RelationUnit(nn.Module):
    """A conditional relation unit: from n objects and a condition c, one vector for each size of a subset.

    For each size k, `g` is the mean of a subset of k objects, and `r_k` the mean over t subsets of
    `ELU(W_k [g; c] + b_k)`, with a gate times `sigmoid(V_k [g; c] + d_k)`. Source: HCRN (Le et al. 2020, 2002.10698),
    3.1. The paper draws the subsets; here they are fixed, those of `subset_shares`.

    Args:
        width: of objects, conditions and results.
        sizes: k, of the subsets.
        subsets: t, of each size.
        gated: whether there is the gate.
        dtype: of the products.

    >>> unit = RelationUnit(4, sizes=(2, 3), subsets=2, gated=True)
    >>> objects, real = jnp.ones((5, 4)), jnp.ones(5, bool)
    >>> found, _ = unit.init_with_output(jax.random.key(0), objects, real, jnp.ones(4))
    >>> found.shape
    (2, 4)
    """

    width: int
    sizes: Sequence[int]
    subsets: int
    gated: bool
    dtype: Any = jnp.float32

    def setup(self):
        self.relate = self.linear("relate")
        if self.gated:
            self.gate = self.linear("gate")

    def linear(self, name: str) -> tuple[Float[Array, "K c d"], Float[Array, "K d"]]:
        """A matrix and a bias for each size."""
        kernel, count = nn.initializers.lecun_normal(batch_axis=0), len(self.sizes)
        w = self.param(f"{name}_w", kernel, (count, 2 * self.width, self.width))
        return w, self.param(f"{name}_b", nn.initializers.zeros, (count, self.width))

    def __call__(
        self, objects: Float[Array, "n d"], real: Bool[Array, "n"], condition: Float[Array, "d"]
    ) -> Float[Array, "K d"]:
        shares = jnp.stack([subset_shares(real, size, self.subsets) for size in self.sizes]).astype(self.dtype)
        means = accumulated(shares, jnp.where(real[:, None], objects, 0)).astype(self.dtype)
        condition = jnp.broadcast_to(condition.astype(self.dtype), means.shape)
        joined = jnp.concatenate([means, condition], axis=-1)

        def apply(weights):
            return accumulated(joined, weights[0]) + weights[1][:, None]

        related = nn.elu(apply(self.relate))
        if self.gated:
            related = related * nn.sigmoid(apply(self.gate))
        return related.mean(1).astype(self.dtype)


class HCRN(Direct):
    """Hierarchical Conditional Relation Networks (Le et al. 2020, 2002.10698): four `RelationUnit` and attention.

    The segments are the clips. In each, a unit relates the frames given the clip's motion, and a gated one relates
    what it found given the question q, a bidirectional LSTM's final states. At each place of what comes out there, a
    unit relates the clips given the video's motion, and a gated one what it found given q. All of that are objects o:

        a = softmax_i(w · ELU(W_I [W_m o_i; W_m o_i * W_a q] + b)),  f = ELU(W_f [sum_i a_i o_i; W_q q + b_q] + b_f)

    and the head stands on f. What is ours: there are no motion features, so that a clip's motion is the last state of
    an LSTM over its frames, and the video's that of another one over those of its clips; subsets are fixed and evenly
    spread over the real frames and clips, so that padding changes nothing, and for fewer of these than a size they
    have some twice; sizes end at `largest`. A clip without frames takes no part.

    It is a yardstick, not a memory: it keeps what its first unit found of each clip, and the video's motion.

    Args:
        shape: of the task; its segments and their length say how many sizes there are.
        width: of frames, states and queries; even.
        head_layers: hidden layers before the answer.
        dtype: of the products.
        shared_words: as of a `MemoryModel`.
        largest: subset; the paper has all sizes but that of all objects.
        subsets: t, of each size.

    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(0, 2, 3, queries=9, query_words=4, answer="classes", classes=5, item_width=6)
    >>> model = HCRN(shape, width=8, head_layers=0, dtype=jnp.float32)
    >>> video, mask, question = jnp.ones((2, 3, 6)), jnp.ones((2, 3), bool), jnp.array([4, 7, 2, 0])
    >>> answered = lambda model: model.answer(model.memorize(video, mask)[0], question)
    >>> logits, _ = model.init_with_output(jax.random.key(0), method=answered)
    >>> logits.shape
    (5,)
    """

    largest: int = 8
    subsets: int = 2
    _asks: ClassVar[TextNetwork] = BidirectionalLSTM

    def __post_init__(self):
        super().__post_init__()
        check_widths(self, "width")
        require(self.width % 2 == 0, f"width must be even (two directions), not {self.width}")
        check_counts(self, 2, "largest")
        check_counts(self, 1, "subsets")

    def setup(self):
        super().setup()
        self.frames = LSTM(self.width, self.width, self.dtype)
        self.clips = LSTM(self.width, self.width, self.dtype)
        self.clip_motion, self.clip_question = self.units(self.shape.segment)
        self.video_motion, self.video_question = self.units(self.shape.segments)
        self.seen, self.asked = (nn.Dense(self.width, use_bias=False, dtype=self.dtype) for _ in range(2))
        self.joined, self.score = nn.Dense(self.width, dtype=self.dtype), nn.Dense(1, dtype=jnp.float32)
        self.question, self.fused = (nn.Dense(self.width, dtype=self.dtype) for _ in range(2))

    def units(self, objects: int) -> tuple[RelationUnit, RelationUnit]:
        """Those of one level: given motion, and then the question."""
        first = subset_sizes(objects, self.largest)
        then = subset_sizes(len(first), self.largest)
        return (
            RelationUnit(self.width, first, self.subsets, False, self.dtype),
            RelationUnit(self.width, then, self.subsets, True, self.dtype),
        )

    @property
    def kept(self) -> int:
        """How many vectors are kept of a clip."""
        return len(subset_sizes(self.shape.segment, self.largest))

    def memorize(
        self, stream: Stream, mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        """The video's motion and behind it what is kept of each clip; and an auxiliary loss of 0.

        Args:
            stream: the frames.
            mask: which of them are no padding.
            key: not needed.
        """
        slots, aux_loss = self.memorize_at(stream, mask, jnp.full(1, len(stream)), key=key)
        return jax.tree.map(lambda leaf: leaf[0], slots), aux_loss

    def memorize_at(
        self, stream: Stream, mask: Bool[Array, "T N"], after: Int[Array, "Q"], *, key: Key | None = None
    ) -> tuple[Slots, Float[Array, ""]]:
        """What is kept of the first segments, each time that the stream is asked: no clip sees another one yet.

        Args:
            stream: the frames.
            mask: which of them are no padding.
            after: how many segments have been read each time.
            key: not needed.
        """
        frames, real = embed_stream(self.embed, stream, mask), mask.any(1)
        motions, _ = for_each(LSTM.__call__)(self.frames, frames, mask)
        related = for_each(RelationUnit.__call__)(self.clip_motion, frames, mask, motions)
        _, states = self.clips(motions, real)
        clips = Slots(related.reshape(-1, self.width), jnp.repeat(real, self.kept))
        parts = state_after(states, after), read_by(clips, after * self.kept)
        kept = Slots(*(jnp.concatenate(leaves, axis=1) for leaves in zip(*parts, strict=True)))
        return kept, jnp.zeros((), jnp.float32)

    def answer(
        self, slots: Slots, query: Int[Array, "*W"], candidates: Int[Array, "C W2"] | None = None
    ) -> Float[Array, "C"]:
        """Logits of the answers.

        Args:
            slots: what `memorize` kept.
            query: an id, or those of the question's words.
            candidates: those of theirs, where they are the answers.
        """
        asked, values = self.encode_query(query), slots.values.astype(self.dtype)
        motion, clips = values[0], values[1:].reshape(-1, self.kept, self.width)
        real = slots.mask[1 :: self.kept]
        given = for_each(RelationUnit.__call__, (0, None, None))
        clips = given(self.clip_question, clips, jnp.ones(self.kept, bool), asked)
        videos = given(self.video_motion, clips.swapaxes(0, 1), real, motion)
        videos = given(self.video_question, videos, jnp.ones(videos.shape[1], bool), asked)
        seen = self.attend(videos.reshape(-1, self.width), asked)
        return self.head(nn.elu(self.fused(jnp.concatenate([seen, self.question(asked)]))), candidates)

    def attend(self, objects: Float[Array, "O d"], asked: Float[Array, "d"]) -> Float[Array, "d"]:
        """The objects, each as it matters to the question."""
        seen = self.seen(objects)
        joined = self.joined(jnp.concatenate([seen, seen * self.asked(asked)], axis=1))
        weights = nn.softmax(self.score(nn.elu(joined))[:, 0])
        return accumulated(weights.astype(self.dtype), objects).astype(self.dtype)
