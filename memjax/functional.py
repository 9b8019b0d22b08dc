"""Any memory as pure functions of explicit parameters, for code that does not use Flax."""

from collections.abc import Callable
from typing import NamedTuple

from memjax.errors import require
from memjax.memories.memory import Memory, check_state, memorize


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
        MemjaxError: for what is no memory.

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

    def call(method: Callable) -> Callable:
        return lambda params, *args, **kwargs: memory.apply(params, *args, method=method, **kwargs)

    def on_state(method: Callable) -> Callable:
        def checked(bound, state, *args, **kwargs):
            check_state(bound, state)
            return method(bound, state, *args, **kwargs)

        return call(checked)

    def init(key, items, mask=None):
        return memory.init(key, items, mask, method=memorize)

    cls = type(memory)
    return FunctionalMemory(
        init, call(cls.initial_state), call(cls.encode), on_state(cls.write), on_state(cls.slots), call(memorize)
    )
