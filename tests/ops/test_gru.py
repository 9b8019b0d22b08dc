import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import cases
from oracles.checking import assert_close, assert_same, cast

from memjax import ops


@pytest.fixture
def gru(rng):
    return cast(cases.single(rng, inputs=3), jnp.float32)


def normal(rng, *shape):
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


def test_the_gates_are_reset_update_candidate(rng, gru):
    hidden, x = normal(rng, 4), normal(rng, 3)
    shut = jnp.zeros(12).at[4:8].set(1e4)
    assert_same(ops.gru_step(gru._replace(b_x=shut), hidden, x), hidden)
    # Both open: with nothing reset and nothing kept, the state no longer counts, but for the bias inside the gate.
    forget = jnp.zeros(12).at[:8].set(-1e4)
    candidate = jnp.tanh(x @ gru.w_x[:, 8:])
    assert_close(ops.gru_step(gru._replace(b_x=forget), hidden, x), candidate, 1e-6)


def test_a_scan_is_its_steps(rng, gru):
    hidden, xs = normal(rng, 4), normal(rng, 5, 3)
    last, states = jax.jit(ops.gru_scan)(gru, hidden, xs)
    step = jax.jit(ops.gru_step)
    for x, state in zip(xs, states, strict=True):
        hidden = step(gru, hidden, x)
        assert_close(state, hidden, 1e-6)
    assert_same(last, states[-1])


def test_reversed_is_a_scan_over_the_flipped_sequence(rng, gru):
    hidden, xs, mask = normal(rng, 4), normal(rng, 5, 3), jnp.array([1, 1, 0, 1, 0], bool)
    last, states = ops.gru_scan(gru, hidden, xs, mask, reverse=True)
    flipped_last, flipped_states = ops.gru_scan(gru, hidden, xs[::-1], mask[::-1])
    assert_close((last, states), (flipped_last, flipped_states[::-1]), 1e-6)


def test_a_masked_step_leaves_the_state_to_the_bit(rng, gru):
    hidden, xs = normal(rng, 4), normal(rng, 5, 3)
    last, states = ops.gru_scan(gru, hidden, xs, jnp.array([0, 1, 0, 0, 0], bool))
    assert_same(states[0], hidden)
    for t in range(2, 5):
        assert_same(states[t], states[1])
    assert_same(last, states[1])
    assert not (states[1] == hidden).any()


def test_slots_are_updated_each_on_its_own(rng):
    for params in (cases.single(rng), cases.multi(rng)):
        params, slots, aligned = cast(params, jnp.float32), normal(rng, 3, 4), normal(rng, 3, 4)
        changed = ops.update_slots(params, slots, aligned.at[1].add(1)) != ops.update_slots(params, slots, aligned)
        assert changed[1].all() and not changed[0].any() and not changed[2].any()
        assert np.isfinite(ops.update_slots(params, slots, 1e30 * aligned)).all()
