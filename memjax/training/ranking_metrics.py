"""How well answers are ordered: AUC of yes and no, ranks among all items, HR, NDCG and MRR; intervals by user."""

from collections.abc import Callable

import numpy as np

from memjax.errors import require
from memjax.typing import Bool, Float, Int, Shaped

RESAMPLES = 1000  # of a bootstrap: an end of the interval then is a mean over some 25 of them
LEVEL = (2.5, 97.5)


def auc(
    scores: Shaped[np.ndarray, "A"], labels: Shaped[np.ndarray, "A"], weights: Shaped[np.ndarray, "A"] | None = None
) -> float:
    """The area under the ROC curve: how often a yes has a higher score than a no, where equal ones count half.

    sum_ij w_i w_j ([s_i > s_j] + [s_i = s_j] / 2) / sum_ij w_i w_j, over the pairs of a yes i and a no j (Hanley and
    McNeil 1982); by ranks, in O(A log A).

    Args:
        scores: of the answers, of any size.
        labels: 1 for yes, 0 for no.
        weights: of the answers, at least 0; 1 each if left out.

    Raises:
        MemjaxError: for scores that are NaN, for other labels, and if all answers with a weight have the same label.

    >>> auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1]))
    0.875
    """
    places, yes = _places(scores, labels)
    area = _area(places, yes, np.ones(len(yes)) if weights is None else np.asarray(weights, np.float64))
    require(not np.isnan(area), "an AUC needs answers of both labels, yes and no")
    return area


def auc_interval(
    scores: Shaped[np.ndarray, "A"],
    labels: Shaped[np.ndarray, "A"],
    users: Int[np.ndarray, "A"],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float] | None:
    """The 95% interval (low, high) of an AUC: a bootstrap over users, each drawn with all of its answers.

    Answers of one user are not independent, and an interval that takes them to be is too narrow. Percentiles (Efron
    and Tibshirani 1993, 13.3); a draw whose answers all have one label is not counted. None where draws do not differ,
    as of a single user: they say nothing then of how sure the AUC is.

    Args:
        scores: as `auc` takes them.
        labels: as `auc` takes them.
        users: of each answer, any whole number.
        resamples: how many draws.
        seed: of the draws.

    Raises:
        MemjaxError: as `auc`, and for another number of users.

    >>> scores, labels = np.array([0.1, 0.9, 0.4, 0.3, 0.2, 0.8]), np.array([0, 1, 0, 1, 0, 1])
    >>> low, high = auc_interval(scores, labels, np.array([0, 0, 1, 1, 2, 2]))
    >>> low < auc(scores, labels) <= high
    True
    """
    auc(scores, labels)
    places, yes = _places(scores, labels)
    require(np.shape(users) == np.shape(scores), "each score needs a user")
    known, owner = np.unique(users, return_inverse=True)
    draws = _draws(len(known), resamples, seed)
    return _percentiles([_area(places, yes, np.bincount(draw, minlength=len(known))[owner]) for draw in draws])


def ranks(
    scores: Float[np.ndarray, "B V"], target: Int[np.ndarray, "B"], left_out: Bool[np.ndarray, "B V"]
) -> Int[np.ndarray, "B"]:
    """The target's rank among all items that are not left out, from 1.

    1 + how many other items have a score that is not lower: an item of equal score stands before the target, and so
    does one whose score is NaN, so that a model that tells nothing apart has the last rank and not the first.

    Args:
        scores: of each item.
        target: ids; a target takes part whatever `left_out` says of it.
        left_out: what does not take part, as what the user has had already.

    Returns:
        `[B]`, from 1 to V.

    >>> scores = np.array([[0.1, 0.9, 0.5, 0.5]])
    >>> none = np.zeros((1, 4), bool)
    >>> ranks(scores, np.array([2]), none), ranks(scores, np.array([2]), np.array([[False, True, False, False]]))
    (array([3]), array([2]))
    """
    own = target[:, None]
    before = ~(scores < np.take_along_axis(scores, own, axis=1)) & ~left_out
    np.put_along_axis(before, own, False, axis=1)
    return 1 + before.sum(axis=1)


def hit_rate(ranks: Int[np.ndarray, "B"], k: int) -> float:
    """HR@k, also called R@k: the share of targets among the first k.

    Args:
        ranks: of the targets, from 1; at least one.
        k: how many places count.

    Raises:
        MemjaxError: for no ranks, and for one below 1.

    >>> hit_rate(np.array([1, 3, 11]), 10) == 2 / 3
    True
    """
    return float((_checked(ranks) <= k).mean())


def ndcg(ranks: Int[np.ndarray, "B"], k: int) -> float:
    """NDCG@k with one target: the mean of 1 / log2(1 + rank), 0 for a rank beyond k (Järvelin and Kekäläinen 2002).

    Args:
        ranks: of the targets, from 1; at least one.
        k: how many places count.

    Raises:
        MemjaxError: for no ranks, and for one below 1.

    >>> ndcg(np.array([1, 3, 11]), 10)
    0.5
    """
    return float(np.where(_checked(ranks) <= k, 1 / np.log2(1.0 + ranks), 0.0).mean())


def mrr(ranks: Int[np.ndarray, "B"]) -> float:
    """The mean reciprocal rank, mean of 1 / rank.

    Args:
        ranks: of the targets, from 1; at least one.

    Raises:
        MemjaxError: for no ranks, and for one below 1.

    >>> mrr(np.array([1, 2, 4])) == 7 / 12
    True
    """
    return float((1.0 / _checked(ranks)).mean())


def by_user_interval(
    metric: Callable[[np.ndarray], float],
    values: Shaped[np.ndarray, "A"],
    users: Int[np.ndarray, "A"] | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float] | None:
    """The 95% interval (low, high) of a metric of values: a bootstrap over users, each drawn with all of its values, by
    percentiles, as `auc_interval`; None where draws do not differ.

    Args:
        metric: of the values, in any order.
        values: as the rank of each target; at least one.
        users: of each value, any whole number; without it each value has its own.
        resamples: how many draws.
        seed: of the draws.

    Raises:
        MemjaxError: for no values, and for another number of users.

    >>> low, high = by_user_interval(lambda ranks: hit_rate(ranks, 10), np.array([1, 3, 11, 2, 40, 7]))
    >>> bool(0 <= low < 4 / 6 < high <= 1)
    True
    """
    require(len(values), "an interval needs at least one user")
    users = np.arange(len(values)) if users is None else users
    require(len(users) == len(values), "each value needs a user")
    known, owner = np.unique(users, return_inverse=True)
    times = (np.bincount(draw, minlength=len(known))[owner] for draw in _draws(len(known), resamples, seed))
    return _percentiles([metric(values.repeat(often)) for often in times])


def _checked(ranks: np.ndarray) -> np.ndarray:
    require(ranks.size and ranks.min() >= 1, "a metric of ranks needs at least one, and ranks begin at 1")
    return ranks


def _places(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of each score among those that occur, and whether its answer is yes."""
    require(not np.isnan(scores).any(), "scores are NaN; an AUC needs numbers")
    require(np.isin(labels, (0, 1)).all(), "labels of an AUC must be 0 and 1")
    return np.unique(scores, return_inverse=True)[1], labels == 1


def _area(places: np.ndarray, yes: np.ndarray, weights: np.ndarray) -> float:
    """The AUC, in one pass over places; NaN if one of the labels has no weight."""
    size = int(places.max(initial=0)) + 1
    of_yes = np.bincount(places, np.where(yes, weights, 0), size)
    of_no = np.bincount(places, np.where(yes, 0, weights), size)
    pairs = of_yes.sum() * of_no.sum()
    return float((of_yes * (of_no.cumsum() - of_no / 2)).sum() / pairs) if pairs > 0 else np.nan


def _draws(users: int, resamples: int, seed: int) -> list[np.ndarray]:
    """Of each draw, so many users with replacement."""
    require(resamples >= 1, f"an interval needs at least one draw, not {resamples}")
    random = np.random.default_rng(seed)
    # Of a generator's methods random() is the one that gives the same numbers in every version of NumPy.
    return [(random.random(users) * users).astype(np.int64) for _ in range(resamples)]


def _percentiles(values: list[float]) -> tuple[float, float] | None:
    low, high = np.nanpercentile(values, LEVEL)
    return (float(low), float(high)) if low < high else None
