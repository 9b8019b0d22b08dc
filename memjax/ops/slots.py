"""Writing a stream into slots: attention says where, a gated update says how much."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.ops.attention import AdditiveParams, project_items, slot_attention
from memjax.ops.gru import GRUParams, MultiHeadGRUParams, update_slots
from memjax.ops.recurrence import carry_like
from memjax.typing import Array, Bool, Float, Normalize


class SlotWriteParams(NamedTuple):
    """Weights of one write, shared by all segments and all slots."""

    attention: AdditiveParams
    update: GRUParams | MultiHeadGRUParams


def write_segment(
    params: SlotWriteParams,
    slots: Float[Array, "K dm"],
    items: Float[Array, "N dx"],
    mask: Bool[Array, "N"] | None = None,
    *,
    normalize: Normalize = "slots",
    projected_items: Float[Array, "N h"] | None = None,
) -> Float[Array, "K dm"]:
    """Writes one segment: `slots <- update_slots(slots, slot_attention(slots, items))`.

    Source: Rehearsal Memory, Eq. 1 and 2. A segment that is padding throughout leaves the slots as they were, to the
    bit. `projected_items` is `project_items(params.attention, items)` where it was hoisted out of a loop.

    >>> import jax, jax.numpy as jnp
    >>> attention = AdditiveParams(jnp.eye(1), jnp.eye(1), jnp.zeros(1), jnp.ones(1))
    >>> update = GRUParams(jnp.ones((1, 3)), jnp.ones((1, 3)), jnp.zeros(3), jnp.zeros(3))
    >>> slots = jnp.array([[0.5]])
    >>> write_segment(SlotWriteParams(attention, update), slots, jnp.ones((2, 1)), jnp.zeros(2, bool)).tolist()
    [[0.5]]
    """
    if mask is None:
        mask = jnp.ones(items.shape[0], bool)
    _, aligned = slot_attention(
        params.attention, slots, items, mask, normalize=normalize, projected_items=projected_items
    )
    written = update_slots(params.update, slots, aligned.astype(items.dtype))
    return jnp.where(mask.any(), written, slots)


def write_stream(
    params: SlotWriteParams,
    slots: Float[Array, "K dm"],
    segments: Float[Array, "T N dx"],
    mask: Bool[Array, "T N"] | None = None,
    *,
    normalize: Normalize = "slots",
    remat: bool = False,
    projected_items: Float[Array, "T N h"] | None = None,
) -> Float[Array, "K dm"]:
    """Writes segment after segment; the result is the same however the stream is cut into calls at segment borders.

    `write_segment` under `jax.lax.scan`, with the items' projection computed for all segments before it. `remat=True`
    keeps only the slots of each step for the gradient, and computes the rest again: less memory, and on CPU less time
    (storing the tanh of every slot and item costs more than taking it again). `projected_items` is
    `project_items(params.attention, segments)` where the caller has it.

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
        mask = jnp.ones(segments.shape[:2], bool)
    segments = jnp.where(mask[..., None], segments, 0)  # before the projection: its gradient sees padding too

    def step(slots, segment):
        items, projected, real = segment
        slots = write_segment(params, slots, items, real, normalize=normalize, projected_items=projected)
        return slots, None

    step = jax.checkpoint(step, prevent_cse=False) if remat else step  # inside a scan nothing can be shared anyway
    if projected_items is None:
        projected_items = project_items(params.attention, segments)
    slots, _ = jax.lax.scan(step, carry_like(slots, segments), (segments, projected_items, mask))
    return slots
