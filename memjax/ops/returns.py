"""Reinforcement learning: what a state was worth, and how much better than expected an action was."""

import jax.numpy as jnp

from memjax.ops.checked import checked
from memjax.ops.recurrence import linear_recurrence
from memjax.typing import Array, Float


@checked
def generalized_advantages(
    rewards: Float[Array, "T"],
    values: Float[Array, "T"],
    discounts: Float[Array, "T"],
    last_value: Float[Array, ""],
    *,
    trace: Float[Array, ""] | float,
) -> Float[Array, "T"]:
    """`A_t = d_t + discount_t trace A_{t+1}`, `d_t = r_t + discount_t V_{t+1} - V_t`; `A + values` are the returns.

    Source: High-Dimensional Continuous Control Using Generalized Advantage Estimation (Schulman et al. 2015), Eq. 16.

    Args:
        rewards: of each step.
        values: V, of the state before each step.
        discounts: gamma, and 0 where the episode ends at t, so that nothing comes from behind.
        last_value: `V_{T+1}`, of the state after the last step.
        trace: lambda; 1 for the return less the value, 0 for the error of one step.

    Returns:
        The advantages.

    >>> ones, zeros = jnp.ones(2), jnp.zeros(2)
    >>> generalized_advantages(ones, zeros, 0.5 * ones, jnp.array(4.0), trace=1.0).tolist()
    [2.5, 3.0]
    """
    following = jnp.append(values[1:], last_value)
    errors = rewards + discounts * following - values
    return linear_recurrence((discounts * trace)[::-1], errors[::-1])[::-1]
