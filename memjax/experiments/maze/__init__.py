"""Agents in mazes: their config, losses, and what is shown of an episode."""

from memjax.experiments.maze.maze_family import (
    FAMILY,
    MazeConfig,
    NavigatorConfig,
    build_navigator,
    maze_objective,
    measure_episode,
)
from memjax.experiments.maze.maze_walk import walk, watch

__all__ = [
    "FAMILY",
    "MazeConfig",
    "NavigatorConfig",
    "build_navigator",
    "maze_objective",
    "measure_episode",
    "walk",
    "watch",
]
