"""What memories with a controller share: an LSTM that sees what was read, and the interface that it speaks through."""

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.ops.addressing import content_weights
from memjax.ops.attention import accumulated
from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.typing import Annotated, Array, Float, FloatDtype


class LSTMParams(NamedTuple):
    """Weights of an LSTM. The last axis holds the gates in the order input, forget, candidate, output.

    Attributes:
        w_x: of the input.
        w_h: of the hidden state, and after it of whatever else comes back from the step before.
        b: added.
    """

    w_x: Float[Array, "dx h4"]
    w_h: Float[Array, "h+r h4"]
    b: Float[Array, "h4"]


class InterfaceParams(NamedTuple):
    """A linear interface: `hidden w + b`.

    Attributes:
        w: from the hidden state.
        b: added.
    """

    w: Float[Array, "h E"]
    b: Float[Array, "E"]


class ProgramParams(NamedTuple):
    """P programs, each with a key, and the query that chooses among them: its last number is the strength.

    Attributes:
        keys: of the programs.
        programs: P matrices, each of a whole interface.
        w_query: from the hidden state to the query, whose last number is the strength.
        b_query: added to the query.
        b: added to the interface.
    """

    keys: Float[Array, "P dk"]
    programs: Float[Array, "P h E"]
    w_query: Float[Array, "h dk+1"]
    b_query: Float[Array, "dk+1"]
    b: Float[Array, "E"]


class ExternalParams(NamedTuple):
    """The weights of a memory with a controller.

    Attributes:
        controller: of the LSTM.
        interface: from its hidden state to all that heads do.
    """

    controller: Annotated[LSTMParams, Axes("h", "r")]
    interface: Annotated[InterfaceParams, Axes("h")] | Annotated[ProgramParams, Axes("h")]


@checked
def lstm_inputs(params: Annotated[LSTMParams, Axes("dx")], xs: Float[Array, "*axes dx"]) -> Float[Array, "*axes h4"]:
    """What inputs add to the gates of `lstm_step`, for any number of them at once, before a scan: `x w_x + b`.

    Args:
        params: of the LSTM.
        xs: inputs, with any leading axes.

    Returns:
        Their part of the gates.

    >>> import jax.numpy as jnp
    >>> lstm_inputs(LSTMParams(jnp.ones((1, 4)), jnp.zeros((1, 4)), jnp.ones(4)), jnp.array([[2.0], [3.0]])).tolist()
    [[3.0, 3.0, 3.0, 3.0], [4.0, 4.0, 4.0, 4.0]]
    """
    return accumulated(xs, params.w_x) + params.b


@checked
def lstm_step(
    params: Annotated[LSTMParams, Axes("h", "r")],
    hidden: Float[Array, "h"],
    cell: Float[Array, "h"],
    inputs: Float[Array, "h4"],
    again: Float[Array, "r"] | None = None,
    *,
    dtype: FloatDtype = None,
) -> tuple[Float[Array, "h"], Float[Array, "h"]]:
    """One step of an LSTM.

    `c' = s(f) c + s(i) tanh(g)`, `h' = s(o) tanh(c')`, `[i, f, g, o] = x w_x + [h; again] w_h + b`. Source: Hochreiter
    and Schmidhuber 1997, with a forget gate (Gers et al. 2000).

    Args:
        params: of the LSTM.
        hidden: its state.
        cell: its cell.
        inputs: `lstm_inputs` of the input.
        again: what else comes back from the step before.
        dtype: of the products.

    Returns:
        Hidden state and cell after the step.

    >>> import jax.numpy as jnp
    >>> params = LSTMParams(jnp.zeros((1, 4)), jnp.zeros((1, 4)), jnp.zeros(4))
    >>> hidden, cell = lstm_step(params, jnp.zeros(1), jnp.ones(1), lstm_inputs(params, jnp.ones(1)))
    >>> cell.tolist()
    [0.5]
    """
    recurs = params.w_h.shape[0] - hidden.shape[0]
    require(
        again is not None or not recurs, f"lstm_step: these params take {recurs} numbers more that recur; give again"
    )
    recurrent = hidden if again is None else jnp.concatenate([hidden, again])
    gates = inputs + accumulated(recurrent.astype(dtype or hidden.dtype), params.w_h)
    i, f, g, o = jnp.split(gates, 4)
    after = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    return (jax.nn.sigmoid(o) * jnp.tanh(after)).astype(hidden.dtype), after.astype(cell.dtype)


@checked
def interface(
    params: Annotated[InterfaceParams, Axes("h")] | Annotated[ProgramParams, Axes("h")],
    hidden: Float[Array, "h"],
    *,
    dtype: FloatDtype = None,
) -> Float[Array, "E"]:
    """What a controller says to its memory. Linear, `hidden w + b`; or through a memory of programs:

    `[k, b] = hidden w_query`, `w = softmax over i of softplus(b) cos(tanh k, tanh key_i)`,
    `hidden (sum of w_i program_i) + bias`. Source: Neural Stored-program Memory (Le et al. 2020), 3. With one program
    it is the linear interface.

    Args:
        params: linear, or a memory of programs.
        hidden: the controller's state.
        dtype: of the products.

    Returns:
        E numbers, which a step of the memory takes apart.

    >>> import jax.numpy as jnp
    >>> one = ProgramParams(jnp.ones((1, 2)), jnp.eye(2)[None], jnp.zeros((2, 3)), jnp.zeros(3), jnp.zeros(2))
    >>> interface(one, jnp.array([3.0, 4.0])).tolist()
    [3.0, 4.0]
    """
    hidden = hidden.astype(dtype or hidden.dtype)
    if isinstance(params, InterfaceParams):
        return accumulated(hidden, params.w) + params.b
    query = accumulated(hidden, params.w_query) + params.b_query
    weights = content_weights(jnp.tanh(params.keys), jnp.tanh(query[:-1]), jax.nn.softplus(query[-1]))
    # Every program applied, then mixed: as many products as mixing first, and no matrix of the mixture.
    output = jax.vmap(accumulated, (None, 0))(hidden, params.programs)
    return weights @ output + params.b


@checked
def key_similarity(params: ProgramParams) -> Float[Array, ""]:
    """Sum over pairs of programs of the cosine of their keys: what keeps programs apart (Le et al. 2020).

    Args:
        params: of the programs.

    Returns:
        The sum.

    >>> import jax.numpy as jnp
    >>> rest = jnp.zeros((2, 3, 5)), jnp.zeros((3, 3)), jnp.zeros(3), jnp.zeros(5)
    >>> float(key_similarity(ProgramParams(jnp.eye(2), *rest)))
    0.0
    """
    keys = params.keys * jax.lax.rsqrt((params.keys**2).sum(1, keepdims=True) + 1e-6)
    cosines = jnp.matmul(keys, keys.T, precision="highest")
    return jnp.where(jnp.triu(jnp.ones(cosines.shape, bool), 1), cosines, 0).sum()


def split_interface(flat: Float[Array, "E"], *shapes: tuple[int, ...]) -> list[Array]:
    """The numbers of an interface in pieces of these shapes, one after another.

    Raises `MemjaxError` unless all of them are used.
    """
    sizes = [math.prod(shape) for shape in shapes]
    require(sum(sizes) == flat.shape[0], f"this memory's interface has {sum(sizes)} numbers, not {flat.shape[0]}")
    starts = itertools.accumulate(sizes, initial=0)
    return [
        flat[start : start + size].reshape(shape) for start, size, shape in zip(starts, sizes, shapes, strict=False)
    ]
