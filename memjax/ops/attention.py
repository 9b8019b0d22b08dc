"""Attention by additive scores or dot products; on it items choose slots, and a query reads slots in hops."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.typing import Annotated, Array, Bool, Float, Normalize


class AdditiveParams(NamedTuple):
    """Weights of `v · tanh(left W_l + right W_r + b)`.

    Attributes:
        w_left: of the left side.
        w_right: of the right side.
        b: added inside the tanh.
        v: makes a number of it.
    """

    w_left: Float[Array, "dl h"]
    w_right: Float[Array, "dr h"]
    b: Float[Array, "h"]
    v: Float[Array, "h"]


class DotParams(NamedTuple):
    """Weights of `(left W_l + b) · (right W_r) / sqrt(h)`.

    Attributes:
        w_left: of the left side.
        w_right: of the right side.
        b: added to the left side.
    """

    w_left: Float[Array, "dl h"]
    w_right: Float[Array, "dr h"]
    b: Float[Array, "h"]


class MultiHeadScoreParams(NamedTuple):
    """Weights of Z heads, each with scores of its own.

    Attributes:
        heads: of one kind, stacked over Z.
    """

    heads: (
        Annotated[AdditiveParams, Axes("dl", "dr", "h", lead="Z")]
        | Annotated[DotParams, Axes("dl", "dr", "h", lead="Z")]
    )


class HopParams(NamedTuple):
    """One hop of `multi_hop_read`.

    Attributes:
        attention: query on the left, slots on the right; the paper's scores are additive.
    """

    attention: Annotated[AdditiveParams, Axes(dl="h", dr="dm")] | Annotated[DotParams, Axes(dl="h", dr="dm")]


class ReadParams(NamedTuple):
    """The hops of `multi_hop_read`, and the query update that they share.

    Attributes:
        hops: one for each hop.
        w_query: makes the next query of what was read and the query.
    """

    hops: tuple[Annotated[HopParams, Axes("h", "dm")], ...]
    w_query: Float[Array, "dm+h h"]


def accumulated(x: Array, w: Array) -> Array:
    """`x @ w` with inputs in x's dtype and the sum in at least float32."""
    return jnp.matmul(x, w.astype(x.dtype), preferred_element_type=jnp.promote_types(x.dtype, jnp.float32))


@checked
def additive_scores(
    params: Annotated[AdditiveParams, Axes("dl", "dr")], left: Float[Array, "A dl"], right: Float[Array, "B dr"]
) -> Float[Array, "A B"]:
    """Additive attention logits, `scores[a, b] = v · tanh(left_a W_l + right_b W_r + b)`.

    Source: Rehearsal Memory (Zhang et al. 2021), Eq. 1. Computed in `right`'s dtype, summed in float32 or better.

    Args:
        params: the weights.
        left: A vectors.
        right: B vectors, in whose dtype the products are taken.

    Returns:
        The logits of all pairs, in float32 or better.

    >>> import jax.numpy as jnp
    >>> params = AdditiveParams(jnp.eye(2), jnp.eye(2), jnp.zeros(2), jnp.ones(2))
    >>> additive_scores(params, jnp.zeros((3, 2)), jnp.zeros((4, 2))).shape
    (3, 4)
    """
    return projected_scores(params, left, project_items(params, right))


@checked
def dot_scores(
    params: Annotated[DotParams, Axes("dl", "dr")], left: Float[Array, "A dl"], right: Float[Array, "B dr"]
) -> Float[Array, "A B"]:
    """Attention logits by a dot product, `scores[a, b] = (left_a W_l + b) · (right_b W_r) / sqrt(h)`.

    Source: Vaswani et al. 2017, Eq. 1. Computed in `right`'s dtype, summed in float32 or better.

    Args:
        params: the weights.
        left: A vectors.
        right: B vectors, in whose dtype the products are taken.

    Returns:
        The logits of all pairs, in float32 or better.

    >>> import jax.numpy as jnp
    >>> dot_scores(DotParams(jnp.eye(4), jnp.eye(4), jnp.ones(4)), jnp.zeros((1, 4)), jnp.ones((1, 4))).tolist()
    [[2.0]]
    """
    return projected_scores(params, left, project_items(params, right))


def projected_scores(
    params: AdditiveParams | DotParams, left: Float[Array, "A dl"], projected_right: Float[Array, "B h"]
) -> Float[Array, "A B"]:
    """`additive_scores` or `dot_scores` from `project_items` of the right side."""
    dtype = projected_right.dtype
    left_AxH = (accumulated(left.astype(dtype), params.w_left) + params.b).astype(dtype)
    if isinstance(params, DotParams):
        return accumulated(left_AxH, projected_right.T) * left_AxH.shape[-1] ** -0.5
    hidden_AxBxH = jnp.tanh(left_AxH[:, None, :] + projected_right[None, :, :])
    return accumulated(hidden_AxBxH, params.v)


@checked
def project_items(
    params: Annotated[AdditiveParams, Axes("dr")]
    | Annotated[DotParams, Axes("dr")]
    | Annotated[MultiHeadScoreParams, Axes("dr")],
    items: Float[Array, "*axes dr"],
) -> Float[Array, "*axes H"]:
    """`items @ w_right`: the part of the scores that does not see the left side, to be computed once.

    Args:
        params: the weights, of one head or of several.
        items: of the right side, with any leading axes.

    Returns:
        Their part of the sum inside the tanh, or of the product; of several heads side by side.

    >>> import jax.numpy as jnp
    >>> params = AdditiveParams(jnp.eye(2), 2 * jnp.eye(2), jnp.zeros(2), jnp.ones(2))
    >>> project_items(params, jnp.ones((1, 2))).tolist()
    [[2.0, 2.0]]
    """
    if isinstance(params, MultiHeadScoreParams):
        by_head = jax.vmap(lambda head: project_items(head, items), out_axes=-2)(params.heads)
        return by_head.reshape(*items.shape[:-1], math.prod(by_head.shape[-2:]))
    return accumulated(items, params.w_right).astype(items.dtype)


def masked_softmax(scores: Float[Array, "*axes"], mask: Bool[Array, "..."], axis: int) -> Float[Array, "*axes"]:
    """Softmax over the entries that the mask keeps; all zeros, and finite gradients, where it keeps none.

    >>> import jax.numpy as jnp
    >>> masked_softmax(jnp.zeros(4), jnp.array([True, True, False, False]), axis=0).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    # A finite floor instead of -inf: an all-masked row would turn into NaN, in the gradient too.
    floored = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    return jnp.where(mask, jax.nn.softmax(floored, axis=axis), 0)


@checked
def slot_attention(
    params: Annotated[AdditiveParams, Axes(dl="dm", dr="dx")] | Annotated[DotParams, Axes(dl="dm", dr="dx")],
    slots: Float[Array, "K dm"],
    items: Float[Array, "N dx"],
    mask: Bool[Array, "N"] | None = None,
    *,
    normalize: Normalize = "slots",
) -> tuple[Float[Array, "K N"], Float[Array, "K dx"]]:
    """Items choose the slots they are written to.

    `weights[k, n] = softmax_k(v · tanh(W_l m_k + W_r f_n + b))`, `aligned_k = sum_n weights[k, n] f_n`. Source:
    Rehearsal Memory, Eq. 1; Continual Memory (Zhang et al. 2021), Eq. 1. As printed, each item hands out one unit of
    mass over the slots; `normalize="items"` lets each slot take one unit over the items instead (an ablation). With
    `DotParams` the scores are `dot_scores` instead (ours). Weights are float32 or better.

    Args:
        params: slots on the left, items on the right.
        slots: K vectors.
        items: of a segment.
        mask: which items are no padding; the others have weight 0.
        normalize: over what the weights of an item, or of a slot, add up to 1.

    Returns:
        The weights, and for each slot the weighted sum of the items.

    >>> import jax.numpy as jnp
    >>> params = AdditiveParams(jnp.eye(2), jnp.eye(2), jnp.zeros(2), jnp.ones(2))
    >>> weights, aligned = slot_attention(params, jnp.zeros((4, 2)), jnp.ones((3, 2)))
    >>> weights.sum(0).tolist()
    [1.0, 1.0, 1.0]
    """
    if mask is None:
        mask = jnp.ones(items.shape[0], bool)
    # Padding may hold anything, even NaN, and 0 * NaN is NaN, in the gradient too: it is cleared, not weighted by 0.
    items = jnp.where(mask[:, None], items, 0)
    weights_KxN = slot_weights(params, slots, project_items(params, items), mask, normalize=normalize)
    return weights_KxN, accumulated(weights_KxN.astype(items.dtype), items)


def slot_weights(
    params: AdditiveParams | DotParams,
    slots: Float[Array, "K dm"],
    projected_items: Float[Array, "N h"],
    mask: Bool[Array, "N"],
    *,
    normalize: Normalize,
) -> Float[Array, "K N"]:
    """The weights of `slot_attention`, from `project_items`."""
    scores_KxN = projected_scores(params, slots, projected_items)
    if normalize == "slots":
        return jnp.where(mask, jax.nn.softmax(scores_KxN, axis=0), 0)
    return masked_softmax(scores_KxN, mask, axis=1)


@checked
def multi_hop_read(
    params: Annotated[ReadParams, Axes("dm", "h")],
    slots: Float[Array, "K dm"],
    query: Float[Array, "h"],
    slot_mask: Bool[Array, "K"] | None = None,
) -> Float[Array, "h"]:
    """Reads the slots in C hops, each one refining the query.

    Per hop c: `g_k = v_c · tanh(W1_c q + W2_c m_k + b_c)`, `e = softmax(g) · m`, `q <- [e; q] W_q`, with W_q shared by
    the hops. Source: Rehearsal Memory, appendix A. With `DotParams` `g_k` is of `dot_scores` instead (ours).

    Args:
        params: of the hops.
        slots: what is read.
        query: what is asked.
        slot_mask: which slots may be read; all, if not given.

    Returns:
        The query after the last hop.

    >>> import jax.numpy as jnp
    >>> hop = HopParams(AdditiveParams(jnp.eye(2), jnp.eye(2), jnp.zeros(2), jnp.ones(2)))
    >>> multi_hop_read(ReadParams((hop, hop), jnp.ones((4, 2))), jnp.ones((3, 2)), jnp.zeros(2)).shape
    (2,)
    """
    return read_by_hops(params, slots, query, slot_mask)[1]


def read_by_hops(
    params: ReadParams, slots: Float[Array, "K dm"], query: Float[Array, "h"], slot_mask: Bool[Array, "K"] | None
) -> tuple[Float[Array, "C K"], Float[Array, "h"]]:
    """`multi_hop_read`, and at each hop the weights of the slots."""
    if slot_mask is None:
        slot_mask = jnp.ones(slots.shape[0], bool)
    slots, weights = jnp.where(slot_mask[:, None], slots, 0), []
    of_read, of_query = jnp.split(params.w_query, [slots.shape[1]])
    for hop in params.hops:
        scores_K = projected_scores(hop.attention, query[None, :], project_items(hop.attention, slots))[0]
        weights.append(masked_softmax(scores_K, slot_mask, axis=0))
        read = accumulated(weights[-1].astype(slots.dtype), slots)
        # [e; q] W_q as two products: XLA fused the concatenation with the softmax, wrongly on an H100 (jax 0.11.2).
        both = accumulated(read.astype(slots.dtype), of_read) + accumulated(query.astype(slots.dtype), of_query)
        query = both.astype(query.dtype)
    return jnp.asarray(weights, jnp.float32).reshape(len(weights), slots.shape[0]), query
