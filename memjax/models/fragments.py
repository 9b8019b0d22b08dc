"""What is rehearsed: fragments of a stream, their masked positives and their corrupted negatives. One example.

Source: Rehearsal Memory, 3.3; Continual Memory, 3.3. A fragment is a segment of the stream, as item ids.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.typing import Array, Bool, Float, Int, Key, Stream


class Fragments(NamedTuple):
    """F fragments of N items.

    Attributes:
        items: the true ids.
        negative: the ids with some of them replaced.
        real: which items are no padding.
        hidden: which are masked, the same in both.
        drawn: which fragments count.
        contrast: which pairs count for familiarity: those where something could be replaced.
    """

    items: Int[Array, "F N"]
    negative: Int[Array, "F N"]
    real: Bool[Array, "F N"]
    hidden: Bool[Array, "F N"]
    drawn: Bool[Array, "F"]
    contrast: Bool[Array, "F"]


class Among(NamedTuple):
    """The items of a stream, among which a hidden one is to be told.

    Attributes:
        ids: of them.
        real: which are no padding.
    """

    ids: Int[Array, "L"]
    real: Bool[Array, "L"]


def as_ids(
    stream: Stream, mask: Bool[Array, "T N"], other: Stream, other_mask: Bool[Array, "T N"]
) -> tuple[Int[Array, "T N"], Int[Array, "T N"], Float[Array, "V dv"] | None]:
    """Two streams as ids: those of vectors by their places, one stream behind the other.

    Args:
        stream: of ids, or of vectors.
        mask: which of its items are no padding.
        other: a stream of the same kind.
        other_mask: which of its items are no padding.

    The same vector at two places has two ids: a negative may then be what was there.

    Returns:
        Both as ids, and the vectors of these ids, 0 for padding; None where they were ids before.

    >>> import jax.numpy as jnp
    >>> mask = jnp.ones((2, 3), bool)
    >>> ids, other, vectors = as_ids(jnp.zeros((2, 3, 5)), mask, jnp.ones((2, 3, 5)), mask)
    >>> ids.tolist(), other.tolist(), vectors.shape
    ([[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]], (12, 5))
    """
    if stream.ndim == 2:
        return stream, other, None
    ids = jnp.arange(mask.size).reshape(mask.shape)
    both = jnp.where(mask[..., None], stream, 0), jnp.where(other_mask[..., None], other, 0)
    return ids, ids.size + ids, jnp.concatenate([x.reshape(-1, x.shape[-1]) for x in both])


def choose(key: Key, among: Bool[Array, "*F N"], ratio: float) -> Bool[Array, "*F N"]:
    """A random subset along the last axis.

    Args:
        key: to draw with.
        among: of the true entries of this.
        ratio: the share that is drawn, rounded, but at least one.

    >>> import jax, jax.numpy as jnp
    >>> choose(jax.random.key(0), jnp.array([True] * 8 + [False] * 2), 0.5).sum().item()
    4
    """
    ticket = jnp.where(among, jax.random.uniform(key, among.shape), 2.0)
    # Rank by pairwise comparison: N is small, and a sort does not shard.
    rank = (ticket[..., None, :] < ticket[..., :, None]).sum(-1)
    available = among.sum(-1, keepdims=True)
    count = jnp.clip(jnp.floor(ratio * available + 0.5), jnp.minimum(1, available), available)
    return among & (rank < count)


def replacements(
    key: Key, items: Int[Array, "F N"], other: Int[Array, "T N"], other_mask: Bool[Array, "T N"]
) -> tuple[Int[Array, "F N"], Bool[Array, "F N"]]:
    """For each item, one of another stream, uniform over its items that differ.

    Args:
        key: to draw with.
        items: that are replaced.
        other: the items of the other stream.
        other_mask: which of them are no padding.

    Returns:
        The ids, and whether there was one; else the id is the item's own.
    """
    pool, pool_mask = other.reshape(-1), other_mask.reshape(-1)
    allowed = pool_mask & (pool != items[..., None])
    ordinal = jnp.cumsum(allowed, axis=-1)
    total = ordinal[..., -1]
    wanted = 1 + jnp.floor(jax.random.uniform(key, items.shape) * total)
    place = jnp.argmax(ordinal >= wanted[..., None], axis=-1)
    return jnp.where(total > 0, pool[place], items), total > 0


def draw_fragments(
    key: Key, scores: Float[Array, "T"], mask: Bool[Array, "T N"], count: int, *, deterministic: bool = False
) -> tuple[Int[Array, "F"], Bool[Array, "F"]]:
    """Draws segments, half from each half of the stream.

    Without replacement, with probability following `softmax(scores)` (Gumbel top-k). The first half is
    `floor(real segments / 2)` segments long. Padding is never drawn.

    Args:
        key: to draw with.
        scores: of each segment.
        mask: which items of the stream are no padding.
        count: how many are drawn; even.
        deterministic: whether the highest scores are taken.

    Returns:
        Their indices, and which of them are real: where a half has fewer segments than wanted, the rest is not.
    """
    real = mask.any(-1)
    segments = scores.shape[0]
    number = jnp.cumsum(real)
    early = real & (number <= real.sum() // 2)
    noise = 0.0 if deterministic else jax.random.gumbel(key, scores.shape)
    noisy = scores + noise
    chosen, drawn = [], []
    for half in (early, real & ~early):
        k = min(count // 2, segments)
        _, indices = jax.lax.top_k(jnp.where(half, noisy, -jnp.inf), k)
        chosen.append(jnp.pad(indices, (0, count // 2 - k)))
        drawn.append(jnp.arange(count // 2) < half.sum())
    return jnp.concatenate(chosen), jnp.concatenate(drawn)


def draw_anywhere(key: Key, mask: Bool[Array, "T N"], count: int) -> tuple[Int[Array, "F"], Bool[Array, "F"]]:
    """Draws segments uniformly over the whole stream, as Continual Memory does; padding is never drawn.

    Args:
        key: to draw with.
        mask: which items of the stream are no padding.
        count: how many are drawn.

    Returns:
        As of `draw_fragments`.
    """
    real = mask.any(-1)
    k = min(count, real.shape[0])
    _, indices = jax.lax.top_k(jnp.where(real, jax.random.uniform(key, real.shape), -jnp.inf), k)
    return jnp.pad(indices, (0, count - k)), jnp.arange(count) < real.sum()


def build_fragments(
    key: Key,
    stream: Int[Array, "T N"],
    mask: Bool[Array, "T N"],
    other: Int[Array, "T N"],
    other_mask: Bool[Array, "T N"],
    chosen: Int[Array, "F"],
    drawn: Bool[Array, "F"],
    *,
    mask_ratio: float,
) -> Fragments:
    """The positives and negatives of some segments.

    Positive: some of the real items are hidden. Negative: the same hidden places, and half of the visible items
    replaced by items of another stream, never by what was there.

    Args:
        key: to draw with.
        stream: as item ids.
        mask: which of its items are no padding.
        other: the other stream.
        other_mask: which of its items are no padding.
        chosen: the segments.
        drawn: which of them count.
        mask_ratio: the share of the real items that is hidden.
    """
    hide_key, choose_key, replace_key = jax.random.split(key, 3)
    real = mask[chosen]
    items = jnp.where(real, stream[chosen], 0)  # padding may hold anything; it is embedded all the same
    hidden = choose(hide_key, real, mask_ratio)
    replaced = choose(choose_key, real & ~hidden, 0.5)
    substitutes, possible = replacements(replace_key, items, other, other_mask)
    negative = jnp.where(replaced, substitutes, items)
    return Fragments(items, negative, real, hidden, drawn, drawn & (replaced & possible).any(-1))
