"""NTM and DNC as cells for `flax.linen.RNN` and whoever else scans an RNN cell."""

import abc
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.errors import require, require_count
from memjax.layers.stream_state import checked_state
from memjax.memories.controlled_core import ControlledCore, DNCCore, NTMCore, NUTMCore
from memjax.ops.arrays import described
from memjax.ops.recurrence import recomputed
from memjax.typing import Any, Array, Float, Key, State


class ExternalCell(nn.RNNCellBase):
    """`(carry, inputs [*B, dx]) -> (carry, outputs [*B, features])`, `outputs = [hidden; reads] W + b`.

    Args:
        features: of the output.
        rows: of the memory.
        memory_width: of a row.
        read_heads: how many rows are read at once.
        hidden: units of the LSTM.
        dtype: of the products.
    """

    features: int
    rows: int
    memory_width: int
    read_heads: int
    hidden: int
    dtype: Any = jnp.float32

    @abc.abstractmethod
    def core(self) -> ControlledCore:
        """What this cell has in common with the memory of its kind. Raises `MemjaxError` for sizes below 1."""

    @nn.nowrap
    def initialize_carry(self, rng: Key, input_shape: tuple[int, ...]) -> State:
        """The carry before the first input, of this shape; it is constant, so that rng is of no account."""
        require_count("features", self.features)
        batch = input_shape[: -self.num_feature_axes]
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*batch, *leaf.shape)), self.core().start())

    @property
    def num_feature_axes(self) -> int:
        return 1

    @nn.compact
    def __call__(self, carry: State, inputs: Float[Array, "*B dx"]) -> tuple[State, Float[Array, "*B features"]]:
        require(getattr(inputs, "ndim", 0) >= 1, f"inputs are an array [*B, width], not {described(inputs)}")
        empty = jax.eval_shape(lambda: self.initialize_carry(jax.random.key(0), inputs.shape))
        carry = checked_state(carry, empty)
        core = self.core()
        params = core.params(self, inputs.shape[-1])
        # All that a step makes, kept for all steps, is several times its carry.
        step = functools.partial(recomputed(core.step), params)
        for _ in inputs.shape[:-1]:
            step = jax.vmap(step)
        carry = step(carry, ops.lstm_inputs(params.controller, inputs.astype(self.dtype)))
        output = jnp.concatenate([carry.hidden, carry.reads.reshape(*inputs.shape[:-1], -1)], axis=-1)
        return carry, nn.Dense(self.features, dtype=self.dtype, name="out")(output)


class NTMCell(ExternalCell):
    """A Neural Turing Machine as a cell: `ops.ntm_step`; its carry is an `ops.NTMState`.

    Source: Graves et al. 2014 (1410.5401).

    Args:
        features: of the output.
        rows: of the memory.
        memory_width: of a row.
        read_heads: how many rows are read at once.
        hidden: units of the LSTM.
        dtype: of the products.
        read_first: heads read before the write, not after it.

    >>> import flax.linen as nn, jax, jax.numpy as jnp
    >>> cell = NTMCell(features=2, rows=5, memory_width=4, read_heads=1, hidden=6)
    >>> model, x = nn.RNN(cell), jnp.ones((3, 7, 8))
    >>> model.apply(model.init(jax.random.key(0), x), x).shape
    (3, 7, 2)
    """

    read_first: bool = False

    def core(self) -> NTMCore:
        return NTMCore.of(self, self.rows)


class DNCCell(ExternalCell):
    """A Differentiable Neural Computer as a cell: `ops.dnc_step`; its carry is an `ops.DNCState`.

    Source: Graves et al. 2016, Methods.

    Args:
        features: of the output.
        rows: of the memory.
        memory_width: of a row.
        read_heads: how many rows are read at once.
        hidden: units of the LSTM.
        dtype: of the products.

    >>> import flax.linen as nn, jax, jax.numpy as jnp
    >>> cell = DNCCell(features=2, rows=5, memory_width=4, read_heads=2, hidden=6)
    >>> model, x = nn.RNN(cell), jnp.ones((3, 7, 8))
    >>> model.apply(model.init(jax.random.key(0), x), x).shape
    (3, 7, 2)
    """

    def core(self) -> DNCCore:
        return DNCCore.of(self, self.rows)


class NUTMCell(DNCCell):
    """A DNC whose controller puts its interface together from `programs` of them: Neural Stored-program Memory.

    Source: Le et al. 2020 (1906.08862). Its penalty on keys that are alike is `ops.key_similarity`, for the caller's
    loss.

    Args:
        features: of the output.
        rows: of the memory.
        memory_width: of a row.
        read_heads: how many rows are read at once.
        hidden: units of the LSTM.
        dtype: of the products.
        programs: how many there are.
        program_width: of their keys.

    >>> import flax.linen as nn, jax, jax.numpy as jnp
    >>> from memjax.layers import NUTMCell
    >>> model = nn.RNN(NUTMCell(features=3, rows=8, memory_width=6, read_heads=2, hidden=16, programs=2))
    >>> model.init_with_output(jax.random.key(0), jnp.ones((4, 10, 5)))[0].shape
    (4, 10, 3)
    """

    programs: int = 4
    program_width: int = 16

    def core(self) -> NUTMCore:
        return NUTMCore.of(self, self.rows)
