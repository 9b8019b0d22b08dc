"""Worlds that an agent sees in part: pure functions `reset(key, params)` and `step(key, state, action, params)`.

One episode at a time; `jax.vmap` runs thousands side by side.
"""

from memjax.environments.imaze import imazes
from memjax.environments.maps import read_mazes
from memjax.environments.maze import (
    ACTIONS,
    DEPTH,
    SIDE,
    Mazes,
    MazeState,
    cells,
    codes,
    enter,
    reset,
    stack,
    step,
    view,
)
from memjax.environments.random_maze import random_mazes

__all__ = [
    "ACTIONS",
    "DEPTH",
    "SIDE",
    "MazeState",
    "Mazes",
    "cells",
    "codes",
    "enter",
    "imazes",
    "random_mazes",
    "read_mazes",
    "reset",
    "stack",
    "step",
    "view",
]
