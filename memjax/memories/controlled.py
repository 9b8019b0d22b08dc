"""What NTM, DNC and their kin share as memories: a controller, its interface, and rows that are the slots."""

import abc

import flax.linen as nn
import jax.numpy as jnp

from memjax import ops
from memjax.errors import require
from memjax.memories.contract import Slots
from memjax.memories.tokenwise import TokenwiseMemory
from memjax.memories.weights import interface_params, lstm_params
from memjax.typing import Any, Array, Bool, Float, State


class ControlledMemory(TokenwiseMemory):
    """A memory of `num_slots` rows, `memory_width` wide, that an LSTM reads and writes with every item.

    What items add to the LSTM's gates is computed for all of them at once. The slots are the rows, `width` wide by a
    learned projection. A subclass says how large its interface is, where its state starts, and what a step does.
    """

    width: int
    memory_width: int = 64
    read_heads: int = 4
    hidden: int = 256
    dtype: Any = jnp.float32

    def validate(self) -> None:
        for name in ("num_slots", "width", "memory_width", "read_heads", "hidden"):
            size = getattr(self, name)
            require(size >= 1, f"{name.removeprefix('num_')} must be at least 1, not {size}")

    def setup(self):
        self.validate()
        again = self.hidden + self.read_heads * self.memory_width
        controller = lstm_params(self, "controller", self.width, again, self.hidden)
        self.params_of_step = ops.ExternalParams(controller, self.interface_params())
        shape = (self.memory_width, self.width)
        self.read_out = self.param("read_out", nn.initializers.lecun_normal(), shape)

    @abc.abstractmethod
    def interface_size(self) -> int:
        """How many numbers the controller says to the memory for each item."""

    def interface_params(self) -> ops.InterfaceParams | ops.ProgramParams:
        """The weights of the interface; programs are another kind."""
        return interface_params(self, "interface", self.hidden, self.interface_size())

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Any:
        width = items.shape[-1]
        require(width == self.width, f"items are {width} wide, this memory {self.width}; project the items first")
        items = jnp.where(mask[..., None], items, 0).astype(self.dtype)
        return ops.lstm_inputs(self.params_of_step.controller, items)

    def rows(self, state: State) -> Float[Array, "K W"]:
        """The memory itself."""
        return state.memory

    def slots(self, state: State) -> Slots:
        return Slots(self.rows(state) @ self.read_out, jnp.ones(self.num_slots, bool))
