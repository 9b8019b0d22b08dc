"""Agents against a loop over their equations, for each base and every policy; what is drawn; what is refused.

Slips that were tried: what was read added before the join; the ReLU on the first half; what was read not fed back; the
critic without the view's own content; addresses read as contents; the view's own two exchanged as a candidate.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import navigator as oracle
from oracles.checking import assert_close, assert_same

from memjax.errors import MemjaxError
from memjax.memories.policies import Learned, Shuffled
from memjax.memories.policies import policies as known
from memjax.models import Navigator

policies = {name: policy for name, policy in known.items() if not issubclass(policy, Shuffled)}  # see test_policies.py
CODES, ACTIONS, WIDTH, N, T = 5, 3, 8, 3, 9
VIEWS = np.random.default_rng(0).integers(0, CODES, (T, 2, 3)).astype(np.int32)


def agent(base, policy, **changes):
    return Navigator(
        **{"codes": CODES, "actions": ACTIONS, "base": base, "width": WIDTH, "entries": N, "policy": policy, **changes}
    )


@functools.cache
def made(base, policy, nop=True):
    """Parameters far enough from 0 for every part to matter, and a whole walk past the views."""
    net = agent(base, policy, nop=nop)
    shapes = jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.asarray(VIEWS[0])))
    rng = np.random.default_rng(2)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) / 2, leaf.dtype), shapes)

    def walk(params, views, key):
        keys = None if key is None else jax.random.split(key, len(views))

        def step(state, inputs):
            both = (None, None) if inputs[1] is None else jax.random.split(inputs[1])
            decision, state = net.apply(params, inputs[0], state, *both)
            return state, decision

        return jax.lax.scan(step, net.apply(params, method="initial_state"), (views, keys))[1]

    return params, walk


@pytest.mark.parametrize(
    ("base", "policy", "nop"),
    [
        ("frmqn", "st", True),
        *[("mqn", policy, True) for policy in policies],
        ("mqn", "st", False),
        ("mqn", "im", False),
    ],
)
def test_every_step_is_the_equations(base, policy, nop):
    params, walk = made(base, policy, nop)
    p = jax.tree.map(np.float64, params["params"])
    found = jax.jit(walk)(params, jnp.asarray(VIEWS), None)
    expected = oracle.walk(p, VIEWS, codes=CODES, base=base, size=N, policy=policy, nop=nop)
    for t, step in enumerate(expected):
        here = jax.tree.map(lambda leaf, t=t: np.asarray(leaf[t]), found)
        assert_close(here.actions, step["actions"], 2e-5)
        assert here.action == step["actions"].argmax()
        assert_close(here.value, step["value"], 2e-5)
        missing = N - len(step["entries"])
        assert here.entries.tolist() == step["entries"] + [-1] * missing
        assert_close(here.attention, np.append(step["attention"], np.zeros(missing)), 2e-5)
        assert here.evicts == (step["full"] and issubclass(policies[policy], Learned))
        chances = np.exp(step["actions"])
        log_prob, entropy = step["actions"].max(), -(chances * step["actions"]).sum()
        if step["full"]:
            assert_close(here.eviction, step["shares"][:N], 2e-5)
        if here.evicts:
            log_prob = log_prob + np.log(step["shares"][step["goes"]])
            entropy = entropy - (step["shares"] * np.log(step["shares"])).sum()
        assert_close(np.array([here.log_prob, here.entropy]), np.array([log_prob, entropy]), 2e-5)


def test_actions_and_evictions_are_drawn_as_their_probabilities_say():
    params, walk = made("mqn", "st")
    views = jnp.asarray(VIEWS[: N + 2])
    many = jax.jit(jax.vmap(walk, (None, None, 0)))
    found = many(params, views, jax.random.split(jax.random.key(0), 2000))
    chances = np.exp(found.actions[0, 0])
    np.testing.assert_allclose(np.bincount(found.action[:, 0], minlength=ACTIONS) / 2000, chances, atol=0.04)
    shares = np.append(found.eviction[0, N], 1 - found.eviction[0, N].sum())
    gone = [next((i for i in range(N) if i not in row), N) for row in found.entries[:, N + 1].tolist()]
    np.testing.assert_allclose(np.bincount(gone, minlength=N + 1) / 2000, shares, atol=0.04)
    assert_same(many(params, views, jax.random.split(jax.random.key(0), 2000)), found)


@pytest.mark.parametrize(("base", "policy"), [("mqn", "im"), ("frmqn", "s"), ("mqn", "st")])
def test_every_parameter_learns(base, policy):
    params, walk = made(base, policy)

    def loss(params):
        found = walk(params, jnp.asarray(VIEWS), jax.random.key(0))
        return ((found.log_prob + found.value) * jnp.arange(T)).sum()

    gradient = jax.jit(jax.grad(loss))(params)["params"]
    unused = [jax.tree_util.keystr(path) for path, leaf in jax.tree.leaves_with_path(gradient) if not leaf.any()]
    assert not unused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policy": "stt"}, "did you mean 'st'"),
        ({"base": "mqm"}, "did you mean 'mqn'"),
        ({"entries": 0}, "entries must be at least 1"),
        ({"width": 0}, "width must be at least 1"),
    ],
)
def test_what_cannot_be_is_one_clear_line(change, words):
    with pytest.raises(MemjaxError, match=words):
        net = agent(**{"base": "mqn", "policy": "st", **change})
        jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.asarray(VIEWS[0])))
