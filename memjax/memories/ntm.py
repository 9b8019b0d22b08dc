"""The Neural Turing Machine (Graves et al. 2014) under the contract."""

import jax.numpy as jnp

from memjax import ops
from memjax.memories.controlled import ControlledMemory
from memjax.typing import Array, Float, Key


class NTM(ControlledMemory):
    """Rows addressed by content and by shifts from where a head was before: `ops.ntm_step` for every item.

    Source: Neural Turing Machines (1410.5401). The state is an `ops.NTMState`, constant at the start.

    Args:
        num_slots: K, the rows.
        width: of an item, and of a slot as it is shown.
        memory_width: of a row.
        read_heads: how many rows are read at once.
        hidden: units of the controller.
        dtype: of the products.
        read_first: heads read before the write, not after it.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import NTM, memorize
    >>> memory = NTM(num_slots=5, width=8, memory_width=4, read_heads=1, hidden=6)
    >>> params = memory.init(jax.random.key(0), jnp.ones((2, 3, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((2, 3, 8)), method=memorize)
    >>> state.memory.shape, memory.apply(params, state, method="slots").values.shape
    ((5, 4), (5, 8))
    """

    read_first: bool = False

    def interface_size(self) -> int:
        return ops.ntm_interface_size(self.memory_width, self.read_heads)

    def initial_state(self) -> ops.NTMState:
        return ops.ntm_start(self.num_slots, self.memory_width, self.read_heads, self.hidden)

    def write_item(
        self, state: ops.NTMState, features: Float[Array, "h4"], *, key: Key | None = None
    ) -> tuple[ops.NTMState, Float[Array, ""]]:
        del key
        step = ops.ntm_step(self.params_of_step, state, features, read_first=self.read_first, dtype=self.dtype)
        return step, jnp.zeros((), jnp.float32)
