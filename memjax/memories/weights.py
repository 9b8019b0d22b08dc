"""Declares the parameters of an op on a Flax module: one flat, readable name for each array."""

import flax.linen as nn

from memjax.ops import AdditiveParams, GRUParams, MultiHeadGRUParams

_dense = nn.initializers.lecun_normal()
_zeros = nn.initializers.zeros_init()


def _stacked(heads: tuple[int, ...]):
    """The initializer of `_dense` with leading axes that count as copies, not as inputs."""
    return nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal", batch_axis=range(len(heads)))


def additive_params(module: nn.Module, name: str, left: int, right: int, hidden: int) -> AdditiveParams:
    """`AdditiveParams` called `name/w_left`, `name/w_right`, `name/b`, `name/v`."""
    return AdditiveParams(
        w_left=module.param(f"{name}_w_left", _dense, (left, hidden)),
        w_right=module.param(f"{name}_w_right", _dense, (right, hidden)),
        b=module.param(f"{name}_b", _zeros, (hidden,)),
        v=module.param(f"{name}_v", nn.initializers.normal(hidden**-0.5), (hidden,)),
    )


def gru_params(module: nn.Module, name: str, inputs: int, hidden: int, *heads: int) -> GRUParams:
    """`GRUParams` called `name_w_x`, ..; with `heads`, stacked over a leading axis."""
    init = _stacked(heads)
    return GRUParams(
        w_x=module.param(f"{name}_w_x", init, (*heads, inputs, 3 * hidden)),
        w_h=module.param(f"{name}_w_h", init, (*heads, hidden, 3 * hidden)),
        b_x=module.param(f"{name}_b_x", _zeros, (*heads, 3 * hidden)),
        b_h=module.param(f"{name}_b_h", _zeros, (*heads, 3 * hidden)),
    )


def multi_head_gru_params(module: nn.Module, name: str, width: int, heads: int) -> MultiHeadGRUParams:
    """`MultiHeadGRUParams` for slots and items of one width, each head `width // heads` wide."""
    hidden = width // heads
    init = _stacked((heads,))
    return MultiHeadGRUParams(
        w_slot=module.param(f"{name}_w_slot", init, (heads, width, hidden)),
        w_item=module.param(f"{name}_w_item", init, (heads, width, hidden)),
        gru=gru_params(module, f"{name}_gru", hidden, hidden, heads),
        w_out=module.param(f"{name}_w_out", _dense, (heads * hidden, width)),
    )
