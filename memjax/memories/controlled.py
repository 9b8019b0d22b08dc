"""What NTM, DNC and their kin share as memories: a controller, its interface, and rows that are the slots."""

import abc

import flax.linen as nn
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least
from memjax.memories.controlled_core import ControlledCore
from memjax.memories.memory import Slots, check_items
from memjax.memories.tokenwise import TokenwiseMemory
from memjax.typing import Any, Array, Bool, Float, Key, State


class ControlledMemory(TokenwiseMemory):
    """A memory of `num_slots` rows, `memory_width` wide, that an LSTM reads and writes with every item.

    What items add to the LSTM's gates is computed for all of them at once. The slots are the rows, `width` wide by a
    learned projection. A subclass says what its core is.

    Args:
        num_slots: K, the rows.
        width: of an item and of a slot.
        memory_width: of a row.
        read_heads: how many rows are read at once.
        hidden: units of the LSTM.
        dtype: of the products.
    """

    width: int
    memory_width: int = 64
    read_heads: int = 4
    hidden: int = 256
    dtype: Any = jnp.float32

    def validate(self) -> None:
        at_least(self, 1, "num_slots", "width")
        self.core()

    def setup(self):
        self.validate()
        self.params_of_step = self.core().params(self, self.width)
        shape = (self.memory_width, self.width)
        self.read_out = self.param("read_out", nn.initializers.lecun_normal(), shape)

    @abc.abstractmethod
    def core(self) -> ControlledCore:
        """What this memory has in common with an RNN cell of its kind. Raises `MemjaxError` for sizes below 1."""

    def initial_state(self) -> State:
        return self.core().start()

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Any:
        check_items(items, self.width)
        items = jnp.where(mask[..., None], items, 0).astype(self.dtype)
        return ops.lstm_inputs(self.params_of_step.controller, items)

    def write_item(self, state: State, features: Any, *, key: Key | None = None) -> tuple[State, Float[Array, ""]]:
        return self.core().step(self.params_of_step, state, features), jnp.zeros((), jnp.float32)

    def rows(self, state: State) -> Float[Array, "K W"]:
        """The memory itself."""
        return state.memory

    def slots(self, state: State) -> Slots:
        return Slots(self.rows(state) @ self.read_out, jnp.ones(self.num_slots, bool))
