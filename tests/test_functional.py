import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close

import memjax
from memjax import functional, memories
from memjax.memories import memorize


@pytest.fixture(scope="module")
def memory():
    return memories.create("rehearsal", slots=3, width=4, segment=2, layers=1, heads=2)


@pytest.fixture(scope="module")
def streams():
    return jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 2, 4)), jnp.float32)


@pytest.fixture(scope="module")
def params(memory, streams):
    return jax.jit(functional(memory).init)(jax.random.key(0), streams[0])


def test_the_names_are_the_published_ones(memory):
    assert functional(memory)._fields == ("init", "initial_state", "encode", "write", "slots", "memorize")
    assert {"FunctionalMemory", "MemjaxError", "functional", "memories", "ops"} <= set(memjax.__all__)


def test_parameters_are_plain_arrays_and_those_of_the_module(memory, streams, params):
    module_init = functools.partial(memory.init, method=memorize)
    shapes = jax.eval_shape(module_init, jax.random.key(0), streams[0])
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, shapes)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(params))


def test_no_flax_is_needed_to_train_one(memory, streams, params):
    pure = functional(memory)

    def one(params, items):
        return pure.slots(params, pure.memorize(params, items)[0]).values

    @jax.jit
    def step(params, batch):
        loss = lambda params: (jax.vmap(one, (None, 0))(params, batch) ** 2).mean()  # noqa: E731
        value, gradients = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

    before, params = step(params, streams)
    for _ in range(3):
        after, params = step(params, streams)
    assert after < before


def test_writing_goes_on_from_a_state(memory, streams, params):
    memorize = jax.jit(functional(memory).memorize)
    state, _ = memorize(params, streams[0, :3])
    state, _ = memorize(params, streams[0, 3:], state=state)
    assert_close(state, memorize(params, streams[0])[0], 1e-6)


def test_the_state_of_another_memory_is_one_line(memory, streams, params, unchecked):
    pure, mask = functional(memory), jnp.ones((5, 2), bool)
    features = jax.tree.map(lambda leaf: leaf[0], pure.encode(params, streams[0], mask))
    for call in (pure.slots, lambda params, state: pure.write(params, state, features, mask[0])):
        with pytest.raises(memjax.MemjaxError, match="the state is of another memory"):
            call(params, jnp.zeros((7, 4)))


@pytest.mark.parametrize("other", ["dnc", memories.DNC, None])
def test_what_is_no_memory_is_one_line(other, unchecked):
    with pytest.raises(memjax.MemjaxError, match=r"functional takes a memory, as memories\.create makes one, not"):
        functional(other)
