"""Metrics of rankings: against scikit-learn, against their definitions, and how often an interval holds the truth."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score, roc_auc_score

from memjax.errors import MemjaxError
from memjax.training.ranking_metrics import auc, auc_interval, by_user_interval, hit_rate, mrr, ndcg, ranks

answers = st.lists(
    st.tuples(st.sampled_from([-3.0, -1.5, 0.0, 0.1, 0.25, 7.0, 1e30]), st.booleans(), st.integers(0, 3)), min_size=2
)


@given(answers)
@settings(max_examples=100, derandomize=True, deadline=None)
def test_auc_is_scikit_learns_and_a_count_of_pairs(answers):
    scores, labels, weights = (np.array(column, float) for column in zip(*answers, strict=True))
    assume(0 < labels.sum() < len(labels))
    assert auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    yes, no = scores[labels == 1], scores[labels == 0]
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in yes for b in no]
    assert auc(scores, labels) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
    assert auc(-scores, labels) == pytest.approx(1 - auc(scores, labels), abs=1e-12)
    assume(0 < (labels * weights).sum() < weights.sum())
    assert auc(scores, labels, weights) == pytest.approx(roc_auc_score(labels, scores, sample_weight=weights))
    times = weights.astype(int)  # an answer of weight 2 is as good as two
    assert auc(scores, labels, weights) == pytest.approx(auc(np.repeat(scores, times), np.repeat(labels, times)))


def test_auc_of_many_answers_in_float32():
    random = np.random.default_rng(0)
    labels = random.integers(2, size=100_000)
    scores = (random.normal(size=100_000) + labels / 2).astype(np.float32).round(2)
    assert auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 30))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_ranks_and_their_metrics_are_what_they_are_defined_to_be(seed, users, items):
    random = np.random.default_rng(seed)
    scores = random.integers(5, size=(users, items)).astype(np.float32)  # ties in every row
    left_out, target = random.random((users, items)) < 0.4, random.integers(items, size=users)
    found = ranks(scores, target, left_out)
    for row in range(users):
        others = [i for i in range(items) if i != target[row] and not left_out[row, i]]
        in_order = sorted([*others, target[row]], key=lambda i: (-scores[row, i], i == target[row]))
        assert found[row] == 1 + in_order.index(target[row])
    k = int(random.integers(1, 12))
    assert hit_rate(found, k) == pytest.approx(sum(r <= k for r in found) / users)
    assert ndcg(found, k) == pytest.approx(sum(1 / math.log2(1 + r) for r in found if r <= k) / users)
    assert mrr(found) == pytest.approx(sum(1 / r for r in found) / users)


def test_ndcg_is_scikit_learns_where_there_are_no_ties():
    random = np.random.default_rng(0)
    scores, target = random.normal(size=(50, 30)), random.integers(30, size=50)
    expected = ndcg_score(np.eye(30)[target], scores, k=10)
    assert ndcg(ranks(scores, target, np.zeros((50, 30), bool)), 10) == pytest.approx(expected)


def test_a_model_that_tells_nothing_apart_has_the_last_rank():
    scores, target, none = np.zeros((3, 7)), np.array([0, 3, 6]), np.zeros((3, 7), bool)
    assert ranks(scores, target, none).tolist() == [7, 7, 7]
    assert ranks(np.full((3, 7), np.nan), target, none).tolist() == [7, 7, 7]
    scores[:, 1] = np.nan
    assert ranks(scores + np.eye(7)[target], target, none).tolist() == [2, 2, 2]
    assert ranks(scores, target, ~none).tolist() == [1, 1, 1]  # the target itself is never left out


def test_an_interval_of_a_mean_is_the_normal_one_of_many_users():
    values = np.random.default_rng(0).integers(1, 40, size=4000)
    for metric, each in ((mrr, 1 / values), (lambda found: hit_rate(found, 10), values <= 10)):
        half = 1.959964 * each.std(ddof=1) / math.sqrt(len(values))
        expected = (each.mean() - half, each.mean() + half)
        assert by_user_interval(metric, values) == pytest.approx(expected, abs=half / 5)
    assert by_user_interval(mrr, values) == by_user_interval(mrr, values)
    assert by_user_interval(mrr, values, seed=1) != by_user_interval(mrr, values)


def test_an_interval_of_users_with_several_values_holds_the_truth_as_often_as_it_says():
    random, held = np.random.default_rng(1), {"users": 0, "values": 0}
    owner = np.repeat(np.arange(60), random.integers(1, 20, size=60))
    order = random.permutation(len(owner))
    for _ in range(100):
        values = random.normal(size=60)[owner] + random.normal(size=len(owner)) / 2
        for kind, users in (("users", 7 * owner[order] - 3), ("values", None)):
            low, high = by_user_interval(np.mean, values[order], users, resamples=100)
            held[kind] += low <= 0 <= high
    assert held["users"] / 100 > 0.88 > 0.6 > held["values"] / 100


def world(random, users, answers):
    """Users whose answers share their luck: the AUC of all of them differs from world to world."""
    owner = np.repeat(np.arange(users), answers)
    labels = np.tile(np.arange(answers) % 2, users)
    luck = random.normal(size=users)[owner] * (2 * labels - 1)
    return luck + random.normal(size=len(owner)) / 2 + labels / 2, labels, owner


def test_an_interval_by_user_holds_the_truth_as_often_as_it_says_and_one_by_answers_does_not():
    random = np.random.default_rng(0)
    truth = auc(*world(random, 20_000, 4)[:2])
    held = {"users": 0, "answers": 0}
    for _ in range(100):
        scores, labels, owner = world(random, 60, 20)
        for kind, users in (("users", owner), ("answers", np.arange(len(owner)))):
            low, high = auc_interval(scores, labels, users, resamples=100)
            held[kind] += low <= truth <= high
    assert held["users"] / 100 > 0.88 > 0.6 > held["answers"] / 100


def test_an_interval_draws_a_user_with_all_answers_as_scikit_learn_counts_them():
    random = np.random.default_rng(3)
    scores, labels, owner = world(random, 12, 4)
    owner, order = owner * 7 - 3, random.permutation(len(owner))
    draws, expected = np.random.default_rng(5), []
    for _ in range(50):
        chosen = (draws.random(12) * 12).astype(int) * 7 - 3
        rows = np.concatenate([np.flatnonzero(owner == user) for user in chosen])
        expected.append(roc_auc_score(labels[rows], scores[rows]))
    found = auc_interval(scores[order], labels[order], owner[order], resamples=50, seed=5)
    assert found == pytest.approx(tuple(np.percentile(expected, [2.5, 97.5])), abs=1e-12)


def test_a_draw_of_one_label_is_not_counted():
    scores, labels = np.array([0.2, 0.4, 0.1, 0.9]), np.array([1, 0, 0, 1])
    low, high = auc_interval(scores, labels, np.arange(4))
    assert 0 <= low <= high <= 1


def test_draws_that_do_not_differ_are_no_interval():
    one = np.zeros(2, int)
    assert auc_interval(np.array([0.1, 0.9]), np.array([0, 1]), one) is None
    assert by_user_interval(lambda found: hit_rate(found, 10), np.full(20, 11)) is None
    assert by_user_interval(mrr, np.array([1, 3]), one) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: auc(np.array([np.nan, 1.0]), np.array([0, 1])), "NaN"),
        (lambda: auc(np.array([0.0, 1.0]), np.array([0, 2])), "0 and 1"),
        (lambda: auc(np.array([0.0, 1.0]), np.array([1, 1])), "both labels"),
        (lambda: auc(np.array([0.0, 1.0]), np.array([0, 1]), np.array([0.0, 1.0])), "both labels"),
        (lambda: auc(np.zeros(0), np.zeros(0)), "both labels"),
        (lambda: auc_interval(np.zeros(2), np.zeros(2), np.arange(2)), "both labels"),
        (lambda: mrr(np.array([0, 1])), "ranks begin at 1"),
        (lambda: hit_rate(np.zeros(0, int), 1), "at least one"),
        (lambda: by_user_interval(mrr, np.zeros(0, int)), "at least one user"),
        (lambda: by_user_interval(mrr, np.ones(3, int), resamples=0), "at least one draw, not 0"),
        (lambda: auc_interval(np.arange(2.0), np.arange(2), np.arange(2), resamples=0), "at least one draw, not 0"),
    ],
)
def test_what_cannot_be_is_one_clear_line(call, words):
    with pytest.raises(MemjaxError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("unchecked")
def test_each_value_needs_a_user():
    with pytest.raises(MemjaxError, match="each value needs a user"):
        by_user_interval(mrr, np.ones(3, int), np.zeros(1, int))
    with pytest.raises(MemjaxError, match="each score needs a user"):
        auc_interval(np.arange(2.0), np.arange(2), np.zeros(1, int))
