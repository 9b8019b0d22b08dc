"""Where to read and write in a matrix of N rows: by content, by place, by what is free, by the order of writing.

Weights over rows are `[N]`, at least 0, and sum to at most 1. One head; `jax.vmap` is for more.
Sources: NTM, Neural Turing Machines (1410.5401), 3; DNC, Graves et al. 2016, "Hybrid computing using a neural network
with dynamic external memory", Methods.
"""

import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.ops.checked import checked
from memjax.ops.recurrence import linear_recurrence, saved
from memjax.typing import Array, Float, Int

EPSILON = 1e-6  # added to squared lengths: a memory of zeros has values and gradients


@checked
def content_weights(
    memory: Float[Array, "N W"], key: Float[Array, "W"], strength: Float[Array, ""]
) -> Float[Array, "N"]:
    """`softmax over n of strength * cos(key, memory_n)`. Source: NTM, Eq. 5 and 6; DNC, "content-based addressing".

    `cos(a, b) = a.b / sqrt((|a|^2 + 1e-6)(|b|^2 + 1e-6))`.

    Args:
        memory: N rows.
        key: what is looked for.
        strength: at least 0.

    Returns:
        A weight for each row; they add up to 1.

    >>> import jax.numpy as jnp
    >>> content_weights(jnp.eye(2), jnp.array([3.0, 0.0]), jnp.array(100.0)).tolist()
    [1.0, 0.0]
    """
    return jax.nn.softmax(strength * cosines(memory, key))


def cosines(memory: Float[Array, "N W"], key: Float[Array, "W"]) -> Float[Array, "N"]:
    """`cos(key, memory_n)` of `content_weights`, in float32 or better."""
    dtype = jnp.promote_types(memory.dtype, jnp.float32)
    memory, key = memory.astype(dtype), key.astype(dtype)
    lengths = jax.lax.rsqrt((memory**2).sum(1) + EPSILON) * jax.lax.rsqrt((key**2).sum() + EPSILON)
    return lengths * jnp.matmul(memory, key, precision="highest")


@checked
def shift_weights(weights: Float[Array, "N"], shift: Float[Array, "S"]) -> Float[Array, "N"]:
    """Circular convolution: weight moves by -s to s rows, `S = 2 s + 1`, shares given by `shift`. Source: NTM, Eq. 8.

    Args:
        weights: of the rows.
        shift: the shares of -s to s, which add up to 1.

    Returns:
        The weights after the shift.

    Raises:
        MemjaxError: for an even number of shares.

    >>> import jax.numpy as jnp
    >>> shift_weights(jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.25, 0.75])).tolist()
    [0.25, 0.75, 0.0]
    """
    shares = shift.shape[0]
    require(shares % 2 == 1, f"shift_weights: shift must have an odd number of shares, for -s to s, not {shares}")
    reach = shares // 2
    shifted = (share * jnp.roll(weights, step - reach) for step, share in enumerate(shift))
    return sum(shifted, jnp.zeros_like(weights))


@checked
def sharpen_weights(weights: Float[Array, "N"], power: Float[Array, ""]) -> Float[Array, "N"]:
    """`weights^power / sum of weights^power`, power at least 1. Source: NTM, Eq. 9. Finite for weights of 0.

    Args:
        weights: of the rows, at least 0.
        power: at least 1.

    Returns:
        The weights, of which the large ones became larger.

    >>> import jax.numpy as jnp
    >>> [f"{weight:.2f}" for weight in sharpen_weights(jnp.array([0.25, 0.75]), jnp.array(2.0))]
    ['0.10', '0.90']
    """
    wide = weights.astype(jnp.promote_types(weights.dtype, jnp.float32))
    return jax.nn.softmax(power * jnp.log(jnp.maximum(wide, jnp.finfo(wide.dtype).tiny))).astype(weights.dtype)


@checked
def usage_update(
    usage: Float[Array, "N"],
    write_weights: Float[Array, "N"],
    read_weights: Float[Array, "R N"],
    free_gates: Float[Array, "R"],
) -> Float[Array, "N"]:
    """How far each row is in use, in [0, 1]: `(u + w - u w) * prod over r of (1 - free_r read_r)`. Source: DNC.

    All weights are those of the step before. What was written counts as a constant: nothing is learned through it.

    Args:
        usage: before the step, in [0, 1].
        write_weights: of the step before.
        read_weights: of each read head, of the step before.
        free_gates: of each read head; 1 frees what it has read.

    Returns:
        The usage now.

    >>> import jax.numpy as jnp
    >>> reads, free = jnp.array([[1.0, 0.0]]), jnp.ones(1)
    >>> usage_update(jnp.ones(2), jnp.zeros(2), reads, free).tolist()
    [0.0, 1.0]
    """
    write_weights = jax.lax.stop_gradient(write_weights)
    usage = usage + write_weights - usage * write_weights
    for gate, read in zip(free_gates, read_weights, strict=True):  # a product over an axis has no gradient on a mesh
        usage *= 1 - gate * read
    return usage


@checked
def allocation_weights(usage: Float[Array, "N"]) -> Float[Array, "N"]:
    """Where there is room: `a[i] = (1 - u[i]) * product of u over the rows less used than i`. Source: DNC.

    The order of the rows is a constant to the gradient; of rows used alike the first comes first. Its gradient is its
    own: reverse mode alone (`jax.grad`), no `jax.jvp`.

    Args:
        usage: of the rows, in [0, 1].

    Returns:
        A weight for each row; they add up to 1 at most.

    >>> import jax.numpy as jnp
    >>> allocation_weights(jnp.array([1.0, 0.5, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    return _allocation(usage)


@jax.custom_vjp
def _allocation(usage: Float[Array, "N"]) -> Float[Array, "N"]:
    return _allocation_forward(usage)[0]


def _allocation_forward(usage: Float[Array, "N"]) -> tuple[Float[Array, "N"], tuple[Array, ...]]:
    order = _rising(usage)
    ascending = usage[order]
    before = jnp.concatenate([jnp.ones_like(usage[:1]), jnp.cumprod(ascending)[:-1]])
    return saved((_unsorted(order, (1 - ascending) * before), (order, ascending, before)))


def _allocation_backward(saved: tuple[Array, ...], slope: Float[Array, "N"]) -> tuple[Float[Array, "N"]]:
    """In units of `before[j]`, row j is worth `later[j] - slope[j]`: it is a factor of all that comes behind it,
    `later[j] = slope[j + 1] (1 - u[j + 1]) + u[j + 1] later[j + 1]`.
    """
    order, ascending, before = saved
    slope = slope[order]
    last = jnp.zeros_like(slope[:1])
    decay, x = jnp.append(ascending[1:], last), jnp.append((slope * (1 - ascending))[1:], last)
    later = linear_recurrence(decay[::-1], x[::-1], impl="associative")[::-1]
    return (_unsorted(order, before * (later - slope)),)


def _rising(usage: Float[Array, "N"]) -> Int[Array, "N"]:
    """The rows from the least to the most used; of rows used alike the first comes first.

    On a CPU a sort of pairs takes four times as long as one of whole numbers. Two of those do it, by the lower and then
    by the upper 16 bits, the place of a number below them.
    """
    places = max(1, (len(usage) - 1).bit_length())
    if jax.default_backend() != "cpu" or usage.dtype != jnp.float32 or places > 15:
        return jnp.argsort(usage, stable=True)

    def order_of(halves: Int[Array, "N"]) -> Int[Array, "N"]:
        numbered = (halves << places) | jnp.arange(len(halves), dtype=jnp.int32)
        return jax.lax.sort(numbered, is_stable=False) & ((1 << places) - 1)

    bits = jax.lax.bitcast_convert_type(usage, jnp.int32)
    bits = jnp.where(bits < 0, -(bits & 0x7FFFFFFF), bits)  # floats are a sign and a size, whole numbers are not
    by_lower = order_of(bits & 0xFFFF)
    return by_lower[order_of((bits >> 16)[by_lower])]


def _unsorted(order: Int[Array, "N"], x: Float[Array, "N"]) -> Float[Array, "N"]:
    """What was sorted by `order`, back in place: a sum, for a second sort takes longer on a CPU."""
    places = order[:, None] == jnp.arange(len(order))[None]
    return jnp.where(places, x[:, None], 0).sum(0)


_allocation.defvjp(_allocation_forward, _allocation_backward)


@checked
def link_update(
    links: Float[Array, "N N"], precedence: Float[Array, "N"], write_weights: Float[Array, "N"]
) -> tuple[Float[Array, "N N"], Float[Array, "N"]]:
    """The order of writing. `links[i, j]`: how far row i was written right after row j.

    `L[i, j] = (1 - w_i - w_j) L[i, j] + w_i p_j`, 0 for i = j; `p = (1 - sum of w) p + w`. Source: DNC. Read forward
    with `links @ weights`, backward with `weights @ links`.

    Args:
        links: before the write.
        precedence: how far each row was the last to be written.
        write_weights: of this write.

    Returns:
        Links and precedence after it.

    >>> import jax.numpy as jnp
    >>> first, second = jnp.eye(2)
    >>> links, precedence = link_update(jnp.zeros((2, 2)), first, second)
    >>> links.tolist(), precedence.tolist()
    ([[0.0, 0.0], [1.0, 0.0]], [0.0, 1.0])
    """
    kept = 1 - write_weights[:, None] - write_weights[None]
    new = kept * links + write_weights[:, None] * precedence[None]
    off_diagonal = 1 - jnp.eye(links.shape[0], dtype=links.dtype)  # a choice by bools: no vector instructions on a CPU
    return off_diagonal * new, (1 - write_weights.sum()) * precedence + write_weights


@checked
def erase_and_add(
    memory: Float[Array, "N W"], weights: Float[Array, "N"], erase: Float[Array, "W"], add: Float[Array, "W"]
) -> Float[Array, "N W"]:
    """`M * (1 - weights erase^T) + weights add^T`, erase in [0, 1]. Source: NTM, Eq. 3 and 4.

    Args:
        memory: N rows.
        weights: where is written.
        erase: how much of each column goes, in [0, 1].
        add: what comes there.

    Returns:
        The memory after the write.

    >>> import jax.numpy as jnp
    >>> erase_and_add(jnp.ones((2, 1)), jnp.array([1.0, 0.0]), jnp.ones(1), jnp.array([5.0])).tolist()
    [[5.0], [1.0]]
    """
    return memory * (1 - weights[:, None] * erase) + weights[:, None] * add
