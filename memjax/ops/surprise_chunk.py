"""The closed form of a chunk of surprise memory: coefficients from the gates in O(C^2), reads, end states.

With A[t, j] = prod_{j<i<=t} keep_i and E[t, j] = prod_{j<i<=t} momentum_i (lower triangular, diagonal 1), tokens i of a
chunk that starts in (M, S) and surprise it by gradients g_i give

    S_t = m_t S - sum_{i<=t} E[t, i] lr_i g_i,          m_t = prod_{i<=t} momentum_i
    M_t = beta_t M + f_t S - sum_{i<=t} G[t, i] g_i,    beta_t = prod_{i<=t} keep_i,  f = A m,  G = A E diag(lr)

A block of tokens is a linear map: from M and S before it and its negated gradients, to M after each of its tokens and S
after the last. Two blocks in a row make one: the last two rows of the first, M and S after it, are put into the second.
So single tokens are joined by twos, then by fours, and so on. Every coefficient is a sum of products of gates, none of
them negative: nothing is divided or subtracted.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memjax.ops.recurrence import saved
from memjax.typing import Array, Bool, Float

SMALL = 8  # tokens of a block: up to it, two elementwise products and their sum cost less than a product of matrices
LEAF = 16  # below it, products over the whole of a small matrix cost less than more and smaller products


class Coefficients(NamedTuple):
    """What a chunk does to a state and to its tokens' gradients, for every token t; the module says what is what."""

    beta: Float[Array, "C"]
    f: Float[Array, "C"]
    weight: Float[Array, "C C"]  # G
    end_momentum: Float[Array, ""]  # m_C
    end_weight: Float[Array, "C"]  # last row of E diag(lr)


def coefficients(
    log_keep: Float[Array, "C"], log_momentum: Float[Array, "C"], lr: Float[Array, "C"], mask: Bool[Array, "C"]
) -> Coefficients:
    """The coefficients of a chunk. A masked token leaves the state as it was, momentum included."""
    length = len(lr)
    more = (1 << (length - 1).bit_length()) - length  # padding behind the tokens, for halves that are alike
    log_keep, log_momentum, lr, mask = (jnp.pad(x, (0, more)) for x in (log_keep, log_momentum, lr, mask))
    log_keep, log_momentum = (jnp.where(mask, log, 0) for log in (log_keep, log_momentum))
    keep, momentum = jnp.exp(log_keep), jnp.exp(log_momentum)
    moved, lr = jnp.where(mask, momentum, 0), jnp.where(mask, lr, 0)
    nothing = 0 * (keep + momentum + lr)  # sharded as any of them: on an Explicit mesh only what is alike is stacked
    maps = jnp.stack([x + nothing for x in (keep, moved, lr, nothing, momentum, lr)], axis=1).reshape(-1, 2, 3)
    while len(maps) > 1:
        maps = _joined(maps[0::2], maps[1::2])
    of_memory, of_momentum = maps[0, :length, : 2 + length], maps[0, -1]
    return Coefficients(
        # Not a product of gates, each rounded near 1: what is forgotten slowly would be lost, in every chunk again.
        beta=jnp.exp(jnp.cumsum(log_keep))[:length],
        f=of_memory[:, 1],
        weight=of_memory[:, 2:],
        end_momentum=of_momentum[1],
        end_weight=of_momentum[2 : 2 + length],
    )


def _joined(
    first: Float[Array, "n rows columns"], second: Float[Array, "n rows columns"]
) -> Float[Array, "n more_rows more_columns"]:
    """Each block and the one behind it. Rows: M after each token, then S; columns: M, S, then the tokens' gradients."""
    if first.shape[1] - 1 <= SMALL:
        across = second[:, :, :1] * first[:, -2:-1] + second[:, :, 1:2] * first[:, -1:]
    else:
        across = exact(second[:, :, :2], first[:, -2:])
    own = second[:, :, 2:]
    top = jnp.pad(first[:, :-1], ((0, 0), (0, 0), (0, own.shape[2])))
    return jnp.concatenate([top, jnp.concatenate([across, own], axis=2)], axis=1)


def before(c: Coefficients, scale: Float[Array, "C"]) -> Coefficients:
    """The coefficients of `scale_t M_{t-1}`, the memory before each token, in place of those of M_t."""
    return c._replace(
        beta=scale * jnp.concatenate([jnp.ones_like(c.beta[:1]), c.beta[:-1]]),
        f=scale * jnp.concatenate([jnp.zeros_like(c.f[:1]), c.f[:-1]]),
        weight=scale[:, None] * jnp.concatenate([jnp.zeros_like(c.weight[:1]), c.weight[:-1]]),
    )


def start_read(
    c: Coefficients, x: Float[Array, "C a"], memory: Float[Array, "a b"], momentum: Float[Array, "a b"]
) -> Float[Array, "C b"]:
    """The share of the start state in `x_t @ M_t`: `beta_t x_t M + f_t x_t S`."""
    # Tokens are scaled, not what they read: so the gradient of the scales needs no read a second time.
    return exact(c.beta[:, None] * x, memory) + exact(c.f[:, None] * x, momentum)


def token_read(
    c: Coefficients,
    x: Float[Array, "C a"],
    memory: Float[Array, "a b"],
    momentum: Float[Array, "a b"],
    keys: Float[Array, "C a"],
    deltas: Float[Array, "C b"],
) -> Float[Array, "C b"]:
    """`x_t @ M_t` for every token, where token i's gradient is the outer product of keys_i and deltas_i."""
    return start_read(c, x, memory, momentum) - exact(c.weight * exact(x, keys.T), deltas)


def end_state(
    c: Coefficients,
    memory: Float[Array, "a b"],
    momentum: Float[Array, "a b"],
    keys: Float[Array, "C a"],
    deltas: Float[Array, "C b"],
) -> tuple[Float[Array, "a b"], Float[Array, "a b"]]:
    """(M_C, S_C) after all tokens, whose gradients are outer products of keys and deltas."""
    told, told_momentum = (exact((weight[:, None] * keys).T, deltas) for weight in (c.weight[-1], c.end_weight))
    return c.beta[-1] * memory + c.f[-1] * momentum - told, c.end_momentum * momentum - told_momentum


def residuals(
    c: Coefficients,
    k: Float[Array, "C dk"],
    v: Float[Array, "C dv"],
    memory: Float[Array, "dk dv"],
    momentum: Float[Array, "dk dv"],
) -> Float[Array, "C dv"]:
    """`r_t = k_t M_{t-1} - v_t` of linear memory, all at once: `(I + L) R = start - V`, L strictly lower triangular.

    `c`: of the memory at which the gradient is taken, so that row t of its weight reaches tokens i < t.
    """
    coupling = c.weight * exact(k, k.T)
    return exact(unit_lower_inverse(coupling), start_read(c, k, memory, momentum) - v)


@jax.custom_jvp
def unit_lower_inverse(strict: Float[Array, "C C"]) -> Float[Array, "C C"]:
    """`(I + strict)^-1` for a strictly lower triangular matrix, in products of matrices alone.

    By halves, `[[A, 0], [B, D]]^-1 = [[A^-1, 0], [-D^-1 B A^-1, D^-1]]`; a triangular solve would go row by row.

    >>> import jax.numpy as jnp
    >>> unit_lower_inverse(jnp.array([[0.0, 0.0], [3.0, 0.0]])).tolist()
    [[1.0, 0.0], [-3.0, 1.0]]
    """
    length = strict.shape[0]
    if length <= LEAF:
        return _leaf_inverse(strict)
    half = LEAF * -(-length // (2 * LEAF))
    first, second = unit_lower_inverse(strict[:half, :half]), unit_lower_inverse(strict[half:, half:])
    corner = -exact(second, exact(strict[half:, :half], first))
    top = jnp.pad(first, ((0, 0), (0, length - half)))
    return jnp.concatenate([top, jnp.concatenate([corner, second], axis=1)])


def _leaf_inverse(strict: Array) -> Array:
    """The halves again, from blocks of 1 upwards and all blocks of a size at once, inside one small matrix."""
    length = strict.shape[0]
    place = np.arange(length)
    inverse, block = jnp.eye(length, dtype=strict.dtype), 1
    while block < length:
        same = place[:, None] // (2 * block) == place // (2 * block)
        corner = same & (place[:, None] // block > place // block)
        corners = jnp.where(corner, strict, 0)
        # inverse is still I where block is 1.
        inverse = inverse - (corners if block == 1 else exact(inverse, exact(corners, inverse)))
        block *= 2
    return inverse


@unit_lower_inverse.defjvp
def _derivative(strict: tuple[Array], change: tuple[Array]) -> tuple[Array, Array]:
    """`d (I + L)^-1 = -(I + L)^-1 dL (I + L)^-1`: of the inverse alone, which is kept for the gradient."""
    inverse = saved(unit_lower_inverse(*strict))  # only C numbers a token
    return inverse, -exact(inverse, exact(jnp.tril(*change, -1), inverse))


def exact(a: Array, b: Array) -> Array:
    """A product of matrices in full precision, where an accelerator's default would round the inputs."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
