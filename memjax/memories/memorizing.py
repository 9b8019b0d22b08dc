"""Reading a whole stream: `memorize`, and `memorize_at` for one that is asked on the way. The same for all memories."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.memories.memory import (
    Memory,
    Slots,
    own_state,
    replicate_over_sequence,
    scan_module,
    scan_parts,
    scan_writes,
    stream_shards,
)
from memjax.ops.checked import checked
from memjax.typing import Array, Bool, Float, Int, Key, State


@checked
def memorize(
    memory: Memory,
    items: Float[Array, "T N d"],
    mask: Bool[Array, "T N"] | None = None,
    *,
    state: State | None = None,
    key: Key | None = None,
    block: int | None = None,
    remat: bool = False,
) -> tuple[State, Float[Array, ""]]:
    """Encodes the segments, many at once, then writes them in order.

    On a mesh with an axis "sequence", over which segments may lie, all are encoded at once, where they are, and then
    brought together.

    Going on from a `state` gives what one call on the whole stream would have given, at any segment border; a stream of
    no segments leaves the state as it is. Inside a Flax module call it on a bound memory; outside, as
    `memory.apply(params, items, method=memorize)`.

    Args:
        memory: bound, inside a Flax module; else see above.
        items: the stream.
        mask: which items are no padding, which stands at the end of a segment; all, if not given.
        state: to go on from; the memory's initial state, if not given.
        key: for a memory that samples while it is trained.
        block: how many segments are encoded and written at a time; the slots are the same, but what is sampled with a
            `key` is drawn otherwise. Default: all of them, but on CPU about 100 items, whose features stay in the cache
            and in memory that is used again.
        remat: the gradient keeps only the state at the borders of the blocks, and computes the rest again: a stream of
            any length fits.

    Returns:
        The state after the stream, and the sum of the auxiliary losses.

    Raises:
        MemjaxError: for shapes that do not fit, and for the state of another memory.

    >>> import jax, jax.numpy as jnp
    >>> from memjax import memories
    >>> memory = memories.create("rehearsal", slots=4, width=8, segment=3, layers=1, heads=2)
    >>> stream = jnp.ones((5, 3, 8))
    >>> params = memory.init(jax.random.key(0), stream, method=memorize)
    >>> state, _ = memory.apply(params, stream[:2], method=memorize)
    >>> state, _ = memory.apply(params, stream[2:], state=state, method=memorize)
    >>> memory.apply(params, state, method="slots").values.shape
    (4, 8)
    """
    mask, state = _given(memory, items, mask, state)
    if block is None:
        block = max(1, 100 // mask.shape[1]) if jax.default_backend() == "cpu" and stream_shards() == 1 else len(mask)
    if block >= len(mask) or memory.is_initializing():
        return memory.write_stream(state, memory.encode(items, mask), mask, key=key)
    items, mask = _in_blocks(items, mask, block)

    def step(memory, state, inputs):
        items, mask, key = inputs
        return memory.write_stream(state, memory.encode(items, mask), mask, key=key)

    step = nn.remat(step, prevent_cse=False) if remat else step
    return scan_writes(step, memory, state, (items, mask), key)


@checked
def memorize_at(
    memory: Memory,
    items: Float[Array, "T N d"],
    after: Int[Array, "Q"],
    mask: Bool[Array, "T N"] | None = None,
    *,
    state: State | None = None,
    key: Key | None = None,
    block: int | None = None,
    remat: bool = False,
) -> tuple[Slots, State, Float[Array, ""]]:
    """Reads a stream once, and shows the slots as they were each time that it was asked.

    They are those that `memorize` gives for the first `after[q]` segments alone, if nothing is sampled with a `key`.
    What a question costs is its K slots: the gradient keeps the state at the borders of the blocks and not at every
    question. A stream that is asked at more than half of its segments shows all T of them instead, once.

    Args:
        memory: as of `memorize`, and so are the others.
        items: the stream.
        after: how many segments have been read when a question comes, in any order; above T it is T, below 0 it is 0.
        mask: which items are no padding, which stands at the end of a segment; all, if not given.
        state: to go on from.
        key: for a memory that samples while it is trained.
        block: how many segments are encoded and written at a time.
        remat: whether the gradient computes again what lies within a block.

    Returns:
        The slots at each question, with a leading axis Q; the state after the whole stream; and the sum of the
        auxiliary losses.

    Raises:
        MemjaxError: as `memorize` does.

    >>> import jax, jax.numpy as jnp
    >>> from memjax import memories
    >>> memory = memories.create("rehearsal", slots=4, width=8, segment=3, layers=1, heads=2)
    >>> stream = jnp.ones((5, 3, 8))
    >>> params = memory.init(jax.random.key(0), stream, method=memorize)
    >>> slots, _, _ = memory.apply(params, stream, jnp.array([0, 2, 5]), method=memorize_at)
    >>> slots.values.shape
    (3, 4, 8)
    """
    mask, state = _given(memory, items, mask, state)
    if block is None:
        block = max(1, 100 // mask.shape[1]) if stream_shards() == 1 else len(mask)
    after = jnp.clip(after, 0, len(mask))
    items, mask = _in_blocks(items, mask, block)
    block = mask.shape[1]

    def write(memory, state, inputs):
        features, mask, key = inputs
        state, aux_loss = memory.write(state, features, mask, key=key)
        return state, (memory.slots(state), aux_loss)

    # What is carried the gradient keeps at every border of the blocks: dear where questions are many.
    often = 2 * len(after) > mask.size // mask.shape[2]

    def step(memory, carry, inputs):
        (state, asked), (items, mask, first, key) = carry, inputs
        parts = replicate_over_sequence((memory.encode(items, mask), mask))
        keys = None if key is None else jax.random.split(key, block)
        state, (seen, aux_losses) = scan_module(write, memory)(memory, state, (*parts, keys))
        if often:
            return (state, None), (seen, aux_losses.sum())
        place = after - 1 - first
        here, place = (place >= 0) & (place < block), jnp.clip(place, 0, block - 1)
        keep = jax.vmap(lambda here, old, new: jnp.where(here, new, old))
        asked = jax.tree.map(lambda old, new: keep(here, old, new[place]), asked, seen)
        return (state, asked), (None, aux_losses.sum())

    step = nn.remat(step, prevent_cse=False) if remat else step
    first, start = jnp.arange(len(mask)) * block, memory.slots(state)
    before = None if often else jax.tree.map(lambda x: jnp.broadcast_to(x, (len(after), *x.shape)), start)
    (state, asked), (seen, aux_losses) = scan_parts(step, memory, (state, before), (items, mask, first), key)
    if often:

        def at(first: Array, later: Array) -> Array:
            return jnp.concatenate([first[None], later.reshape(-1, *first.shape)])[after]

        asked = jax.tree.map(at, start, seen)
    return asked, state, aux_losses.sum()


def _given(memory: Memory, items: Array, mask: Array | None, state: State | None) -> tuple[Array, State]:
    """The mask and the state, or what stands for them where they are not given."""
    require(
        memory.scope is not None,
        "this memory has no parameters yet: call memorize inside a Flax module, or as "
        "memory.apply(params, items, method=memorize)",
    )
    if mask is None:
        mask = jnp.ones(items.shape[:2], bool)
    if state is None:
        return mask, memory.initial_state()
    return mask, state if memory.is_initializing() else own_state(memory, state)


def _in_blocks(items: Array, mask: Array, block: int) -> tuple[Array, Array]:
    """Items and mask in blocks of one size: one that divides the stream, or else the one with the least padding."""
    length = len(mask)
    block = max(1, min(block, length))
    fewest = max(1, -(-length // block))
    block = next((size for size in range(block, block // 2, -1) if length % size == 0), -(-length // fewest))
    blocks = -(-length // block)
    padding = blocks * block - length

    def split(x: Array) -> Array:
        padded = jnp.pad(x, [(0, padding)] + [(0, 0)] * (x.ndim - 1))
        return padded.reshape(blocks, block, *x.shape[1:])

    return split(items), split(mask)
