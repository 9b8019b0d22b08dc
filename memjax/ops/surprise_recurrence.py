"""The coupled recurrence of momentum and forgetting, for anything that is surprised: arrays of any shape."""

from typing import Literal

import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.ops.checked import checked
from memjax.ops.recurrence import as_column, carry_like, tree_where
from memjax.ops.surprise_state import Gate, check_gates, state_dtype
from memjax.typing import Array, Bool, Float


@checked
def momentum_recurrence(
    log_keep: Gate | Float[Array, "L _"],
    log_momentum: Gate,
    surprise: Float[Array, "L *axes"],
    state: tuple[Float[Array, "*axes"], Float[Array, "*axes"]],
    *,
    mask: Bool[Array, "L"] | None = None,
    impl: Literal["associative", "sequential"] = "associative",
) -> tuple[Float[Array, "L *axes"], Float[Array, "L *axes"]]:
    """All states `(M, S)` of `S_t = momentum_t S_{t-1} + surprise_t`, `M_t = keep_t M_{t-1} + S_t`.

    Source: Titans (2501.00663), Eq. 10 and 13, with `surprise_t = -lr_t * gradient_t`. In float32 or better.

    Args:
        log_keep: the log of `keep`, at most 0. `[L, n]`: of each of the n entries along M's first axis.
        log_momentum: the log of `momentum`, at most 0.
        surprise: of each token.
        state: M and S before the first token.
        mask: which tokens are no padding; the others leave both as they were.
        impl: "associative" composes the maps of (M, S) in O(log L) depth, each three numbers and two arrays;
            "sequential" goes token by token.

    Returns:
        All M, and all S.

    Raises:
        MemjaxError: for what does not fit.

    >>> import jax.numpy as jnp
    >>> half, one = jnp.log(jnp.full(2, 0.5)), jnp.ones(())
    >>> memories, _ = momentum_recurrence(half, half, jnp.zeros(2), (one, one))
    >>> memories.tolist()
    [1.0, 0.75]
    """
    check_gates({"log_keep": log_keep, "log_momentum": log_momentum}, mask)
    require(
        log_keep.shape == surprise.shape[: log_keep.ndim],
        f"momentum_recurrence: log_keep has the shape {list(log_keep.shape)}, surprise {list(surprise.shape)}; give a "
        "gate for each token, or one for each entry along M's first axis too",
    )
    mask = jnp.ones(surprise.shape[0], bool) if mask is None else mask

    dtype = state_dtype(surprise, state)
    surprise, log_keep, log_momentum = (x.astype(dtype) for x in (surprise, log_keep, log_momentum))
    state = (state[0].astype(dtype), state[1].astype(dtype))

    # What is masked may hold anything, even NaN, which would come back in the gradient.
    log_keep, log_momentum = (jnp.where(as_column(mask, log), log, 0) for log in (log_keep, log_momentum))
    keep, eta = as_column(jnp.exp(log_keep), surprise), as_column(jnp.exp(log_momentum), surprise)
    written = as_column(mask, surprise)
    surprise = jnp.where(written, surprise, 0)
    if impl == "sequential":

        def step(state, token):
            keep, eta, surprise, written = token
            momentum = eta * state[1] + surprise
            new = (keep * state[0] + momentum, momentum)
            state = tree_where(written, new, state)
            return state, state

        return jax.lax.scan(step, carry_like(state, surprise), (keep, eta, surprise, written))[1]

    def compose(first, second):
        keep1, cross1, eta1, m1, s1 = first
        keep2, cross2, eta2, m2, s2 = second
        cross = keep2 * cross1 + cross2 * eta1
        return keep2 * keep1, cross, eta2 * eta1, keep2 * m1 + cross2 * s1 + m2, eta2 * s1 + s2

    one, zero = jnp.ones_like(eta), jnp.zeros_like(eta)
    maps = (
        keep,
        jnp.broadcast_to(jnp.where(written, eta, zero), keep.shape),
        jnp.where(written, eta, one),
        surprise,
        surprise,
    )
    keep, cross, eta, m, s = jax.lax.associative_scan(compose, maps)
    return keep * state[0] + cross * state[1] + m, eta * state[1] + s
