"""What scans share, and the elementwise linear recurrence, one name for several ways to compute it."""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from memjax.ops.checked import checked
from memjax.typing import Array, Bool, Float, PyTree

Impl = Literal["auto", "sequential", "associative"]
SAVED = "saved"


def saved(x: PyTree) -> PyTree:
    """The same, marked to be saved for the gradient by `recomputed`: it costs more to compute twice than to keep."""
    return checkpoint_name(x, SAVED)


def recomputed(step: Callable) -> Callable:
    """A step of a scan whose gradient keeps what the step took in and what is `saved`, and recomputes the rest.

    >>> step = recomputed(lambda carry, x: (saved(jnp.tanh(carry + x)), None))
    >>> jax.grad(lambda x: jax.lax.scan(step, x, jnp.zeros(3))[0])(0.0).item()
    1.0
    """
    keep = jax.checkpoint_policies.save_only_these_names(SAVED)
    return jax.checkpoint(step, prevent_cse=False, policy=keep)  # inside a scan nothing can be shared anyway


def evaluated(alone: Callable, derived: Callable) -> Callable:
    """`alone` where its values are all that is asked for, and `derived`, the same function, for derivatives and values.

    >>> square = evaluated(lambda x: x * x, lambda x: x**2)
    >>> square(3.0), jax.grad(square)(3.0).item()
    (9.0, 6.0)
    """
    function = jax.custom_jvp(alone)
    function.defjvp(lambda primals, tangents: jax.jvp(derived, primals, tangents))
    return function


def carry_like(state: PyTree, x: Array) -> PyTree:
    """The first state of a scan over x, bit for bit, with the type of the later ones.

    Inside `jax.shard_map` those vary over the devices as x does, and a scan wants all of its states alike.

    >>> carry_like(jnp.ones(2), jnp.zeros((5, 3))).tolist()
    [1.0, 1.0]
    """
    varying = jnp.zeros_like(x, shape=(), dtype=bool)
    return jax.tree.map(lambda leaf: jnp.where(varying, leaf, leaf), state)


def tree_where(condition: Bool[Array, "..."] | bool, new: PyTree, old: PyTree) -> PyTree:
    """All leaves of the one tree where the condition holds, else those of the other."""
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)


def separate(state: PyTree) -> PyTree:
    """The same state, its arrays nobody else's: none is a parameter's, none is there twice, so that it may be donated.

    >>> x = jnp.ones(2)
    >>> [leaf is x for leaf in separate((x, x, 0))[:2]]
    [False, False]
    """
    return jax.tree.map(lambda leaf: jnp.copy(leaf) if isinstance(leaf, jax.Array) else leaf, state)


def as_column(x: Array, like: Array) -> Array:
    """x, a number for each entry of the first axes of `like`, in the shape that is broadcast along its other axes."""
    return x.reshape(*x.shape, *[1] * (like.ndim - x.ndim))


@checked
def linear_recurrence(
    decay: Float[Array, "T *axes"],
    x: Float[Array, "T *axes"],
    initial: Float[Array, "*axes"] | None = None,
    *,
    impl: Impl = "auto",
) -> Float[Array, "T *axes"]:
    """All states of `h_t = decay_t * h_{t-1} + x_t`, with `h_0 = initial` (zeros if not given).

    The state is kept in float32 or better and returned in x's dtype.

    Args:
        decay: of each step.
        x: what each step adds.
        initial: `h_0`; zeros, if not given.
        impl: "sequential" scans step by step, O(T) work; "associative" composes the affine maps in O(log T) depth, O(T
            log T) work at worst; "auto" is sequential on CPU, where depth is not what costs, associative elsewhere.

    Returns:
        All states.

    >>> import jax.numpy as jnp
    >>> linear_recurrence(jnp.full(3, 0.5), jnp.ones(3)).tolist()
    [1.0, 1.5, 1.75]
    """
    if x.shape[0] == 0:
        return x
    if impl == "auto":
        impl = "sequential" if jax.default_backend() == "cpu" else "associative"
    dtype = jnp.promote_types(jnp.result_type(decay, x), jnp.float32)
    decay_T, x_T = decay.astype(dtype), x.astype(dtype)
    # zeros_like of a slice, not fresh zeros: on an Explicit mesh the carry must have the sharding of the data.
    start = jnp.zeros_like(x_T[0]) if initial is None else carry_like(initial.astype(dtype), x)

    if impl == "sequential":

        def step(h, inputs):
            h = inputs[0] * h + inputs[1]
            return h, h

        states = jax.lax.scan(step, start, (decay_T, x_T))[1]
    else:

        def compose(first, second):
            return first[0] * second[0], second[0] * first[1] + second[1]

        products, sums = jax.lax.associative_scan(compose, (decay_T, x_T))
        states = sums + products * start
    return states.astype(x.dtype)
