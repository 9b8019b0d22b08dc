"""A stream of episodes gone through again one step after the other, by the agent as it walks."""

import jax
import jax.numpy as jnp


def stepped(agent, params, stream):
    """`log_prob`, `entropy` and `value` of each step, and which candidate is evicted."""

    def step(state, now):
        began, view, action, key = now
        fresh = agent.apply(params, method="initial_state")
        state = jax.tree.map(lambda new, old: jnp.where(began, new, old), fresh, state)
        decision, state = agent.apply(params, view, state, None, key)  # the likeliest action, in place of which:
        log_prob = decision.log_prob - decision.actions[decision.action] + decision.actions[action]
        told = {"log_prob": log_prob, "entropy": decision.entropy, "value": decision.value}
        return state, told | {"evicted": decision.evicted}

    inputs = stream.began, stream.view, stream.action, stream.key
    return jax.lax.scan(step, agent.apply(params, method="initial_state"), inputs)[1]
