"""Distributed Associative Memory with the refreshing loss (Park et al. 2021) under the contract: DMSDNC."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.errors import require
from memjax.memories.contract import check_features
from memjax.memories.controlled import ControlledMemory
from memjax.typing import Array, Bool, Float, Key


class Refreshed(NamedTuple):
    """An item's share of the LSTM's gates, and the item itself, which is to be said again."""

    inputs: Float[Array, "*T h4"]
    items: Float[Array, "*T d"]


class DMSDNC(ControlledMemory):
    """`num_slots` rows in `blocks` blocks, each written by content or where there is room, and read by content:
    `ops.dmsdnc_step` for every item.

    Memory refreshing loss: with probability `refresh` an item must be said again at the output,
    `mean((item - [hidden; reads] W)^2)`; without a key to draw from, its expectation. The item is a constant there:
    embeddings do not shrink to be easy to say. Source: Distributed Associative Memory Network with Memory Refreshing
    Loss (2007.10637); bAbI: 2 blocks of 128 rows of 48, 4 heads, LSTM 256, refresh .1.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import DMSDNC, memorize
    >>> memory = DMSDNC(num_slots=6, width=8, blocks=2, memory_width=4, read_heads=2, hidden=6)
    >>> params = memory.init(jax.random.key(0), jnp.ones((2, 3, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((2, 3, 8)), method=memorize)
    >>> state.memory.shape, memory.apply(params, state, method="slots").values.shape
    ((2, 3, 4), (6, 8))
    """

    blocks: int = 2
    refresh: float = 0.1

    def validate(self) -> None:
        super().validate()
        require(self.blocks >= 1, f"blocks must be at least 1, not {self.blocks}")
        require(self.num_slots % self.blocks == 0, f"slots {self.num_slots} must be a multiple of blocks {self.blocks}")
        require(0 <= self.refresh <= 1, f"refresh must be in [0, 1], not {self.refresh}")

    def setup(self):
        super().setup()
        said = self.hidden + self.read_heads * self.memory_width
        self.say_again = self.param("say_again", nn.initializers.lecun_normal(), (said, self.width))

    def interface_size(self) -> int:
        return ops.dmsdnc_interface_size(self.blocks, self.memory_width, self.read_heads)

    def initial_state(self) -> ops.BlocksState:
        rows = self.num_slots // self.blocks
        return ops.dmsdnc_start(self.blocks, rows, self.memory_width, self.read_heads, self.hidden)

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Refreshed:
        return Refreshed(super().encode(items, mask), jnp.where(mask[..., None], items, 0))

    def write_item(
        self, state: ops.BlocksState, features: Refreshed, *, key: Key | None = None
    ) -> tuple[ops.BlocksState, Float[Array, ""]]:
        check_features(features.items, self.width)
        state = ops.dmsdnc_step(self.params_of_step, state, features.inputs, dtype=self.dtype)
        said = jnp.concatenate([state.hidden, state.reads.ravel()]) @ self.say_again
        missed = ((jax.lax.stop_gradient(features.items).astype(said.dtype) - said) ** 2).mean()
        chosen = self.refresh if key is None else jax.random.bernoulli(key, self.refresh).astype(said.dtype)
        return state, chosen * missed

    def rows(self, state: ops.BlocksState) -> Float[Array, "K W"]:
        return state.memory.reshape(self.num_slots, self.memory_width)
