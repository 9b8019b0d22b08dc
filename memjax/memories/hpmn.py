"""The Hierarchical Periodic Memory Network (Ren et al. 2019) under the contract: layers, the higher the slower."""

import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least, check_penalties
from memjax.memories.memory import Memory, Slots, check_features, check_items
from memjax.memories.weights import gru_params
from memjax.typing import Any, Array, Bool, Float, Key


class HPMN(Memory):
    """`num_slots` layers of GRUs, `ops.periodic_write`; the slots are their states, the first layer's first.

    Layer i, from 0, takes in every p-th output of the layer below, so that it is written once in p^i items: items are
    counted in the state, padding counts nothing. A layer that was never written is masked: a stream of L items fills
    `1 + log_p L` layers, and no more are of use. The auxiliary loss is `covariance` times `ops.covariance_norm` of the
    slots; each write pays what it adds to that, so that a stream pays what its slots have in the end.

    Source: Lifelong Sequential Modeling with Personalized Memorization (1905.00758); memory is written from the stream
    alone: in its authors' code what is asked for goes through the memory, too. They have a period for each layer, here
    is one for all. Their settings: p = 2, layers 32 wide, covariance 1e-5, of the sum over a batch of 128, which is
    1.28e-3 of the mean (XLong, 1,000 items: 5 layers and 5e-5, of 500: .025; Amazon 3 and Taobao 4 layers, of periods
    2, 2 and 2, 2, 3), and a reader of 3 hops of their own.

    The state is an `ops.PeriodicState`, float32, zeros at the start. Items must be `width` wide.

    Args:
        num_slots: K, the layers.
        width: of an item, of a layer's state, and of a slot.
        period: p.
        covariance: the weight of the auxiliary loss, whose mean over the streams counts.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import HPMN, memorize
    >>> memory = HPMN(num_slots=4, width=8)
    >>> params = memory.init(jax.random.key(0), jnp.ones((2, 3, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((2, 3, 8)), method=memorize)
    >>> memory.apply(params, state, method="slots").mask.tolist()  # six items: the layers of every 1, 2, 4, not 8
    [True, True, True, False]
    """

    width: int
    period: int = 2
    covariance: float = 1.28e-3
    dtype: Any = jnp.float32

    def validate(self) -> None:
        at_least(self, 1, "num_slots", "width", "period")
        check_penalties(self, "covariance")

    def setup(self):
        self.validate()
        self.layers = gru_params(self, "layers", self.width, self.width, self.num_slots)

    def initial_state(self) -> ops.PeriodicState:
        counts = jnp.zeros(self.num_slots)
        return ops.PeriodicState(jnp.zeros((self.num_slots, self.width)), counts, counts)

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Float[Array, "T N d"]:
        check_items(items, self.width)
        return jnp.where(mask[..., None], items, 0).astype(self.dtype)

    def write(
        self, state: ops.PeriodicState, features: Float[Array, "N d"], mask: Bool[Array, "N"], *, key: Key | None = None
    ) -> tuple[ops.PeriodicState, Float[Array, ""]]:
        check_features(features, self.width)
        after = ops.periodic_write(self.layers, state, features, mask, period=self.period)
        added = ops.covariance_norm(after.hidden) - ops.covariance_norm(state.hidden)
        return after, self.covariance * jnp.where(mask.any(), added, 0)

    def slots(self, state: ops.PeriodicState) -> Slots:
        return Slots(state.hidden, state.filled > 0)
