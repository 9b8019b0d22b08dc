"""What sequence layers share: their learned tokens in front, and the checks of what they are called with."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.typing import Any, Array, State


def persistent_tokens(module: nn.Module, *shape: int) -> Array:
    """Persistent memory (Titans, 3.3): learned tokens in front of every stream, the same whatever the stream is.

    None are no parameter, for an empty one could not be saved.
    """
    return module.param("persistent", nn.initializers.normal(1.0), shape) if all(shape) else jnp.zeros(shape)


def memory_settings(layer: nn.Module) -> dict[str, Any]:
    """What a layer has of the settings of `HeadMemory`, to be handed on; `MemjaxError` for those that cannot be."""
    require(layer.heads >= 1, f"heads must be at least 1, not {layer.heads}")
    require(layer.width % layer.heads == 0, f"width {layer.width} must be a multiple of heads {layer.heads}")
    require(layer.persistent >= 0, f"persistent must be at least 0, not {layer.persistent}")
    require(layer.chunk >= 1, f"chunk must be at least 1, not {layer.chunk}")
    require(0 < layer.retention <= 1e6, f"retention must be above 0 and at most 1e6, not {layer.retention}")
    names = ("momentum", "forgetting", "gradient_at", "chunk", "retention")
    return {name: getattr(layer, name) for name in names if hasattr(layer, name)}


def check_stream(x: Array, width: int, state: State | None, empty: State) -> None:
    """Raises `MemjaxError` for an x that is not `[L, width]`, and for a state unlike `empty`, one of this layer."""
    require(
        x.ndim == 2 and x.shape[1] == width,
        f"a layer {width} wide takes one sequence, [L, {width}], not {list(x.shape)}; jax.vmap is for several",
    )
    check_state(state, empty)


def check_state(state: State | None, empty: State) -> None:
    """Raises `MemjaxError` for a state unlike `empty`, one of its module; none at all is right everywhere."""
    if state is None:
        return
    given, own = ([jnp.shape(leaf) for leaf in jax.tree.leaves(tree)] for tree in (state, empty))
    require(
        type(state) is type(empty) and given == own,
        f"this state is another layer's: {type(state).__name__} of shapes {given}, not {type(empty).__name__} of {own}",
    )
