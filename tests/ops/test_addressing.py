"""What weights over rows may be after any history, and what the ops do at the ends of their ranges.

Slips tried, each of which fails a test here: precedence that is not forgotten; the diagonal of the links kept; links
the other way; a gradient through what was written; a shift the other way; erase without the weights; the most used rows
first; the logarithm of 0; rows ordered by the upper half of the bits alone, by it as it was before the lower, or by the
bits of negative floats.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.checking import assert_close, assert_finite

from memjax import MemjaxError, ops
from memjax.ops.addressing import _rising

N, R, STEPS = 5, 2, 6


def within_simplex(weights):
    weights = np.asarray(weights)
    return (weights >= 0).all() and (weights.sum(-1) <= 1 + 1e-5).all()


@functools.cache
def history():
    """Usage, links and precedence after each of some steps that write and read anywhere."""

    def step(state, now):
        usage, links, precedence, before = state
        write, read, free, gate = now
        usage = ops.usage_update(usage, before, read, free)
        room = ops.allocation_weights(usage)
        write = gate[0] * (gate[1] * room + (1 - gate[1]) * write)
        links, precedence = ops.link_update(links, precedence, write)
        state = usage, links, precedence, write
        return state, (*state, room)

    def run(*inputs):
        nothing = jnp.zeros(N)
        return jax.lax.scan(step, (nothing, jnp.zeros((N, N)), nothing, nothing), inputs)[1]

    return jax.jit(run)


def weights(rng, *shape):
    """Some on one row alone, some nowhere, the rest spread."""
    spread = rng.dirichlet(np.full(N, 0.3), shape)
    kind = rng.integers(0, 3, (*shape, 1))
    return np.where(kind == 0, np.eye(N)[rng.integers(0, N, shape)], np.where(kind == 1, 0.0, spread))


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_usage_room_links_and_precedence_stay_what_they_mean(seed):
    rng = np.random.default_rng(seed)
    free, gates = (rng.choice([0.0, 1.0, 0.3], (STEPS, 2)) for _ in "ab")
    inputs = weights(rng, STEPS), weights(rng, STEPS, R), free, gates
    usage, links, precedence, write, room = history()(*(jnp.asarray(x, jnp.float32) for x in inputs))
    assert (usage >= 0).all() and (usage <= 1 + 1e-6).all()
    assert within_simplex(room) and within_simplex(precedence) and within_simplex(write)
    assert (links >= -1e-6).all() and (links <= 1 + 1e-5).all()
    assert (links.sum(1) <= 1 + 1e-4).all() and (links.sum(2) <= 1 + 1e-4).all()
    assert not np.asarray(links)[:, np.arange(N), np.arange(N)].any()


def test_links_lead_through_rows_in_the_order_of_writing():
    order, links, precedence = [3, 0, 4, 1], jnp.zeros((N, N)), jnp.zeros(N)
    for row in order:
        links, precedence = ops.link_update(links, precedence, jnp.eye(N)[row])
    for before, after in itertools.pairwise(order):
        assert_close(links @ jnp.eye(N)[before], jnp.eye(N)[after], 1e-6)
        assert_close(jnp.eye(N)[after] @ links, jnp.eye(N)[before], 1e-6)
    assert_close(precedence, jnp.eye(N)[order[-1]], 1e-6)


def test_room_is_where_least_is_used_and_nowhere_when_all_is():
    assert_close(ops.allocation_weights(jnp.ones(N)), jnp.zeros(N), 0)
    assert_close(ops.allocation_weights(jnp.zeros(N)), jnp.eye(N)[0], 0)
    assert_close(ops.allocation_weights(jnp.array([0.5, 0.25, 1.0])), jnp.array([0.125, 0.75, 0.0]), 1e-6)


@pytest.mark.parametrize("rows", [1, 2, 33, 128])
def test_rows_are_ordered_by_usage_and_of_those_used_alike_by_place(rows):
    rng = np.random.default_rng(rows)
    close = np.float32(0.7).view(np.int32) + rng.integers(-3, 4, rows, dtype=np.int32)  # by the last bits of a float
    ends = rng.choice(np.array([0.0, -0.0, 1e-45, 1e-38, 0.5, 1.0, 3.0, np.inf, -1e-45, -1e-8, -2.0], np.float32), rows)
    for usage in (rng.random(rows, np.float32), close.view(np.float32), ends, np.zeros(rows, np.float32)):
        for x in (usage, usage.astype(np.float16)):
            assert jax.jit(_rising)(x).tolist() == np.argsort(x, kind="stable").tolist()


def test_the_gradient_of_room_is_finite_at_rows_that_are_free_or_full_or_alike():
    for usage in ([0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.5]):
        assert_finite(jax.jacobian(ops.allocation_weights)(jnp.array(usage)))


def test_nothing_is_learned_through_what_was_written_before():
    def used(write):
        return ops.usage_update(jnp.full(N, 0.5), write, jnp.zeros((R, N)), jnp.ones(R)).sum()

    assert not jax.grad(used)(jnp.full(N, 0.1)).any()


def test_a_shift_of_one_row_is_a_roll_and_reaches_over_the_end():
    w = jnp.arange(1.0, N + 1)
    for step in (-2, -1, 0, 1, 2):
        assert_close(ops.shift_weights(w, jnp.eye(5)[step + 2]), jnp.roll(w, step), 0)


def test_sharpening_goes_to_the_largest_and_is_finite_with_weights_of_zero():
    w = jnp.array([0.0, 0.4, 0.6, 0.0])
    assert_close(ops.sharpen_weights(w, jnp.array(1.0)), w, 1e-6)
    assert_close(ops.sharpen_weights(w, jnp.array(100.0)), jnp.eye(4)[2], 1e-6)
    assert_finite(jax.jacobian(ops.sharpen_weights, argnums=(0, 1))(w, jnp.array(3.0)))
    assert_finite(jax.jacobian(ops.sharpen_weights, argnums=(0, 1))(jnp.zeros(4), jnp.array(3.0)))


def test_content_of_an_empty_memory_or_key_is_sought_everywhere_alike():
    for memory, key in ((jnp.zeros((N, 3)), jnp.ones(3)), (jnp.ones((N, 3)), jnp.zeros(3))):
        assert_close(ops.content_weights(memory, key, jnp.array(5.0)), jnp.full(N, 1 / N), 1e-6)
        assert_finite(jax.jacobian(ops.content_weights, argnums=(0, 1, 2))(memory, key, jnp.array(5.0)))


def test_a_row_that_is_erased_and_written_holds_what_was_added():
    memory, add = jnp.ones((N, 3)), jnp.array([1.0, 2.0, 3.0])
    new = ops.erase_and_add(memory, jnp.eye(N)[1], jnp.ones(3), add)
    assert_close(new, memory.at[1].set(add), 0)


def test_an_even_number_of_shares_is_one_line():
    with pytest.raises(MemjaxError, match="odd number of shares, for -s to s, not 2"):
        ops.shift_weights(jnp.ones(N), jnp.ones(2))


def test_sharpening_in_low_precision_is_as_near_as_its_weights():
    drawn = np.random.default_rng(0).dirichlet(np.ones(512))
    for dtype, near in ((jnp.bfloat16, 2**-7), (jnp.float16, 2**-9)):
        weights = jnp.asarray(drawn, dtype)
        exact = np.asarray(weights, np.float64) ** 2
        sharpened = ops.sharpen_weights(weights, jnp.asarray(2.0, dtype))
        assert sharpened.dtype == dtype
        exact = exact / exact.sum()
        assert np.abs(np.asarray(sharpened, np.float64) - exact).max() < near * exact.max()
