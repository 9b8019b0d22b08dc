"""How far a few views can take an agent, counted against every way that there is.

A slip that was tried: one view fewer held.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.test_benchmarks import script

from memjax import environments
from memjax.environments.maze import WALL

MAZES = environments.imazes([3])
LONGEST = 9  # steps of a way


@jax.jit
def go(place, ways):
    """For each way, step by step: whether the indicator is seen before it, and whether the way is won by it."""

    def step(place, actions):
        seen = jnp.isin(jax.vmap(environments.view, (0, None))(place, MAZES), WALL + MAZES.colours[jnp.array([3, 6])])
        walk = jax.vmap(environments.step, (None, 0, 0, None))
        _, after, reward, _ = walk(jax.random.key(0), place, actions, MAZES)
        return after, (seen.any((1, 2)), reward == 1)

    return jax.lax.scan(step, jax.tree.map(lambda leaf: jnp.repeat(leaf[None], len(ways), 0), place), ways.T)[1]


@functools.cache
def places(maze, facing):
    """Of each way of so many steps from there: whether the indicator is seen before each, and when it is won."""
    ways = jnp.asarray(list(itertools.product(range(3), repeat=LONGEST)))
    _, place = environments.enter(jax.random.key(0), jnp.asarray(maze), MAZES)
    seen, won = go(place._replace(facing=jnp.asarray(facing)), ways)
    return np.asarray(seen).T, np.asarray(won).T


@pytest.mark.parametrize("entries", [3, 4, 5])
def test_the_bounds_are_those_of_all_ways(entries):
    straight, back = [], []
    for maze, facing in itertools.product(range(2), range(4)):
        seen, won = places(maze, facing)
        ends = np.where(won.any(1), won.argmax(1) + 1, 0)
        holds = np.array([row[max(0, n - entries - 1) : n].any() for row, n in zip(seen, ends)])
        shortest = ends == ends[ends > 0].min()
        straight.append(holds[shortest].any())
        back.append(holds.any())
    found = script("maze_bounds").bounds(MAZES, entries)
    assert found["reachable"] == 1
    assert found["straight_holds"] == pytest.approx(np.mean(straight))
    assert found["looking_back_holds"] == pytest.approx(np.mean(back))
    assert found["looking_back_success"] == pytest.approx(0.5 + np.mean(back) / 2)


def test_the_table_has_a_line_for_each_bound():
    found = {"entries": 5, "sets": {"test": {"reachable": 0.9, "straight_success": 0.6, "looking_back_success": 0.7}}}
    table = script("tables_of_runs").maze_bounds(found)
    assert table[2:] == [
        "| the right exit can be reached | 90.0 |",
        "| success with 5 views and the present one, straight | 60.0 |",
        "| success with 5 views and the present one, looking back | 70.0 |",
    ]
