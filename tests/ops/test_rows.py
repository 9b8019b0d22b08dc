"""What holds for rows alone; values and gradients are in test_every_op.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import rows as oracle
from oracles.checking import assert_close, assert_same

from memjax import MemjaxError, ops


@pytest.mark.parametrize("size", [1, 3, 8])
def test_the_newest_rows_are_moved_to_the_bit_and_say_which_are_filled(rng, size):
    rows = rng.normal(size=(6, 2)).astype(np.float32)
    for mask in np.array(list(np.ndindex(*[2] * 6)), bool):
        assert_same(ops.newest_rows(jnp.asarray(rows), jnp.asarray(mask), size), oracle.newest_rows(rows, mask, size))


def test_a_fifo_has_a_size(unchecked):
    with pytest.raises(MemjaxError, match="size must be a whole number of at least 1, not 0"):
        ops.newest_rows(jnp.ones((2, 1)), jnp.ones(2, bool), 0)


def test_positions_are_counted_over_the_real_items_alone():
    mask = np.array([0, 1, 1, 0, 1], bool)
    weights = jax.jit(ops.position_weights, static_argnums=1)(mask, 4)
    assert_close(weights[mask], oracle.position_encoding(3, 4), 1e-6)
    assert np.isfinite(ops.position_weights(jnp.zeros(2, bool), 4)).all()


def test_a_row_that_has_left_is_forgotten_even_if_it_was_infinite():
    rows, filled = ops.newest_rows(jnp.array([[jnp.inf], [1.0], [2.0]]), jnp.ones(3, bool), 2)
    assert rows[:, 0].tolist() == [1, 2] and filled.all()


@pytest.mark.parametrize("size", [1, 2, 5])
def test_rows_before_a_segment_are_the_newest_real_ones_to_the_bit_wherever_padding_lies(rng, size):
    segments, before = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 2, 3), (size, 3)))
    for _ in range(20):
        mask, before_mask = rng.random((4, 2)) < 0.5, rng.random(size) < 0.5
        found = ops.preceding_rows(*map(jnp.asarray, (segments, mask, before, before_mask)))
        assert_same(found, oracle.preceding_rows(segments, mask, before, before_mask))
