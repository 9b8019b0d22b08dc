import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from oracles import attention as oracle
from oracles import cases
from oracles.checking import assert_close, assert_same, cast

from memjax import MemjaxError, ops
from memjax.ops.attention import read_by_hops, slot_weights


@pytest.fixture
def attention(rng):
    return cast(cases.additive(rng), jnp.float32)


def normal(rng, *shape):
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


def test_each_item_hands_out_one_unit_of_mass_over_the_slots(rng, attention):
    mask = jnp.array([True, False, True, True])
    weights, _ = ops.slot_attention(attention, normal(rng, 3, 4), normal(rng, 4, 4), mask)
    np.testing.assert_allclose(weights.sum(0), mask, atol=1e-6)


def test_over_items_each_slot_takes_one_unit_of_mass(rng, attention):
    mask = jnp.array([True, False, True, True])
    weights, _ = ops.slot_attention(attention, normal(rng, 3, 4), normal(rng, 4, 4), mask, normalize="items")
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)
    assert (weights[:, 1] == 0).all()


def test_weights_are_float32_where_items_are_bfloat16(rng, attention):
    weights, aligned = ops.slot_attention(attention, normal(rng, 3, 4), normal(rng, 5, 4).astype(jnp.bfloat16))
    assert weights.dtype == aligned.dtype == jnp.float32


def test_without_a_mask_everything_is_real(rng, attention):
    slots, items = normal(rng, 3, 4), normal(rng, 4, 4)
    assert_same(
        ops.slot_attention(attention, slots, items), ops.slot_attention(attention, slots, items, jnp.ones(4, bool))
    )
    read = cast(cases.hops(rng, width=4), jnp.float32)
    query = normal(rng, 4)
    assert_same(ops.multi_hop_read(read, slots, query), ops.multi_hop_read(read, slots, query, jnp.ones(3, bool)))


def test_scores_of_any_size_stay_finite(rng, attention):
    loud = attention._replace(v=1e30 * attention.v)
    gradient = jax.grad(lambda slots: ops.slot_attention(loud, slots, normal(rng, 4, 4))[1].sum())(normal(rng, 3, 4))
    assert np.isfinite(gradient).all()


def test_a_read_does_not_depend_on_the_order_of_the_slots(rng):
    read, slots, query = cast(cases.hops(rng), jnp.float32), normal(rng, 5, 3), normal(rng, 4)
    mask = jnp.array([True, True, False, True, False])
    order = rng.permutation(5)
    shuffled = ops.multi_hop_read(read, slots[order], query, mask[order])
    assert_close(shuffled, ops.multi_hop_read(read, slots, query, mask), 1e-5)


def test_a_hop_concatenates_nothing_because_gpus_compiled_that_wrongly(rng):
    read, slots, query = cast((cases.hops(rng), rng.normal(size=(5, 3)), rng.normal(size=4)), jnp.float32)
    assert " concatenate(" not in jax.jit(ops.multi_hop_read).lower(read, slots, query).compile().as_text()


def test_each_hop_weighs_the_slots_as_in_the_equations(rng):
    read, slots, query = cases.hops(rng), rng.normal(size=(5, 3)), rng.normal(size=4)
    mask = np.array([True, True, False, True, False])
    found = read_by_hops(*cast((read, slots, query), jnp.float32), jnp.asarray(mask))
    assert_close(found, oracle.read_by_hops(read, slots, query, mask), 1e-5)
    nothing = read_by_hops(*cast((read, slots, query), jnp.float32), jnp.zeros(5, bool))
    assert not np.asarray(nothing[0]).any() and np.isfinite(nothing[1]).all()


def test_shapes_that_the_annotations_forbid_are_caught(rng, attention):
    """Of helpers too: the run-time checks of these tests are on. Without them, this would broadcast."""
    with pytest.raises(jaxtyping.TypeCheckError):
        slot_weights(attention, normal(rng, 3, 4), normal(rng, 5, 5), jnp.ones(1, bool), normalize="slots")
    with pytest.raises(MemjaxError, match=r"mask must be a bool array .N. with N = 5 as in items, not bool"):
        ops.slot_attention(attention, normal(rng, 3, 4), normal(rng, 5, 4), jnp.ones(1, bool))
