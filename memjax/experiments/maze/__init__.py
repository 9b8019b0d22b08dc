"""Agents in mazes: their config, losses, and what is shown of an episode."""

from memjax.experiments.maze.maze_family import FAMILY, build_navigator
from memjax.experiments.maze.maze_walk import walk, watch

__all__ = ["FAMILY", "build_navigator", "walk", "watch"]
