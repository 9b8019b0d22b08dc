"""Actor-critic alone: its loss and gradient by hand, a bandit and a corridor whose solutions are known."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracles import retention

from memjax.errors import MemjaxError
from memjax.training.actor_critic import ActorCritic, Rollout, actor_critic_loss

HOW = ActorCritic(discount=0.9, trace=1.0, entropy=0.01, value=0.5)
STREAMS, UPDATES = 64, 300


def train(rollout, params, how, rate=0.05):
    """Parameters after some updates by the mean loss of many streams."""
    optimizer = optax.adam(rate)

    def loss(params, key):
        rollouts, last = jax.vmap(functools.partial(rollout, params))(jax.random.split(key, STREAMS))
        return jax.vmap(lambda one, last: actor_critic_loss(one, last, how)[0])(rollouts, last).mean()

    def update(carry, key):
        params, state = carry
        changes, state = optimizer.update(jax.grad(loss)(params, key), state)
        return (optax.apply_updates(params, changes), state), None

    @jax.jit
    def run(params):
        keys = jax.random.split(jax.random.key(0), UPDATES)
        return jax.lax.scan(update, (params, optimizer.init(params)), keys)[0][0]

    return run(params)


def act(logits, key):
    """`(action, log_prob, entropy)`."""
    log_probs = jax.nn.log_softmax(logits)
    action = jax.random.categorical(key, logits)
    return action, log_probs[action], -(jnp.exp(log_probs) * log_probs).sum()


def test_of_several_arms_the_best_one_is_found_and_its_worth():
    means = jnp.array([0.1, 0.8, 0.4, 0.6])

    def pull(params, key):
        for_arm, for_luck = jax.random.split(key)
        arm, log_prob, entropy = act(params["policy"], for_arm)
        reward = means[arm] + 0.3 * jax.random.normal(for_luck)
        steps = Rollout(jnp.array(True), log_prob, entropy, params["value"], reward, jnp.array(True))
        return jax.tree.map(lambda leaf: leaf[None], steps), jnp.array(0.0)

    params = train(pull, {"policy": jnp.zeros(4), "value": jnp.zeros(())}, HOW)
    shares = jax.nn.softmax(params["policy"])
    assert shares.argmax() == 1 and shares[1] > 0.95
    np.testing.assert_allclose(params["value"], 0.8, atol=0.08)


CELLS, LIMIT = 4, 12


@pytest.mark.parametrize("trace", [1.0, 0.8])
def test_through_a_corridor_the_way_is_found_and_each_cell_is_worth_its_distance(trace):
    """From cell 0 to the right, 1 for arriving, an episode after the other: V(cell) = discount^(steps to go - 1)."""

    def walk(params, key):
        def step(cell, key):
            action, log_prob, entropy = act(params["policy"][cell], key)
            reached = (cell == CELLS - 1) & (action == 1)
            after = jnp.clip(cell + 2 * action - 1, 0, CELLS - 1)
            row = Rollout(jnp.array(True), log_prob, entropy, params["value"][cell], reached * 1.0, reached)
            return jnp.where(reached, 0, after), row

        last, rows = jax.lax.scan(step, jnp.array(0), jax.random.split(key, LIMIT))
        return rows, params["value"][last]

    start = {"policy": jnp.zeros((CELLS, 2)), "value": jnp.zeros(CELLS)}
    params = train(walk, start, ActorCritic(0.9, trace, 0.001, 0.5))
    assert (jax.nn.softmax(params["policy"])[:, 1] > 0.9).all()
    # An endless stream of episodes: the end of one gives nothing for the next.
    np.testing.assert_allclose(params["value"], 0.9 ** np.arange(CELLS - 1, -1, -1), atol=0.1)


def test_the_loss_is_the_equation_and_its_gradient_goes_where_it_should():
    rng = np.random.default_rng(0)
    acted, ended = np.array([1, 0, 1, 1], bool), np.array([0, 0, 1, 0], bool)
    log_prob, entropy, value, reward = (rng.normal(size=4) for _ in range(4))
    rollout = Rollout(*map(jnp.asarray, (acted, log_prob, entropy, value, reward, ended)))
    discounts = np.where(ended, 0, 0.9)
    advantages = retention.generalized_advantages(reward, value, discounts, 0.7, 1.0)
    expected = -(log_prob * advantages)[acted].sum() - 0.01 * entropy[acted].sum() + 0.25 * (advantages**2).sum()
    loss, parts = actor_critic_loss(rollout, jnp.array(0.7), HOW)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert set(parts) == {"policy_loss", "value_loss", "entropy"}

    gradient, of_last = jax.grad(lambda *a: actor_critic_loss(*a, HOW)[0], (0, 1), allow_int=True)(
        rollout, jnp.array(0.7)
    )
    np.testing.assert_allclose(gradient.log_prob, np.where(acted, -advantages, 0), rtol=1e-5)
    np.testing.assert_allclose(gradient.value, -0.5 * advantages, rtol=1e-5)
    assert not gradient.reward.any() and of_last == 0


@pytest.mark.parametrize(
    ("change", "words"), [({"discount": 1.1}, "discount"), ({"trace": -0.1}, "trace"), ({"entropy": -1.0}, "entropy")]
)
def test_what_cannot_be_is_one_clear_line(change, words):
    with pytest.raises(MemjaxError, match=words):
        ActorCritic(**{"discount": 0.9, "trace": 1.0, "entropy": 0.01, "value": 0.5, **change})
