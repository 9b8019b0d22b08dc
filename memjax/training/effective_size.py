"""For how many independent examples examples count that share a stream."""

import math

import numpy as np

from memjax.errors import require
from memjax.typing import Int, Shaped

Z = 1.959963984540054  # of a standard normal variable, 95% lie within ± this


def effective_size(
    correct: Shaped[np.ndarray, "E"], total: Shaped[np.ndarray, "E"], groups: Int[np.ndarray, "E"]
) -> float:
    """How many independent examples would leave a share of right answers as uncertain as these do.

    `n = p (1 - p) / v`, with p the share and `v = G / (G - 1) sum_g (c_g - p t_g)^2 / (sum_g t_g)^2` its variance over
    G groups of c_g right answers of t_g; times `(1.96 / t)^2`, with t the quantile of Student's distribution of G - 1
    degrees of freedom; at most the number of examples. Source: Korn and Graubard 1998, section 2. Where all answers are
    right, or none, each group counts once.

    Args:
        correct: right answers of each example, or a sum of shares.
        total: answers of each example.
        groups: examples with the same number share a stream.

    Raises:
        MemjaxError: for no answers.

    >>> right, one = np.array([1, 1, 0, 0, 1, 1, 0, 1]), np.ones(8)
    >>> alone, by_two = np.arange(8), np.arange(8) // 2
    >>> effective_size(right, one, by_two) < effective_size(right, one, alone) <= 8
    True
    """
    _, place = np.unique(groups, return_inverse=True)
    c, t = np.bincount(place, correct), np.bincount(place, total)
    require(t.sum() > 0, "a share needs at least one answer")
    count, share = len(t), c.sum() / t.sum()
    variance = count / max(count - 1, 1) * ((c - share * t) ** 2).sum() / t.sum() ** 2
    if count == 1 or not 0 < share < 1 or not variance > 0:
        return float(count)
    size = share * (1 - share) / variance * (Z / _student(count - 1)) ** 2
    return float(min(max(size, 1.0), len(groups)))


def _student(degrees: int) -> float:
    """The quantile of .975 of Student's distribution: of 1 and 2 degrees by its closed form, else by Cornish and
    Fisher's expansion (Abramowitz and Stegun, 26.7.5), right to a part in a thousand.
    """
    if degrees <= 2:
        return math.tan(0.475 * math.pi) if degrees == 1 else 0.95 / math.sqrt(2 * 0.975 * 0.025)
    terms = (
        (Z**3 + Z) / 4,
        (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
        (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
        (79 * Z**9 + 776 * Z**7 + 1482 * Z**5 - 1920 * Z**3 - 945 * Z) / 92160,
    )
    return Z + sum(term / degrees ** (power + 1) for power, term in enumerate(terms))
