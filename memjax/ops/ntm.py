"""The Neural Turing Machine: one step of controller and memory."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.ops.addressing import content_weights, erase_and_add, sharpen_weights, shift_weights
from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.ops.controller import ExternalParams, interface, lstm_step, split_interface
from memjax.ops.exportable import exportable
from memjax.typing import Annotated, Array, Float, FloatDtype

SHIFTS = 3  # to the row before, to the same, to the row after
EMPTY = 1e-6  # what every number of a new memory is: a constant, as small as can be told from 0


@exportable
class NTMState(NamedTuple):
    """Controller and memory between two items.

    Attributes:
        hidden: of the controller.
        cell: of the controller.
        reads: what each head has read.
        memory: its rows.
        read_weights: where each head has read.
        write_weights: where was written.
    """

    hidden: Float[Array, "h"]
    cell: Float[Array, "h"]
    reads: Float[Array, "R W"]
    memory: Float[Array, "N W"]
    read_weights: Float[Array, "R N"]
    write_weights: Float[Array, "N"]


@checked
def ntm_start(rows: int, width: int, heads: int, hidden: int) -> NTMState:
    """The state that has read nothing: a constant memory, every head at the first row.

    The paper leaves it open; a constant is what Collier and Beel 2018 (1807.08518) found to learn fastest.

    Args:
        rows: of the memory.
        width: of a row.
        heads: that read.
        hidden: units of the controller.

    Returns:
        The state.

    >>> ntm_start(rows=3, width=2, heads=1, hidden=4).write_weights.tolist()
    [1.0, 0.0, 0.0]
    """
    first = jnp.eye(1, rows)[0]
    return NTMState(
        hidden=jnp.zeros(hidden),
        cell=jnp.zeros(hidden),
        reads=jnp.zeros((heads, width)),
        memory=EMPTY + jnp.zeros((rows, width)),
        read_weights=jnp.tile(first, (heads, 1)),
        write_weights=first,
    )


@checked
def ntm_interface_size(width: int, heads: int) -> int:
    """How many numbers `ntm_step` takes: `E = (R + 1) (W + 6) + 2 W`. Source: as `ntm_step`.

    Args:
        width: W, of a row.
        heads: R, that read; one more writes.

    Returns:
        E.

    >>> ntm_interface_size(width=2, heads=1)
    20
    """
    head = width + 3 + SHIFTS
    return (1 + heads) * head + 2 * width


@checked
def ntm_step(
    params: Annotated[ExternalParams, Axes("h", r="R*W")],
    state: Annotated[NTMState, Axes("h", "R", "W")],
    inputs: Float[Array, "h4"],
    *,
    read_first: bool = False,
    dtype: FloatDtype = None,
) -> NTMState:
    """Takes one item in; memory and weights are in float32.

    Each head has key `k = tanh`, strength `b = softplus`, gate `g = sigmoid`, shift `s = softmax`, power `y = 1 +
    softplus`: `w_c = softmax(b cos(k, M))`, `w_g = g w_c + (1 - g) w_before`, `w~ = w_g * s` (circular), `w = w~^y /
    sum`. The one that writes: `M <- M (1 - w e^T) + w a^T`, `e = sigmoid`, `a = tanh`; the others read `w^T M`, of the
    new memory, or with `read_first` of the old one. Source: Neural Turing Machines (Graves et al. 2014, 1410.5401), Eq.
    2 to 9.

    Args:
        params: of controller and interface.
        state: before the item.
        inputs: `ops.lstm_inputs` of the item.
        read_first: heads read before the write, not after it.
        dtype: of the products.

    Returns:
        The state after the item.

    Raises:
        MemjaxError: for params of another interface.

    >>> import jax.numpy as jnp
    >>> from memjax import ops
    >>> state = ntm_start(rows=3, width=2, heads=1, hidden=4)
    >>> controller = ops.LSTMParams(jnp.zeros((5, 16)), jnp.zeros((4 + 2, 16)), jnp.zeros(16))
    >>> params = ops.ExternalParams(controller, ops.InterfaceParams(jnp.zeros((4, 20)), jnp.ones(20)))
    >>> state = ntm_step(params, state, ops.lstm_inputs(controller, jnp.ones(5)))
    >>> state.memory.shape, f"{state.write_weights.sum():.2f}"
    ((3, 2), '1.00')
    """
    heads, width = state.reads.shape
    hidden, cell = lstm_step(params.controller, state.hidden, state.cell, inputs, state.reads.ravel(), dtype=dtype)
    flat = interface(params.interface, hidden, dtype=dtype)
    size = width + 3 + SHIFTS
    write_head, erase, add, read_heads = split_interface(flat, (size,), (width,), (width,), (heads, size))
    write = _address(write_head, state.memory, state.write_weights)
    memory = erase_and_add(state.memory, write, jax.nn.sigmoid(erase), jnp.tanh(add))
    seen = state.memory if read_first else memory
    read = jax.vmap(partial(_address, memory=seen))(read_heads, before=state.read_weights)
    return NTMState(hidden, cell, jnp.matmul(read, seen, precision="highest"), memory, read, write)


def _address(head: Float[Array, "E"], memory: Float[Array, "N W"], before: Float[Array, "N"]) -> Float[Array, "N"]:
    key, strength, gate, shift, power = split_interface(head, (memory.shape[1],), (), (), (SHIFTS,), ())
    by_content = content_weights(memory, jnp.tanh(key), jax.nn.softplus(strength))
    gate = jax.nn.sigmoid(gate)
    moved = shift_weights(gate * by_content + (1 - gate) * before, jax.nn.softmax(shift))
    return sharpen_weights(moved, 1 + jax.nn.softplus(power))
