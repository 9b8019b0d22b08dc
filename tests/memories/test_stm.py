"""The SAM-based Two-memory Model against the equations, with the parameters taken out of the module.

Slips that were tried in `ops/two_memory.py`; test_the_whole_memory_is_the_equations failed for each of them:
`f2 outer v` in place of `v outer f2`; the two gates swapped; the gates' memory part without its tanh; and
`tanh(q) * k` in place of `tanh(q * k)`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import stm as oracle
from oracles.checking import assert_close, assert_finite, cast, float64, matmuls_that_no_carry_reaches

from memjax import memories, ops
from memjax.memories import memorize

T, N, WIDTH = 4, 3, 5
SIZES = {"slots": 3, "width": WIDTH, "memory_width": 4}
MEMORIES = {"stm": SIZES, "stm with one query": {**SIZES, "slots": 1}}
every_memory = pytest.mark.parametrize("label", MEMORIES)


@functools.cache
def made(label):
    """`(memory, params, items, mask)` in float64; all parameters random, so that each of them counts."""
    memory = memories.create("stm", **MEMORIES[label], dtype=jnp.float64)
    rng, init = np.random.default_rng(4), functools.partial(memory.init, method=memorize)
    with jax.enable_x64(True):
        shapes = jax.eval_shape(init, jax.random.key(0), jnp.zeros((T, N, WIDTH)))
    params = jax.tree.map(lambda leaf: np.asarray(rng.normal(size=leaf.shape)), shapes)
    mask = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 0], [1, 1, 0]], bool)
    return memory, params, rng.normal(size=(T, N, WIDTH)), mask


def memorized(label, params, items, mask):
    """`(state, slots)` as the memory has them, in float64."""

    def both(params, items, mask):
        state, aux_loss = made(label)[0].apply(params, items, mask, method=memorize)
        return state, made(label)[0].apply(params, state, method="slots").values, aux_loss

    with jax.enable_x64(True):
        state, slots, aux_loss = jax.jit(both)(*cast((params, items, mask), jnp.float64))
    assert aux_loss == 0
    return float64(state), float64(slots)


def step_params(params):
    sam = ops.SAMParams(*(params[f"sam_{leaf}"] for leaf in ("w", "scale", "bias")))
    return ops.TwoMemoryParams(sam, params["gates_of_memory"], params["keep"], params["blend"])


@every_memory
def test_the_whole_memory_is_the_equations(label):
    _, params, items, mask = made(label)
    (found_items, relations), slots = memorized(label, params, items, mask)
    inner = params["params"]
    expected = oracle.stm(inner, step_params(inner), items, mask)
    assert_close((found_items, relations, slots), expected, 1e-10)


def test_one_item_relates_one_query_to_one_key():
    """With one query R is one outer product, whose columns are all `tanh(q * k)`: of rank 1."""
    _, params, items, _ = made("stm with one query")
    (_, relations), _ = memorized("stm with one query", params, items[:1, :1], np.ones((1, 1), bool))
    singular = np.linalg.svd(relations[0], compute_uv=False)
    assert singular[0] > 0.1 and (singular[1:] < 1e-10).all()


def test_relations_fade_by_one_weight_whatever_the_item():
    """Without values nothing is found, and what was there fades as `keep` says."""
    memory, params, items, _ = made("stm")
    silent = {**params["params"], "sam_scale": params["params"]["sam_scale"].copy()}
    silent["sam_bias"] = params["params"]["sam_bias"].copy()
    silent["sam_scale"][2] = silent["sam_bias"][2] = 0
    before = np.random.default_rng(6).normal(size=(3, 4, 4))

    def write(params, state, items):
        return memory.apply({"params": params}, items, state=state, method=memorize)[0]

    with jax.enable_x64(True):
        args = cast((silent, ops.TwoMemoryState(np.zeros((4, 4)), before), items), jnp.float64)
        after = float64(jax.jit(write)(*args))
    assert_close(after.relations, before * oracle.sigmoid(silent["keep"]) ** (T * N), 1e-10)
    assert np.abs(after.items).max() > 0.1


def test_at_the_start_of_training_a_long_stream_is_read_stably():
    """A change of a millionth in the first of 100 items must not grow to something that all slots are made of."""
    memory = memories.create("stm", slots=4, width=16, memory_width=16, dtype=jnp.float64)
    items = np.random.default_rng(7).normal(size=(100, 1, 16))
    changed = np.concatenate([items[:1] * (1 + 1e-6), items[1:]])

    @jax.jit
    def read(items):
        params = memory.init(jax.random.key(0), items[:1], method=memorize)
        state, _ = memory.apply(params, items, method=memorize)
        return memory.apply(params, state, method="slots").values

    with jax.enable_x64(True):
        assert_close(read(jnp.asarray(changed)), read(jnp.asarray(items)), 1e-4)


def test_it_starts_by_keeping_relations_for_about_as_many_items_as_the_time_constant():
    memory = memories.create("stm", **SIZES, time_constant=20.0)
    params = jax.jit(functools.partial(memory.init, method=memorize))(jax.random.key(0), jnp.ones((1, N, WIDTH)))
    assert_close(jax.nn.sigmoid(params["params"]["keep"]), np.asarray(20 / 21), 1e-6)
    np.testing.assert_array_equal(params["params"]["gates"]["bias"], [0] * 4 + [1] * 4)


def test_the_order_of_the_items_in_a_segment_matters():
    _, params, items, _ = made("stm")
    mask = np.ones((T, N), bool)
    _, slots = memorized("stm", params, items, mask)
    _, turned = memorized("stm", params, items[:, ::-1], mask)
    assert np.abs(slots - turned).max() > 1e-2


def test_the_norm_of_the_readers_slots_hides_how_long_the_stream_was():
    memory, params, _, _ = made("stm")
    relations = np.random.default_rng(6).normal(size=(3, 4, 4))
    with jax.enable_x64(True):
        slots = [
            memory.apply(params, ops.TwoMemoryState(jnp.zeros((4, 4)), jnp.asarray(relations * n)), method="slots")
            for n in (1, 1e6)
        ]
    assert_close(slots[1].values, slots[0].values, 1e-5)


@every_memory
def test_a_memory_of_zeros_has_a_gradient(label):
    """Items of zeros, weights of zeros, and a stream of nothing but padding: finite in all of them."""
    memory, params, items, mask = made(label)

    @jax.jit
    def slope(params, items, mask):
        def loss(params, items):
            state, _ = memory.apply(params, items, mask, method=memorize)
            return (memory.apply(params, state, method="slots").values ** 2 + 1).sum()

        return jax.value_and_grad(loss, argnums=(0, 1))(params, items)

    nothing = jax.tree.map(np.zeros_like, params)
    with jax.enable_x64(True):
        for arguments in ((params, 0 * items, mask), (nothing, items, mask), (params, items, mask & False)):
            assert_finite(slope(*cast(arguments, jnp.float64)))


def test_only_what_needs_the_memory_is_computed_inside_the_scan():
    memory, params, items, mask = made("stm")
    with jax.enable_x64(True):
        args = cast((params, items, mask), jnp.float64)
        jaxpr = jax.make_jaxpr(functools.partial(memory.apply, method=memorize))(*args).jaxpr
    assert matmuls_that_no_carry_reaches(jaxpr) == []
