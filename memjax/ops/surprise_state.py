"""What all surprise memories share: their state, the checks of their arguments, and the walk over chunks."""

import dataclasses
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from memjax.errors import MemjaxError, require
from memjax.ops.axes import ONE_FOR_ALL
from memjax.ops.recurrence import as_column, carry_like, recomputed, tree_where
from memjax.typing import Annotated, Any, Array, Bool, Float, PyTree

Gate = Annotated[Float[Array, "L"], ONE_FOR_ALL]
ChannelGate = Gate | Float[Array, "L dk"]  # of a memory's rows alike, or of each


@partial(jax.tree_util.register_dataclass, data_fields=("memory", "momentum", "anchor", "within"), meta_fields=())
@dataclasses.dataclass(frozen=True)
class SurpriseState:
    """A surprise memory between two calls: its weights, and past surprise, S, which has their shapes.

    Attributes:
        memory: its weights.
        momentum: past surprise, S, which has their shapes; the state of a layer without momentum holds None.
        anchor: where gradients are taken per chunk, the weights at which the unfinished chunk began; None is `memory`.
        within: how many tokens of that chunk have been taken in; None is 0.
    """

    memory: PyTree
    momentum: PyTree
    anchor: PyTree | None = None
    within: Any = None  # a number of a pytree: at times a placeholder, as other leaves


export.register_pytree_node_serialization(  # no named tuple, which `exportable` is for
    SurpriseState,
    serialized_name="memjax.ops.SurpriseState",
    serialize_auxdata=lambda _: b"",
    deserialize_auxdata=lambda _: (),
    from_children=lambda _, fields: SurpriseState(*fields),
)


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


def check_state(state: SurpriseState, expected: PyTree, chunk_size: int | None = None) -> None:
    """Raises `MemjaxError` for the state of a memory of another shape, or one from inside a longer chunk.

    Args:
        state: a caller's.
        expected: weights of the right shapes.
        chunk_size: where gradients are taken per chunk.
    """
    for name in ("memory", "momentum", *(() if state.anchor is None else ("anchor",))):
        given = getattr(state, name)
        shapes, wanted = (jax.tree.map(lambda x: list(jnp.shape(x)), tree) for tree in (given, expected))
        require(shapes == wanted, f"this state is another memory's: its {name} has the shapes {shapes}, not {wanted}")
        require(
            all(jnp.issubdtype(x.dtype, jnp.floating) for x in jax.tree.leaves(given)),
            f"this state is another memory's: its {name} must be of floats",
        )
    within = known_within(state)
    require(
        chunk_size is None or within is None or 0 <= within < chunk_size,
        f"this state is another memory's: it ends {within} tokens into a chunk, of which chunk_size is {chunk_size}",
    )


def known_within(state: SurpriseState) -> int | None:
    """How many tokens of a chunk a state has taken in, if that is known while a function is traced."""
    return None if isinstance(state.within, jax.core.Tracer) else int(state.within or 0)


def state_dtype(*arrays: PyTree) -> Any:
    """The dtype of state and coefficients: float32, or float64 where that is given, in a state too. Counts are none."""
    return jnp.promote_types(jnp.result_type(*jax.tree.leaves(arrays)), jnp.float32)


def cast(state: SurpriseState, dtype: Any) -> SurpriseState:
    """The same state in this dtype of floats."""
    memory, momentum, anchor = jax.tree.map(lambda x: x.astype(dtype), (state.memory, state.momentum, state.anchor))
    return SurpriseState(memory, momentum, anchor, state.within)


def within_chunk(state: SurpriseState, chunk_size: int) -> SurpriseState:
    """The state; NaN where it is that of longer chunks and this is known too late to be refused, in a compiled call."""
    within = state.within
    if known_within(state) is not None:
        return state
    fits = (within >= 0) & (within < chunk_size)
    memory, momentum = jax.tree.map(lambda x: jnp.where(fits, x, jnp.nan), (state.memory, state.momentum))
    return SurpriseState(memory, momentum, state.anchor, within)


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


def over_anchored_chunks(
    step: Callable[[PyTree, PyTree, PyTree, Bool[Array, "C"]], tuple[PyTree, Float[Array, "C dv"]]],
    state: SurpriseState,
    tokens: PyTree,
    mask: Bool[Array, "L"] | None,
    chunk_size: int,
) -> tuple[SurpriseState, Float[Array, "L dv"]]:
    """`over_chunks` where a chunk needs the weights at which it began, though an earlier call may have begun it.

    Args:
        step: `step(anchor, (memory, momentum), tokens of a chunk, mask)`.
        state: to go on from.
        tokens: at least one.
        mask: which tokens are no padding; padding has its place in a chunk as other tokens have.
        chunk_size: of all chunks.
    """
    length = jax.tree.leaves(tokens)[0].shape[0]
    state = within_chunk(state, chunk_size)
    first, begun = (state.memory, state.momentum), known_within(state)
    within = state.within if begun is None else begun
    anchor = state.memory if state.anchor is None else state.anchor
    if length == 1 or (begun is not None and begun + length <= chunk_size):  # crosses no border
        (memory, momentum), out = over_chunks(partial(step, anchor), first, tokens, mask, length)
        anchor = tree_where(within + length == chunk_size, memory, anchor)
        return SurpriseState(memory, momentum, anchor, (within + length) % chunk_size), out
    if begun == 0 and length % chunk_size == 0:  # every chunk begins in the memory as it is: no anchor to carry

        def of_itself(state: PyTree, tokens: PyTree, mask: Array) -> tuple[PyTree, Array]:
            return step(state[0], state, tokens, mask)

        (memory, momentum), out = over_chunks(of_itself, first, tokens, mask, chunk_size)
        return SurpriseState(memory, momentum, memory, 0), out

    # The tokens are moved to their places in as many chunks as they can touch.
    mask = jnp.ones(length, bool) if mask is None else mask
    places = begun + length if begun is not None else chunk_size * (1 - (1 - length) // chunk_size)

    def placed(x: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(jnp.zeros((places, *x.shape[1:]), x.dtype), x, within, axis=0)

    def one(carry: PyTree, tokens: PyTree, mask: Array) -> tuple[PyTree, Array]:
        state, anchor, taken = carry
        state, out = step(anchor, state, tokens, mask)
        taken = taken + chunk_size
        return (state, tree_where(taken <= within + length, state[0], anchor), taken), out

    carry = (first, anchor, jnp.zeros((), jnp.int32))
    ((memory, momentum), anchor, _), out = over_chunks(
        one, carry, jax.tree.map(placed, tokens), placed(mask), chunk_size
    )
    out = jax.lax.dynamic_slice_in_dim(out, within, length, axis=0)
    return SurpriseState(memory, momentum, anchor, (within + length) % chunk_size), out


def over_documents(
    step: Callable[[PyTree, PyTree, PyTree, Bool[Array, "C"], Bool[Array, "C"]], tuple[PyTree, Float[Array, "C dv"]]],
    state: SurpriseState,
    tokens: PyTree,
    reset: Bool[Array, "L"],
    mask: Bool[Array, "L"] | None,
    chunk_size: int,
) -> tuple[SurpriseState, Float[Array, "L dv"]]:
    """`over_anchored_chunks` of several documents, each with chunks that are counted from its own first token.

    In as many tokens as a chunk has, a document that goes on crosses one border at most; the tokens before it are one
    step, those behind it another. One that begins there crosses none: its anchor is the empty memory.

    Args:
        step: `step(anchor, (memory, momentum), tokens, mask, fresh)`, where `fresh` tokens have the empty anchor.
        state: to go on from.
        tokens: at least one.
        reset: the first tokens of documents.
        mask: which tokens are no padding; padding has its place in a chunk, and begins no document.
        chunk_size: of all chunks.
    """
    length = len(reset)
    size = min(chunk_size, length)
    state = within_chunk(state, chunk_size)
    within = jnp.asarray(0 if state.within is None else state.within)
    anchor = state.memory if state.anchor is None else state.anchor
    nothing = jax.tree.map(jnp.zeros_like, state.memory)

    def one(carry: PyTree, tokens: PyTree, mask: Array) -> tuple[PyTree, Array]:
        state, anchor, within, left = carry
        tokens, begins = tokens
        begins, place = (begins > 0) & mask, jnp.arange(size, dtype=within.dtype)
        fresh = jnp.cumsum(begins) > 0
        behind = fresh | (within + place >= chunk_size)
        state, out = step(anchor, state, tokens, mask & ~behind, fresh)
        border = state[0]
        state, more = step(border, state, tokens, mask & behind, fresh)
        taken = jnp.minimum(left, size)
        begun = jnp.max(jnp.where(begins, place, -1))
        own = jnp.where(begun < 0, within, -begun) + taken  # tokens since the document's last border before these
        anchor = tree_where(begun < 0, tree_where(own < chunk_size, anchor, border), nothing)
        anchor = tree_where(own == chunk_size, state[0], anchor)
        return (state, anchor, own % chunk_size, left - size), jnp.where(behind[:, None], more, out)

    carry = ((state.memory, state.momentum), anchor, within, jnp.asarray(length, within.dtype))
    starts = reset.astype(jax.tree.leaves(tokens)[0].dtype)
    ((memory, momentum), anchor, within, _), out = over_chunks(one, carry, (tokens, starts), mask, size)
    return SurpriseState(memory, momentum, anchor, within), out
