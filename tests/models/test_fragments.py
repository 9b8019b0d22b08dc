"""Fragments: what is hidden, what is replaced and by what, and how they are drawn."""

import collections
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.models.fragments import build_fragments, choose, draw_anywhere, draw_fragments, replacements

T, N, F, PADDING = 5, 8, 4, 77
DRAWS = 20_000


def streams(seed):
    """(stream, mask) of T segments; the last one is cut short, and what lies in the padding is `PADDING`."""
    rng = np.random.default_rng(seed)
    length = int(rng.integers((T - 1) * N + 1, T * N + 1))
    mask = (np.arange(T * N) < length).reshape(T, N)
    return np.where(mask, rng.integers(0, 30, (T, N)), PADDING).astype(np.int32), mask


@functools.cache
def builder(ratio):
    build = functools.partial(build_fragments, mask_ratio=ratio)
    return jax.jit(jax.vmap(build))


@functools.cache
def built(ratio, count=100):
    """Many streams, each with the fragments of its own key: `(streams, masks, others, chosen, Fragments)`."""
    own, other = ([streams(2 * i + j) for i in range(count)] for j in range(2))
    (stream, mask), (others, other_masks) = (map(np.stack, zip(*pairs, strict=True)) for pairs in (own, other))
    chosen = np.stack([np.random.default_rng(i).permutation(T)[:F] for i in range(count)])
    chosen[:, -1] = T - 1  # the segment that is cut short is always among them
    drawn = np.ones((count, F), bool)
    keys = jax.random.split(jax.random.key(1), count)
    fragments = builder(ratio)(keys, stream, mask, others, other_masks, chosen, drawn)
    return stream, mask, (others, other_masks), chosen, jax.tree.map(np.asarray, fragments)


def rounded(x):
    return int(np.floor(x + 0.5))


@pytest.mark.parametrize("ratio", [0.15, 0.5, 0.9])
def test_the_share_of_real_items_that_is_hidden_is_exact_and_at_least_one(ratio):
    _, mask, _, chosen, fragments = built(ratio)
    for i, f in np.ndindex(fragments.drawn.shape):
        real = mask[i, chosen[i, f]]
        np.testing.assert_array_equal(fragments.real[i, f], real)
        assert not (fragments.hidden[i, f] & ~real).any()
        assert fragments.hidden[i, f].sum() == max(1, rounded(ratio * real.sum()))


@pytest.mark.parametrize("ratio", [0.15, 0.5])
def test_half_of_the_visible_items_are_replaced_by_real_items_of_the_other_stream(ratio):
    stream, _, (others, other_masks), chosen, fragments = built(ratio)
    for i, f in np.ndindex(fragments.drawn.shape):
        items, negative = fragments.items[i, f], fragments.negative[i, f]
        visible = fragments.real[i, f] & ~fragments.hidden[i, f]
        np.testing.assert_array_equal(items[fragments.real[i, f]], stream[i, chosen[i, f]][fragments.real[i, f]])
        changed = items != negative
        assert not (changed & ~visible).any()
        assert changed.sum() == (max(1, rounded(visible.sum() / 2)) if visible.any() else 0)
        assert set(negative[changed]) <= set(others[i][other_masks[i]])
        assert PADDING not in negative[changed]
        assert fragments.contrast[i, f] == changed.any()


def test_half_hidden_and_half_of_the_rest_replaced_is_a_quarter_changed():
    *_, fragments = built(0.5)
    changed = (fragments.items != fragments.negative).sum() / fragments.real.sum()
    assert abs(changed - 0.25) < 0.02


def test_every_place_is_equally_likely_to_be_hidden_and_replaced():
    keys = jax.random.split(jax.random.key(0), 8000)
    stream, other = jnp.arange(T * N).reshape(T, N), jnp.full((T, N), 1000)
    full = jnp.ones((T, N), bool)
    arguments = (stream, full, other, full, jnp.zeros(1, int), jnp.ones(1, bool))
    fragments = builder(0.5)(keys, *(jnp.broadcast_to(x, (8000, *x.shape)) for x in arguments))
    hidden = np.asarray(fragments.hidden[:, 0]).mean(0)
    replaced = np.asarray(fragments.negative != fragments.items)[:, 0].mean(0)
    assert np.abs(hidden - 0.5).max() < 4 * np.sqrt(0.25 / 8000)
    assert np.abs(replaced - 0.25).max() < 4 * np.sqrt(0.1875 / 8000)


def test_a_replacement_is_uniform_over_the_other_streams_real_items_that_differ():
    other = jnp.array([[3, 5, 5, 7], [9, 3, 0, 0]])
    mask = jnp.array([[True, True, True, True], [True, True, False, False]])
    draw = jax.jit(jax.vmap(replacements, (0, None, None, None)))
    keys = jax.random.split(jax.random.key(0), 8000)
    ids, possible = map(np.asarray, draw(keys, jnp.array([[3, 4, 4, 4]]), other, mask))
    assert possible.all()
    for column, share in enumerate(({5: 2 / 4, 7: 1 / 4, 9: 1 / 4}, {3: 2 / 6, 5: 2 / 6, 7: 1 / 6, 9: 1 / 6})):
        counts = collections.Counter(ids[:, 0, column].tolist())
        assert set(counts) == set(share)
        assert all(abs(counts[item] / 8000 - p) < 4 * np.sqrt(p * (1 - p) / 8000) for item, p in share.items())


def test_another_stream_of_the_very_same_item_gives_no_contrast():
    stream, mask = np.full((T, N), 4, np.int32), np.ones((T, N), bool)
    arguments = (stream, mask, stream, mask, np.arange(F), np.ones(F, bool))
    fragments = builder(0.5)(jax.random.split(jax.random.key(0), 3), *(np.stack([x] * 3) for x in arguments))
    np.testing.assert_array_equal(fragments.negative, fragments.items)
    assert not fragments.contrast.any()


def test_a_fragment_of_one_item_is_hidden_whole_and_gives_no_contrast():
    stream, mask = np.arange(T * N, dtype=np.int32).reshape(T, N), np.ones((T, N), bool)
    mask[0, 1:] = False
    arguments = (stream, mask, stream, mask, np.arange(F), np.ones(F, bool))
    fragments = builder(0.5)(jax.random.split(jax.random.key(0), 2), *(np.stack([x] * 2) for x in arguments))
    assert fragments.hidden[:, 0].sum() == 2 and fragments.hidden[:, 0, 0].all()
    np.testing.assert_array_equal(fragments.contrast, [[False, True, True, True]] * 2)


def test_a_fragment_that_was_not_drawn_gives_no_contrast():
    stream, mask = streams(0)
    arguments = (stream, mask, *streams(1), np.arange(F), np.array([True, False, True, False]))
    fragments = builder(0.5)(jax.random.split(jax.random.key(0), 2), *(np.stack([x] * 2) for x in arguments))
    np.testing.assert_array_equal(fragments.contrast, [[True, False, True, False]] * 2)


def test_nothing_is_chosen_where_there_is_nothing():
    among = jnp.zeros((2, N), bool)
    assert not choose(jax.random.key(0), among, 0.5).any()


# Drawing segments.


@functools.cache
def drawer(count, deterministic=False):
    draw = functools.partial(draw_fragments, count=count, deterministic=deterministic)
    return jax.jit(jax.vmap(draw, (0, None, None)))


def segments(real):
    """A mask [T, N] with the given segments real, the first of them only in part."""
    mask = np.zeros((len(real), N), bool)
    mask[np.array(real, bool), :3] = True
    return jnp.asarray(mask)


def halves(real):
    places = np.flatnonzero(real)
    return places[: len(places) // 2].tolist(), places[len(places) // 2 :].tolist()


def gumbel_top_k(logits, k):
    """Probability of every ordered choice of k: one after another, by softmax over those that are left."""
    weight = np.exp(np.asarray(logits, np.float64))
    result = {}
    for order in itertools.permutations(range(len(weight)), k):
        p, left = 1.0, weight.sum()
        for i in order:
            p, left = p * weight[i] / left, left - weight[i]
        result[order] = p
    return result


def chi_square(outcomes, expected):
    counts = collections.Counter(outcomes)
    assert set(counts) <= set(expected)
    return sum((counts[o] - len(outcomes) * p) ** 2 / (len(outcomes) * p) for o, p in expected.items())


def draws(count, scores, real, number=DRAWS, **options):
    keys = jax.random.split(jax.random.key(3), number)
    return map(np.asarray, drawer(count, **options)(keys, jnp.asarray(scores, jnp.float32), segments(real)))


def test_drawing_is_gumbel_top_k_in_each_half():
    real = [1, 1, 0, 1, 1, 1, 1, 0]  # 6 real segments, padding in between and behind
    scores = [0.5, -1.0, 30.0, 1.0, 0.0, 2.0, 1.0, 30.0]
    chosen, drawn = draws(4, scores, real)
    assert drawn.all()
    first, second = halves(real)
    expected = {}
    for (a, p), (b, q) in itertools.product(
        gumbel_top_k(np.take(scores, first), 2).items(), gumbel_top_k(np.take(scores, second), 2).items()
    ):
        expected[tuple(first[i] for i in a) + tuple(second[i] for i in b)] = p * q
    assert len(expected) == 36 and abs(sum(expected.values()) - 1) < 1e-12
    # 35 degrees of freedom: above 80 once in 40,000 seeds.
    assert chi_square(list(map(tuple, chosen.tolist())), expected) < 80


@pytest.mark.parametrize(
    "real", [[1] * 6, [1] * 5 + [0], [1, 0, 1, 1, 0, 1, 0], [1, 1], [0, 0, 1], [1, 1, 1, 0, 0, 0, 0]]
)
@pytest.mark.parametrize("deterministic", [False, True])
def test_half_of_the_draws_come_from_each_half_of_what_is_real_and_no_segment_twice(real, deterministic):
    scores = np.random.default_rng(0).normal(size=len(real))
    first, second = halves(real)
    chosen, drawn = draws(4, scores, real, 200, deterministic=deterministic)
    assert chosen.shape == drawn.shape == (200, 4)
    np.testing.assert_array_equal(
        drawn, [[i < len(first) for i in range(2)] + [i < len(second) for i in range(2)]] * 200
    )
    for indices, kept in zip(chosen, drawn, strict=True):
        assert ((indices >= 0) & (indices < len(real))).all()
        for half, picked in ((first, indices[:2][kept[:2]]), (second, indices[2:][kept[2:]])):
            assert set(picked) <= set(half) and len(set(picked)) == len(picked)
            if deterministic:
                assert picked.tolist() == sorted(half, key=lambda i: -scores[i])[: len(picked)]


def test_more_fragments_than_segments_are_marked_as_not_there():
    chosen, drawn = draws(8, [0.0, 1.0, 2.0], [1, 1, 1], 50)
    assert chosen.shape == (50, 8)
    np.testing.assert_array_equal(drawn, [[1, 0, 0, 0, 1, 1, 0, 0]] * 50)
    assert (chosen[:, 0] == 0).all() and (np.sort(chosen[:, 4:6]) == [1, 2]).all()


def test_drawing_anywhere_is_uniform_over_what_is_real():
    real = [1, 0, 1, 1, 1, 0, 1]
    draw = jax.jit(jax.vmap(functools.partial(draw_anywhere, count=2), (0, None)))
    chosen, drawn = map(np.asarray, draw(jax.random.split(jax.random.key(4), DRAWS), segments(real)))
    assert drawn.all()
    pairs = list(itertools.permutations(np.flatnonzero(real).tolist(), 2))
    # 19 degrees of freedom: above 55 once in 40,000 seeds.
    assert chi_square(list(map(tuple, chosen.tolist())), dict.fromkeys(pairs, 1 / 20)) < 55


@pytest.mark.parametrize(("count", "real"), [(5, [1, 0, 1, 1]), (5, [1] * 7), (2, [0, 0, 1])])
def test_drawing_anywhere_draws_each_segment_once_and_marks_what_is_missing(count, real):
    draw = jax.vmap(functools.partial(draw_anywhere, count=count), (0, None))
    chosen, drawn = map(np.asarray, draw(jax.random.split(jax.random.key(4), 50), segments(real)))
    assert chosen.shape == drawn.shape == (50, count)
    assert (drawn.sum(1) == min(count, sum(real))).all()
    for indices, kept in zip(chosen, drawn, strict=True):
        assert set(indices[kept]) <= set(np.flatnonzero(real)) and len(set(indices[kept])) == kept.sum()
