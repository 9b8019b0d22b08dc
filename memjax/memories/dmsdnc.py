"""Distributed Associative Memory with the refreshing loss (Park et al. 2021) under the contract: DMSDNC."""

from dataclasses import dataclass
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least, check_multiple
from memjax.errors import require
from memjax.memories.controlled import ControlledMemory
from memjax.memories.controlled_core import ControlledCore
from memjax.memories.memory import check_features
from memjax.typing import Array, Bool, Float, Key


class Refreshed(NamedTuple):
    """An item's share of the LSTM's gates, and the item itself, which is to be reconstructed."""

    inputs: Float[Array, "*axes h4"]
    items: Float[Array, "*axes d"]


@dataclass(frozen=True, kw_only=True)
class BlocksCore(ControlledCore):
    """`ops.dmsdnc_step`: `rows` rows in each of `blocks` blocks."""

    blocks: int

    def interface_size(self) -> int:
        return ops.dmsdnc_interface_size(self.blocks, self.memory_width, self.read_heads)

    def start(self) -> ops.BlocksState:
        return ops.dmsdnc_start(self.blocks, self.rows, self.memory_width, self.read_heads, self.hidden)

    def step(self, params: ops.ExternalParams, state: ops.BlocksState, inputs: Float[Array, "h4"]) -> ops.BlocksState:
        return ops.dmsdnc_step(params, state, inputs, dtype=self.dtype)


class DMSDNC(ControlledMemory):
    """`num_slots` rows in `blocks` blocks, each written by content or where there is room, and read by content:
    `ops.dmsdnc_step` for every item.

    Memory refreshing loss: with probability `refresh` an item must be reconstructed at the output,
    `mean((item - [hidden; reads] W)^2)`; without a key to draw from, its expectation. The item is a constant there:
    embeddings do not shrink to make it easy. Source: Distributed Associative Memory Network with Memory Refreshing
    Loss (2007.10637); bAbI: 2 blocks of 128 rows of 48, 4 heads, LSTM 256, refresh .1.

    Args:
        num_slots: K, the rows of all blocks.
        width: of an item, and of a slot as it is shown.
        memory_width: of a row.
        read_heads: how many reads there are at once, each out of all blocks.
        hidden: units of the controller.
        dtype: of the products.
        blocks: B, which must divide the slots.
        refresh: with which probability an item must be said again.

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
        at_least(self, 1, "blocks")
        check_multiple(self, "num_slots", "blocks")
        super().validate()
        require(0 <= self.refresh <= 1, f"refresh must be in [0, 1], not {self.refresh}")

    def setup(self):
        super().setup()
        output = self.hidden + self.read_heads * self.memory_width
        # Its name in checkpoints is that of the first version.
        self.reconstruct = self.param("say_again", nn.initializers.lecun_normal(), (output, self.width))

    def core(self) -> BlocksCore:
        return BlocksCore.of(self, self.num_slots // self.blocks)

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Refreshed:
        return Refreshed(super().encode(items, mask), jnp.where(mask[..., None], items, 0))

    def write_item(
        self, state: ops.BlocksState, features: Refreshed, *, key: Key | None = None
    ) -> tuple[ops.BlocksState, Float[Array, ""]]:
        check_features(features.items, self.width)
        state = self.core().step(self.params_of_step, state, features.inputs)
        output = jnp.concatenate([state.hidden, state.reads.ravel()]) @ self.reconstruct
        error = ((jax.lax.stop_gradient(features.items).astype(output.dtype) - output) ** 2).mean()
        share = self.refresh if key is None else jax.random.bernoulli(key, self.refresh).astype(output.dtype)
        return state, share * error

    def rows(self, state: ops.BlocksState) -> Float[Array, "K W"]:
        return state.memory.reshape(self.num_slots, self.memory_width)
