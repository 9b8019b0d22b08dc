"""The SAM-based Two-memory Model (Le et al. 2020) under the contract: items, and how they relate, as outer products."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least, check_scales
from memjax.deprecated import old_keyword
from memjax.errors import require
from memjax.memories.memory import Slots, check_items
from memjax.memories.tokenwise import TokenwiseMemory
from memjax.typing import Any, Array, Bool, Float, Key

EPSILON = 1e-6


@old_keyword("retention", new="time_constant")
class TwoMemory(TokenwiseMemory):
    """STM: `ops.two_memory_step` item by item; the reader sees what K queries found: `slot_k = rmsnorm(M_r,k) W_o`.

    Source: Le et al. 2020, "Self-Attentive Associative Memory". `f1`, `f2`, `f3` and the items' share of the gates are
    affine maps of the item. Each element of the item memory has gates of its own, which see the item and the row that
    the element is in, as in Santoro et al. 2018; they start inclined to keep, with a bias of 1 as an LSTM's.

    Ours: relations are kept by a learned weight below 1, which at the start forgets in about `time_constant` items, and
    are normed before the reader's projection, since they grow with the stream; what an item recalls of them has at the
    start a weight of 1/150 in the next ones. With 1, a change of a millionth in one item changes all slots beyond
    recognition 50 items later, and nothing can be learned. The paper's optional transfer from relations to items is
    left out for the same reason.

    The state is an `ops.TwoMemoryState`, `[memory_width, memory_width]` and K of these, float32, zero at the start.
    Items must be `width` wide.

    Args:
        num_slots: K, the queries, and matrices of relations.
        width: of an item and of a slot.
        memory_width: of both memories.
        time_constant: in about how many items relations are forgotten, at the start.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import TwoMemory, memorize
    >>> memory = TwoMemory(num_slots=4, width=8, memory_width=5)
    >>> params = memory.init(jax.random.key(0), jnp.ones((5, 3, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((5, 3, 8)), method=memorize)
    >>> state.relations.shape, memory.apply(params, state, method="slots").values.shape
    ((4, 5, 5), (4, 8))
    """

    width: int
    memory_width: int
    time_constant: float = 1000.0
    dtype: Any = jnp.float32

    def validate(self) -> None:
        at_least(self, 1, "num_slots", "width")
        require(self.memory_width >= 2, f"memory_width must be at least 2, to be normed, not {self.memory_width}")
        check_scales(self, "time_constant")

    def setup(self):
        self.validate()
        slots, size = self.num_slots, self.memory_width
        self.left = nn.Dense(size, dtype=self.dtype)
        self.right = nn.Dense(size, dtype=self.dtype)
        self.address = nn.Dense(slots, dtype=self.dtype)
        self.gates = nn.Dense(2 * size, bias_init=_inclined_to_keep)  # in float32, as gates are
        normal, ones, zeros = nn.initializers.normal, nn.initializers.ones_init(), nn.initializers.zeros_init()
        sam = ops.SAMParams(
            w=self.param("sam_w", normal(size**-0.5), (3, slots, size)),
            scale=self.param("sam_scale", ones, (3, size)),
            bias=self.param("sam_bias", zeros, (3, size)),
        )
        self.step_params = ops.TwoMemoryParams(
            sam,
            w_gates=self.param("gates_of_memory", nn.initializers.lecun_normal(), (size, 2 * size)),
            keep=self.param("keep", nn.initializers.constant(math.log(self.time_constant)), ()),
            blend=self.param("blend", nn.initializers.constant(-5.0), ()),
        )
        self.read_out = self.param("read_out", nn.initializers.lecun_normal(), (size**2, self.width))

    def initial_state(self) -> ops.TwoMemoryState:
        size = self.memory_width
        return ops.TwoMemoryState(jnp.zeros((size, size)), jnp.zeros((self.num_slots, size, size)))

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> ops.TwoMemoryFeatures:
        check_items(items, self.width)
        x = jnp.where(mask[..., None], items, 0)
        gates = self.gates(x.astype(jnp.promote_types(x.dtype, jnp.float32)))
        return ops.TwoMemoryFeatures(self.left(x), self.right(x), self.address(x), gates)

    def write_item(
        self, state: ops.TwoMemoryState, features: ops.TwoMemoryFeatures, *, key: Key | None = None
    ) -> tuple[ops.TwoMemoryState, Float[Array, ""]]:
        return ops.two_memory_step(self.step_params, state, features), jnp.zeros((), jnp.float32)

    def slots(self, state: ops.TwoMemoryState) -> Slots:
        flat = state.relations.reshape(self.num_slots, -1)
        flat = flat * jax.lax.rsqrt((flat**2).mean(-1, keepdims=True) + EPSILON)
        return Slots(flat @ self.read_out, jnp.ones(self.num_slots, bool))


def _inclined_to_keep(key, shape, dtype=jnp.float32):
    admit, keep = jnp.split(jnp.zeros(shape, dtype), 2)
    return jnp.concatenate([admit, keep + 1])
