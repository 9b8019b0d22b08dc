"""Gated recurrent units: one step, a whole sequence, and the multi-head form of Continual Memory."""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.ops.attention import accumulated
from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.ops.recurrence import carry_like
from memjax.typing import Annotated, Any, Array, Bool, Float


class GRUParams(NamedTuple):
    """Weights of a GRU. The last axis holds the gates in the order reset, update, candidate.

    Attributes:
        w_x: of the input.
        w_h: of the hidden state.
        b_x: added to the input's part.
        b_h: added to the hidden state's part.
    """

    w_x: Float[Array, "dx h3"]
    w_h: Float[Array, "h h3"]
    b_x: Float[Array, "h3"]
    b_h: Float[Array, "h3"]


class MultiHeadGRUParams(NamedTuple):
    """Z small GRUs between projections: `W_z^M`, `W_z^L`, the GRUs stacked over Z, and `W^o`.

    Attributes:
        w_slot: `W_z^M`, from a slot to each head.
        w_item: `W_z^L`, from an item to each head.
        gru: of all heads, stacked over Z.
        w_out: `W^o`, from all heads to a slot.
    """

    w_slot: Float[Array, "Z dm h"]
    w_item: Float[Array, "Z dx h"]
    gru: Annotated[GRUParams, Axes("h", dx="h", lead="Z")]
    w_out: Float[Array, "Z*h dm"]


def _gates(gates_x: Array, gates_h: Array, hidden: Array) -> Array:
    reset_x, update_x, candidate_x = jnp.split(gates_x, 3, axis=-1)
    reset_h, update_h, candidate_h = jnp.split(gates_h, 3, axis=-1)
    reset = jax.nn.sigmoid(reset_x + reset_h)
    update = jax.nn.sigmoid(update_x + update_h)
    candidate = jnp.tanh(candidate_x + reset * candidate_h)
    return ((1 - update) * candidate + update * hidden).astype(hidden.dtype)


@checked
def gru_step(
    params: Annotated[GRUParams, Axes("dx", "h")], hidden: Float[Array, "h"], x: Float[Array, "dx"]
) -> Float[Array, "h"]:
    """One GRU step; the state keeps its dtype, the products are taken in x's.

    `r = s(W_r x + U_r h + ..)`, `z = s(W_z x + U_z h + ..)`, `n = tanh(W_n x + b_n + r * (U_n h + c_n))`,
    `h' = (1 - z) * n + z * h`. Source: Rehearsal Memory, Eq. 2, with the candidate's bias inside the reset gate.

    Args:
        params: of the GRU.
        hidden: its state.
        x: the input.

    Returns:
        The state after the step.

    >>> import jax.numpy as jnp
    >>> params = GRUParams(jnp.zeros((1, 3)), jnp.zeros((1, 3)), jnp.zeros(3), jnp.zeros(3))
    >>> gru_step(params, jnp.array([1.0]), jnp.array([5.0])).tolist()
    [0.5]
    """
    gates_x = accumulated(x, params.w_x) + params.b_x
    gates_h = accumulated(hidden.astype(x.dtype), params.w_h) + params.b_h
    return _gates(gates_x, gates_h, hidden)


@checked
def gru_scan(
    params: Annotated[GRUParams, Axes("dx", "h")],
    hidden: Float[Array, "h"],
    xs: Float[Array, "L dx"],
    mask: Bool[Array, "L"] | None = None,
    *,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Float[Array, "h"], Float[Array, "L h"]]:
    """A GRU over a sequence.

    The same recurrence as `gru_step`; the input's share of the gates is computed for all steps before the scan.

    Args:
        params: of the GRU.
        hidden: the state before the first step.
        xs: the inputs.
        mask: which steps are real; the others leave the state as it was.
        reverse: from the last input to the first.
        unroll: how many steps the compiler sees as one; small steps take less time then, and compiling more.

    Returns:
        The last state, and all states.

    >>> import jax.numpy as jnp
    >>> params = GRUParams(jnp.zeros((1, 3)), jnp.zeros((1, 3)), jnp.zeros(3), jnp.zeros(3))
    >>> last, states = gru_scan(params, jnp.array([1.0]), jnp.zeros((2, 1)))
    >>> states[:, 0].tolist()
    [0.5, 0.25]
    """
    if mask is None:
        mask = jnp.ones(xs.shape[0], bool)
    gates_x = accumulated(jnp.where(mask[:, None], xs, 0), params.w_x) + params.b_x

    def step(hidden, inputs):
        gates, real = inputs
        gates_h = accumulated(hidden.astype(xs.dtype), params.w_h) + params.b_h
        hidden = jnp.where(real, _gates(gates, gates_h, hidden), hidden)
        return hidden, hidden

    return jax.lax.scan(step, carry_like(hidden, xs), (gates_x, mask), reverse=reverse, unroll=unroll)


@checked
def project_aligned(
    params: Annotated[GRUParams, Axes("dx")] | Annotated[MultiHeadGRUParams, Axes("dx")],
    items: Float[Array, "*axes dx"],
) -> Float[Array, "*axes G"]:
    """What items add to the gates of `update_slots`: `items W_x`, or with Z heads `items W_z^L W_x,z` side by side.

    Linear, so it may come before attention mixes the items: of `weights @ items` it is `weights @` that of the items.

    Args:
        params: of one GRU or of several heads.
        items: with any leading axes.

    Returns:
        Their part of the gates; G = 3h, or 3h for each head.

    >>> import jax.numpy as jnp
    >>> params = GRUParams(jnp.ones((1, 3)), jnp.zeros((1, 3)), jnp.ones(3), jnp.zeros(3))
    >>> project_aligned(params, jnp.array([[2.0]])).tolist()
    [[2.0, 2.0, 2.0]]
    """
    if isinstance(params, GRUParams):
        return accumulated(items, params.w_x)
    by_head = jax.vmap(
        lambda w_item, w_x: accumulated(accumulated(items, w_item).astype(items.dtype), w_x), out_axes=-2
    )
    gates_ZxG = by_head(params.w_item, params.gru.w_x)
    return gates_ZxG.reshape(*items.shape[:-1], math.prod(gates_ZxG.shape[-2:]))


def update_from_gates(
    params: GRUParams | MultiHeadGRUParams, slots: Float[Array, "K dm"], gates: Float[Array, "K G"], dtype: Any
) -> Float[Array, "K dm"]:
    """`update_slots` from `project_aligned` of what was aligned; products in `dtype`."""
    if isinstance(params, GRUParams):
        gates_h = accumulated(slots.astype(dtype), params.w_h) + params.b_h
        return _gates(gates + params.b_x, gates_h, slots)
    slots_ZxKxH = accumulated(slots.astype(dtype), params.w_slot).astype(slots.dtype)
    gates_ZxKxG = jnp.moveaxis(gates.reshape(slots.shape[0], slots_ZxKxH.shape[0], -1), 1, 0)
    heads_ZxKxH = jax.vmap(partial(update_from_gates, dtype=dtype))(params.gru, slots_ZxKxH, gates_ZxKxG)
    joined_KxZH = jnp.moveaxis(heads_ZxKxH, 0, 1).reshape(slots.shape[0], -1)
    return accumulated(joined_KxZH.astype(dtype), params.w_out).astype(slots.dtype)


@checked
def update_slots(
    params: Annotated[GRUParams, Axes("dx", h="dm")] | Annotated[MultiHeadGRUParams, Axes("dx", "dm")],
    slots: Float[Array, "K dm"],
    aligned: Float[Array, "K dx"],
) -> Float[Array, "K dm"]:
    """Gated update of every slot by what was aligned to it; one set of weights for all slots.

    `GRUParams`: `m_k <- GRU(hidden m_k, input l_k)` (Rehearsal Memory, Eq. 2; needs dx = dm = h).
    `MultiHeadGRUParams`: `m_kz = W_z^M m_k`, `l_kz = W_z^L l_k`, `m_kz <- GRU_z(m_kz, l_kz)`,
    `m_k <- W^o concat_z(m_kz)` (Continual Memory, Eq. 2 and 3).

    Args:
        params: of one GRU or of several heads.
        slots: K vectors.
        aligned: what came to each slot.

    Returns:
        The slots after the update.

    >>> import jax.numpy as jnp
    >>> params = GRUParams(jnp.zeros((1, 3)), jnp.zeros((1, 3)), jnp.zeros(3), jnp.zeros(3))
    >>> update_slots(params, jnp.ones((2, 1)), jnp.ones((2, 1)))[:, 0].tolist()
    [0.5, 0.5]
    """
    return update_from_gates(params, slots, project_aligned(params, aligned), aligned.dtype)
