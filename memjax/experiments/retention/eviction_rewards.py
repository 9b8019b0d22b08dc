"""What evictions are rewarded for, and what the actor-critic learns from in a stream.

A reward is what each step of a stream brings, given: entries, the step at which each entry came, -1 for none, before
the line of the step was written; asked, whether the line is a question; support, the steps of the lines that its answer
follows from, -1 for none; right, 1 for a step whose answer is right.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from memjax.models.stream_reader import Read
from memjax.training.actor_critic import Rollout
from memjax.typing import Array, Bool, Float, Int

Reward = Callable[[Array, Array, Array, Array], Array]


def answers(
    entries: Int[Array, "T N"], asked: Bool[Array, "T"], support: Int[Array, "T K"], right: Float[Array, "T"]
) -> Float[Array, "T"]:
    """1 for a right answer, -1 for a wrong one, 0 where nothing is asked (LEMN, 3)."""
    return jnp.where(asked, 2 * right - 1, 0)


def facts(
    entries: Int[Array, "T N"], asked: Bool[Array, "T"], support: Int[Array, "T K"], right: Float[Array, "T"]
) -> Float[Array, "T"]:
    """At every step, by the question that is asked then or next: of its supporting lines, those that have come.

    1 if all of them are still held, -1 if one is not, 0 if none has come or nothing is asked any more. What it needs,
    nobody knows at the time; a policy is trained by it, and tested without.
    """
    steps = jnp.arange(len(asked))
    following = jax.lax.cummin(jnp.where(asked, steps, len(asked)), reverse=True)
    needed = jnp.where(following[:, None] < len(asked), support[jnp.minimum(following, len(asked) - 1)], -1)
    come = (needed >= 0) & (needed < steps[:, None])
    held = (needed[:, :, None] == entries[:, None, :]).any(-1)
    return jnp.where(come.any(-1), jnp.where((held | ~come).all(-1), 1.0, -1.0), 0.0)


rewards: dict[str, Reward] = {"answers": answers, "facts": facts}


def rollout(read: Read, line: Int[Array, "T"], brought: Float[Array, "T"]) -> Rollout:
    """What the policy did in a stream, for the actor-critic.

    The reward of an eviction is what the next line brings, for a line's own eviction comes behind its answer.

    Args:
        read: what the stream gave.
        line: its lines, 0 behind the last one.
        brought: what each line brings, before it is written.
    """
    reward = jnp.append(brought[1:], 0)
    last = jnp.append(line[1:] == 0, True)
    return Rollout(read.acted, read.log_prob, read.entropy, jnp.where(line != 0, read.value, 0), reward, last)
