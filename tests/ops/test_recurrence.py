import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.checking import assert_close, cast
from oracles.recurrence import linear_recurrence as oracle

from memjax import MemjaxError, ops

IMPLS = ("sequential", "associative")
jitted = jax.jit(ops.linear_recurrence, static_argnames="impl")
every_impl = pytest.mark.parametrize("impl", IMPLS)


@settings(max_examples=6, deadline=None)
@given(length=st.integers(1, 9), width=st.sampled_from([(), (2,)]), start=st.booleans(), seed=st.integers(0, 99))
def test_all_ways_to_compute_it_agree_with_the_oracle_and_in_their_gradients(length, width, start, seed):
    rng = np.random.default_rng(seed)
    decay, x = rng.uniform(-1.2, 1.2, (length, *width)), rng.normal(size=(length, *width))
    initial = rng.normal(size=width) if start else None
    expected = oracle(decay, x, initial if start else np.zeros(width))
    gradients = []
    for impl in IMPLS:

        def loss(arrays, impl=impl):
            states = ops.linear_recurrence(*arrays, impl=impl)
            return (states**2).sum(), states

        got, states = jax.jit(jax.grad(loss, has_aux=True))(cast((decay, x, initial), jnp.float32))
        assert_close(states, expected, 1e-5)
        gradients.append(got)
    assert_close(*gradients, 1e-4)


def test_auto_is_one_of_the_ways(rng):
    decay, x = cast(tuple(rng.normal(size=(2, 6, 3))), jnp.float32)
    assert_close(ops.linear_recurrence(decay, x), oracle(np.asarray(decay), np.asarray(x), np.zeros(3)), 1e-5)


@every_impl
def test_going_on_from_the_last_state_is_one_call(rng, impl):
    decay, x = cast(tuple(rng.normal(size=(2, 7, 3))), jnp.float32)
    whole = jitted(decay, x, impl=impl)
    head = jitted(decay[:4], x[:4], impl=impl)
    tail = jitted(decay[4:], x[4:], head[-1], impl=impl)
    assert_close(jnp.concatenate([head, tail]), whole, 1e-5)


@every_impl
def test_a_bfloat16_sequence_is_summed_in_float32(impl):
    """In bfloat16 the sum would stand still at 2, where 2 + 2**-8 is 2 again."""
    ones, steps = jnp.ones(1024, jnp.bfloat16), jnp.full(1024, 2.0**-8, jnp.bfloat16)
    states = jitted(ones, steps, impl=impl)
    assert states.dtype == jnp.bfloat16
    assert states[-1] == 4


@every_impl
def test_on_a_mesh_without_an_initial_state(rng, mesh, impl):
    """The scan starts from zeros made inside, which on an Explicit mesh must be split as the data are."""
    decay, x = cast(tuple(rng.normal(size=(2, 5, 8, 3))), jnp.float32)

    def run(decay, x):
        grad = jax.grad(lambda *a: (ops.linear_recurrence(*a, impl=impl) ** 2).sum(), argnums=(0, 1))
        return ops.linear_recurrence(decay, x, impl=impl), grad(decay, x)

    run = jax.jit(run)
    alone = run(decay, x)
    with jax.set_mesh(mesh):
        placed = jax.device_put((decay, x), jax.NamedSharding(mesh, jax.P(None, "data")))
        assert_close(run(*placed), alone, 1e-5)


@every_impl
def test_an_empty_sequence_has_no_states(impl):
    assert ops.linear_recurrence(jnp.ones((0, 2)), jnp.ones((0, 2)), jnp.ones(2), impl=impl).shape == (0, 2)


@every_impl
@pytest.mark.parametrize("initial", [(), (3,), (1, 2)])
def test_an_initial_state_of_another_shape_is_refused(unchecked, impl, initial):
    with pytest.raises(MemjaxError, match=r"initial must be a float array"):
        ops.linear_recurrence(jnp.ones((4, 2)), jnp.ones((4, 2)), jnp.ones(initial), impl=impl)


@every_impl
def test_integers_are_refused(unchecked, impl):
    with pytest.raises(MemjaxError, match=r"x must be a float array .T, .*, not int32"):
        ops.linear_recurrence(jnp.full(3, 0.5), jnp.ones(3, int), impl=impl)
