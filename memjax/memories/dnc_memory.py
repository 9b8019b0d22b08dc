"""The Differentiable Neural Computer (Graves et al. 2016) under the contract."""

from memjax.memories.controlled import ControlledMemory
from memjax.memories.controlled_core import DNCCore


class DNC(ControlledMemory):
    """Rows addressed by content, by what is free, and by the order of writing: `ops.dnc_step` for every item.

    Source: Hybrid computing using a neural network with dynamic external memory, Methods. The state is an
    `ops.DNCState`, zeros at the start; its links take `num_slots^2` numbers.

    Args:
        num_slots: K, the rows.
        width: of an item, and of a slot as it is shown.
        memory_width: of a row.
        read_heads: how many rows are read at once.
        hidden: units of the controller.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import DNC, memorize
    >>> memory = DNC(num_slots=5, width=8, memory_width=4, read_heads=2, hidden=6)
    >>> params = memory.init(jax.random.key(0), jnp.ones((2, 3, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((2, 3, 8)), method=memorize)
    >>> state.links.shape, memory.apply(params, state, method="slots").values.shape
    ((5, 5), (5, 8))
    """

    def core(self) -> DNCCore:
        return DNCCore.of(self, self.num_slots)
