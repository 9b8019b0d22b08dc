import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.checking import assert_finite, assert_same

from memjax import ops
from memjax.errors import MemjaxError

recollection_and_gradients = jax.jit(jax.value_and_grad(ops.recollection_loss, argnums=(0, 1)))
familiarity_and_gradients = jax.jit(jax.value_and_grad(ops.familiarity_loss, argnums=(0, 1)))


@pytest.fixture
def recollection(rng):
    """`(predicted [4, 3], candidates [6, 3], target, masked)`."""
    arrays = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 3), (6, 3)))
    return *map(jnp.asarray, arrays), jnp.array([5, 0, 2, 2]), jnp.array([True, False, True, True])


def test_the_target_counts_though_it_was_drawn_as_a_negative_too(recollection):
    predicted, candidates, target, masked = recollection
    hit = jax.nn.one_hot(target, 6, dtype=bool)
    without, with_target = (
        ops.recollection_loss(predicted, candidates, target, masked, valid=valid) for valid in (~hit, ~hit | hit)
    )
    assert_same(without, with_target)
    assert_same(with_target, ops.recollection_loss(predicted, candidates, target, masked))


def test_a_candidate_that_does_not_count_never_matters(recollection):
    predicted, candidates, target, masked = recollection
    valid = jnp.ones((4, 6), bool).at[:, 3].set(False)
    loss, (_, gradient) = recollection_and_gradients(predicted, candidates, target, masked, valid=valid)
    assert_same(recollection_and_gradients(predicted, candidates.at[3].set(1e3), target, masked, valid=valid)[0], loss)
    assert (gradient[3] == 0).all() and (gradient[4] != 0).all()


@pytest.mark.parametrize("nowhere", [-1, 10**6])
def test_the_target_of_an_item_that_is_not_masked_may_be_anything(recollection, nowhere):
    predicted, candidates, target, masked = recollection
    valid = jnp.ones((4, 6), bool).at[:, 3].set(False)
    for options in ({}, {"valid": valid}):
        expected = recollection_and_gradients(predicted, candidates, target, masked, **options)
        got = recollection_and_gradients(predicted, candidates, target.at[1].set(nowhere), masked, **options)
        assert_same(got, expected)


def test_logits_of_any_size_stay_finite(recollection):
    predicted, candidates, target, masked = recollection
    assert_finite(recollection_and_gradients(1e6 * predicted, 1e6 * candidates, target, masked))
    assert_finite(familiarity_and_gradients(jnp.array([1e30, -1e30]), jnp.array([-1e30, 1e30])))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=2))
def test_familiarity_is_bounded_below_and_pushes_the_right_way(logits):
    positive, negative = jnp.array(logits[:1]), jnp.array(logits[1:])
    loss, (up, down) = familiarity_and_gradients(positive, negative)
    assert loss >= 0
    assert -1 <= up[0] <= 0 <= down[0] <= 1


def test_no_fragment_is_no_loss():
    assert ops.familiarity_loss(jnp.ones(3), jnp.ones(3), jnp.zeros(3, bool)) == 0
    assert ops.familiarity_loss(jnp.ones(0), jnp.ones(0)) == 0
    assert ops.recollection_loss(jnp.ones((2, 3)), jnp.ones((4, 3)), jnp.zeros(2, int), jnp.zeros(2, bool)) == 0


def test_without_a_mask_every_fragment_is_real(rng):
    positive, negative = jnp.asarray(rng.normal(size=(2, 5)), jnp.float32)
    masked = ops.familiarity_loss(positive, negative, jnp.ones(5, bool))
    np.testing.assert_allclose(ops.familiarity_loss(positive, negative), masked, rtol=1e-6)


@pytest.mark.parametrize("target", [-1, 4])
def test_a_target_that_names_no_candidate_is_refused_where_it_is_known_and_never_another_one(target):
    given = jnp.ones((2, 3)), jnp.ones((4, 3)), jnp.array([0, target])
    with pytest.raises(MemjaxError, match=f"one of the 4 candidates, from 0 to 3; it goes from {min(target, 0)} to"):
        ops.recollection_loss(*given, jnp.ones(2, bool))
    masked = jnp.array([True, False])
    assert np.isclose(ops.recollection_loss(*given, masked), np.log(4))
    loss = jax.jit(ops.recollection_loss)
    assert np.isnan(loss(*given, jnp.ones(2, bool))) and np.isfinite(loss(*given, masked))
