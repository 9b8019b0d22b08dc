"""For how many independent examples those count that share a stream: intervals that are as wide as they must be.

Slips that were tried: the variance of examples in place of groups'; no quantile of Student's; no bound by the examples.
"""

import numpy as np
import pytest

from memjax import MemjaxError
from memjax.reporting.intervals import wilson_interval
from memjax.training.effective_size import effective_size

# Of .975, from the tables.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 10: 2.228, 30: 2.042, 120: 1.980}


@pytest.mark.parametrize(("degrees", "quantile"), STUDENT.items())
def test_few_groups_count_for_less_by_the_quantile_of_students_distribution(degrees, quantile):
    count = degrees + 1
    right, total = 50.0 + 4 * (-1.0) ** np.arange(count), np.full(count, 100.0)
    share = right.sum() / total.sum()
    variance = count / degrees * ((right - share * total) ** 2).sum() / total.sum() ** 2
    by_normal = share * (1 - share) / variance
    assert by_normal > count  # the bound by the examples is that of all answers here
    examples = np.repeat(right / 100, 100), np.ones(100 * count), np.repeat(np.arange(count), 100)
    assert effective_size(*examples) == pytest.approx(min(by_normal * (1.95996 / quantile) ** 2, 100 * count), rel=1e-3)


def test_independent_examples_count_as_what_they_are():
    rng = np.random.default_rng(0)
    right = rng.random(2000) < 0.8
    assert effective_size(right, np.ones(2000), np.arange(2000)) == pytest.approx(2000, rel=0.01)


def test_examples_that_all_say_the_same_count_as_their_groups_do():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(400), 5)
    right = (rng.random(400) < 0.7)[groups]
    assert effective_size(right, np.ones(2000), groups) == pytest.approx(400, rel=0.02)


def test_examples_never_count_as_more_than_they_are():
    groups = np.repeat(np.arange(200), 2)
    right = np.tile([1, 0], 200)  # of each stream one: the share varies less than by chance
    right[:4] = 1, 1, 0, 0
    assert effective_size(right, np.ones(400), groups) == 400


def test_several_answers_of_an_example_are_one_group():
    right, groups = np.array([1, 0, 1, 1, 0, 0]), np.array([0, 0, 1, 1, 2, 2])
    of_pairs = effective_size(np.array([1, 2, 0]), np.array([2, 2, 2]), np.arange(3))
    assert of_pairs == pytest.approx(effective_size(right, np.ones(6), groups))


@pytest.mark.parametrize("right", [np.zeros(6), np.ones(6)])
def test_where_all_are_right_or_none_each_group_counts_once(right):
    assert effective_size(right, np.ones(6), np.array([0, 0, 0, 1, 1, 2])) == 3


def test_one_group_is_one_example_and_no_answers_are_one_line():
    assert effective_size(np.array([1, 0, 1]), np.ones(3), np.zeros(3, int)) == 1
    with pytest.raises(MemjaxError, match="at least one answer"):
        effective_size(np.zeros(2), np.zeros(2), np.arange(2))


@pytest.mark.parametrize(("streams", "questions"), [(6, 50), (30, 10)])
def test_the_interval_covers_the_truth_as_often_as_it_says(streams, questions):
    """Streams differ in difficulty, so that taking all questions to be independent covers it in 38 or 72%."""
    rng, covered, naive = np.random.default_rng(2), 0, 0
    groups, truth = np.repeat(np.arange(streams), questions), 2 / 2.5
    for _ in range(1000):
        right = rng.random(streams * questions) < rng.beta(2, 0.5, streams)[groups]
        size = effective_size(right, np.ones(len(right)), groups)
        low, high = wilson_interval(right.mean() * size, size)
        covered += low <= truth <= high
        low, high = wilson_interval(float(right.sum()), len(right))
        naive += low <= truth <= high
    assert naive < 750
    assert 925 < covered < 975
