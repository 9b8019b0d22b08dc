"""Random mazes with one indicator, like those of Oh et al. (2016): as many as one wants, none of theirs."""

import numpy as np

from memjax.environments.imaze import of_indicators
from memjax.environments.maze import Mazes
from memjax.errors import require, require_count

SIZES = (5, 6, 7)  # of the square part; the larger the more often, as in the original ones
LIMIT = 50
ATTEMPTS = 40  # to put a wall somewhere; a maze has at most 16
_HEIGHT, _WIDTH = 9, 11


def random_mazes(count: int, seed: int = 0) -> Mazes:
    """Mazes of 5 x 5 to 7 x 7 cells, some of them walls, and to the right a dead end where one begins at the indicator.

    Two exits, red and cyan, lie anywhere; each can be reached without the other. Yellow says that red is right, lime
    that cyan is. Corners are never walls, and at most a third of the cells is, as in the original maps.

    Args:
        count: how many.
        seed: draws them.

    Returns:
        The mazes.

    >>> random_mazes(10).walls.shape
    (10, 9, 11)
    """
    require_count("the count of mazes", count)
    whole = isinstance(seed, int | np.integer) and seed >= 0
    require(whole, f"seed must be a whole number of at least 0, not {seed!r}")
    rng = np.random.default_rng(seed)
    size = rng.choice(SIZES, count, p=np.array(SIZES) / sum(SIZES))
    rows, columns = np.ogrid[:_HEIGHT, :_WIDTH]
    n = size[:, None, None]
    middle = 1 + n // 2
    block = (rows >= 1) & (rows <= n) & (columns >= 1) & (columns <= n)
    corridor = (rows == middle) & ((columns == n + 1) | (columns == n + 2))
    corners = block & ((rows == 1) | (rows == n)) & ((columns == 1) | (columns == n))
    edge = block & ((rows == 1) | (rows == n) | (columns == 1) | (columns == n))
    entry = block & (rows == middle) & (columns == n)
    start = (rows == middle) & (columns == n + 2)

    free = block | corridor
    wanted = rng.integers(size * size // 6, size * size // 3 + 1)
    likely = np.where(block & ~corners & ~entry, np.where(edge, 0.4, 1.0), 0.0)
    for _ in range(ATTEMPTS):
        wall = _draw(rng, likely * free)
        after = free & ~wall
        accepted = _connected(after, start) & ((block & ~after).sum((1, 2)) <= wanted)
        free = np.where(accepted[:, None, None], after, free)

    inside = (block & free & ~entry).astype(float)
    red, cyan = np.zeros_like(free), np.zeros_like(free)
    good = np.zeros(count, bool)
    while not good.all():
        new_red = _draw(rng, inside)
        new_cyan = _draw(rng, inside * ~new_red)
        red, cyan = (np.where(good[:, None, None], old, new) for old, new in ((red, new_red), (cyan, new_cyan)))
        good = _reaches(free & ~cyan, start, red) & _reaches(free & ~red, start, cyan)

    yellow = (rng.random(count) < 0.5)[:, None, None]
    sign = corridor & ~start
    objects = red * 1 + cyan * 2 + sign * 3 + (red | cyan | sign) * np.where(yellow, 0, 3)
    return of_indicators(~free, objects.astype(np.int32), start, LIMIT)


def _draw(rng: np.random.Generator, likely: np.ndarray) -> np.ndarray:
    """One cell of each maze, as likely as it says: `[M, H, W]` bool; none where none is possible."""
    # Gumbel's maximum: the largest of log p + noise is a draw from p.
    with np.errstate(divide="ignore"):
        score = np.log(likely) + rng.gumbel(size=likely.shape)
    best = score.reshape(len(score), -1).argmax(1)
    chosen = np.zeros(likely.shape, bool)
    chosen.reshape(len(score), -1)[np.arange(len(score)), best] = True
    return chosen & (likely > 0)


def _flooded(free: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The cells of each maze that can be reached."""
    reached = start & free
    while True:
        wider = reached.copy()
        wider[:, 1:] |= reached[:, :-1]
        wider[:, :-1] |= reached[:, 1:]
        wider[:, :, 1:] |= reached[:, :, :-1]
        wider[:, :, :-1] |= reached[:, :, 1:]
        wider &= free
        if (wider == reached).all():
            return reached
        reached = wider


def _connected(free: np.ndarray, start: np.ndarray) -> np.ndarray:
    return (_flooded(free, start) == free).all((1, 2))


def _reaches(free: np.ndarray, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
    return (_flooded(free, start) & goal).any((1, 2))
