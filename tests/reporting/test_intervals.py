import math

import numpy as np
import pytest

from memjax.errors import MemjaxError
from memjax.reporting.intervals import share_intervals, wilson_interval


@pytest.mark.parametrize(
    ("correct", "total", "low", "high"),
    # Brown, Cai and DasGupta 2001, and R's prop.test(correct = FALSE).
    [(50, 100, 0.4038, 0.5962), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_known_intervals(correct, total, low, high):
    assert wilson_interval(correct, total) == pytest.approx((low, high), abs=1e-4)


def test_the_interval_holds_the_true_share_as_often_as_it_says():
    """In the mean over true shares: Wilson's interval is close to 95% on average, and not above it everywhere."""
    n, shares = 50, np.linspace(0.02, 0.98, 97)
    counts = np.arange(n + 1)
    ends = np.array([wilson_interval(int(k), n) for k in counts])
    choose = np.array([math.comb(n, int(k)) for k in counts], np.float64)
    chance = choose * shares[:, None] ** counts * (1 - shares[:, None]) ** (n - counts)
    held = (ends[:, 0] <= shares[:, None]) & (shares[:, None] <= ends[:, 1])
    assert (chance * held).sum(1).mean() == pytest.approx(0.95, abs=0.005)


@pytest.mark.parametrize("counts", [(1, 0), (-1, 10), (11, 10), (math.nan, 10), (1, math.nan), (1, math.inf)])
def test_counts_that_cannot_be_are_one_clear_line(counts):
    with pytest.raises(MemjaxError, match="is no share"):
        wilson_interval(*counts)


def test_shares_whose_examples_are_unknown_are_their_own_interval():
    low, high = share_intervals(np.array([0.5, 0.7, math.nan, 0.3, 2]), np.array([100, math.nan, 10, 0, 10]))
    np.testing.assert_allclose(low, [0.4038, 0.7, math.nan, 0.3, 2.0], atol=1e-4)
    np.testing.assert_allclose(high, [0.5962, 0.7, math.nan, 0.3, 2.0], atol=1e-4)
