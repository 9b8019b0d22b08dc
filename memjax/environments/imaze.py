"""The I-maze (Oh et al. 2016): a corridor, a colour at its beginning that says which exit at its end is right."""

import operator
from collections.abc import Iterable

import jax
import numpy as np

from memjax.environments.maze import Mazes, stack
from memjax.errors import MemjaxError, require

STEP = -0.04
# Kinds: 1 and 4 are red, 2 and 5 cyan; 3 is yellow and says that red is right, 6 is lime and says that cyan is.
COLOURS = (0, 1, 2, 3, 1, 2, 4)
REWARDS = (STEP, 1.0, -1.0, STEP, -1.0, 1.0, STEP)
ENDS = (False, True, True, False, True, True, False)


def imazes(lengths: Iterable[int], *, limit: int | None = None) -> Mazes:
    """Two I-mazes for each length, one for each indicator; `length` counts the cells from the first room to the exits.

    Args:
        lengths: of the corridors, at least 3.
        limit: of the steps; 50, or what that length needs at least if that is more (length + 10), if not given.

    Returns:
        The mazes.

    >>> imazes([5, 7, 9]).walls.shape
    (6, 11, 7)
    """
    try:
        lengths = [operator.index(length) for length in lengths]
        limit = None if limit is None else operator.index(limit)
    except TypeError:
        raise MemjaxError(f"imazes needs a list of whole numbers, not {lengths!r}; limit too is one, or None") from None
    require(lengths, "imazes needs at least one length")
    require(min(lengths) >= 3, f"an I-maze has a length of at least 3, not {min(lengths)}")
    require(limit is None or limit >= 1, f"limit must be at least 1, not {limit}")
    return stack(*(_imaze(length, limit or max(50, length + 10)) for length in lengths))


def _imaze(length: int, limit: int) -> Mazes:
    walls = np.ones((length + 2, 7), bool)
    walls[[1, length], 1:6] = False
    walls[1 : length + 1, 3] = False
    objects = np.zeros((2, length + 2, 7), np.int32)
    objects[:, 1, 1] = 3, 6
    objects[:, length, 1] = 1, 4
    objects[:, length, 5] = 2, 5
    starts = np.zeros((2, length + 2, 7), bool)
    starts[:, 1, 3] = True
    return of_indicators(np.stack([walls, walls]), objects, starts, limit)


def of_indicators(walls: np.ndarray, objects: np.ndarray, starts: np.ndarray, limit: int) -> Mazes:
    """Mazes with the kinds of objects above, all of one limit."""
    grids = walls, objects, starts, np.full(len(walls), limit, np.int32)
    kinds = np.array(COLOURS, np.int32), np.array(REWARDS, np.float32), np.array(ENDS)
    return Mazes(*jax.device_put((*grids, *kinds)))
