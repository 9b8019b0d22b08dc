"""The Neural Turing Machine (Graves et al. 2014) under the contract."""

from memjax.memories.controlled import ControlledMemory
from memjax.memories.controlled_core import NTMCore


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

    def core(self) -> NTMCore:
        return NTMCore.of(self, self.num_slots)
