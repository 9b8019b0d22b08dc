"""A buffer of N entries in the order of arrival: append until it is full, then evict one for each that comes."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.ops.checked import checked
from memjax.ops.exportable import exportable
from memjax.ops.recurrence import as_column, tree_where
from memjax.typing import Array, Float, Int, PyTree, Shaped

Entry = PyTree[Shaped[Array, "..."]]


@exportable
class Buffer(NamedTuple):
    """The first `filled` of N entries are there, oldest first.

    All that is kept for an entry is in `entries`, so that it moves with it.

    Attributes:
        entries: a pytree of arrays `[N, ...]`.
        filled: how many entries there are.
    """

    entries: PyTree[Shaped[Array, "N ..."]]
    filled: Int[Array, ""]


@checked
def buffer_append(buffer: Buffer, entry: Entry) -> Buffer:
    """Puts an entry behind the last one; a full buffer stays as it is.

    Source: Long-term Episodic Memory Networks (LEMN), 3.

    Args:
        buffer: of N entries.
        entry: as one of `buffer.entries`, to whose dtypes it is cast.

    Returns:
        The buffer with the entry.

    Raises:
        MemjaxError: if the shapes of the entry are not those of the others.

    >>> import jax.numpy as jnp
    >>> buffer = buffer_append(Buffer(jnp.zeros(3), jnp.array(1)), jnp.array(7.0))
    >>> buffer.entries.tolist(), int(buffer.filled)
    ([0.0, 7.0, 0.0], 2)
    """
    size = _size(buffer, entry)

    def put(entries: Array, new: Array) -> Array:
        new = jnp.asarray(new, entries.dtype)
        return jnp.where(as_column(jnp.arange(size) == buffer.filled, entries), new, entries)

    return Buffer(jax.tree.map(put, buffer.entries, entry), jnp.minimum(buffer.filled + 1, size))


@checked
def buffer_evict(buffer: Buffer, index: Int[Array, ""], entry: Entry) -> Buffer:
    """Evicts entry `index` of a full buffer: those after it move one place down, and the new one goes to the end.

    `index = N` evicts the new entry itself: the buffer stays as it was. A larger index is N, one below 0 is 0. A buffer
    that is not full appends, whatever the index. Source: LEMN, 3.1, "memory update" and "no operation".

    Args:
        buffer: of N entries.
        index: which entry is evicted.
        entry: the new one, as of `buffer_append`.

    Returns:
        The buffer after the eviction.

    Raises:
        MemjaxError: as of `buffer_append`.

    >>> import jax.numpy as jnp
    >>> full = Buffer(jnp.array([1.0, 2.0, 3.0]), jnp.array(3))
    >>> buffer_evict(full, jnp.array(1), jnp.array(4.0)).entries.tolist()
    [1.0, 3.0, 4.0]
    """
    size = _size(buffer, entry)

    def move(entries: Array, new: Array) -> Array:
        # Shifted and chosen, not gathered: gathers by computed indices have no gradient on an Explicit mesh.
        shifted = jnp.concatenate([entries[1:], jnp.asarray(new, entries.dtype)[None]])
        return jnp.where(as_column(jnp.arange(size) >= index, entries), shifted, entries)

    appended = buffer_append(buffer, entry)
    moved = Buffer(jax.tree.map(move, buffer.entries, entry), buffer.filled)
    full = buffer.filled >= size
    return tree_where(full, moved, appended)


@checked
def straight_through_evict(
    buffer: Buffer, index: Int[Array, ""], entry: Entry, probabilities: Float[Array, "M"]
) -> Buffer:
    """`buffer_evict`, whose gradient reaches the probabilities too: that of the mean over what might have gone.

    `E[entries[p]] = P(i <= p) entries[p + 1] + P(i > p) entries[p]`, the new entry behind the last. To whatever comes
    of a buffer, this makes the policy that drew `index` learnable without a reward. Source: the straight-through
    estimator (Bengio et al. 2013, 1308.3432), for the eviction of LEMN, 3.1.

    Args:
        buffer: of N entries.
        index: which entry is evicted.
        entry: the new one, as of `buffer_append`.
        probabilities: of the N entries and of the new one, with which `index` was drawn.

    Returns:
        The buffer of `buffer_evict`.

    >>> import jax, jax.numpy as jnp
    >>> full = Buffer(jnp.array([1.0, 2.0]), jnp.array(2))
    >>> def kept(probabilities):
    ...     return straight_through_evict(full, jnp.array(0), jnp.array(5.0), probabilities).entries.sum()
    >>> float(kept(jnp.array([0.5, 0.3, 0.2]))), jax.grad(kept)(jnp.array([0.5, 0.3, 0.2])).tolist()
    (7.0, [4.0, 3.0, 0.0])
    """
    size = _size(buffer, entry)
    count = probabilities.shape[0]
    require(
        count == size + 1,
        f"straight_through_evict: {size} entries and the new one need {size + 1} probabilities, not {count}",
    )
    below = jnp.cumsum(probabilities)[:size]
    through = jnp.where(buffer.filled >= size, below - jax.lax.stop_gradient(below), 0)  # 0, but for its gradient

    def learn(after: Array, entries: Array, new: Array) -> Array:
        if not jnp.issubdtype(entries.dtype, jnp.floating):
            return after
        moved = jnp.concatenate([entries[1:], jnp.asarray(new, entries.dtype)[None]]) - entries
        moved = jnp.where(jnp.isfinite(moved), moved, 0)  # 0 * inf is NaN, and what has gone may be anything
        return after + as_column(through, entries).astype(entries.dtype) * jax.lax.stop_gradient(moved)

    after = buffer_evict(buffer, index, entry)
    return Buffer(jax.tree.map(learn, after.entries, buffer.entries, entry), after.filled)


def _size(buffer: Buffer, entry: Entry) -> int:
    """How many entries the buffer has room for, if the new one is as they are."""
    leaves, news = jax.tree.leaves(buffer.entries), jax.tree.leaves(entry)
    structure, given = cast(Any, (jax.tree.structure(buffer.entries), jax.tree.structure(entry)))
    require(leaves, "a buffer must have entries, arrays [N, ...]")
    require(structure == given, f"an entry of a buffer of {structure} must be as that is, not {given}")
    for entries, new in zip(leaves, news):
        require(
            new.shape == entries.shape[1:],
            f"an entry of a buffer of {list(entries.shape)} must be {list(entries.shape[1:])}, not {list(new.shape)}",
        )
    return leaves[0].shape[0]
