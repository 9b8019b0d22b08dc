"""MemN2N's rows as a memory against the equations, with the parameters taken out of the module.

Slips that were tried; test_the_whole_memory_is_the_equations failed for each of them: ages in the rows' order, not from
the newest (here test_one_more_segment_ages_every_row_by_one failed too); coordinates of the position encoding counted
from 0; and words counted by their place in the segment, padding included.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import rows as oracle
from oracles.checking import assert_close, assert_same, cast, float64

from memjax import memories
from memjax.memories import memorize

T, N, WIDTH = 6, 4, 5
MASK = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]], bool)


@functools.cache
def made(slots):
    """`(memory, params, items)` in float64."""
    memory = memories.create("memn2n", slots=slots, width=WIDTH, dtype=jnp.float64)
    rng, init = np.random.default_rng(4), functools.partial(memory.init, method=memorize)
    with jax.enable_x64(True):
        shapes = jax.eval_shape(init, jax.random.key(0), jnp.zeros((T, N, WIDTH)))
    return memory, jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), shapes), rng.normal(size=(T, N, WIDTH))


def memorized(slots, items, mask, state=None):
    """`(state, slots)`, in float64."""
    memory, params, _ = made(slots)

    def both(params, items, mask, state):
        state, aux_loss = memory.apply(params, items, mask, state=state, method=memorize)
        return state, memory.apply(params, state, method="slots"), aux_loss

    with jax.enable_x64(True):
        args = cast((params, items, mask, state), jnp.float64)
        state, slots, aux_loss = jax.jit(both)(*args)
    assert aux_loss == 0
    return float64(state), jax.tree.map(np.asarray, slots)


@pytest.mark.parametrize("slots", [1, 3, 5, 8])
def test_the_whole_memory_is_the_equations(slots):
    """Five segments are real: with 5 slots and more nothing is forgotten."""
    _, params, items = made(slots)
    state, read = memorized(slots, items, MASK)
    rows, filled, values = oracle.memn2n(params["params"], items, MASK, slots)
    assert_close((state.values, read.values), (rows, values), 1e-10)
    assert_same((state.filled > 0, read.mask), (filled, filled))


def test_rows_are_segments_in_their_order_the_newest_last():
    """Changing a segment changes its row and no other; the first two of the five have left."""
    _, _, items = made(3)
    before, _ = memorized(3, items, MASK)
    real = np.flatnonzero(MASK.any(1))
    for place, t in enumerate(real):
        changed = items.copy()
        changed[t] += 1
        after, _ = memorized(3, changed, MASK)
        touched = (after.values != before.values).any(-1)
        np.testing.assert_array_equal(touched, np.arange(3) == place - (len(real) - 3))


def test_one_more_segment_ages_every_row_by_one():
    _, params, items = made(3)
    state, before = memorized(3, items[:-1], MASK[:-1])
    _, after = memorized(3, items[-1:], MASK[-1:], state=state)
    ages = params["params"]["ages"]
    for i in (1, 2):
        age = 2 - i
        assert_close(after.values[i - 1] - ages[age + 1], before.values[i] - ages[age], 1e-10)


def test_padding_between_segments_ages_nothing():
    _, _, items = made(3)
    padded, none = np.repeat(items, 2, axis=0), np.zeros_like(MASK)
    mask = np.stack([none, MASK], axis=1).reshape(2 * T, N)
    assert_close(memorized(3, padded, mask)[1], memorized(3, items, MASK)[1], 1e-10)


def test_the_order_of_the_items_in_a_segment_matters():
    _, _, items = made(3)
    all_real = np.ones_like(MASK)
    _, read = memorized(3, items, all_real)
    _, turned = memorized(3, items[:, ::-1], all_real)
    assert np.abs(read.values - turned.values).max() > 0.1
