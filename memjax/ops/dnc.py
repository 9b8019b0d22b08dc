"""The Differentiable Neural Computer: one step of controller and memory, and of memory distributed over blocks."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.ops.addressing import allocation_weights, content_weights, erase_and_add, link_update, usage_update
from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.ops.controller import ExternalParams, interface, lstm_step, split_interface
from memjax.ops.exportable import exportable
from memjax.ops.recurrence import saved
from memjax.typing import Annotated, Array, Float, FloatDtype


@exportable
class DNCState(NamedTuple):
    """Controller and memory between two items.

    Attributes:
        hidden: of the controller.
        cell: of the controller.
        reads: what each head has read.
        memory: its rows.
        usage: of each row, in [0, 1].
        write_weights: of the last write.
        read_weights: of the last reads.
        links: how far row i was written right after row j.
        precedence: how far each row was the last to be written.
    """

    hidden: Float[Array, "h"]
    cell: Float[Array, "h"]
    reads: Float[Array, "R W"]
    memory: Float[Array, "N W"]
    usage: Float[Array, "N"]
    write_weights: Float[Array, "N"]
    read_weights: Float[Array, "R N"]
    links: Float[Array, "N N"]
    precedence: Float[Array, "N"]


@checked
def dnc_start(rows: int, width: int, heads: int, hidden: int) -> DNCState:
    """The state that has read nothing: zeros. Source: Graves et al. 2016, as `dnc_step`.

    Args:
        rows: of the memory.
        width: of a row.
        heads: that read.
        hidden: units of the controller.

    Returns:
        The state.

    >>> dnc_start(rows=3, width=2, heads=1, hidden=4).links.shape
    (3, 3)
    """
    shapes = ((hidden,), (hidden,), (heads, width), (rows, width), (rows,), (rows,), (heads, rows), (rows, rows))
    return DNCState(*map(jnp.zeros, (*shapes, (rows,))))


@checked
def dnc_interface_size(width: int, heads: int) -> int:
    """How many numbers `dnc_step` takes from its controller: `E = W R + 3 W + 5 R + 3`. Source: Graves et al. 2016.

    Args:
        width: W, of a row.
        heads: R, that read.

    Returns:
        E.

    >>> dnc_interface_size(width=2, heads=1)
    16
    """
    return _block_size(width, heads) + 3 * heads


@checked
def dnc_step(
    params: Annotated[ExternalParams, Axes("h", r="R*W")],
    state: Annotated[DNCState, Axes("h", "R", "W")],
    inputs: Float[Array, "h4"],
    *,
    dtype: FloatDtype = None,
) -> DNCState:
    """Takes one item in; memory and weights are in float32.

    Writes at `w = g_w (g_a a + (1 - g_a) c)`, a where there is room (`usage_update`, `allocation_weights`), c by
    content; `M <- M (1 - w e^T) + w v^T`; then `link_update`. Each read head mixes, by a softmax, what was written
    before its last place (`L^T w`), what is like its key, and what was written after its last place (`L w`). Strengths
    are `1 + softplus`, gates and e sigmoids. Source: Graves et al. 2016, "Hybrid computing using a neural network with
    dynamic external memory", Methods.

    Gradients in reverse mode alone.

    Args:
        params: of controller and interface.
        state: before the item.
        inputs: `ops.lstm_inputs` of the item.
        dtype: of the products.

    Returns:
        The state after the item.

    Raises:
        MemjaxError: for params of another interface.

    >>> import jax.numpy as jnp
    >>> from memjax import ops
    >>> state = dnc_start(rows=3, width=2, heads=1, hidden=4)
    >>> controller = ops.LSTMParams(jnp.zeros((5, 16)), jnp.zeros((4 + 2, 16)), jnp.zeros(16))
    >>> params = ops.ExternalParams(controller, ops.InterfaceParams(jnp.zeros((4, 16)), jnp.zeros(16)))
    >>> state = dnc_step(params, state, ops.lstm_inputs(controller, jnp.ones(5)))
    >>> [f"{weight:.2f}" for weight in state.write_weights]  # half for the first free row, half by content
    ['0.33', '0.08', '0.08']
    """
    heads, width = state.reads.shape
    hidden, cell = lstm_step(params.controller, state.hidden, state.cell, inputs, state.reads.ravel(), dtype=dtype)
    flat = interface(params.interface, hidden, dtype=dtype)
    output, modes = split_interface(flat, (_block_size(width, heads),), (heads, 3))
    memory, usage, write, content = _block(
        output, state.memory, state.usage, state.write_weights, state.read_weights, heads
    )
    links, precedence, *near = _links_and_reads(state.links, state.precedence, write, state.read_weights)
    before, after = saved(near)
    backward, by_content, forward = jnp.split(jax.nn.softmax(modes), 3, axis=1)
    read = backward * before + by_content * content + forward * after
    reads = _dot(read, memory)
    return DNCState(hidden, cell, reads, memory, usage, write, read, links, precedence)


Linked = tuple[Float[Array, "N N"], Float[Array, "N"], Float[Array, "R N"], Float[Array, "R N"]]


@jax.custom_vjp
def _links_and_reads(
    links: Float[Array, "N N"],
    precedence: Float[Array, "N"],
    write_weights: Float[Array, "N"],
    read_weights: Float[Array, "R N"],
) -> Linked:
    """`link_update`, and what was written before and after the places that are read: L, p, `r L`, `r L^T`.

    Its own gradient passes over N x N as few times as it can: what comes back is most of a DNC's time.
    """
    links, precedence = link_update(links, _laid_out(precedence), _laid_out(write_weights))
    return links, precedence, _dot(read_weights, links), _dot(read_weights, links.T)


def _links_forward(links: Array, *weights: Array) -> tuple[Linked, tuple[Array, ...]]:
    # What is kept must be computed: of arguments that are kept as they are, in a step that is recomputed in a scan, JAX
    # 0.10 mixes up which is which in the gradient of a gradient.
    return _links_and_reads(links, *weights), (links * 1, *map(_laid_out, weights))


def _links_backward(args: tuple[Array, ...], slopes: Linked) -> tuple[Array, ...]:
    links, precedence, write, read = args
    of_links, of_precedence, of_before, of_after = slopes
    off_diagonal = 1 - jnp.eye(len(write), dtype=links.dtype)
    of_reads = _dot(jnp.concatenate([read, of_after]).T, jnp.concatenate([of_before, read]))
    slope = off_diagonal * (of_links + of_reads)
    kept = 1 - write[:, None] - write[None]
    after, _ = link_update(links, precedence, write)
    product = slope * links
    of_write = _dot(slope, precedence) - product.sum(0) - product.sum(1)
    return (
        slope * kept,
        _dot(write, slope) + (1 - write.sum()) * of_precedence,
        of_write + of_precedence - (precedence * of_precedence).sum(),
        _dot(of_before, after.T) + _dot(of_after, after),
    )


_links_and_reads.defvjp(_links_forward, _links_backward)


def _laid_out(weights: Float[Array, "*heads N"]) -> Float[Array, "*heads N"]:
    """The same, as the result of a product: it lies in memory. Weights that are computed, or sliced from all steps,
    inside a pass over N x N keep the CPU's compiler from its vector instructions there.
    """
    return _dot(weights, jnp.eye(weights.shape[-1], dtype=weights.dtype))


def _dot(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right, precision="highest")


@exportable
class BlocksState(NamedTuple):
    """Controller and B blocks of memory between two items.

    Attributes:
        hidden: of the controller.
        cell: of the controller.
        reads: what each head has read, out of all blocks.
        memory: the rows of each block.
        usage: of each row, in [0, 1].
        write_weights: of the last write.
        read_weights: of the last reads.
    """

    hidden: Float[Array, "h"]
    cell: Float[Array, "h"]
    reads: Float[Array, "R W"]
    memory: Float[Array, "B N W"]
    usage: Float[Array, "B N"]
    write_weights: Float[Array, "B N"]
    read_weights: Float[Array, "B R N"]


@checked
def dmsdnc_start(blocks: int, rows: int, width: int, heads: int, hidden: int) -> BlocksState:
    """The state that has read nothing: zeros. rows: of one block. Source: Park et al. 2021, as `dmsdnc_step`.

    Args:
        blocks: how many.
        rows: of one block.
        width: of a row.
        heads: that read.
        hidden: units of the controller.

    Returns:
        The state.

    >>> dmsdnc_start(blocks=2, rows=3, width=2, heads=1, hidden=4).memory.shape
    (2, 3, 2)
    """
    shapes = ((hidden,), (hidden,), (heads, width), (blocks, rows, width), *[(blocks, rows)] * 2)
    return BlocksState(*map(jnp.zeros, (*shapes, (blocks, heads, rows))))


@checked
def dmsdnc_interface_size(blocks: int, width: int, heads: int) -> int:
    """How many numbers `dmsdnc_step` takes: `E = B (W R + 3 W + 2 R + 3) + R B`. Source: Park et al. 2021.

    Args:
        blocks: B.
        width: W, of a row.
        heads: R, that read.

    Returns:
        E.

    >>> dmsdnc_interface_size(blocks=2, width=2, heads=1)
    28
    """
    return blocks * _block_size(width, heads) + heads * blocks


@checked
def dmsdnc_step(
    params: ExternalParams, state: BlocksState, inputs: Float[Array, "h4"], *, dtype: FloatDtype = None
) -> BlocksState:
    """Takes one item in, as `dnc_step`, into every block: each has an interface of its own, and no links.

    A head reads `sum_b g_b w_b^T M_b`, w_b by content in block b, g a softmax over the blocks. Source: Distributed
    Associative Memory Network with Memory Refreshing Loss (Park et al. 2021).

    Args:
        params: of controller and interface.
        state: before the item.
        inputs: `ops.lstm_inputs` of the item.
        dtype: of the products.

    Returns:
        The state after the item.

    Raises:
        MemjaxError: for params of another interface.

    >>> import jax.numpy as jnp
    >>> from memjax import ops
    >>> state = dmsdnc_start(blocks=2, rows=3, width=2, heads=1, hidden=4)
    >>> controller = ops.LSTMParams(jnp.zeros((5, 16)), jnp.zeros((4 + 2, 16)), jnp.zeros(16))
    >>> params = ops.ExternalParams(controller, ops.InterfaceParams(jnp.zeros((4, 28)), jnp.ones(28)))
    >>> state = dmsdnc_step(params, state, ops.lstm_inputs(controller, jnp.ones(5)))
    >>> state.memory.shape, state.reads.shape
    ((2, 3, 2), (1, 2))
    """
    (heads, width), blocks = state.reads.shape, state.memory.shape[0]
    hidden, cell = lstm_step(params.controller, state.hidden, state.cell, inputs, state.reads.ravel(), dtype=dtype)
    flat = interface(params.interface, hidden, dtype=dtype)
    output, gates = split_interface(flat, (blocks, _block_size(width, heads)), (heads, blocks))
    memory, usage, write, read = jax.vmap(partial(_block, heads=heads))(
        output, state.memory, state.usage, state.write_weights, state.read_weights
    )
    found = jnp.einsum("brn,bnw->rbw", read, memory, precision="highest")
    reads = jnp.einsum("rb,rbw->rw", jax.nn.softmax(gates), found, precision="highest")
    return BlocksState(hidden, cell, reads, memory, usage, write, read)


def _block_size(width: int, heads: int) -> int:
    """How many numbers `_block` takes."""
    return width * heads + 3 * width + 2 * heads + 3


def _block(
    output: Float[Array, "e"],
    memory: Float[Array, "N W"],
    usage: Float[Array, "N"],
    write_weights: Float[Array, "N"],
    read_weights: Float[Array, "R N"],
    heads: int,
) -> tuple[Float[Array, "N W"], Float[Array, "N"], Float[Array, "N"], Float[Array, "R N"]]:
    """Writes into a memory, and looks its new rows up by content: `(memory, usage, write weights, read weights)`."""
    width = memory.shape[1]
    shapes = ((heads, width), (heads,), (width,), (), (width,), (width,), (heads,), (), ())
    keys, strengths, key, strength, erase, add, free, allocate, write = split_interface(output, *shapes)
    usage = usage_update(usage, write_weights, read_weights, jax.nn.sigmoid(free))
    by_content = content_weights(memory, key, 1 + jax.nn.softplus(strength))
    allocate = jax.nn.sigmoid(allocate)
    weights = jax.nn.sigmoid(write) * (allocate * allocation_weights(usage) + (1 - allocate) * by_content)
    memory = erase_and_add(memory, weights, jax.nn.sigmoid(erase), add)
    read = jax.vmap(content_weights, (None, 0, 0))(memory, keys, 1 + jax.nn.softplus(strengths))
    return memory, usage, weights, read
