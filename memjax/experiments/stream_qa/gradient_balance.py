"""Two uses of the same slots, one of which pulls so many times as hard at them as the other."""

import functools

import jax
import jax.numpy as jnp

from memjax.typing import Array, Float


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def balanced(slots: Float[Array, "*Q K d"], times: float) -> tuple[Array, Array]:
    """The slots of one example twice, for two losses whose gradients there are balanced.

    `g = g_1 + times |g_1| / |g_2| g_2`, with the Euclidean norms of both over all slots: what comes back through the
    second is `times` as large as what comes back through the first, whatever its loss weighs. Nothing is where either
    is 0. What lies behind the slots, up to the losses, has its own gradient as it is. Ours; GradNorm (Chen et al. 2018,
    1711.02257) has the same end by weights that are learned.

    Args:
        slots: of one example.
        times: above 0.

    Returns:
        What the first loss is of, and what the second is of.

    >>> import jax, jax.numpy as jnp
    >>> def loss(slots):
    ...     first, second = balanced(slots, 2.0)
    ...     return 3 * first[0, 0] + 1e6 * second[0, 1]
    >>> jax.grad(loss)(jnp.ones((1, 2))).tolist()
    [[3.0, 6.0]]
    """
    return slots, slots


def _forward(slots: Array, times: float) -> tuple[tuple[Array, Array], None]:
    return (slots, slots), None


def _backward(times: float, _: None, gradients: tuple[Array, Array]) -> tuple[Array]:
    first, second = gradients
    size, other = (jnp.sqrt((g**2).sum()) for g in (first, second))
    return (first + jnp.where(other > 0, times * size / jnp.where(other > 0, other, 1), 0) * second,)


balanced.defvjp(_forward, _backward)
