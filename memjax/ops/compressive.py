"""Compressing rows of a memory, attention over them, and the loss that trains the compressor.

Source: Rae et al. 2019, "Compressive Transformers for Long-Range Sequence Modelling" (1911.05507).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.ops.attention import accumulated, masked_softmax
from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.typing import Annotated, Array, Bool, Float

EPSILON = 1e-6


class CompressorParams(NamedTuple):
    """A convolution whose kernel and stride are both R, the rate: R rows become one.

    Attributes:
        w: the kernel.
        b: added to each short row.
    """

    w: Float[Array, "R d e"]
    b: Float[Array, "e"]


class MemoryAttentionParams(NamedTuple):
    """A layer norm of both sides, and H heads of queries, keys and values.

    Attributes:
        scale: of the layer norm.
        bias: of the layer norm.
        w_query: of each head.
        w_key: of each head.
        w_value: of each head.
    """

    scale: Float[Array, "d"]
    bias: Float[Array, "d"]
    w_query: Float[Array, "d H e"]
    w_key: Float[Array, "d H e"]
    w_value: Float[Array, "d H e"]


@checked
def compress_rows(
    params: Annotated[CompressorParams, Axes("d")], rows: Float[Array, "S d"], mask: Bool[Array, "S"]
) -> tuple[Float[Array, "C e"], Bool[Array, "C"]]:
    """Every R rows become one: `short_c = sum over r of rows_(cR + r) W_r + b`, C = S / R, rounded up.

    Source: Rae et al. 2019, 3.1, "1D convolution". Padding counts as zeros.

    Args:
        params: of the convolution.
        rows: S of them.
        mask: which of them are no padding.

    Returns:
        The short rows, and which of them have something real in them; the others are zero.

    >>> import jax.numpy as jnp
    >>> params = CompressorParams(jnp.full((2, 1, 1), 0.5), jnp.zeros(1))
    >>> rows, mask = compress_rows(params, jnp.array([[2.0], [4.0], [8.0]]), jnp.ones(3, bool))
    >>> rows[:, 0].tolist(), mask.tolist()
    ([3.0, 4.0], [True, True])
    """
    rate = params.w.shape[0]
    padding = -rows.shape[0] % rate
    rows = jnp.pad(jnp.where(mask[:, None], rows, 0), ((0, padding), (0, 0)))
    real = jnp.pad(mask, (0, padding)).reshape(-1, rate).any(1)
    short = params.b + sum(accumulated(rows[r::rate], w) for r, w in enumerate(params.w))
    return jnp.where(real[:, None], short, 0), real


@checked
def memory_attention(
    params: Annotated[MemoryAttentionParams, Axes("d")],
    x: Float[Array, "N d"],
    context: Float[Array, "S d"],
    mask: Bool[Array, "S"],
    ages: Float[Array, "S d"] | None = None,
) -> Float[Array, "N He"]:
    """What H heads read in a context, side by side: `softmax(q k / sqrt(e)) v`, zeros where nothing in it is real.

    `q = norm(x) W_q`, `k = (norm(context) + ages) W_k`, `v = norm(context) W_v`. Products in x's dtype.

    Args:
        params: of the layer.
        x: N hidden states, which read.
        context: S hidden states, which are read.
        mask: which of the context are no padding.
        ages: vectors that are added to the keys.

    Returns:
        What each head read, side by side.

    >>> import jax.numpy as jnp
    >>> params = MemoryAttentionParams(jnp.ones(4), jnp.zeros(4), *jnp.ones((3, 4, 2, 3)))
    >>> memory_attention(params, jnp.ones((5, 4)), jnp.ones((7, 4)), jnp.ones(7, bool)).shape
    (5, 6)
    """
    dtype, size = x.dtype, params.w_query.shape[-1]
    context = _normed(params, jnp.where(mask[:, None], context, 0))
    keys = context if ages is None else context + ages

    def heads(rows, w):
        return accumulated(rows.astype(dtype), w.reshape(w.shape[0], -1)).astype(dtype).reshape(-1, *w.shape[1:])

    query, key, value = (
        heads(_normed(params, x), params.w_query),
        heads(keys, params.w_key),
        heads(context, params.w_value),
    )
    wide = jnp.promote_types(dtype, jnp.float32)
    scores_HxNxS = jnp.einsum("nhe,she->hns", query, key, preferred_element_type=wide) * size**-0.5
    weights = masked_softmax(scores_HxNxS, mask, axis=-1).astype(dtype)
    read = jnp.einsum("hns,she->nhe", weights, value, preferred_element_type=wide)
    return read.reshape(x.shape[0], -1)


@checked
def reconstruction_loss(
    attention: Annotated[MemoryAttentionParams, Axes("d")],
    compressor: Annotated[CompressorParams, Axes("d", e="d")],
    x: Float[Array, "N d"],
    mask: Bool[Array, "N"],
    rows: Float[Array, "S d"],
    row_mask: Bool[Array, "S"],
) -> Float[Array, ""]:
    """How differently x reads rows and their compression: mean square over real x, and over the width.

    Source: Rae et al. 2019, Algorithm 2, there a sum. Only the compressor has a gradient. 0 for nothing but padding, of
    either kind.

    Args:
        attention: of the layer, a constant.
        compressor: what is taught.
        x: hidden states, which read.
        mask: which of them are no padding.
        rows: what is to be compressed.
        row_mask: which of them are no padding.

    Returns:
        The loss.

    >>> import jax.numpy as jnp
    >>> attention = MemoryAttentionParams(jnp.ones(2), jnp.zeros(2), *jnp.ones((3, 2, 1, 2)))
    >>> same = CompressorParams(jnp.eye(2)[None], jnp.zeros(2))
    >>> rows, mask = jnp.array([[1.0, 2.0], [4.0, 3.0]]), jnp.ones(2, bool)
    >>> float(reconstruction_loss(attention, same, rows, mask, rows, mask))
    0.0
    """
    attention, x, rows = jax.lax.stop_gradient((attention, jnp.where(mask[:, None], x, 0), rows))
    short, short_mask = compress_rows(compressor, rows, row_mask)
    exact = memory_attention(attention, x, rows, row_mask)
    squares = jnp.square(exact - memory_attention(attention, x, short, short_mask)).mean(1)
    return jnp.where(mask, squares, 0).sum() / jnp.maximum(mask.sum(dtype=squares.dtype), 1)


def _normed(params: MemoryAttentionParams, x: Array) -> Array:
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + EPSILON) * params.scale + params.bias
