"""Writing a stream into slots: attention says where, a gated update says how much."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.ops.attention import AdditiveParams, DotParams, accumulated, project_items, slot_weights
from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.ops.gru import GRUParams, MultiHeadGRUParams, project_aligned, update_from_gates
from memjax.ops.recurrence import carry_like
from memjax.typing import Annotated, Array, Bool, Float, Normalize, WriteNormalize

LEAST_MASS = 1e-6  # in the denominator of a mean; a slot that is given less hardly moves


class SlotWriteParams(NamedTuple):
    """Weights of one write, shared by all segments and all slots.

    Attributes:
        attention: slots on the left, items on the right.
        update: of the gated update.
    """

    attention: (
        Annotated[AdditiveParams, Axes("h", dl="dm", dr="dx")] | Annotated[DotParams, Axes("h", dl="dm", dr="dx")]
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
    if not isinstance(items, SegmentFeatures):
        return segment_features(params, items)
    grus = params.update if isinstance(params.update, GRUParams) else params.update.gru
    gates, given = math.prod(jnp.shape(grus.b_x)), items.values.shape[-1]
    require(given == gates, f"these features are of other weights: their values are {given} wide, not {gates}")
    return items


def _write(
    params: SlotWriteParams,
    slots: Float[Array, "K dm"],
    features: SegmentFeatures,
    mask: Bool[Array, "N"],
    normalize: WriteNormalize,
) -> Float[Array, "K dm"]:
    keys, values = features
    over: Normalize = "items" if normalize == "items" else "slots"
    weights_KxN = slot_weights(params.attention, slots, keys, mask, normalize=over)
    mass_Kx1 = weights_KxN.sum(1, keepdims=True)
    if normalize == "mass":
        weights_KxN = weights_KxN / jnp.maximum(mass_Kx1, LEAST_MASS)
    # (weights @ items) W = weights @ (items W), and items W needs no slots: it was computed outside the loop.
    gates_KxG = accumulated(weights_KxN.astype(values.dtype), values)
    written = update_from_gates(params.update, slots, gates_KxG, values.dtype)
    if normalize == "mass":
        written = slots + jnp.minimum(mass_Kx1, 1) * (written - slots)
    return jnp.where(mask.any(), written, slots)
