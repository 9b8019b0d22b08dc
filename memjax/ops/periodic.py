"""Layers of GRUs of which each is written at longer and longer periods: the memory of HPMN."""

from typing import NamedTuple

import jax.numpy as jnp

from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.ops.exportable import exportable
from memjax.ops.gru import GRUParams, gru_scan
from memjax.ops.rows import newest_rows
from memjax.typing import Annotated, Array, Bool, Float


@exportable
class PeriodicState(NamedTuple):
    """K layers between two items.

    Attributes:
        hidden: of each layer's GRU.
        waiting: how many outputs of the layer below have come since the layer took one in, a whole number.
        filled: 1 for a layer that was ever written, 0 for the others.
    """

    hidden: Float[Array, "K h"]
    waiting: Float[Array, "K"]
    filled: Float[Array, "K"]


@checked
def periodic_write(
    params: Annotated[GRUParams, Axes("h", dx="h", lead="K")],
    state: Annotated[PeriodicState, Axes("K", "h")],
    xs: Float[Array, "L h"],
    mask: Bool[Array, "L"] | None = None,
    *,
    period: int,
) -> PeriodicState:
    """Takes L items in: layer i, from 0, is a GRU over every p-th output of layer i - 1, and so over every p^i-th step.

    `m_i <- GRU_i(m_i, m_{i-1})` at each step t, from 1, that is a multiple of p^i; `m_{-1}` is the item. Source: HPMN
    (Ren et al. 2019, 1905.00758), the hierarchical and periodical updating. Layer after layer, each a scan over what
    it takes in: `L p / (p - 1)` steps of a GRU in all, not `L K`.

    Args:
        params: of the layers' GRUs, stacked over K.
        state: before the items.
        xs: the items.
        mask: which of them are real; the others count nothing.
        period: p.

    Returns:
        The state after the items.

    >>> import jax.numpy as jnp
    >>> params = GRUParams(jnp.zeros((3, 1, 3)), jnp.zeros((3, 1, 3)), jnp.ones((3, 3)), jnp.zeros((3, 3)))
    >>> state = PeriodicState(jnp.zeros((3, 1)), jnp.zeros(3), jnp.zeros(3))
    >>> state = periodic_write(params, state, jnp.ones((3, 1)), period=2)
    >>> state.filled.tolist(), state.waiting.tolist()  # of three items the second layer took one
    ([1.0, 1.0, 0.0], [0.0, 1.0, 1.0])
    """
    if not xs.shape[0]:
        return state
    if mask is None:
        mask = jnp.ones(xs.shape[0], bool)
    layers = []
    for layer in range(state.hidden.shape[0]):
        every = period if layer > 0 else 1
        place = state.waiting[layer].astype(jnp.int32) + jnp.cumsum(mask.astype(jnp.int32))
        if every > 1:
            xs, mask = newest_rows(xs, mask & (place % every == 0), -(-xs.shape[0] // every))
        own = GRUParams(*(leaf[layer] for leaf in params))
        hidden, outputs = gru_scan(own, state.hidden[layer], xs, mask)
        waiting = (place[-1] % every).astype(state.waiting.dtype)
        layers.append(PeriodicState(hidden, waiting, jnp.where(mask.any(), 1, state.filled[layer])))
        xs = outputs.astype(xs.dtype)
    return PeriodicState(*(jnp.stack(leaves) for leaves in zip(*layers, strict=True)))
