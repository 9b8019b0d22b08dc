"""Memories that take items in one by one, lifted to segments."""

from functools import partial

import flax.linen as nn
import jax.numpy as jnp

from memjax.memories.memory import Memory, scan_writes
from memjax.ops.recurrence import tree_where
from memjax.typing import Any, Array, Bool, Float, Key, State


class TokenwiseMemory(Memory):
    """Writes a segment item by item with `write_item`; for the gradient only the states between segments are kept.

    A subclass computes in `encode` what it can of every item on its own, from items whose padding is made 0, and
    overrides `write_item`.
    """

    def write_item(self, state: State, features: Any, *, key: Key | None = None) -> tuple[State, Float[Array, ""]]:
        """Writes one encoded item, which is no padding.

        Args:
            state: before it.
            features: of the item, from `encode`.
            key: as of `write`.

        Returns:
            The state after it, and an auxiliary loss.
        """
        raise NotImplementedError(f"{type(self).__name__} has no write_item")

    def write(
        self, state: State, features: Any, mask: Bool[Array, "N"], *, key: Key | None = None
    ) -> tuple[State, Float[Array, ""]]:
        return _write_items(self, state, features, mask, key)


# It stands inside the scan over segments, where XLA cannot merge what is computed again with what was.
@partial(nn.remat, prevent_cse=False)
def _write_items(
    memory: TokenwiseMemory, state: State, features: Any, mask: Array, key: Key | None
) -> tuple[State, Array]:
    def step(memory, state, inputs):
        features, real, key = inputs
        after, aux_loss = memory.write_item(state, features, key=key)
        after = tree_where(real, after, state)
        return after, jnp.where(real, aux_loss, 0.0)

    return scan_writes(step, memory, state, (features, mask), key)
