"""Writing a stream into slots: attention says where, a gated update says how much."""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.ops.attention import (
    AdditiveParams,
    DotParams,
    MultiHeadScoreParams,
    accumulated,
    project_items,
    slot_weights,
)
from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.ops.gru import GRUParams, MultiHeadGRUParams, project_aligned, update_from_gates
from memjax.ops.recurrence import carry_like
from memjax.typing import Annotated, Array, Bool, Float, Normalize, WriteNormalize

LEAST_MASS = 1e-6  # in the denominator of a mean; a slot that is given less hardly moves


class SlotWriteParams(NamedTuple):
    """Weights of one write, shared by all segments and all slots.

    Attributes:
        attention: slots on the left, items on the right; of one head, or of several, each for a part of every slot.
        update: of the gated update.
    """

    attention: (
        Annotated[AdditiveParams, Axes("h", dl="dm", dr="dx")]
        | Annotated[DotParams, Axes("h", dl="dm", dr="dx")]
        | Annotated[MultiHeadScoreParams, Axes(dl="dm", dr="dx")]
    )
    update: Annotated[GRUParams, Axes("dx", h="dm")] | Annotated[MultiHeadGRUParams, Axes("dx", "dm")]


class SegmentFeatures(NamedTuple):
    """Items as a write sees them: `keys` in the attention, `values` in the gates of the update.

    Attributes:
        keys: of each item, for the attention.
        values: of each item, for the gates of the update.
    """

    keys: Float[Array, "*T N h"]
    values: Float[Array, "*T N G"]


@checked
def segment_features(params: Annotated[SlotWriteParams, Axes("dx")], items: Float[Array, "*T N dx"]) -> SegmentFeatures:
    """All of a write that does not see the slots, for any number of segments at once.

    Args:
        params: of the write.
        items: of a segment, or of many.

    Returns:
        What a write needs of each item.

    >>> import jax.numpy as jnp
    >>> attention = AdditiveParams(jnp.eye(1), jnp.eye(1), jnp.zeros(1), jnp.ones(1))
    >>> update = GRUParams(jnp.ones((1, 3)), jnp.ones((1, 3)), jnp.zeros(3), jnp.zeros(3))
    >>> segment_features(SlotWriteParams(attention, update), jnp.ones((2, 1))).values.shape
    (2, 3)
    """
    values = project_aligned(params.update, items).astype(items.dtype)
    return SegmentFeatures(project_items(params.attention, items), values)


@checked
def write_segment(
    params: Annotated[SlotWriteParams, Axes("dx", "dm", "h")],
    slots: Float[Array, "K dm"],
    items: Float[Array, "N dx"] | Annotated[SegmentFeatures, Axes("N", "h", T="")],
    mask: Bool[Array, "N"] | None = None,
    *,
    normalize: WriteNormalize = "slots",
) -> Float[Array, "K dm"]:
    """Writes one segment: `slots <- update_slots(slots, slot_attention(slots, items))`.

    Source: Rehearsal Memory, Eq. 1 and 2. A segment that is padding throughout leaves the slots as they were, to the
    bit. With `normalize="mass"` (ours) a slot takes the mean of what it was given, and moves `min(mass_k, 1)` of the
    way to its update: `mass_k = sum_n weights[k, n]`, `aligned_k / mass_k` in place of `aligned_k`, `slots_k <- slots_k
    + min(mass_k, 1) (update_slots(...)_k - slots_k)`. Then a segment of many items that are alike comes in no larger
    than one, and a slot that is given nothing forgets nothing.

    With Z heads (ours) each has `weights` of its own, and `aligned` of head z is what part z of Z of a slot's units
    takes (of Continual Memory's small GRUs, part z of these); `mass` is then the mean of the heads' own.

    Args:
        params: of the write.
        slots: K vectors.
        items: of the segment, or their `segment_features`, where they were computed before a loop.
        mask: which items are no padding; all, if not given.
        normalize: as of `slot_attention`; or "mass", weights as for "slots", a mean in place of the sum.

    Returns:
        The slots after the write.

    >>> import jax, jax.numpy as jnp
    >>> attention = AdditiveParams(jnp.eye(1), jnp.eye(1), jnp.zeros(1), jnp.ones(1))
    >>> update = GRUParams(jnp.ones((1, 3)), jnp.ones((1, 3)), jnp.zeros(3), jnp.zeros(3))
    >>> slots = jnp.array([[0.5]])
    >>> write_segment(SlotWriteParams(attention, update), slots, jnp.ones((2, 1)), jnp.zeros(2, bool)).tolist()
    [[0.5]]
    """
    if mask is None:
        mask = jnp.ones(jax.tree.leaves(items)[0].shape[0], bool)
    return _write(params, slots, _features(params, items, mask), mask, normalize)


@checked
def write_stream(
    params: Annotated[SlotWriteParams, Axes("dx", "dm", "h")],
    slots: Float[Array, "K dm"],
    segments: Float[Array, "T N dx"] | Annotated[SegmentFeatures, Axes("T", "N", "h")],
    mask: Bool[Array, "T N"] | None = None,
    *,
    normalize: WriteNormalize = "slots",
    remat: bool = False,
) -> Float[Array, "K dm"]:
    """Writes segment after segment; the result is the same however the stream is cut into calls at segment borders.

    `write_segment` under `jax.lax.scan`, with `segment_features` of all segments computed before it, unless they are
    given in place of the segments.

    Args:
        params: of the write.
        slots: K vectors.
        segments: of the stream, or their `segment_features`.
        mask: which items are no padding; all, if not given.
        normalize: as of `write_segment`.
        remat: keeps only the slots of each step for the gradient, and recomputes the rest: less memory, and on CPU less
            time (storing the tanh of every slot and item costs more than taking it again).

    Returns:
        The slots after the stream.

    >>> import jax.numpy as jnp
    >>> attention = AdditiveParams(jnp.eye(1), jnp.eye(1), jnp.zeros(1), jnp.ones(1))
    >>> update = GRUParams(jnp.ones((1, 3)), jnp.ones((1, 3)), jnp.zeros(3), jnp.zeros(3))
    >>> params = SlotWriteParams(attention, update)
    >>> stream, slots = jnp.ones((4, 2, 1)), jnp.zeros((3, 1))
    >>> once = write_stream(params, slots, stream)
    >>> twice = write_stream(params, write_stream(params, slots, stream[:1]), stream[1:])
    >>> bool((once == twice).all())
    True
    """
    if mask is None:
        mask = jnp.ones(jax.tree.leaves(segments)[0].shape[:2], bool)
    features = _features(params, segments, mask)

    def step(slots, segment):
        return _write(params, slots, *segment, normalize), None

    step = jax.checkpoint(step, prevent_cse=False) if remat else step  # inside a scan nothing can be shared anyway
    slots, _ = jax.lax.scan(step, carry_like(slots, features.keys), (features, mask))
    return slots


def _features(
    params: SlotWriteParams, items: Float[Array, "*T N dx"] | SegmentFeatures, mask: Bool[Array, "*T N"]
) -> SegmentFeatures:
    """Features in which padding is zero. It may hold anything, even NaN, and 0 * NaN is NaN, in the gradient too."""
    items = jax.tree.map(lambda x: jnp.where(mask[..., None], x, 0), items)
    heads = _heads(params)
    parts = jnp.shape(params.update.w_h)[0] if isinstance(params.update, GRUParams) else len(params.update.w_slot)
    require(parts % heads == 0, f"{heads} heads of the write must share a slot alike: they cannot share {parts} parts")
    if not isinstance(items, SegmentFeatures):
        return segment_features(params, items)
    grus = params.update if isinstance(params.update, GRUParams) else params.update.gru
    needed = {"values": math.prod(jnp.shape(grus.b_x)), "keys": _key_width(params.attention)}
    for name, width in needed.items():
        given = getattr(items, name).shape[-1]
        require(given == width, f"these features are of other weights: their {name} are {given} wide, not {width}")
    return items


def _heads(params: SlotWriteParams) -> int:
    """Of the write."""
    return len(params.attention.heads.b) if isinstance(params.attention, MultiHeadScoreParams) else 1


def _key_width(params: AdditiveParams | DotParams | MultiHeadScoreParams) -> int:
    """The units of all heads."""
    return math.prod(jnp.shape(params.heads.b if isinstance(params, MultiHeadScoreParams) else params.b))


def _write(
    params: SlotWriteParams,
    slots: Float[Array, "K dm"],
    features: SegmentFeatures,
    mask: Bool[Array, "N"],
    normalize: WriteNormalize,
) -> Float[Array, "K dm"]:
    keys, values = features
    mixed = partial(_mixed, slots=slots, mask=mask, normalize=normalize)
    if isinstance(params.attention, MultiHeadScoreParams):
        keys_ZxNxH = jnp.moveaxis(keys.reshape(len(keys), _heads(params), -1), 1, 0)
        gates_ZxKxG, mass_ZxKx1 = jax.vmap(mixed)(params.attention.heads, keys_ZxNxH, _parts(params, values))
        gates_KxG, mass_Kx1 = _joined(params, gates_ZxKxG), mass_ZxKx1.mean(0)
    else:
        gates_KxG, mass_Kx1 = mixed(params.attention, keys, values)
    written = update_from_gates(params.update, slots, gates_KxG, values.dtype)
    if normalize == "mass":
        written = slots + jnp.minimum(mass_Kx1, 1) * (written - slots)
    return jnp.where(mask.any(), written, slots)


def _mixed(
    params: AdditiveParams | DotParams,
    keys: Float[Array, "N h"],
    values: Float[Array, "N G"],
    slots: Float[Array, "K dm"],
    mask: Bool[Array, "N"],
    normalize: WriteNormalize,
) -> tuple[Float[Array, "K G"], Float[Array, "K 1"]]:
    """What one head's items come to in the gates of each slot, and the mass that each slot is given."""
    over: Normalize = "items" if normalize == "items" else "slots"
    weights_KxN = slot_weights(params, slots, keys, mask, normalize=over)
    mass_Kx1 = weights_KxN.sum(1, keepdims=True)
    if normalize == "mass":
        weights_KxN = weights_KxN / jnp.maximum(mass_Kx1, LEAST_MASS)
    # (weights @ items) W = weights @ (items W), and items W needs no slots: it was computed outside the loop.
    return accumulated(weights_KxN.astype(values.dtype), values), mass_Kx1


def _outside(params: SlotWriteParams) -> int:
    """How many axes' entries lie outside the units: one GRU has its three gates there, small GRUs one after another."""
    return 3 if isinstance(params.update, GRUParams) else 1


def _parts(params: SlotWriteParams, values: Float[Array, "N G"]) -> Float[Array, "Z N g"]:
    """The gates of the units of each head."""
    split = values.reshape(len(values), _outside(params), _heads(params), -1)
    return jnp.moveaxis(split, 2, 0).reshape(_heads(params), len(values), -1)


def _joined(params: SlotWriteParams, gates: Float[Array, "Z K g"]) -> Float[Array, "K G"]:
    """Undoes `_parts`."""
    heads, count, _ = gates.shape
    return jnp.moveaxis(gates.reshape(heads, count, _outside(params), -1), 0, 2).reshape(count, -1)
