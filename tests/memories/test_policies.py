"""What policies have in common: how one is chosen, and in what order learned ones see the candidates.

Slips that were tried: the scores left in the other order; the mask left in its own; shuffled in tests too.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close, assert_same

from memjax.memories.policies import Candidates, policies

M, WIDTH = 4, 8
MASK = np.array([True, True, False, True])


@functools.cache
def made(name):
    """(what the policy chooses with, its parameters, candidates, what is kept); one candidate is masked."""
    policy = policies[name](WIDTH)
    rng = np.random.default_rng(0)
    kept = jnp.asarray(rng.normal(size=(M, len(policy.kept()))), jnp.float32)
    encodings = jnp.asarray(rng.normal(size=(M, WIDTH)), jnp.float32)
    candidates = Candidates(encodings, jnp.asarray(MASK), jnp.arange(M), encodings[0], jnp.zeros(M))
    shapes = jax.eval_shape(policy.init, jax.random.key(0), candidates, kept)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes)
    choose = jax.jit(functools.partial(policy.apply, method="choose"))
    return choose, params, candidates, kept


@pytest.mark.parametrize("name", ["s", "st"])
def test_a_shuffled_policy_is_the_plain_one_of_the_candidates_in_some_order(name):
    choose, params, candidates, kept = made(name)
    shuffled = made(f"shuffled_{name}")[0]
    expected = {}
    for order in itertools.permutations(range(M)):
        turn = np.array(order)
        turned = candidates._replace(encodings=candidates.encodings[turn], mask=candidates.mask[turn])
        choice, after = choose(params, turned, kept[turn], None)
        back = np.argsort(turn)
        expected[tuple(np.round(choice.probabilities[back], 4).tolist())] = after[back]
    seen = set()
    for n in range(12):
        choice, after = shuffled(params, candidates, kept, jax.random.key(n))
        known = min(expected, key=lambda p, c=choice: np.abs(np.array(p) - c.probabilities).sum())
        assert_close(choice.probabilities, np.array(known), 2e-4)
        assert_close(after[MASK], expected[known][MASK], 1e-5)
        assert choice.probabilities[2] == 0
        seen.add(known)
    assert len(seen) > 3
    assert_same(shuffled(params, candidates, kept, None), choose(params, candidates, kept, None))


@pytest.mark.parametrize("name", ["uniform", "st"])
def test_what_goes_is_drawn_with_a_key_and_the_likeliest_without(name):
    choose, params, candidates, kept = made(name)
    likeliest, _ = choose(params, candidates, kept, None)
    assert likeliest.goes == likeliest.probabilities.argmax()
    assert_close(likeliest.log_prob, np.log(likeliest.probabilities.max()), 1e-5)
    real = np.float64(likeliest.probabilities[MASK])
    assert_close(likeliest.entropy, -(real * np.log(real)).sum(), 1e-5)
    drawn = {int(choose(params, candidates, kept, jax.random.key(n))[0].goes) for n in range(60)}
    assert drawn <= set(np.flatnonzero(MASK)) and len(drawn) > 1


@pytest.mark.parametrize("name", ["fifo", "lifo", "lru"])
def test_a_rule_is_certain_and_minds_no_key(name):
    choose, params, candidates, kept = made(name)
    choice, _ = choose(params, candidates, kept, None)
    assert choice.probabilities.tolist() == [float(i == choice.goes) for i in range(M)]
    assert choice.entropy == 0 == choice.log_prob
    assert_same(choose(params, candidates, kept, jax.random.key(0)), choose(params, candidates, kept, None))
