"""What sequence layers share: their learned tokens in front, and the checks of what they are called with."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.ops.arrays import described
from memjax.typing import Array, Float, State


def persistent_tokens(module: nn.Module, count: int, width: int) -> Float[Array, "P d"]:
    """Persistent memory (Titans, 3.3): learned tokens in front of every stream, the same whatever the stream is.

    None are no parameter, for an empty one could not be saved.
    """
    shape = (count, width)
    return module.param("persistent", nn.initializers.normal(1.0), shape) if count else jnp.zeros(shape)


def checked_stream(layer: nn.Module, x: Array, state: State | None, empty: State) -> State | None:
    """`checked_state`, for a sequence. Raises `MemjaxError` for an x that is no array of floats `[L, width]`."""
    floats = hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)
    require(
        floats and x.ndim == 2 and x.shape[1] == layer.width,
        f"a layer {layer.width} wide takes one sequence, a float array [L, {layer.width}], not {described(x)}; "
        "jax.vmap is for several",
    )
    check_init(layer, x)
    return checked_state(state, empty)


def check_init(layer: nn.Module, x: Array) -> None:
    """Raises `MemjaxError` where parameters are to be made from no tokens: nothing is computed then, nor made.

    Inside of another layer, whose path is not empty, there may be no persistent tokens.
    """
    nothing = not len(x) and layer.is_initializing() and not layer.path
    require(not nothing, "init needs a sequence of at least one token, to make all parameters")


def check_documents(reset: Array | None, length: int) -> None:
    """Raises `MemjaxError` unless `reset` is None, or says of each of the tokens whether it begins a document."""
    if reset is None:
        return
    dtype, shape = getattr(reset, "dtype", type(reset).__name__), jnp.shape(reset)
    require(
        dtype == jnp.bool_ and shape == (length,),
        f"reset must be a bool array [{length}], true where a document begins, not {dtype} {list(shape)}",
    )


def checked_state(state: State | None, empty: State) -> State | None:
    """A state in the dtypes of `empty`, one of its module; none at all is right everywhere.

    Raises:
        MemjaxError: for a state of other shapes or other kinds of numbers.
    """
    if state is None:
        return None
    given, own = ([jnp.shape(leaf) for leaf in jax.tree.leaves(tree)] for tree in (state, empty))
    require(
        type(state) is type(empty) and given == own,
        f"this state is another layer's: {type(state).__name__} of shapes {given}, not {type(empty).__name__} of {own}",
    )
    leaves, wanted = jax.tree.leaves(state), jax.tree.leaves(empty)
    floats, wide = ([jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in each] for each in (leaves, wanted))
    require(floats == wide, f"this state is another layer's: {type(state).__name__} of other kinds of numbers")
    # A count may be a number of Python's, known while a function is traced, and stays one.
    cast = [x.astype(own.dtype) if real else x for x, own, real in zip(leaves, wanted, wide, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(state), cast)
