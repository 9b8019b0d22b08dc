"""The Compressive Transformer (Rae et al. 2019) under the contract: recent segments as they were, older ones short."""

from typing import NamedTuple

import flax.linen as nn
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least, check_multiple
from memjax.errors import require
from memjax.memories.encoders import EPSILON, FeedForward
from memjax.memories.memory import Memory, Slots, check_features, check_items
from memjax.ops.exportable import exportable
from memjax.ops.recurrence import tree_where
from memjax.typing import Any, Array, Bool, Float, Key


@exportable
class CompressiveState(NamedTuple):
    """Of each level, R segments of N hidden states, then what was compressed; newest last. Masks are 1 or 0.

    Attributes:
        recent: of each level, the hidden states of R segments, newest last.
        recent_mask: which of them are real, 1 or 0.
        compressed: of each level, what was compressed, newest last.
        compressed_mask: which of them are real, 1 or 0.
    """

    recent: Float[Array, "levels RN d"]
    recent_mask: Float[Array, "RN"]
    compressed: Float[Array, "levels K d"]
    compressed_mask: Float[Array, "K"]


class CompressiveMemory(Memory):
    """Per layer `x <- x + W_o attention(x over [compressed | recent | x])`, `x <- x + FFN(norm(x))`; then both FIFOs.

    Source: Rae et al. 2019 (1911.05507), Algorithm 1. A layer's FIFOs hold its inputs: the last `recent` segments, and
    K rows of what left them, each made of `rate` hidden states by `ops.compress_rows`. The auxiliary loss is
    `ops.reconstruction_loss`, of what leaves with this segment, the mean over the layers; of a stream it is the sum
    over its segments. It teaches the layers' compressors and nothing else.

    Ours: a segment is written as a whole, so that its items see each other in both directions. Positions are learned,
    in the segment for the items, by age for the rows of the context (`ages`, in the keys alone). Padding takes no room
    among the compressed rows. What layers put out last is a level of its own, with both FIFOs; no layer reads it, it is
    there for the reader, whose loss trains its compressor. The slots are its compressed rows, as they would be if all
    segments had left the first FIFO: what is in it is compressed to be read. K must have room for that.

    A segment may be shorter than `segment`; items must be `width` wide.

    Args:
        num_slots: K, the compressed rows.
        width: of an item and of a slot.
        segment: the most items of a segment.
        layers: of the transformer.
        heads: of its attention.
        rate: how many hidden states become one.
        recent: R, how many segments are kept as they were.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import CompressiveMemory, memorize
    >>> memory = CompressiveMemory(num_slots=6, width=8, segment=4, layers=1, heads=2, rate=2)
    >>> params = memory.init(jax.random.key(0), jnp.ones((2, 4, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((2, 4, 8)), method=memorize)
    >>> memory.apply(params, state, method="slots").mask.tolist()
    [False, False, True, True, True, True]
    """

    width: int
    segment: int
    layers: int = 3
    heads: int = 4
    rate: int = 5
    recent: int = 1
    dtype: Any = jnp.float32

    def validate(self) -> None:
        at_least(self, 1, "num_slots", "width", "segment", "layers", "heads", "rate", "recent")
        check_multiple(self, "width", "heads")
        least = self.recent * -(-self.segment // self.rate)
        require(
            self.num_slots >= least,
            f"slots must be at least {least}, recent {self.recent} x segment {self.segment} at rate {self.rate}, "
            f"not {self.num_slots}: what is not compressed yet is compressed to be read",
        )

    def setup(self):
        self.validate()
        width, heads = self.width, self.heads
        normal, ones, zeros = nn.initializers.normal, nn.initializers.ones_init(), nn.initializers.zeros_init()
        dense = nn.initializers.lecun_normal()
        by_head = nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal", in_axis=0, out_axis=(1, 2))
        self.positions = self.param("positions", normal(0.02), (self.segment, width))
        context = self.num_slots + (self.recent + 1) * self.segment
        self.ages = self.param("ages", normal(0.02), (context, width))
        self.attentions = [
            ops.MemoryAttentionParams(
                self.param(f"attention_{i}_scale", ones, (width,)),
                self.param(f"attention_{i}_bias", zeros, (width,)),
                *(
                    self.param(f"attention_{i}_w_{name}", by_head, (width, heads, width // heads))
                    for name in ("query", "key", "value")
                ),
            )
            for i in range(self.layers)
        ]
        self.outs = [self.param(f"w_out_{i}", dense, (width, width)) for i in range(self.layers)]
        self.feed_forward = [FeedForward(width, self.dtype) for _ in range(self.layers)]
        self.norms = [nn.LayerNorm(EPSILON, dtype=self.dtype) for _ in range(self.layers + 1)]
        self.compressors = [
            ops.CompressorParams(
                self.param(f"compressor_{i}_w", dense, (self.rate, width, width)),
                self.param(f"compressor_{i}_b", zeros, (width,)),
            )
            for i in range(self.layers + 1)
        ]

    def initial_state(self) -> CompressiveState:
        levels, kept = self.layers + 1, self.recent * self.segment
        return CompressiveState(
            jnp.zeros((levels, kept, self.width)),
            jnp.zeros(kept),
            jnp.zeros((levels, self.num_slots, self.width)),
            jnp.zeros(self.num_slots),
        )

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Float[Array, "T N d"]:
        check_items(items, self.width)
        length = items.shape[1]
        require(length <= self.segment, f"got segments of {length} items; this memory was made for {self.segment}")
        return jnp.where(mask[..., None], items, 0).astype(self.dtype) + self.positions[:length].astype(self.dtype)

    def write(
        self, state: CompressiveState, features: Float[Array, "N d"], mask: Bool[Array, "N"], *, key: Key | None = None
    ) -> tuple[CompressiveState, Float[Array, ""]]:
        check_features(features, self.width)
        shorter = self.segment - features.shape[0]
        x, mask = jnp.pad(features, ((0, shorter), (0, 0))), jnp.pad(mask, (0, shorter))
        levels, aux_loss = self.run_layers(state, jnp.where(mask[:, None], x, 0), mask)
        written = self.pushed(state, levels, mask)
        real = mask.any()
        return tree_where(real, written, state), jnp.where(real, aux_loss, 0)

    def run_layers(
        self, state: CompressiveState, x: Float[Array, "N d"], mask: Bool[Array, "N"]
    ) -> tuple[list[Array], Float[Array, ""]]:
        """Reads a segment, with the context that the state holds.

        Args:
            state: before the segment.
            x: its items, padding zero.
            mask: which of them are no padding.

        Returns:
            The hidden states of each level, padding zero, and the auxiliary loss.
        """
        levels, aux_loss = [x], jnp.zeros((), jnp.float32)
        seen = jnp.concatenate([state.compressed_mask > 0, state.recent_mask > 0, mask])
        leaving_mask = state.recent_mask[: self.segment] > 0
        for i, (attention, compressor) in enumerate(zip(self.attentions, self.compressors, strict=False)):
            context = jnp.concatenate([state.compressed[i], state.recent[i], x.astype(state.recent.dtype)])
            leaving = state.recent[i, : self.segment]
            lost = ops.reconstruction_loss(attention, compressor, x, mask, leaving, leaving_mask)
            aux_loss += lost.astype(aux_loss.dtype) / self.layers
            read = ops.memory_attention(attention, x, context, seen, self.ages).astype(self.dtype)
            x = x + read @ self.outs[i].astype(self.dtype)
            x = x + self.feed_forward[i](self.norms[i](x))
            x = jnp.where(mask[:, None], x, 0)
            levels.append(x)
        levels[-1] = jnp.where(mask[:, None], self.norms[-1](x), 0)
        return levels, aux_loss

    def pushed(self, state: CompressiveState, levels: list[Array], mask: Bool[Array, "N"]) -> CompressiveState:
        """The state when a segment has come into it, and the oldest of the recent ones is compressed.

        Args:
            state: before the segment.
            levels: the segment's hidden states of each level.
            mask: which items are no padding.
        """
        recent, compressed = [], []
        leaving_mask, dtype = state.recent_mask[: self.segment] > 0, state.recent.dtype
        for i, (new, compressor) in enumerate(zip(levels, self.compressors, strict=True)):
            recent.append(jnp.concatenate([state.recent[i, self.segment :], new.astype(dtype)]))
            short, short_mask = ops.compress_rows(compressor, state.recent[i, : self.segment], leaving_mask)
            kept_mask = jnp.concatenate([state.compressed_mask > 0, short_mask])
            rows, filled = ops.newest_rows(jnp.concatenate([state.compressed[i], short]), kept_mask, self.num_slots)
            compressed.append(rows)
        recent_mask = jnp.concatenate([state.recent_mask[self.segment :], mask.astype(dtype)])
        return CompressiveState(jnp.stack(recent), recent_mask, jnp.stack(compressed), filled.astype(dtype))

    def slots(self, state: CompressiveState) -> Slots:
        rows, mask = [state.compressed[-1]], [state.compressed_mask > 0]
        for start in range(0, self.recent * self.segment, self.segment):
            segment = slice(start, start + self.segment)
            short = ops.compress_rows(self.compressors[-1], state.recent[-1, segment], state.recent_mask[segment] > 0)
            rows.append(short[0])
            mask.append(short[1])
        return Slots(*ops.newest_rows(jnp.concatenate(rows), jnp.concatenate(mask), self.num_slots))
