"""HPMN against the equations, with the parameters taken out of the module.

Slips tried, each of which fails a test here: a period that starts with the first item; padding that counts; an upper
layer that takes in the item; the mean of what a period has seen in place of its last; counts that begin anew with each
segment; the penalty of every segment in place of the last; the covariance with its diagonal.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import periodic as oracle
from oracles.checking import assert_close, assert_finite, assert_gradients_are_differences, assert_same, cast, float64

from memjax import memories, ops
from memjax.memories import memorize

T, N, WIDTH = 4, 4, 3
SIZES = {"slots": 3, "width": WIDTH, "covariance": 0.5}
PERIODS = {"every second": 2, "every third": 3, "every one": 1}
every_period = pytest.mark.parametrize("label", PERIODS)
MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)


@functools.cache
def made(label):
    """`(memory, params, items)` in float64; all parameters random, so that each of them counts."""
    memory = memories.create("hpmn", **SIZES, period=PERIODS[label], dtype=jnp.float64)
    rng, init = np.random.default_rng(4), functools.partial(memory.init, method=memorize)
    with jax.enable_x64(True):
        shapes = jax.eval_shape(init, jax.random.key(0), jnp.zeros((T, N, WIDTH)))
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), shapes)
    return memory, params, rng.normal(size=(T, N, WIDTH))


def write(label, items, mask, state=None):
    memory, params, _ = made(label)
    with jax.enable_x64(True):
        run = jax.jit(functools.partial(memory.apply, method=memorize))
        state = None if state is None else cast(state, jnp.float64)
        return float64(run(*cast((params, items, mask), jnp.float64), state=state))


def layers(params):
    return ops.GRUParams(*(params["params"][f"layers_{leaf}"] for leaf in ops.GRUParams._fields))


@every_period
def test_layers_and_auxiliary_loss_are_the_equations(label):
    """By the clock, after every segment, with the periods going on over the borders."""
    _, params, items = made(label)
    state, paid = None, 0.0
    for t in range(T):
        state, aux = write(label, items[t : t + 1], MASK[t : t + 1], state)
        paid += aux
        hidden, filled = oracle.periodic_memory(layers(params), items[: t + 1], MASK[: t + 1], PERIODS[label])
        assert_close((state.hidden, state.filled), (hidden, filled), 1e-10)
        np.testing.assert_allclose(paid, 0.5 * (oracle.covariance_norm(hidden) - 1e-6), rtol=1e-9)
        count = MASK[: t + 1].sum()
        steps = np.cumprod([1, PERIODS[label], PERIODS[label]])
        assert_close(state.waiting, np.array([0, *(count // steps[:-1] % PERIODS[label])]), 1e-10)
    assert filled.all()


@every_period
def test_gradients_are_the_oracles_differences(label):
    memory, params, items = made(label)
    weights = np.random.default_rng(3).normal(size=(3, WIDTH))

    def loss(params, items):
        state, aux = memory.apply(params, items, MASK, method=memorize)
        return (memory.apply(params, state, method="slots").values * weights).sum() + aux

    def expected(params, items):
        hidden, _ = oracle.periodic_memory(layers(params), items, MASK, PERIODS[label])
        return np.sum(hidden * weights) + 0.5 * oracle.covariance_norm(hidden)

    with jax.enable_x64(True):
        gradients = float64(jax.jit(jax.grad(loss, argnums=(0, 1)))(*cast((params, items), jnp.float64)))
    assert_gradients_are_differences(gradients, expected, (params, items))
    np.testing.assert_array_equal((gradients[1] != 0).any(-1) & ~MASK, False)


@pytest.mark.parametrize("shape", [(16, 1), (8, 2), (2, 8), (1, 16)])
def test_periods_know_nothing_of_segments(shape):
    _, _, items = made("every second")
    whole, _ = write("every second", items, MASK)
    other, _ = write("every second", items.reshape(*shape, WIDTH), MASK.reshape(shape))
    assert_close(other, whole, 1e-10)


def test_an_upper_layer_sees_nothing_between_its_periods():
    """Of three items with a period of 2 the second layer was written at the second, and the third not at all."""
    memory, params, items = made("every second")

    def second(items):
        state, _ = memory.apply(params, items, method=memorize)
        return state.hidden[1].sum(), state

    with jax.enable_x64(True):
        gradient, state = jax.grad(second, has_aux=True)(jnp.asarray(items[:1, :3]))
    np.testing.assert_array_equal((np.asarray(gradient) != 0).any(-1), [[True, True, False]])
    slots = memory.apply(cast(params, jnp.float32), cast(state, jnp.float32), method="slots")
    assert slots.mask.tolist() == [True, True, False]
    np.testing.assert_array_equal(slots.values[2], 0)


def test_a_memory_of_zeros_has_a_gradient():
    """All slots are alike there, and their covariance is 0."""
    memory, params, items = made("every second")

    @jax.jit
    def slope(params, items):
        def loss(params, items):
            return memory.apply(params, items, MASK, method=memorize)[1]

        return jax.value_and_grad(loss, argnums=(0, 1))(params, items)

    nothing = jax.tree.map(np.zeros_like, params)
    for arguments in ((nothing, items), (nothing, 0 * items), (params, 0 * items)):
        assert_finite(slope(*cast(arguments, jnp.float32)))


def test_no_items_leave_the_layers_as_they_were():
    params = ops.GRUParams(jnp.zeros((3, 1, 3)), jnp.zeros((3, 1, 3)), jnp.ones((3, 3)), jnp.zeros((3, 3)))
    state = ops.PeriodicState(jnp.ones((3, 1)), jnp.ones(3), jnp.array([0.0, 1.0, 1.0]))
    assert_same(ops.periodic_write(params, state, jnp.zeros((0, 1)), period=2), state)
