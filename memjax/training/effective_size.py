"""For how many independent examples examples count that share a stream."""

import numpy as np
from scipy.special import ndtri, stdtrit

from memjax.errors import require
from memjax.typing import Int, Shaped

END = 0.975  # quantile at which an interval of 95% ends


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
    size = share * (1 - share) / variance * (ndtri(END) / stdtrit(count - 1, END)) ** 2
    return float(min(max(size, 1.0), len(groups)))
