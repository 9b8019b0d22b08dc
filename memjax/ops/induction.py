"""The memory of MIMN: rows addressed by content alone, and the memory-induction unit, with a channel for each row."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.ops.addressing import cosines, erase_and_add
from memjax.ops.attention import accumulated
from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.ops.controller import InterfaceParams, LSTMParams, interface, lstm_inputs, lstm_step, split_interface
from memjax.ops.exportable import exportable
from memjax.ops.gru import GRUParams, update_from_gates
from memjax.ops.ntm import EMPTY
from memjax.typing import Annotated, Array, Float, FloatDtype


class MIMNParams(NamedTuple):
    """Weights of controller, addressing and induction.

    Attributes:
        controller: of the LSTM.
        interface: from its hidden state to all that heads do.
        keys: of the rows, whatever these hold.
        w_item: what an item adds to the gates of a channel's GRU.
        channel: of that GRU, whose other input is a row; one for all channels.
    """

    controller: Annotated[LSTMParams, Axes("dx", "h", r="W")]
    interface: Annotated[InterfaceParams, Axes("h")]
    keys: Float[Array, "N W"]
    w_item: Float[Array, "dx W3"]
    channel: Annotated[GRUParams, Axes(dx="W", h="W")]


class MIMNInputs(NamedTuple):
    """An item's share of all gates.

    Attributes:
        controller: of those of the LSTM.
        channel: of those of a channel's GRU.
    """

    controller: Float[Array, "*axes h4"]
    channel: Float[Array, "*axes W3"]


@exportable
class MIMNState(NamedTuple):
    """Controller, memory and channels between two items.

    Attributes:
        hidden: of the controller.
        cell: of the controller.
        reads: what the head has read.
        memory: its rows.
        channels: of the induction unit, one for each row.
        induced: 1 for a channel that was ever written, 0 for the others.
        usage: the weight with which each row was written so far, summed up.
    """

    hidden: Float[Array, "h"]
    cell: Float[Array, "h"]
    reads: Float[Array, "W"]
    memory: Float[Array, "N W"]
    channels: Float[Array, "N W"]
    induced: Float[Array, "N"]
    usage: Float[Array, "N"]


@checked
def mimn_start(rows: int, width: int, hidden: int) -> MIMNState:
    """The state that has read nothing: the memory as of `ntm_start`, all else zeros. Source: as `mimn_step`.

    Args:
        rows: of the memory.
        width: of a row.
        hidden: units of the controller.

    Returns:
        The state.

    >>> mimn_start(rows=3, width=2, hidden=4).channels.shape
    (3, 2)
    """
    shapes = ((hidden,), (hidden,), (width,), (rows, width), (rows, width), (rows,), (rows,))
    state = MIMNState(*map(jnp.zeros, shapes))
    return state._replace(memory=EMPTY + state.memory)


def mimn_interface_size(width: int) -> int:
    """How many numbers `mimn_step` takes for rows W wide: `E = 2 (W + 1) + 2 W`."""
    return 2 * (width + 1) + 2 * width


@checked
def mimn_inputs(params: Annotated[MIMNParams, Axes("dx")], xs: Float[Array, "*axes dx"]) -> MIMNInputs:
    """What items add to the gates of `mimn_step`, for any number of them at once, before a scan.

    Args:
        params: of the step.
        xs: items, with any leading axes.

    Returns:
        Their part of the gates of controller and channel.

    >>> import jax.numpy as jnp
    >>> gru = GRUParams(jnp.zeros((2, 6)), jnp.zeros((2, 6)), jnp.zeros(6), jnp.zeros(6))
    >>> lstm = LSTMParams(jnp.ones((5, 16)), jnp.zeros((4 + 2, 16)), jnp.zeros(16))
    >>> heads = InterfaceParams(jnp.zeros((4, 10)), jnp.ones(10))
    >>> params = MIMNParams(lstm, heads, jnp.ones((3, 2)), jnp.ones((5, 6)), gru)
    >>> mimn_inputs(params, jnp.ones((7, 5))).channel.shape
    (7, 6)
    """
    return MIMNInputs(lstm_inputs(params.controller, xs), accumulated(xs, params.w_item))


@checked
def mimn_step(
    params: Annotated[MIMNParams, Axes("h", "N", "W")],
    state: Annotated[MIMNState, Axes("h", "N", "W")],
    inputs: Annotated[MIMNInputs, Axes("h", "W")],
    *,
    dtype: FloatDtype = None,
) -> MIMNState:
    """Takes one item in; memory, channels and weights are in float32.

    Two heads look at the memory as it was, each with `k = tanh`, `b = 2 (1 + softplus)`: `w = softmax over n of
    b (cos(k, key_n) + cos(k, M_n)) / 2`. One reads `w^T M`; one writes: `M <- M (1 - w e^T) + w a^T`, `e = sigmoid`,
    `a = tanh`. The channel of the row that was read most takes in item and row: `S_i <- GRU(S_i, [x; M_i])`, M_i a
    constant to the gradient. Source: MIMN (Pi et al. 2019, 1905.09248), 4; the learned keys and b from its authors'
    code: rows that start alike and are found by what they hold alone would stay alike.

    Args:
        params: of controller, addressing and induction.
        state: before the item.
        inputs: `mimn_inputs` of the item.
        dtype: of the products.

    Returns:
        The state after the item.

    Raises:
        MemjaxError: for params of another interface.

    >>> import jax.numpy as jnp
    >>> gru = GRUParams(jnp.zeros((2, 6)), jnp.zeros((2, 6)), jnp.ones(6), jnp.zeros(6))
    >>> lstm = LSTMParams(jnp.ones((5, 16)), jnp.zeros((4 + 2, 16)), jnp.zeros(16))
    >>> heads = InterfaceParams(jnp.zeros((4, 10)), jnp.ones(10))
    >>> keys = jnp.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    >>> params = MIMNParams(lstm, heads, keys, jnp.ones((5, 6)), gru)
    >>> state = mimn_step(params, mimn_start(rows=3, width=2, hidden=4), mimn_inputs(params, jnp.ones(5)))
    >>> state.induced.tolist(), f"{state.usage.sum():.2f}"
    ([0.0, 1.0, 0.0], '1.00')
    """
    rows, width = state.memory.shape
    hidden, cell = lstm_step(params.controller, state.hidden, state.cell, inputs.controller, state.reads, dtype=dtype)
    flat = interface(params.interface, hidden, dtype=dtype)
    read_head, write_head, erase, add = split_interface(flat, (width + 1,), (width + 1,), (width,), (width,))
    read, write = (_address(head, params.keys, state.memory) for head in (read_head, write_head))
    chosen = jnp.arange(rows) == jnp.argmax(read)
    # Sums, not gathers: those by computed indices have no gradient on a mesh with Explicit axes.
    row, channel = (jnp.where(chosen[:, None], x, 0).sum(0) for x in (state.memory, state.channels))
    product = dtype or row.dtype
    gates = inputs.channel + accumulated(jax.lax.stop_gradient(row).astype(product), params.channel.w_x)
    channel = update_from_gates(params.channel, channel[None], gates[None], product)
    return MIMNState(
        hidden=hidden,
        cell=cell,
        reads=jnp.matmul(read, state.memory, precision="highest"),
        memory=erase_and_add(state.memory, write, jax.nn.sigmoid(erase), jnp.tanh(add)),
        channels=jnp.where(chosen[:, None], channel, state.channels),
        induced=jnp.where(chosen, 1, state.induced),
        usage=state.usage + write,
    )


def _address(head: Float[Array, "E"], keys: Float[Array, "N W"], memory: Float[Array, "N W"]) -> Float[Array, "N"]:
    key, strength = jnp.tanh(head[:-1]), 1 + jax.nn.softplus(head[-1])
    return jax.nn.softmax(strength * (cosines(keys, key) + cosines(memory, key)))
