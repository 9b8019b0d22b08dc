"""Any memory as pure functions of explicit parameters, for code that does not use Flax."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
from flax.core.meta import AxisMetadata
from flax.errors import FlaxError

from memjax.errors import MemjaxError, one_line, require
from memjax.memories.memorizing import memorize
from memjax.memories.memory import Memory
from memjax.ops.arrays import as_array, described
from memjax.ops.checked import checked
from memjax.typing import Any, Array, Bool, Float, Key, Params


class FunctionalMemory(NamedTuple):
    """A memory without Flax. All functions are for one example; batch them with `jax.vmap(f, in_axes=(None, 0, ..))`.

    Attributes:
        init: `init(key, items [T, N, d], mask=None) -> params`.
        initial_state: `initial_state(params) -> state`.
        encode: `encode(params, items, mask) -> features`, one call for all segments.
        write: `write(params, state, features, mask, *, key=None) -> (state, aux_loss)`, one segment.
        slots: `slots(params, state) -> Slots`.
        memorize: `memorize(params, items, mask=None, *, state=None, key=None) -> (state, aux_loss)`.
    """

    init: Callable
    initial_state: Callable
    encode: Callable
    write: Callable
    slots: Callable
    memorize: Callable


def functional(memory: Memory) -> FunctionalMemory:
    """Takes a memory apart into pure functions of explicit parameters.

    Args:
        memory: as `memories.create` makes one, or one of your own.

    Returns:
        Its functions, for one example each; batch them with `jax.vmap`.

    Raises:
        MemjaxError: for what is no memory. So do the functions, for what they cannot take (as of `memjax.ops`), and for
            parameters that lack what this memory has, or have it in other shapes.

    >>> import jax, jax.numpy as jnp
    >>> from memjax import memories
    >>> memory = functional(memories.create("rehearsal", slots=4, width=8, segment=3, layers=1, heads=2))
    >>> stream = jnp.ones((5, 3, 8))  # 5 segments of 3 items
    >>> params = memory.init(jax.random.key(0), stream)
    >>> state, _ = jax.jit(memory.memorize)(params, stream)
    >>> memory.slots(params, state).values.shape
    (4, 8)
    """
    require(isinstance(memory, Memory), f"functional takes a memory, as memories.create makes one, not {memory!r:.80}")

    @checked
    def init(key: Key, items: Float[Array, "T N d"], mask: Bool[Array, "T N"] | None = None) -> Params:
        return memory.init(key, items, mask, method=memorize)

    def call(name: str) -> Callable:
        method = memorize if name == "memorize" else getattr(type(memory), name)

        def run(params: Params, *args: Any, **kwargs: Any) -> Any:
            try:
                return memory.apply(_weights(name, params), *args, method=method, **kwargs)
            except FlaxError as error:
                raise MemjaxError(f"{name}: these params are not this memory's: {one_line(error)}") from error

        return run

    return FunctionalMemory(init, *map(call, FunctionalMemory._fields[1:]))


def _weights(name: str, params: Params) -> Params:
    """Mappings in mappings of float arrays. Raises `MemjaxError` for anything else."""
    require(isinstance(params, Mapping), f"{name}: params must be what init made, not {described(params)}")
    leaves, structure = jax.tree.flatten(params, is_leaf=lambda part: not isinstance(part, (Mapping, AxisMetadata)))
    arrays = [as_array(leaf, "float") for leaf in leaves]
    for leaf, array in zip(leaves, arrays, strict=True):
        if array is None:
            raise MemjaxError(f"{name}: params must be float arrays, not {described(leaf)}")
    return jax.tree.unflatten(structure, arrays)
