"""Declares the parameters of an op on a Flax module: one flat, readable name for each array."""

import math

import flax.linen as nn
import jax.numpy as jnp

from memjax.ops import (
    AdditiveParams,
    DotParams,
    GRUParams,
    InterfaceParams,
    LSTMParams,
    MultiHeadGRUParams,
    ProgramParams,
)
from memjax.typing import Array

# Of dot products, at the start: items, and questions, choose few slots. In trials a write of a tenth of it stored as
# well, but a reader of a third of it found the rule of bAbI's task 15 after 2,500 steps in place of 1,000.
DOT_GAIN = 3.0

_dense = nn.initializers.lecun_normal()
_zeros = nn.initializers.zeros_init()


def _stacked(heads: tuple[int, ...], gain: float = 1.0):
    """The initializer of `_dense`, `gain` times as large, with leading axes that count as copies, not as inputs."""
    return nn.initializers.variance_scaling(gain**2, "fan_in", "truncated_normal", batch_axis=range(len(heads)))


def _kept(time_constant: float):
    """Biases of a GRU, zero but for the update gate: at rest it is `time_constant / (time_constant + 1)`, .5 for 1."""

    def init(key, shape):
        reset, update, candidate = jnp.split(jnp.zeros(shape), 3, axis=-1)
        return jnp.concatenate([reset, update + math.log(time_constant), candidate], axis=-1)

    return init


def additive_params(
    module: nn.Module, name: str, left: int, right: int, hidden: int, *heads: int, gain: float = 1.0
) -> AdditiveParams:
    """`AdditiveParams` called `name_w_left`, `name_w_right`, `name_b`, `name_v`.

    Args:
        module: on which they are declared.
        name: what theirs begin with.
        left: the width of what asks.
        right: the width of what is attended to.
        hidden: units.
        heads: leading axes of copies.
        gain: how many times larger than usual the scores are at the start.
    """
    return AdditiveParams(
        w_left=module.param(f"{name}_w_left", _stacked(heads), (*heads, left, hidden)),
        w_right=module.param(f"{name}_w_right", _stacked(heads), (*heads, right, hidden)),
        b=module.param(f"{name}_b", _zeros, (*heads, hidden)),
        v=module.param(f"{name}_v", nn.initializers.normal(gain * hidden**-0.5), (*heads, hidden)),
    )


def dot_params(
    module: nn.Module, name: str, left: int, right: int, hidden: int, *heads: int, gain: float = 1.0
) -> DotParams:
    """`DotParams` called `name_w_left`, `name_w_right`, `name_b`.

    Args:
        module: on which they are declared.
        name: what theirs begin with.
        left: the width of what asks.
        right: the width of what is attended to.
        hidden: units.
        heads: leading axes of copies.
        gain: how many times larger than usual the scores are at the start.
    """
    larger = _stacked(heads, (DOT_GAIN * gain) ** 0.5)
    return DotParams(
        w_left=module.param(f"{name}_w_left", larger, (*heads, left, hidden)),
        w_right=module.param(f"{name}_w_right", larger, (*heads, right, hidden)),
        b=module.param(f"{name}_b", _zeros, (*heads, hidden)),
    )


def gru_params(
    module: nn.Module, name: str, inputs: int, hidden: int, *heads: int, gain: float = 1.0, time_constant: float = 1.0
) -> GRUParams:
    """`GRUParams` called `name_w_x`, ...

    Args:
        module: on which they are declared.
        name: what theirs begin with.
        inputs: the width of an input.
        hidden: the width of the state.
        heads: leading axes of copies.
        gain: how many times larger than usual w_x is at the start.
        time_constant: in about how many steps the state decays to 1/e at the start.
    """
    return GRUParams(
        w_x=module.param(f"{name}_w_x", _stacked(heads, gain), (*heads, inputs, 3 * hidden)),
        w_h=module.param(f"{name}_w_h", _stacked(heads), (*heads, hidden, 3 * hidden)),
        b_x=module.param(f"{name}_b_x", _kept(time_constant), (*heads, 3 * hidden)),
        b_h=module.param(f"{name}_b_h", _zeros, (*heads, 3 * hidden)),
    )


def multi_head_gru_params(
    module: nn.Module, name: str, width: int, heads: int, *, gain: float, time_constant: float
) -> MultiHeadGRUParams:
    """`MultiHeadGRUParams` for slots and items of one width.

    `w_slot` is orthogonal, over the heads together, and `w_out` its transpose: a head that forgets nothing gives back
    the part of the slot that it was given. Other matrices would turn a slot round with every write.

    Args:
        module: on which they are declared.
        name: what theirs begin with.
        width: of slots and items.
        heads: each `width // heads` wide.
        gain: as of `gru_params`, of what comes in from the items.
        time_constant: as of `gru_params`.
    """
    hidden = width // heads

    def by_head(key, shape):
        return jnp.stack(jnp.split(nn.initializers.orthogonal()(key, (width, width)), heads, axis=1))

    w_slot = module.param(f"{name}_w_slot", by_head, (heads, width, hidden))

    def back(key, shape):
        return w_slot.transpose(0, 2, 1).reshape(shape)

    return MultiHeadGRUParams(
        w_slot=w_slot,
        w_item=module.param(f"{name}_w_item", _stacked((heads,), gain), (heads, width, hidden)),
        gru=gru_params(module, f"{name}_gru", hidden, hidden, heads, time_constant=time_constant),
        w_out=module.param(f"{name}_w_out", back, (heads * hidden, width)),
    )


def lstm_params(module: nn.Module, name: str, inputs: int, again: int, hidden: int) -> LSTMParams:
    """`LSTMParams` called `name_w_x`, ..., that forget little at the start.

    Args:
        module: on which they are declared.
        name: what theirs begin with.
        inputs: the width of an input.
        again: the width of all that recurs.
        hidden: units.
    """

    def remembering(key, shape):
        return jnp.zeros(shape).at[hidden : 2 * hidden].set(1.0)

    return LSTMParams(
        w_x=module.param(f"{name}_w_x", _dense, (inputs, 4 * hidden)),
        w_h=module.param(f"{name}_w_h", _dense, (again, 4 * hidden)),
        b=module.param(f"{name}_b", remembering, (4 * hidden,)),
    )


def interface_params(module: nn.Module, name: str, hidden: int, size: int) -> InterfaceParams:
    """`InterfaceParams` called `name_w` and `name_b`.

    Args:
        module: on which they are declared.
        name: what theirs begin with.
        hidden: the width of what comes in.
        size: the width of what comes out.
    """
    return InterfaceParams(
        w=module.param(f"{name}_w", _dense, (hidden, size)), b=module.param(f"{name}_b", _zeros, (size,))
    )


def program_params(
    module: nn.Module, name: str, programs: int, key_width: int, hidden: int, size: int
) -> ProgramParams:
    """`ProgramParams` called `name_keys`, ...; the keys are distinct, or the programs would stay alike for ever.

    Args:
        module: on which they are declared.
        name: what theirs begin with.
        programs: how many.
        key_width: of the key of a program.
        hidden: the width of what comes in.
        size: the width of what comes out.
    """
    return ProgramParams(
        keys=module.param(f"{name}_keys", nn.initializers.normal(1.0), (programs, key_width)),
        programs=module.param(f"{name}_programs", _stacked((programs,)), (programs, hidden, size)),
        w_query=module.param(f"{name}_w_query", _dense, (hidden, key_width + 1)),
        b_query=module.param(f"{name}_b_query", _zeros, (key_width + 1,)),
        b=module.param(f"{name}_b", _zeros, (size,)),
    )


def glorot_gru_params(module: nn.Module, name: str, inputs: int, hidden: int) -> GRUParams:
    """`GRUParams` called `name_w_x`, ..., that start as those of LEMN's policies and critics do.

    Args:
        module: on which they are declared.
        name: what theirs begin with.
        inputs: the width of an input.
        hidden: the width of the state.
    """
    glorot = nn.initializers.glorot_uniform()
    return GRUParams(
        module.param(f"{name}_w_x", glorot, (inputs, 3 * hidden)),
        module.param(f"{name}_w_h", glorot, (hidden, 3 * hidden)),
        module.param(f"{name}_b_x", _zeros, (3 * hidden,)),
        module.param(f"{name}_b_h", _zeros, (3 * hidden,)),
    )


def linear_params(module: nn.Module, name: str, inputs: int, outputs: int) -> tuple[Array, Array]:
    """A matrix `name_w` and a bias `name_b`, that start as those of LEMN's policies do.

    Args:
        module: on which they are declared.
        name: what theirs begin with.
        inputs: the width of an input.
        outputs: the width of what comes out.
    """
    w = module.param(f"{name}_w", nn.initializers.glorot_uniform(), (inputs, outputs))
    return w, module.param(f"{name}_b", _zeros, (outputs,))
