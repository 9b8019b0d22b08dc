"""The rehearser: a Transformer decoder that recalls a fragment from the slots, and judges whether it was there."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.memories import Slots
from memjax.memories.encoders import EPSILON, Attention, FeedForward
from memjax.models.embeddings import PartEmbed, Table
from memjax.models.fragments import Among, Fragments
from memjax.typing import Any, Array, Bool, Float, Int, Key


class DecoderBlock(nn.Module):
    """Self-attention over a fragment, attention over the slots, feed-forward; pre-norm.

    Args:
        width: of items.
        heads: of the attention.
        dtype: of the products.
    """

    width: int
    heads: int
    dtype: Any

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "F N d"],
        mask: Bool[Array, "F N"],
        slots: Float[Array, "K d"],
        slot_mask: Bool[Array, "K"],
    ) -> Float[Array, "F N d"]:
        def norm(x):
            return nn.LayerNorm(EPSILON, dtype=self.dtype)(x)

        y = norm(x)
        x = x + Attention(self.heads, self.dtype)(y, y, mask)
        # All items of all fragments ask the same slots: one long query, so keys and values are computed once.
        asked = norm(x).reshape(-1, self.width)
        x = x + Attention(self.heads, self.dtype)(asked, slots, slot_mask).reshape(x.shape)
        return x + FeedForward(self.width, self.dtype)(norm(x))


class Rehearser(nn.Module):
    """Rehearsal Memory, 3.3.1: recollection (Eq. 3) and familiarity (Eq. 4) of fragments, from the slots alone.

    A learned [mask] stands for a hidden item, a learned [cls] in front is judged. Between the decoder and the inner
    product with the items' embeddings, which Eq. 3 takes of what the decoder says, are a layer norm, as behind any
    decoder with pre-norm, and a matrix; the paper prints neither. With `tied` there is no matrix.

    Args:
        width: of items and slots.
        segment: the most items of a fragment.
        layers: of the decoder.
        heads: of its attention.
        norm_slots: LayerNorm on the slots before they are asked, as pre-norm decoders have it on what they attend to;
            the paper does not say.
        dtype: of the products.
        item_scale: how many times larger than given the items are taken in, with their positions.
        position_std: the standard deviation of the positions at the start.
        tied: whether what the decoder says is compared with the items' embeddings as it is.
    """

    width: int
    segment: int
    layers: int
    heads: int
    norm_slots: bool = False
    dtype: Any = jnp.float32
    item_scale: float = 1.0
    position_std: float = 0.02
    tied: bool = False

    @nn.compact
    def __call__(
        self, slots: Slots, items: Float[Array, "F N d"], real: Bool[Array, "F N"], hidden: Bool[Array, "F N"]
    ) -> tuple[Float[Array, "F N d"], Float[Array, "F"]]:
        """Returns the features of all items (to be compared with item embeddings) and the familiarity logits."""
        normal = nn.initializers.normal(self.width**-0.5)  # the scale of the embeddings
        cls = self.param("cls", normal, (self.width,))
        blank = self.param("mask", normal, (self.width,))
        positions = self.param("positions", nn.initializers.normal(self.position_std), (self.segment + 1, self.width))
        items = jnp.where(hidden[..., None], blank, items)
        first = jnp.broadcast_to(cls, (items.shape[0], 1, self.width))
        x = self.item_scale * (jnp.concatenate([first, items], axis=1) + positions[: items.shape[1] + 1])
        x = x.astype(self.dtype)
        mask = jnp.pad(real, ((0, 0), (1, 0)), constant_values=True)
        memory = slots.values.astype(self.dtype)
        if self.norm_slots:
            memory = nn.LayerNorm(EPSILON, dtype=self.dtype, name="slot_norm")(memory)
        for _ in range(self.layers):
            x = DecoderBlock(self.width, self.heads, self.dtype)(x, mask, memory, slots.mask)
        x = nn.LayerNorm(EPSILON, dtype=self.dtype)(x)
        recalled = x[:, 1:]
        if not self.tied:
            recalled = nn.Dense(self.width, dtype=self.dtype, name="recall")(recalled)
        logits = nn.Dense(1, dtype=jnp.float32, name="judge")(x[:, 0])[:, 0]
        return recalled, logits


def rehearsal_losses(
    rehearser: Rehearser,
    slots: Slots,
    fragments: Fragments,
    embed: nn.Embed | PartEmbed | Table,
    *,
    negatives: int,
    key: Key,
    among: Among | None = None,
    vectors: Float[Array, "V dv"] | None = None,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The losses of one stream's fragments.

    Args:
        rehearser: bound to its parameters.
        slots: of the memory.
        fragments: of its stream.
        embed: of the items.
        negatives: from how many drawn items a hidden one is told; 0 for the whole vocabulary.
        key: to draw them with.
        among: the stream's items, from which they are drawn; without, from the whole vocabulary.
        vectors: of the fragments' ids, where items are vectors.

    Returns:
        The recollection and the familiarity loss: means over fragments, of each the mean over its hidden items.
    """
    count = fragments.items.shape[0]
    both = jnp.concatenate([fragments.items, fragments.negative])
    recalled, logits = rehearser(
        slots, embed(both), jnp.tile(fragments.real, (2, 1)), jnp.tile(fragments.hidden, (2, 1))
    )
    familiarity = ops.familiarity_loss(logits[:count], logits[count:], fragments.contrast)
    predicted = recalled[:count]
    if not negatives:
        targets, valid, candidates = fragments.items, None, embed.embedding
    else:
        if among is None:
            targets, valid, ids = sampled_candidates(key, fragments.items, negatives, embed.num_embeddings)
        else:
            targets, valid, ids = stream_candidates(key, fragments.items, negatives, among, vectors)
        candidates = embed(ids)
    per_fragment = jax.vmap(lambda p, t, h, v: ops.recollection_loss(p, candidates, t, h, valid=v))
    losses_F = per_fragment(predicted, targets, fragments.hidden, valid)
    drawn = fragments.drawn & fragments.hidden.any(-1)
    recollection = jnp.where(drawn, losses_F, 0).sum() / jnp.maximum(drawn.sum(), 1)
    return recollection, familiarity


def sampled_candidates(
    key: Key, items: Int[Array, "F N"], negatives: int, vocabulary: int
) -> tuple[Int[Array, "F N"], Bool[Array, "F N FN_J"], Int[Array, "FN_J"]]:
    """Candidates for recollection: the true items and J drawn ones.

    Args:
        key: to draw with.
        items: the true ones.
        negatives: J.
        vocabulary: ids are drawn from [0, vocabulary).

    Returns:
        For each item, its place among the candidates, and which of the drawn ones count beside it, those that are not
        equal to it; and the ids of all candidates.
    """
    flat = items.reshape(-1)
    drawn = jax.random.randint(key, (negatives,), 0, vocabulary)
    ids = jnp.concatenate([flat, drawn])
    targets = jnp.arange(flat.size).reshape(items.shape)
    sampled = jnp.arange(ids.size) >= flat.size
    return targets, sampled & (ids != items[..., None]), ids


def stream_candidates(
    key: Key, items: Int[Array, "F N"], negatives: int, among: Among, vectors: Float[Array, "V dv"] | None = None
) -> tuple[Int[Array, "F N"], Bool[Array, "F N FN_J"], Int[Array, "FN_J"]]:
    """As `sampled_candidates`, but the J drawn ones are items of the same stream, each place of it at most once.

    What a stream is like says nothing then of which of its items is hidden.

    Args:
        key: to draw with.
        items: the true ones.
        negatives: J; a shorter stream gives as many as it has.
        among: the stream's items.
        vectors: of the ids, where items are vectors: one that equals the true one, elsewhere in the stream, does not
            count.
    """
    flat = items.reshape(-1)
    tickets = jnp.where(among.real, jax.random.uniform(key, among.ids.shape), -1)
    highest, places = jax.lax.top_k(tickets, min(negatives, among.ids.size))
    ids = jnp.concatenate([flat, among.ids[places]])
    targets = jnp.arange(flat.size).reshape(items.shape)
    drawn = jnp.concatenate([jnp.zeros(flat.size, bool), highest >= 0])
    other = ids != items[..., None]
    if vectors is not None:
        differs = (vectors[ids[flat.size :]] != vectors[flat][:, None]).any(-1).reshape(*items.shape, -1)
        other = other.at[..., flat.size :].set(differs)
    return targets, drawn & other, ids
