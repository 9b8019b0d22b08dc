"""Buckets: examples of like length share a batch, so that little of it is padding, and there are only a few shapes.

All of it is a function of the lengths, the seed and numbers: no process has to ask another what comes next, and a run
that is resumed goes on at any step.
"""

import numpy as np

from memjax.typing import Int

STRETCH = 512  # batches that are filled together: the longer, the fewer have examples of two buckets
CANDIDATES = 256  # for a border; choosing among n takes n squared


def bucket_borders(lengths: Int[np.ndarray, "E"], count: int) -> tuple[int, ...]:
    """The lengths that buckets are padded to, chosen so that the sum of all padded lengths is the least there is.

    By dynamic programming over the lengths that occur: the best b buckets for the shortest j lengths are the best b - 1
    for the shortest i, and one more for those between. Of streams longer than 256, lengths are rounded up first.

    Args:
        lengths: of all examples, each at least 1.
        count: how many buckets, at least 1; there are fewer where fewer lengths occur.

    Returns:
        Rising; the last one is the longest length.

    >>> bucket_borders(np.array([2, 2, 2, 3, 9, 10]), 2)
    (3, 10)
    """
    longest = int(lengths.max())
    grid = -(-longest // CANDIDATES)
    ends, counts = np.unique(np.minimum(-(-lengths // grid) * grid, longest), return_counts=True)
    shorter, lengths_to = np.append(0, counts.cumsum()), np.append(0, ends)
    # padded[i, j]: what one bucket for the lengths from i to j adds up to.
    padded = (shorter - shorter[:, None]) * lengths_to.astype(float)
    padded[np.tril_indices(len(padded))] = np.inf
    least, begins = padded[0], []
    for _ in range(min(count, len(ends)) - 1):
        sums = least[:, None] + padded
        begins.append(sums.argmin(0))
        least = sums.min(0)
    places = [len(ends)]
    for begin in reversed(begins):
        places.append(int(begin[places[-1]]))
    return tuple(int(ends[place - 1]) for place in reversed(places))


def padded_length(borders: tuple[int, ...], longest: int) -> int:
    """What a batch is padded to: the first border that its longest example does not pass.

    Of a split whose examples are longer than those of train, the last border is doubled until it does not.

    >>> padded_length((3, 10), 4), padded_length((3, 10), 11), padded_length((3, 10), 30)
    (10, 20, 40)
    """
    border = next((border for border in borders if longest <= border), borders[-1])
    while border < longest:
        border *= 2
    return border


def sorted_by_bucket(lengths: Int[np.ndarray, "E"], borders: tuple[int, ...]) -> Int[np.ndarray, "E"]:
    """The places of examples, those of the first bucket first; in a bucket they stay in order.

    Cut into batches, this has one that reaches over each border at most; no example is left over for that.

    >>> sorted_by_bucket(np.array([9, 2, 10, 3]), (3, 10))
    array([1, 3, 0, 2])
    """
    return np.searchsorted(borders, lengths).argsort(kind="stable")


def stretch_of(examples: int, batch_size: int) -> int:
    """How many batches are filled together: those of an epoch, or `STRETCH` if it has more."""
    return min(max(1, examples // batch_size), STRETCH)


def stretch_batches(
    lengths: Int[np.ndarray, "E"], borders: tuple[int, ...], batch_size: int, seed: int, number: int
) -> Int[np.ndarray, "batches B"]:
    """A stretch of the batches of training, as indices of examples.

    All epochs one after another, each in an order of its own, are cut into stretches; the examples of a stretch are
    sorted into buckets and cut into batches, and these are shuffled. So after any number of stretches every example was
    seen equally often, up to the one epoch that is under way.

    Args:
        lengths: of all examples.
        borders: of the buckets, as `bucket_borders` gives them.
        batch_size: rows of a batch, of all processes.
        seed: of all orders.
        number: of the stretch, from 0.

    >>> stretch_batches(np.array([9, 2, 10, 3]), (3, 10), 2, seed=0, number=0)
    array([[2, 0],
           [3, 1]])
    """
    size, batches = len(lengths), stretch_of(len(lengths), batch_size)
    epoch, first = divmod(number * batches * batch_size, size)
    orders: list[np.ndarray] = []
    while size * len(orders) < first + batches * batch_size:
        orders.append(_shuffled(size, seed, epoch + len(orders), 0))
    rows = np.concatenate(orders)[first : first + batches * batch_size]
    rows = rows[sorted_by_bucket(lengths[rows], borders)].reshape(batches, batch_size)
    return rows[_shuffled(batches, seed, number, 1)]


def _shuffled(size: int, *seeds: int) -> np.ndarray:
    # Of a generator's methods random() is the one that gives the same numbers in every version of NumPy.
    return np.random.default_rng(seeds).random(size).argsort(kind="stable")
