"""What all surprise memories share: their state, the checks of their arguments, and the walk over chunks."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import MemjaxError, require
from memjax.ops.axes import ONE_FOR_ALL
from memjax.ops.recurrence import as_column, carry_like, recomputed
from memjax.typing import Annotated, Any, Array, Bool, Float, PyTree

Gate = Annotated[Float[Array, "L"], ONE_FOR_ALL]


@functools.partial(jax.tree_util.register_dataclass, data_fields=("memory", "momentum"), meta_fields=("within",))
@dataclasses.dataclass(frozen=True)
class SurpriseState:
    """A surprise memory between two calls: its weights, and past surprise, S, which has their shapes.

    Attributes:
        memory: its weights.
        momentum: past surprise, S, which has their shapes.
        within: how many tokens of an unfinished chunk it has taken in; not 0 only where gradients are taken at the
            start of a chunk. From there on nothing can be written so: the memory at that start is gone.
    """

    memory: PyTree
    momentum: PyTree
    within: int = 0


def check_gates(gates: dict[str, Array], mask: Array | None) -> None:
    """Raises `MemjaxError` for gates out of range, if they are known and not masked."""
    for name, gate in gates.items():
        if isinstance(gate, jax.core.Tracer) or isinstance(mask, jax.core.Tracer):
            continue
        # NumPy: inside a jitted function the comparison of a constant would be traced.
        known = np.asarray(gate)[slice(None) if mask is None else np.asarray(mask)]
        if name == "lr" and not ((known >= 0) & (known < np.inf)).all():
            raise MemjaxError(f"lr must be finite and at least 0; it goes from {known.min()} to {known.max()}")
        if name != "lr" and not (known <= 0).all():
            raise MemjaxError(
                f"{name} must be the log of a gate in [0, 1], at most 0; its largest value is {known.max()}"
            )


def check_state(state: SurpriseState, expected: PyTree, anchored: bool) -> None:
    """Raises `MemjaxError` for the state of a memory of another shape, or one that ends inside a chunk."""
    for name in ("memory", "momentum"):
        given = getattr(state, name)
        shapes, wanted = (jax.tree.map(lambda x: list(jnp.shape(x)), tree) for tree in (given, expected))
        require(shapes == wanted, f"this state is another memory's: its {name} has the shapes {shapes}, not {wanted}")
        require(
            all(jnp.issubdtype(x.dtype, jnp.floating) for x in jax.tree.leaves(given)),
            f"this state is another memory's: its {name} must be of floats",
        )
    require(
        not anchored or not state.within,
        f"this state ends {state.within} tokens into a chunk, at whose start gradients are taken; "
        "cut the stream at multiples of chunk_size",
    )


def state_dtype(*arrays: Array) -> Any:
    """The dtype of state and coefficients: float32, or float64 where that is given."""
    return jnp.promote_types(jnp.result_type(*arrays), jnp.float32)


def over_chunks(
    step: Callable[[PyTree, PyTree, Bool[Array, "C"]], tuple[PyTree, Float[Array, "C dv"]]],
    state: PyTree,
    tokens: PyTree,
    mask: Bool[Array, "L"] | None,
    chunk_size: int,
) -> tuple[PyTree, Float[Array, "L dv"]]:
    """Scans `step(state, tokens of a chunk, mask)` over chunks; the last one is filled up, and padding reads 0.

    For the gradient only the states between the chunks are kept, and what a step names `SAVED`: all else is
    O(chunk_size) per token, and cheap to compute again.
    """
    length = jax.tree.leaves(tokens)[0].shape[0]
    size = min(chunk_size, length)
    whole = mask is None and length % size == 0
    mask = jnp.ones(length, bool) if mask is None else mask
    first = mask & (jnp.cumsum(mask) == 1)
    padded = jnp.pad(mask, (0, -length % size))

    def cut(x: Array) -> Array:
        if whole:
            return x.reshape(-1, size, *x.shape[1:])
        # What is masked may hold anything, even NaN, and 0 * NaN is NaN. In its place the first real token, if there is
        # one: at 0 the gradient of a loss may be NaN as well.
        real = jax.lax.stop_gradient(jnp.where(as_column(first, x), x, 0).sum(0))
        x = jnp.pad(x, ((0, -length % size), *[(0, 0)] * (x.ndim - 1)))
        return jnp.where(as_column(padded, x), x, real).reshape(-1, size, *x.shape[1:])

    chunks = jax.tree.map(cut, tokens), padded.reshape(-1, size)
    state = carry_like(state, jax.tree.leaves(tokens)[0])
    state, out = jax.lax.scan(recomputed(lambda state, chunk: step(state, *chunk)), state, chunks)
    return state, jnp.where(mask[:, None], out.reshape(-1, out.shape[-1])[:length], 0)
