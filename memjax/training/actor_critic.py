"""Advantage actor-critic: what is minimised, given what a policy did in a stream and what came of it.

Nothing here knows what acts. Whatever makes a `Rollout` is trained by adding `actor_critic_loss` to its own loss.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least
from memjax.errors import require
from memjax.typing import Array, Bool, Float


@dataclass(frozen=True)
class ActorCritic:
    """How a policy is trained.

    Attributes:
        discount: gamma, of the reward of a step later, in [0, 1].
        trace: lambda, of `ops.generalized_advantages`, in [0, 1].
        entropy: its weight in the loss.
        value: the weight of the value's error in the loss.

    Raises:
        MemjaxError: for what is out of range.
    """

    discount: float
    trace: float
    entropy: float
    value: float

    def __post_init__(self):
        for name in ("discount", "trace"):
            require(0 <= getattr(self, name) <= 1, f"{name} must be in [0, 1], not {getattr(self, name)}")
        at_least(self, 0, "entropy", "value")


class Rollout(NamedTuple):
    """T steps of one stream, in order.

    Attributes:
        acted: whether there was something to decide.
        log_prob: of the action that was taken, in nats; counts only where it acted.
        entropy: of the policy then, in nats; counts only where it acted.
        value: what the critic expected, before the step.
        reward: what the step brought.
        ended: whether the episode was over after it; the next step, if there is one, begins another.
    """

    acted: Bool[Array, "T"]
    log_prob: Float[Array, "T"]
    entropy: Float[Array, "T"]
    value: Float[Array, "T"]
    reward: Float[Array, "T"]
    ended: Bool[Array, "T"]


def actor_critic_loss(
    rollout: Rollout, last_value: Float[Array, ""], how: ActorCritic
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """`sum_t -log pi(a_t) A_t - entropy H_t + value (V_t - R_t)^2 / 2`; one stream, `jax.vmap` for more.

    A by `ops.generalized_advantages`, `R = A + V`; both are constants to the gradient, so that the policy learns from
    the advantage alone and the critic from the return alone. Source: Asynchronous Methods for Deep Reinforcement
    Learning (Mnih et al. 2016); many streams side by side stand in for its asynchronous workers.

    Args:
        rollout: of the stream.
        last_value: of the state after the last step; it does not count if that ended an episode.
        how: discount, trace and weights.

    Returns:
        The loss, and its parts without their weights, sums over the steps: `policy_loss`, `value_loss`, `entropy`.

    >>> import jax.numpy as jnp
    >>> one, zero = jnp.ones(1), jnp.zeros(1)
    >>> rollout = Rollout(one > 0, -one, zero, zero, 2 * one, one > 0)
    >>> loss, parts = actor_critic_loss(rollout, jnp.array(9.0), ActorCritic(0.99, 1.0, 0.01, 0.5))
    >>> float(loss), float(parts["policy_loss"]), float(parts["value_loss"])
    (3.0, 2.0, 2.0)
    """
    fixed = jax.lax.stop_gradient(rollout)
    discounts = jnp.where(rollout.ended, 0.0, how.discount)
    last = jax.lax.stop_gradient(last_value)
    advantages = ops.generalized_advantages(fixed.reward, fixed.value, discounts, last, trace=how.trace)
    parts = {
        "policy_loss": -jnp.where(rollout.acted, rollout.log_prob * advantages, 0).sum(),
        "value_loss": ((rollout.value - (advantages + fixed.value)) ** 2).sum() / 2,
        "entropy": jnp.where(rollout.acted, rollout.entropy, 0).sum(),
    }
    loss = parts["policy_loss"] + how.value * parts["value_loss"] - how.entropy * parts["entropy"]
    return loss, parts
