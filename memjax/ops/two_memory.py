"""A memory of items and a memory of how they relate: the associative products of the SAM-based Two-memory Model.

Source: STM, Le, Tran and Venkatesh 2020, "Self-Attentive Associative Memory" (2002.03519).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.ops.exportable import exportable
from memjax.typing import Annotated, Array, Float

EPSILON = 1e-6


class SAMParams(NamedTuple):
    """Of queries, keys and values, in this order: what mixes a memory's rows, and scale and bias of a layer norm.

    Attributes:
        w: mixes the rows of the memory.
        scale: of the layer norm.
        bias: of the layer norm.
    """

    w: Float[Array, "3 K d"]
    scale: Float[Array, "3 d"]
    bias: Float[Array, "3 d"]


class TwoMemoryParams(NamedTuple):
    """Weights of `two_memory_step`.

    Attributes:
        sam: of the self-attention.
        w_gates: the memory's share of both gates.
        keep: the logit of how much of the relations is kept.
        blend: the logit of how much an item recalls of them.
    """

    sam: Annotated[SAMParams, Axes("K", "d")]
    w_gates: Float[Array, "d d2"]
    keep: Float[Array, ""]
    blend: Float[Array, ""]


@exportable
class TwoMemoryState(NamedTuple):
    """The two memories between two items.

    Attributes:
        items: outer products, added up.
        relations: what each of K queries found among them.
    """

    items: Float[Array, "d d"]
    relations: Float[Array, "K d d"]


class TwoMemoryFeatures(NamedTuple):
    """An item x as the memories take it in: `f1(x)`, `f2(x)`, logits `f3(x)`, and x's share of both gates.

    Attributes:
        left: `f1(x)`.
        right: `f2(x)`.
        address: the logits `f3(x)`.
        gates: x's share of both gates.
    """

    left: Float[Array, "*T d"]
    right: Float[Array, "*T d"]
    address: Float[Array, "*T K"]
    gates: Float[Array, "*T d2"]


@checked
def self_attentive_memory(
    params: Annotated[SAMParams, Axes("K", "d")], memory: Float[Array, "d d"]
) -> Float[Array, "K d d"]:
    """Attention that keeps whole outer products: `R_i = sum over j of tanh(q_i * k_j) outer v_j`.

    `q, k, v = layer norm of W M`, K of each, by mixing the rows of M. Source: STM, "self-attentive associative
    memory". As many keys and values as queries is our choice. Finite, gradients too, for a memory of zeros.

    Args:
        params: of queries, keys and values.
        memory: of items.

    Returns:
        K outer products.

    >>> import jax.numpy as jnp
    >>> params = SAMParams(jnp.ones((3, 2, 4)), jnp.ones((3, 4)), jnp.zeros((3, 4)))
    >>> self_attentive_memory(params, jnp.eye(4)).shape
    (2, 4, 4)
    """
    memory = memory.astype(jnp.promote_types(memory.dtype, jnp.float32))
    mixed = jnp.einsum("pkr,rd->pkd", params.w, memory, precision="highest")
    mixed -= mixed.mean(-1, keepdims=True)
    normed = mixed * jax.lax.rsqrt((mixed**2).mean(-1, keepdims=True) + EPSILON)
    queries, keys, values = normed * params.scale[:, None] + params.bias[:, None]
    alike_KxKxD = jnp.tanh(queries[:, None] * keys[None])
    return jnp.einsum("ija,jb->iab", alike_KxKxD, values, precision="highest")


@checked
def two_memory_step(
    params: Annotated[TwoMemoryParams, Axes("K", "d")],
    state: Annotated[TwoMemoryState, Axes("K", "d")],
    features: Annotated[TwoMemoryFeatures, Axes("K", "d", T="")],
) -> TwoMemoryState:
    """Writes one item: first into the memory of items, then what relates it to the others into that of relations.

    `i, f = sigmoid(gates + tanh(M_i) W_gates)`; `M_i <- i * tanh(f1 outer f2) + f * M_i`;
    `v = softmax(f3) M_r f2`; `M_r <- sigmoid(keep) M_r + self_attentive_memory(M_i + sigmoid(blend) v outer f2)`.
    Source: STM, "SAM-based two-memory model", without its transfer of relations back into M_i. There the two weights
    may be of any size; below 1 no stream is too long. A blend near 1 makes the memory chaotic: v grows with M_r, and
    the layer norms of what it is added to see little else.

    Args:
        params: the weights.
        state: before the item.
        features: of the item.

    Returns:
        The state after the item.

    >>> import jax.numpy as jnp
    >>> sam = SAMParams(jnp.ones((3, 2, 4)), jnp.ones((3, 4)), jnp.zeros((3, 4)))
    >>> params = TwoMemoryParams(sam, jnp.zeros((4, 8)), jnp.zeros(()), jnp.zeros(()))
    >>> state = TwoMemoryState(jnp.zeros((4, 4)), jnp.zeros((2, 4, 4)))
    >>> features = TwoMemoryFeatures(jnp.ones(4), jnp.ones(4), jnp.zeros(2), jnp.zeros(8))
    >>> items, relations = two_memory_step(params, state, features)
    >>> f"{items[0, 0]:.2f}", relations.shape  # tanh(1) / 2
    ('0.38', (2, 4, 4))
    """
    items, relations = state
    left, right, address, gates = (x.astype(jnp.promote_types(x.dtype, jnp.float32)) for x in features)
    hidden = gates + jnp.matmul(jnp.tanh(items), params.w_gates, precision="highest")
    admit, keep = jnp.split(jax.nn.sigmoid(hidden), 2, axis=-1)
    items = admit * jnp.tanh(left[:, None] * right) + keep * items
    by_query_KxD = jnp.matmul(relations, right, precision="highest")
    read = jnp.matmul(jax.nn.softmax(address), by_query_KxD, precision="highest")
    found = self_attentive_memory(params.sam, items + jax.nn.sigmoid(params.blend) * read[:, None] * right)
    return TwoMemoryState(items, jax.nn.sigmoid(params.keep) * relations + found)
