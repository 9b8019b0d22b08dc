"""The Multi-channel user Interest Memory Network (Pi et al. 2019) under the contract: an NTM, and what it induces."""

import flax.linen as nn
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least, check_penalties
from memjax.errors import require
from memjax.memories.memory import Slots, check_items
from memjax.memories.tokenwise import TokenwiseMemory
from memjax.memories.weights import gru_params, interface_params, lstm_params
from memjax.ops.induction import mimn_interface_size
from memjax.typing import Any, Array, Bool, Float, Key


class MIMN(TokenwiseMemory):
    """Rows addressed by content alone, and a channel of the memory-induction unit for each: `ops.mimn_step`.

    Half of the `num_slots` slots are the rows, the other half their channels, each `width` wide by a learned
    projection; a channel that was never written is masked. The auxiliary loss balances how the rows are used:
    `usage_penalty * sum over rows of (u - mean u)^2`, u the weights of all writes summed up; each item pays what it
    adds to that, so that a stream pays what it has in the end.

    Source: Practice on Long Sequential User Behavior Modeling for Click-Through Rate Prediction (1905.09248), 4. Of its
    settings one channel is induced for an item, there is one read head, which reads before the write, and rows are
    found by learned keys, too, as in the authors' code; theirs is a controller of 32 units, 4 rows of 32, and a penalty
    that amounts to 2.4e-7 (1e-3 of the mean over 4 rows, divided by the rows and a batch of 256). Ours: the controller
    is an LSTM, as of the other memories that have one, not a GRU. Left out is how they shift write weights by what was
    used: the penalty moves the write weights themselves.

    The state is an `ops.MIMNState`, float32, constant at the start. Items must be `width` wide.

    Args:
        num_slots: K, rows and channels together; even.
        width: of an item, and of a slot as it is shown.
        memory_width: of a row and of a channel.
        hidden: units of the controller.
        usage_penalty: the weight of the auxiliary loss.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import MIMN, memorize
    >>> memory = MIMN(num_slots=6, width=8, memory_width=4, hidden=6)
    >>> params = memory.init(jax.random.key(0), jnp.ones((1, 1, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((1, 1, 8)), method=memorize)
    >>> state.memory.shape, state.channels.shape, int(memory.apply(params, state, method="slots").mask.sum())
    ((3, 4), (3, 4), 4)
    """

    width: int
    memory_width: int = 32
    hidden: int = 32
    usage_penalty: float = 2.4e-7
    dtype: Any = jnp.float32

    def validate(self) -> None:
        at_least(self, 1, "num_slots", "width", "memory_width", "hidden")
        require(self.num_slots % 2 == 0, f"slots must be even, rows and as many channels, not {self.num_slots}")
        check_penalties(self, "usage_penalty")

    def setup(self):
        self.validate()
        size, dense = self.memory_width, nn.initializers.lecun_normal()
        self.step_params = ops.MIMNParams(
            controller=lstm_params(self, "controller", self.width, self.hidden + size, self.hidden),
            interface=interface_params(self, "interface", self.hidden, mimn_interface_size(size)),
            keys=self.param("keys", nn.initializers.normal(1.0), (self.num_slots // 2, size)),
            w_item=self.param("channel_w_item", dense, (self.width, 3 * size)),
            channel=gru_params(self, "channel", size, size),
        )
        self.read_rows = self.param("read_rows", dense, (size, self.width))
        self.read_channels = self.param("read_channels", dense, (size, self.width))

    def initial_state(self) -> ops.MIMNState:
        return ops.mimn_start(self.num_slots // 2, self.memory_width, self.hidden)

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> ops.MIMNInputs:
        check_items(items, self.width)
        return ops.mimn_inputs(self.step_params, jnp.where(mask[..., None], items, 0).astype(self.dtype))

    def write_item(
        self, state: ops.MIMNState, features: ops.MIMNInputs, *, key: Key | None = None
    ) -> tuple[ops.MIMNState, Float[Array, ""]]:
        after = ops.mimn_step(self.step_params, state, features, dtype=self.dtype)
        old, new = (usage - usage.mean() for usage in (state.usage, after.usage))
        return after, self.usage_penalty * ((new - old) * (new + old)).sum()

    def slots(self, state: ops.MIMNState) -> Slots:
        values = jnp.concatenate([state.memory @ self.read_rows, state.channels @ self.read_channels])
        return Slots(values, jnp.concatenate([jnp.ones(self.num_slots // 2, bool), state.induced > 0]))
