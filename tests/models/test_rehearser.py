"""The rehearsal losses against NumPy; the slots are used; padding and undrawn fragments are not."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.asking import ITEMS, WIDTH, K, N, example, fragments, system
from oracles import losses
from oracles.checking import assert_close, assert_finite, assert_same, float64

from memjax.memories import Slots
from memjax.models.rehearser import Rehearser, sampled_candidates

SAMPLED = pytest.mark.parametrize("negatives", [0, 6])


def slots(seed=0):
    return Slots(jax.random.normal(jax.random.key(seed), (K, WIDTH)), jnp.ones(K, bool))


@functools.cache
def slope(negatives):
    """`(params, slots, fragments) -> (gradients by params and slots, the two losses)`, jitted."""
    model, _ = system()

    def total(params, values, mask, parts):
        kept, key = Slots(values, mask), jax.random.key(4)
        both = model.apply(params, kept, parts, negatives=negatives, key=key, method="rehearse")
        return both[0] + 0.5 * both[1], both

    f = jax.jit(jax.grad(total, argnums=(0, 1), has_aux=True))
    return lambda params, slots, parts: f(params, slots.values, slots.mask, parts)


def outputs(params, slots, items, parts):
    """The rehearser's own outputs, float64, from items as they are."""
    return float64(rehearser()(params, slots, items, parts))


@functools.cache
def rehearser():
    def run(model, slots, items, parts):
        return model.rehearser(slots, model.embed(items), parts.real, parts.hidden)

    return jax.jit(functools.partial(system()[0].apply, method=run))


def test_tied_what_the_decoder_says_is_the_answer_and_otherwise_goes_through_a_matrix():
    _, params = system()
    parts, plain = fragments(example()), params["params"]["rehearser"]
    tied = Rehearser(WIDTH, N, 1, 2, tied=True)
    items = params["params"]["embed"]["embedding"][parts.items]
    own = {name: leaf for name, leaf in plain.items() if name != "recall"}
    said, familiar = float64(tied.apply({"params": own}, slots(), items, parts.real, parts.hidden))
    recalled, judged = outputs(params, slots(), parts.items, parts)
    assert_close(recalled, said @ float64(plain["recall"]["kernel"]) + float64(plain["recall"]["bias"]), 1e-5)
    assert_same(familiar, judged)


@SAMPLED
@pytest.mark.parametrize("drawn", [(True, True, False), (False, True, True), (False, False, False)])
def test_the_losses_are_those_of_numpy_from_the_rehearsers_outputs(negatives, drawn):
    _, params = system()
    parts = fragments(example(), drawn=drawn)
    parts = parts._replace(contrast=parts.contrast & jnp.array([True, False, True]))
    _, (recollection, familiarity) = slope(negatives)(params, slots(), parts)

    recalled, positive = outputs(params, slots(), parts.items, parts)
    _, negative = outputs(params, slots(), parts.negative, parts)
    np.testing.assert_allclose(familiarity, losses.familiarity_loss(positive, negative, parts.contrast), rtol=1e-5)

    table = float64(params["params"]["embed"]["embedding"])
    expected = []
    for f in np.flatnonzero(parts.drawn):
        targets, candidates, valid = np.asarray(parts.items[f]), table, None
        if negatives:
            targets, valid, ids = map(np.asarray, sampled_candidates(jax.random.key(4), parts.items, negatives, ITEMS))
            targets, valid, candidates = targets[f], valid[f], table[ids]
        expected.append(losses.recollection_loss(recalled[f], candidates, targets, parts.hidden[f], valid))
    np.testing.assert_allclose(recollection, np.mean(expected) if expected else 0, rtol=1e-5)


def test_a_hidden_item_does_not_reach_the_rehearser():
    _, params = system()
    parts = fragments(example())
    other = jnp.where(parts.hidden, (parts.items + 1) % ITEMS, parts.items)
    assert_same(outputs(params, slots(), other, parts), outputs(params, slots(), parts.items, parts))
    visible = jnp.where(parts.real & ~parts.hidden, (parts.items + 1) % ITEMS, parts.items)
    changed = outputs(params, slots(), visible, parts)
    assert (changed[1] != outputs(params, slots(), parts.items, parts)[1]).any()


@SAMPLED
def test_the_slots_are_used_and_every_parameter_of_the_rehearser_learns(negatives):
    _, params = system()
    (by_params, by_slots), _ = slope(negatives)(params, slots(), fragments(example()))
    assert_finite(by_params)
    assert (by_slots != 0).any(-1).all()
    for path, gradient in jax.tree.leaves_with_path(by_params["params"]["rehearser"]):
        where = jax.tree_util.keystr(path)
        assert (gradient != 0).any() or where.endswith("['key']['bias']"), where
    assert (by_params["params"]["embed"]["embedding"] != 0).any()


def test_a_masked_slot_is_not_read():
    _, params = system()
    parts, run = fragments(example()), slope(0)
    masked = Slots(slots().values, jnp.array([True, False, True]))
    (_, by_slots), losses_before = run(params, masked, parts)
    np.testing.assert_array_equal((by_slots != 0).any(-1), masked.mask)
    _, losses_after = run(params, masked._replace(values=masked.values.at[1].set(9.0)), parts)
    assert_same(losses_after, losses_before)


@functools.cache
def from_stream(negatives):
    """`(params, stream) -> (gradients, the two losses)` of the example with another stream, jitted."""
    model, _ = system()
    one = example()

    def total(params, stream):
        parts, key = fragments(one | {"stream": stream}), jax.random.key(4)
        kept, _ = model.apply(params, stream, one["mask"], method="memorize")
        both = model.apply(params, kept, parts, negatives=negatives, key=key, method="rehearse")
        return sum(both), both

    return jax.jit(jax.grad(total, has_aux=True))


@SAMPLED
@pytest.mark.parametrize("garbage", [3, -7, 10**6])
def test_what_the_padding_of_a_stream_holds_never_matters(negatives, garbage):
    _, params = system()
    one, run = example(), from_stream(negatives)
    clean = run(params, one["stream"])
    assert not bool(one["mask"].all())
    assert_finite(clean)
    assert_close(run(params, jnp.where(one["mask"], one["stream"], garbage)), clean, 1e-6)


@SAMPLED
def test_a_fragment_that_was_not_drawn_never_matters(negatives):
    _, params = system()
    parts = fragments(example())
    run = slope(negatives)
    clean = run(params, slots(), parts)
    items, negative = parts.items.at[2].set(7), parts.negative.at[2].set(8)
    if not negatives:  # drawn candidates are looked up in place of the true items
        assert_close(run(params, slots(), parts._replace(items=items, negative=negative)), clean, 1e-6)
    hidden = parts.hidden.at[2].set(~parts.hidden[2])
    assert_close(run(params, slots(), parts._replace(hidden=hidden)), clean, 1e-6)
    assert not parts.drawn[2] and not parts.contrast[2]


def test_permuting_the_slots_changes_nothing():
    _, params = system()
    order = jnp.array([2, 0, 1])
    permuted, parts = Slots(slots().values[order], slots().mask), fragments(example())
    assert_close(slope(0)(params, permuted, parts)[1], slope(0)(params, slots(), parts)[1], 1e-5)


@pytest.mark.parametrize("norm_slots", [True, False])
def test_what_all_slots_scaled_and_shifted_do_shows_only_without_norm_slots(norm_slots):
    (made, params), parts = system(norm_slots=norm_slots), fragments(example())

    def recalled(values):
        kept = Slots(values, slots().mask)
        return made.apply(params, kept, parts, negatives=0, key=jax.random.key(0), method="rehearse")[0]

    losses = jax.jit(recalled)
    difference = abs(losses(slots().values) - losses(3 * slots().values + 1))
    assert (difference < 1e-4) == norm_slots


def test_a_drawn_candidate_equal_to_the_true_item_does_not_count():
    items = jnp.array([[0, 1, 2], [1, 1, 0]])
    equal = 0
    for seed in range(20):
        targets, valid, ids = map(np.asarray, sampled_candidates(jax.random.key(seed), items, 5, 3))
        assert ids.shape == (6 + 5,) and valid.shape == (2, 3, 11)
        np.testing.assert_array_equal(ids[targets], items)
        for f, n in np.ndindex(2, 3):
            for place in range(11):
                drawn = place >= 6
                assert valid[f, n, place] == (drawn and ids[place] != items[f, n])
                equal += drawn and ids[place] == items[f, n]
        assert ids[6:].min() >= 0 and ids[6:].max() < 3
    assert equal > 0


def test_drawn_candidates_are_uniform_over_the_vocabulary():
    *_, ids = sampled_candidates(jax.random.key(0), jnp.zeros((1, N), int), 7000, 7)
    counts = np.bincount(np.asarray(ids)[N:], minlength=7)
    assert ((counts - 1000) ** 2 / 1000).sum() < 30  # 6 degrees of freedom
