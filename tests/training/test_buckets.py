"""Buckets: the best borders there are, and an order in which every example comes as often as any other.

Slips that were tried: the shortest bucket without its first length; a remainder that is dropped at the end of a
stretch; every epoch in the order of the first; batches that are not shuffled.
"""

import itertools

import numpy as np
import pytest

from memjax.training import buckets
from memjax.training.buckets import bucket_borders, padded_length, sorted_by_bucket, stretch_batches, stretch_of

LENGTHS = np.random.default_rng(0).integers(1, 30, 103)


def padded_sum(lengths, borders):
    return sum(min(border for border in borders if length <= border) for length in lengths.tolist())


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_borders_are_the_best_of_all_that_there_are(seed, count):
    lengths = np.random.default_rng(seed).geometric(0.2, 60)
    found = bucket_borders(lengths, count)
    occurring = np.unique(lengths).tolist()
    sums = [
        padded_sum(lengths, (*chosen, occurring[-1])) for chosen in itertools.combinations(occurring[:-1], count - 1)
    ]
    assert padded_sum(lengths, found) == min(sums)
    assert len(found) == count and list(found) == sorted(found) and found[-1] == lengths.max()


def test_there_are_no_more_buckets_than_lengths():
    assert bucket_borders(np.array([4, 4, 2, 7]), 100) == (2, 4, 7)
    assert bucket_borders(np.array([5, 5]), 3) == (5,)


def test_long_streams_are_rounded_up_and_cost_little_more():
    lengths = np.random.default_rng(1).geometric(1e-3, 3000)
    found = bucket_borders(lengths, 4)
    assert len(found) == 4 and found[-1] == lengths.max()
    exact = np.quantile(lengths, [0.3, 0.6, 0.85, 1], method="higher").tolist()  # any borders: ours are no worse
    assert padded_sum(lengths, found) <= padded_sum(lengths, exact)


def test_a_batch_is_padded_to_the_first_border_that_holds_it():
    assert [padded_length((3, 8), longest) for longest in (1, 3, 4, 8, 9)] == [3, 3, 8, 8, 16]
    assert padded_length((3, 8), 33) == 64  # longer than any of train: few shapes, and no more than twice as long


def test_in_a_bucket_the_order_stays():
    lengths = np.array([8, 1, 5, 3, 9, 2])
    assert sorted_by_bucket(lengths, (3, 8)).tolist() == [1, 3, 5, 0, 2, 4]


@pytest.mark.parametrize(("size", "batch_size", "stretch"), [(103, 8, 512), (103, 8, 5), (5, 8, 512), (64, 8, 4)])
def test_every_example_comes_as_often_as_any_other(monkeypatch, size, batch_size, stretch):
    monkeypatch.setattr(buckets, "STRETCH", stretch)
    lengths = LENGTHS[:size]
    seen = np.zeros(size, int)
    for number in range(40):
        batches = stretch_batches(lengths, (4, 12, 29), batch_size, 0, number)
        assert batches.shape == (stretch_of(size, batch_size), batch_size)
        np.add.at(seen, batches.reshape(-1), 1)
        assert seen.max() - seen.min() <= 1
    assert seen.sum() == 40 * stretch_of(size, batch_size) * batch_size


def test_batches_are_of_one_bucket_but_for_one_at_each_border():
    borders = (4, 12, 29)
    for number in range(5):
        place = np.searchsorted(borders, LENGTHS[stretch_batches(LENGTHS, borders, 4, 0, number)])
        assert (place.min(1) != place.max(1)).sum() < len(borders)
        assert (place.max(1)[1:] < place.max(1)[:-1]).any()  # no longer sorted


def test_every_stretch_and_every_seed_has_an_order_of_its_own():
    orders = [stretch_batches(LENGTHS, (4, 12, 29), 4, seed, number) for seed in (0, 1) for number in range(3)]
    assert len({order.tobytes() for order in orders}) == 6
    assert len({np.sort(order, 1)[np.argsort(order.min(1))].tobytes() for order in orders}) == 6
    again = stretch_batches(LENGTHS, (4, 12, 29), 4, 1, 2)
    np.testing.assert_array_equal(again, orders[-1])
