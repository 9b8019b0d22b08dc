import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import cases, slots
from oracles.checking import assert_close, assert_same, cast, matmuls_that_no_carry_reaches

from memjax import MemjaxError, ops

K, T, N, D = 4, 5, 3, 4
write_stream = jax.jit(ops.write_stream, static_argnames="normalize")
write_segment = jax.jit(ops.write_segment)
TWO_HEADS = cases.several(cases.additive)
both_updates = pytest.mark.parametrize("update", ["single", "multi"])


@functools.cache
def arguments(update="single", scores=cases.additive):
    """`(params, slots [K, D], segments [T, N, D], mask [T, N])`; segment 2 is padding throughout."""
    rng = np.random.default_rng(3)
    params = cases.write_params(getattr(cases, update), scores)(rng)
    mask = rng.random((T, N)) < 0.7
    mask[2] = False
    return cast((params, rng.normal(size=(K, D)), rng.normal(size=(T, N, D)), mask), jnp.float32)


@both_updates
@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.integers(0, T), max_size=3).map(sorted))
def test_a_stream_may_be_written_in_any_number_of_calls(update, cuts):
    params, state, segments, mask = arguments(update)
    once = write_stream(params, state, segments, mask)
    for start, stop in zip([0, *cuts], [*cuts, T], strict=True):
        state = write_stream(params, state, segments[start:stop], mask[start:stop])
    assert_close(state, once, 1e-6)


@both_updates
@settings(max_examples=5, deadline=None)
@given(order=st.permutations(range(K)))
def test_permuting_the_initial_slots_permutes_the_final_ones(update, order):
    params, state, segments, mask = arguments(update)
    order = jnp.array(order)
    permuted = write_stream(params, state[order], segments, mask)
    assert_close(permuted, write_stream(params, state, segments, mask)[order], 1e-5)


@both_updates
def test_equal_slots_stay_equal(update):
    params, state, segments, mask = arguments(update)
    final = write_stream(params, state.at[2].set(state[0]), segments, mask)
    assert_same(final[2], final[0])
    assert not np.allclose(final[1], final[0], atol=1e-3)


@both_updates
def test_a_segment_of_padding_leaves_the_slots_to_the_bit(update):
    params, state, segments, mask = arguments(update)
    assert_same(write_segment(params, state, segments[0], jnp.zeros(N, bool)), state)
    assert_same(write_stream(params, state, segments, jnp.zeros_like(mask)), state)
    assert not (write_segment(params, state, segments[0], mask[0]) == state).any()


@both_updates
def test_padding_at_the_end_of_a_stream_or_of_its_segments_changes_nothing(update):
    params, state, segments, mask = arguments(update)
    longer = jnp.pad(segments, ((0, 2), (0, 1), (0, 0)), constant_values=7)
    padded = write_stream(params, state, longer, jnp.pad(mask, ((0, 2), (0, 1))))
    assert_close(padded, write_stream(params, state, segments, mask), 1e-6)


def test_without_a_mask_everything_is_real():
    params, state, segments, mask = arguments()
    assert_same(write_stream(params, state, segments), write_stream(params, state, segments, jnp.ones_like(mask)))


@both_updates
def test_features_in_place_of_segments_change_nothing(update):
    params, state, segments, mask = arguments(update)
    features = ops.segment_features(params, segments)
    assert_close(write_stream(params, state, features, mask), write_stream(params, state, segments, mask), 1e-6)
    # Other features give other slots: the given ones are really what is used.
    for other in (features._replace(keys=-features.keys), features._replace(values=-features.values)):
        changed = write_stream(params, state, other, mask)
        assert not np.allclose(changed, write_stream(params, state, segments, mask), atol=1e-3)


@both_updates
def test_padding_in_features_may_hold_anything(update):
    params, state, segments, mask = arguments(update)
    features = ops.segment_features(params, jnp.where(mask[..., None], segments, jnp.nan))
    assert_same(write_stream(params, state, features, mask), write_stream(params, state, segments, mask))


@both_updates
@pytest.mark.parametrize("scores", [cases.additive, TWO_HEADS], ids=["one_head", "two_heads"])
@pytest.mark.parametrize("normalize", ["items", "mass"])
def test_normalize_reaches_every_write(update, scores, normalize):
    params, state, segments, mask = jax.tree.map(np.asarray, arguments(update, scores))
    expected = slots.write_stream(params, state, segments, mask, normalize=normalize)
    assert_close(write_stream(*arguments(update, scores), normalize=normalize), expected, 1e-5)
    assert not np.allclose(write_stream(*arguments(update, scores)), expected, atol=1e-3)


@both_updates
def test_heads_that_are_alike_write_as_one_does(update):
    params, state, segments, mask = arguments(update)
    twice = ops.MultiHeadScoreParams(jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), params.attention))
    by_two = write_stream(params._replace(attention=twice), state, segments, mask)
    assert_close(by_two, write_stream(params, state, segments, mask), 1e-5)


def test_a_head_reaches_its_own_part_of_every_slot_and_no_other():
    params, state, segments, _ = arguments("single", TWO_HEADS)
    items = jnp.ones_like(segments[0]) * segments[0, 0] + jnp.eye(N, D)
    changed = jax.tree.map(lambda leaf: leaf.at[1].multiply(-2), params.attention)
    moved = write_segment(params._replace(attention=changed), state, items) != write_segment(params, state, items)
    assert moved[:, D // 2 :].all() and not moved[:, : D // 2].any()


def test_heads_that_cannot_share_a_slot_alike_are_refused():
    params, state, segments, mask = arguments()
    thrice = ops.MultiHeadScoreParams(jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), params.attention))
    with pytest.raises(MemjaxError, match="3 heads of the write must share a slot alike: they cannot share 4 parts"):
        ops.write_stream(params._replace(attention=thrice), state, segments, mask)


def test_features_of_other_heads_are_refused():
    params, state, segments, mask = arguments("single", TWO_HEADS)
    one = params._replace(attention=jax.tree.map(lambda leaf: leaf[0], params.attention.heads))
    features = ops.segment_features(one, segments)
    with pytest.raises(MemjaxError, match="their keys are 5 wide, not 10"):
        ops.write_stream(params, state, features, mask)


@both_updates
def test_by_mass_an_item_that_comes_twice_moves_the_slots_further_and_never_past_the_update(update):
    params, state, segments, _ = arguments(update)
    item = segments[0, :1]
    written = {
        count: ops.write_segment(params, state, jnp.repeat(item, count, axis=0), normalize="mass")
        for count in (1, 2, 200, 400)
    }
    assert_close(written[2] - state, 2 * (written[1] - state), 1e-5)  # no slot is given a whole item here
    assert_close(written[400], written[200], 1e-4)


def test_by_mass_a_slot_that_is_given_nothing_stays_as_it_is_and_has_a_finite_gradient():
    params, _, segments, _ = arguments()
    keys = jnp.array([[40.0], [0.0], [0.0], [0.0]]) * jnp.eye(K)[0]  # of the slots: the first takes everything
    attention = ops.DotParams(jnp.eye(K), jnp.eye(D), jnp.zeros(D))
    params, items = params._replace(attention=attention), jnp.abs(segments[0]) + 1

    def write(slots):
        return ops.write_segment(params, slots, items, normalize="mass")

    assert_close(write(keys)[1:], keys[1:], 1e-6)
    assert not np.allclose(write(keys)[0], keys[0], atol=1e-2)
    assert np.isfinite(jax.grad(lambda slots: write(slots).sum())(keys)).all()


def test_remat_gives_the_same_and_keeps_less():
    params, state, segments, mask = arguments()

    def write(remat):
        return lambda params, state: ops.write_stream(params, state, segments, mask, remat=remat)

    def gradients(remat):
        gradient = jax.grad(lambda *a: (write(remat)(*a) ** 2).sum(), argnums=(0, 1))
        return jax.jit(gradient)(params, state)

    assert_close(gradients(True), gradients(False), 1e-5)
    kept, all_kept = (
        sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(lambda r=r: jax.vjp(write(r), params, state)[1])))
        for r in (True, False)
    )
    assert kept < all_kept / 2


def test_only_what_needs_the_slots_is_computed_inside_the_scan():
    params, state, segments, mask = arguments("multi")
    jaxpr = jax.make_jaxpr(ops.write_stream)(params, state, segments, mask).jaxpr
    assert matmuls_that_no_carry_reaches(jaxpr) == []

    def naive(params, state, segments, mask):
        return jax.lax.scan(lambda slots, xs: (ops.write_segment(params, slots, *xs), None), state, (segments, mask))

    # The keys, and the two products of the gates: what `write_stream` takes out.
    assert len(matmuls_that_no_carry_reaches(jax.make_jaxpr(naive)(params, state, segments, mask).jaxpr)) == 3


def test_integers_are_refused(unchecked):
    """Products in the items' dtype would make integers of the weights."""
    params, initial, segments, _ = arguments()
    with pytest.raises(MemjaxError, match=r"segments must be a float array .T, N, dx., not int32"):
        ops.write_stream(params, initial, jnp.asarray(segments).astype(jnp.int32))
