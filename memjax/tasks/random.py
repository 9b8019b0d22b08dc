"""Random numbers as a function of (seed, index): any example can be made alone, and a whole batch at once.

NumPy's generators are sequential per seed; making one for each example would cost more than the example. This is
counter-based instead: SplitMix64's mixing function (Steele, Lea and Flood 2014) over the counter.
"""

import numpy as np

from memjax.errors import require
from memjax.typing import SPLITS, Split

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(x: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser, elementwise on uint64: a bijection that spreads every bit."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))  # arithmetic turns an array of no axes into a scalar


def uniform(key: np.ndarray, count: int) -> np.ndarray:
    """Floats in [0, 1), `[B, count]`, from keys `[B]` uint64.

    >>> import numpy as np
    >>> keys = fold(np.uint64(0), np.arange(3))
    >>> bool((uniform(keys, 5)[1] == uniform(keys[1:2], 5)[0]).all())
    True
    """
    with np.errstate(over="ignore"):
        counters = key[:, None] + _GOLDEN * np.arange(1, count + 1, dtype=np.uint64)
    return (mix(counters) >> np.uint64(11)) * 2.0**-53


def check_seed(seed: int) -> None:
    """Raises `MemjaxError` for a seed that no key can be made of."""
    require(0 <= seed < 2**64, f"seed must be in [0, 2**64), not {seed}")


def example_keys(seed: int, task: int, split: Split, indices: np.ndarray) -> np.ndarray:
    """A key for each of these examples of a split; task: a number of the task, beside the seed."""
    return fold(fold(fold(np.uint64(seed), task), SPLITS.index(split)), indices)


def fold(key: np.ndarray | np.uint64, value: np.ndarray | int) -> np.ndarray:
    """A new key from a key and an integer, elementwise."""
    with np.errstate(over="ignore"):
        return mix(np.asarray(np.asarray(key, np.uint64) * _GOLDEN + np.asarray(value, np.uint64) + np.uint64(1)))
