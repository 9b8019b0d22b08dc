"""What a memory and an RNN cell of one kind share: the sizes, parameters, first state and step of NTM, DNC and NUTM."""

import abc
from dataclasses import dataclass, fields
from typing import TypeVar

import flax.linen as nn

from memjax import ops
from memjax.errors import require_count
from memjax.memories.weights import interface_params, lstm_params, program_params
from memjax.typing import Any, Array, Float, State

C = TypeVar("C", bound="ControlledCore")


@dataclass(frozen=True, kw_only=True)
class ControlledCore(abc.ABC):
    """A memory of N rows, an LSTM that reads and writes it with every item, and the interface between them.

    A subclass says how large its interface is, where its state starts and what a step does.

    Attributes:
        rows: N of the memory.
        memory_width: W, of a row.
        read_heads: R, how many rows are read at once.
        hidden: units of the LSTM.
        dtype: of products; state and parameters are float32.

    Raises:
        MemjaxError: for sizes below 1.
    """

    rows: int
    memory_width: int
    read_heads: int
    hidden: int
    dtype: Any

    def __post_init__(self):
        for name in self.counts:
            require_count(name, getattr(self, name))

    @classmethod
    def of(cls: type[C], module: Any, rows: int) -> C:
        """That of a memory or a cell, from its fields of the same names.

        Args:
            module: the memory or the cell.
            rows: N.
        """
        return cls(
            rows=rows, **{field.name: getattr(module, field.name) for field in fields(cls) if field.name != "rows"}
        )

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the sizes, all of them at least 1."""
        return "rows", "memory_width", "read_heads", "hidden"

    @abc.abstractmethod
    def interface_size(self) -> int:
        """How many numbers the controller gives the memory for each item."""

    @abc.abstractmethod
    def start(self) -> State:
        """The state of one example that has read nothing."""

    @abc.abstractmethod
    def step(self, params: ops.ExternalParams, state: State, inputs: Float[Array, "h4"]) -> State:
        """The state after one item.

        Args:
            params: of the step.
            state: before it.
            inputs: `ops.lstm_inputs` of the item.
        """

    def params(self, module: nn.Module, width: int) -> ops.ExternalParams:
        """The weights, declared on a module as `controller_w_x`, `interface_w` and so on, for items of this width."""
        recurrent = self.hidden + self.read_heads * self.memory_width
        controller = lstm_params(module, "controller", width, recurrent, self.hidden)
        return ops.ExternalParams(controller, self.interface_params(module))

    def interface_params(self, module: nn.Module) -> ops.InterfaceParams | ops.ProgramParams:
        """The weights of the interface; programs are another kind."""
        return interface_params(module, "interface", self.hidden, self.interface_size())


@dataclass(frozen=True, kw_only=True)
class NTMCore(ControlledCore):
    """A Neural Turing Machine: `ops.ntm_step`. read_first: heads read before the write, not after it."""

    read_first: bool

    def interface_size(self) -> int:
        return ops.ntm_interface_size(self.memory_width, self.read_heads)

    def start(self) -> ops.NTMState:
        return ops.ntm_start(self.rows, self.memory_width, self.read_heads, self.hidden)

    def step(self, params: ops.ExternalParams, state: ops.NTMState, inputs: Float[Array, "h4"]) -> ops.NTMState:
        return ops.ntm_step(params, state, inputs, read_first=self.read_first, dtype=self.dtype)


@dataclass(frozen=True, kw_only=True)
class DNCCore(ControlledCore):
    """A Differentiable Neural Computer: `ops.dnc_step`."""

    def interface_size(self) -> int:
        return ops.dnc_interface_size(self.memory_width, self.read_heads)

    def start(self) -> ops.DNCState:
        return ops.dnc_start(self.rows, self.memory_width, self.read_heads, self.hidden)

    def step(self, params: ops.ExternalParams, state: ops.DNCState, inputs: Float[Array, "h4"]) -> ops.DNCState:
        return ops.dnc_step(params, state, inputs, dtype=self.dtype)


@dataclass(frozen=True, kw_only=True)
class NUTMCore(DNCCore):
    """A DNC with an interface put together from `programs` of them, each with a key `program_width` wide."""

    programs: int
    program_width: int

    @property
    def counts(self) -> tuple[str, ...]:
        return (*super().counts, "programs", "program_width")

    def interface_params(self, module: nn.Module) -> ops.ProgramParams:
        sizes = self.hidden, self.interface_size()
        return program_params(module, "interface", self.programs, self.program_width, *sizes)
