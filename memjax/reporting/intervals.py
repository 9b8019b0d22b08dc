"""How sure a share is that was counted over so many examples: Wilson's interval."""

import math

import numpy as np

from memjax.errors import require

Z = 1.959963984540054  # of a standard normal variable, 95% lie within ± this


def wilson_interval(correct: int | float, total: int | float) -> tuple[float, float]:
    """The 95% interval (low, high) of a share `correct / total`, both ends in [0, 1].

    (p + z²/2n ± z sqrt(p (1 - p)/n + z²/4n²)) / (1 + z²/n), with p the share, n the total and z = 1.96
    (Wilson 1927; Brown, Cai and DasGupta 2001, eq. 4).

    Args:
        correct: how many are right, or a sum of shares in [0, 1], for which it is at least as wide as it must be.
        total: how many independent examples, at least 1.

    Raises:
        MemjaxError: for counts that cannot be.

    >>> low, high = wilson_interval(50, 100)
    >>> print(f"{low:.3f} {high:.3f}")
    0.404 0.596
    """
    possible = total >= 1 and 0 <= correct <= total < math.inf
    require(possible, f"{correct!r} of {total!r} is no share; give counts, the second at least 1")
    p, n, z2 = correct / total, total, Z * Z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    # Rounding may put an end a hair inside a share of 0 or 1, or outside of both.
    return max(0.0, min(middle - half, p)), min(1.0, max(middle + half, p))


def share_intervals(shares: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """Wilson's intervals of shares among so many examples, `[n], [n] -> [2, n]`; the share itself where one of the two
    is not known or cannot be.
    """
    found = [
        wilson_interval(share * n, n) if 0 <= share <= 1 and 1 <= n < math.inf else (share, share)
        for share, n in zip(shares, examples, strict=True)
    ]
    return np.array(found, np.float64).reshape(-1, 2).T
