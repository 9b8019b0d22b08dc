"""Rehearsal Memory (Zhang et al. 2021): slots written by item-to-slot attention and one GRU shared by all slots."""

import functools
from typing import NamedTuple, get_args

import flax.linen as nn
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least, check_multiple, check_scales, one_of
from memjax.deprecated import old_keyword
from memjax.errors import require
from memjax.memories.encoders import GRUEncoder, TransformerEncoder
from memjax.memories.memory import Memory, Slots, check_items, replicate_over_sequence
from memjax.memories.weights import additive_params, dot_params, gru_params
from memjax.ops.exportable import exportable
from memjax.typing import Any, Array, Bool, Float, Key, State, WriteNormalize


@exportable
class ContextState(NamedTuple):
    """The state of a memory with `context`.

    Attributes:
        slots: K vectors.
        items: the last C items of the stream, newest last.
        items_mask: which of them are real, 1 or 0.
    """

    slots: Float[Array, "K d"]
    items: Float[Array, "C d"]
    items_mask: Float[Array, "C"]


@old_keyword("retention", new="time_constant")
class RehearsalMemory(Memory):
    """Rehearsal Memory, 3.2: a segment encoder, then per segment `ops.write_segment` (Eq. 1 and 2).

    The state is the K slots `[K, width]`, float32, learned and distinct at the start: attention and GRU are shared, so
    equal slots would stay equal for ever. Items must be `width` wide. What rehearses the memory while it trains is not
    part of it: see `memjax.models.rehearser`.

    In the papers a segment is encoded on its own, and what lies across a border is seen by no encoder. With `context` C
    (ours) the encoder sees the C items before the segment too, of which it hands nothing on; the state is then a
    `ContextState`, that keeps them for the next segment.

    On where training starts (`initial_std`, `time_constant`, `write_gain`, `score_gain`, `position_std`) the papers are
    silent.

    Args:
        num_slots: K.
        width: of an item and of a slot.
        segment: the most items of a segment.
        layers: of the encoder.
        heads: of its attention.
        encoder: "transformer", or "gru", a bidirectional one.
        normalize: "slots", each item has one unit to give away; "items", each slot takes one unit; "mass" (ours), as
            "slots", but a slot takes the mean of what it is given, and moves as far as it is given something
            (`ops.write_segment`): for streams of items that are alike.
        initial_std: the standard deviation of the slots before the first segment; large slots are easy to tell apart,
            small ones quick to be written over.
        time_constant: for about how many segments a slot keeps what is not overwritten (the update gate's bias is its
            logarithm); 1 forgets half with each segment.
        write_gain: how much larger than usual the weights are that take items into a slot. An item is spread over K
            slots, so that N items come in about `sqrt(N) / K` large; with `K / sqrt(N)` all slots take part from the
            first step, where otherwise a few may win for ever.
        dtype: of the products.
        context: how many items before a segment its encoder sees, besides.
        scores: of slots and items in the write; "additive", as printed; "dot", dot products (ours), which tell items
            apart where additive scores send all of them to the same slots; or "both", additive ones for the first
            half of the slots, rounded up, and dot products for the others, each half with weights of its own and one
            unit of each item.
        position_std: the standard deviation of the encoder's positions.
        score_gain: how many times larger than usual the scores of slots and items are, which is one over their
            temperature: with more each item goes to fewer slots from the start.
        write_heads: how many heads the write has (ours): each has scores of its own, of `width / write_heads` units,
            and a part of every slot takes what it chooses; 1, as printed.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import RehearsalMemory, memorize
    >>> memory = RehearsalMemory(num_slots=4, width=8, segment=3, layers=1, heads=2)
    >>> params = memory.init(jax.random.key(0), jnp.ones((5, 3, 8)), method=memorize)
    >>> slots, _ = memory.apply(params, jnp.ones((5, 3, 8)), method=memorize)
    >>> slots.shape
    (4, 8)
    """

    width: int
    segment: int
    layers: int = 3
    heads: int = 4
    encoder: str = "transformer"
    normalize: WriteNormalize = "slots"
    initial_std: float = 1.0
    time_constant: float = 1.0
    write_gain: float = 1.0
    dtype: Any = jnp.float32
    context: int = 0
    scores: str = "additive"
    position_std: float = 0.02
    score_gain: float = 1.0
    write_heads: int = 1

    def validate(self) -> None:
        at_least(self, 1, "num_slots", "width", "segment", "heads", "write_heads")
        at_least(self, 0, "layers", "context")
        check_multiple(self, "width", "heads", "write_heads")
        one_of(self, ("transformer", "gru"), "encoder")
        check_scales(self, "initial_std", "time_constant", "write_gain", "position_std", "score_gain")
        require(self.encoder != "gru" or self.width % 2 == 0, f"width {self.width} must be even for the gru encoder")
        one_of(self, get_args(WriteNormalize), "normalize")
        one_of(self, ("additive", "dot", "both"), "scores")
        # One slot takes all of every item, whatever its score.
        require(self.scores != "both" or self.num_slots >= 4, "slots must be at least 4 for scores of both kinds")

    def setup(self):
        self.validate()
        if self.encoder == "gru":
            self.encode_segments = GRUEncoder(self.width, self.dtype)
        else:
            sizes = self.width, self.context + self.segment, self.layers, self.heads
            self.encode_segments = TransformerEncoder(*sizes, self.dtype, self.position_std)
        self.start = self.param("initial_slots", nn.initializers.normal(self.initial_std), (self.num_slots, self.width))
        kinds = {"": "additive", "dot_": "dot"} if self.scores == "both" else {"": self.scores}
        self.writes = tuple(
            ops.SlotWriteParams(
                self.attention_params(kind, f"{prefix}attention"), self.update_params(f"{prefix}update")
            )
            for prefix, kind in kinds.items()
        )

    def attention_params(self, kind: str, name: str) -> ops.AdditiveParams | ops.DotParams | ops.MultiHeadScoreParams:
        """The weights of the scores of one kind."""
        heads = (self.write_heads,) if self.write_heads > 1 else ()
        sizes = self.width, self.width, self.width // self.write_heads, *heads
        make = dot_params if kind == "dot" else additive_params
        params = make(self, name, *sizes, gain=self.score_gain)
        return ops.MultiHeadScoreParams(params) if heads else params

    def update_params(self, name: str) -> ops.GRUParams | ops.MultiHeadGRUParams:
        """The weights of a gated update; Continual Memory has others."""
        return gru_params(self, name, self.width, self.width, gain=self.write_gain, time_constant=self.time_constant)

    def parts(self, slots: Float[Array, "K d"]) -> list[Array]:
        """The slots that each of `writes` writes: all of them, or two halves."""
        return jnp.split(slots, [-(-self.num_slots // 2)]) if len(self.writes) > 1 else [slots]

    def features_of(self, encoded: Float[Array, "T N d"]) -> tuple[ops.SegmentFeatures, ...]:
        """What each of `writes` needs of the encoded items."""
        return tuple(ops.segment_features(params, encoded) for params in self.writes)

    def initial_state(self) -> State:
        start = self.start.astype(jnp.promote_types(self.start.dtype, jnp.float32))  # the parameter may be bfloat16
        if not self.context:
            return start
        return ContextState(start, jnp.zeros((self.context, self.width)), jnp.zeros(self.context))

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> tuple[ops.SegmentFeatures, ...] | Array:
        check_items(items, self.width)
        if self.context:
            return items  # what a segment is encoded with is known to the write alone
        return self.features_of(self.encode_segments(items, mask))

    def encode_in_context(
        self, state: ContextState, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]
    ) -> tuple[tuple[ops.SegmentFeatures, ...], Float[Array, "C d"], Float[Array, "C"]]:
        """Encodes segments together with the items before each.

        Args:
            state: before them.
            items: of the segments.
            mask: which of them are no padding.

        Returns:
            Their features, and what the state after them keeps: the last items, and which of them are real.
        """
        items = jnp.where(mask[..., None], items, 0)
        seen, seen_mask = ops.preceding_rows(items, mask, state.items, state.items_mask > 0)
        seen, seen_mask = replicate_over_sequence((seen, seen_mask))
        widened = jnp.concatenate([seen[:-1].astype(items.dtype), items], axis=1)
        encoded = self.encode_segments(widened, jnp.concatenate([seen_mask[:-1], mask], axis=1))
        features = self.features_of(encoded[:, self.context :])
        return features, seen[-1].astype(state.items.dtype), seen_mask[-1].astype(state.items_mask.dtype)

    def write(
        self,
        state: State,
        features: Any,
        mask: Bool[Array, "N"],
        *,
        key: Key | None = None,
    ) -> tuple[State, Float[Array, ""]]:
        if self.context:
            return self.write_stream(state, features[None], mask[None], key=key)
        write = functools.partial(ops.write_segment, mask=mask, normalize=self.normalize)
        return jnp.concatenate([*map(write, self.writes, self.parts(state), features)]), jnp.zeros((), jnp.float32)

    def write_stream(
        self,
        state: State,
        features: Any,
        mask: Bool[Array, "T N"],
        *,
        key: Key | None = None,
    ) -> tuple[State, Float[Array, ""]]:
        aux_loss = jnp.zeros((), jnp.float32)
        if not self.context:
            return self.written(state, features, mask), aux_loss
        features, items, real = self.encode_in_context(state, features, mask)
        return ContextState(self.written(state.slots, features, mask), items, real), aux_loss

    def written(
        self, slots: Float[Array, "K d"], features: tuple[ops.SegmentFeatures, ...], mask: Bool[Array, "T N"]
    ) -> Float[Array, "K d"]:
        """The slots after the segments of these features."""
        features, mask = replicate_over_sequence((features, mask))
        write = functools.partial(ops.write_stream, mask=mask, normalize=self.normalize, remat=True)
        return jnp.concatenate([*map(write, self.writes, self.parts(slots), features)])

    def slots(self, state: State) -> Slots:
        slots = state.slots if self.context else state
        return Slots(slots, jnp.ones(self.num_slots, bool))
