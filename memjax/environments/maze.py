"""A maze seen from within: walls, objects of a few colours, and exits that one must tell apart by what one saw before.

A grid stands for the 3D mazes of Control of Memory, Active Perception, and Action in Minecraft (Oh et al. 2016), with
the three actions of LEMN (4.1): forward, look left, look right.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import require
from memjax.typing import Any, Array, Bool, Float, Int, Key

ACTIONS = ("forward", "look left", "look right")
DEPTH, SIDE = 6, 2  # how many cells ahead, its own among them, and how many to each side an agent sees
UNSEEN, FLOOR, WALL = 0, 1, 2  # what a cell of the view is; 2 + c for an object of colour c
_AHEAD = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # north, east, south, west: (row, column)


class Mazes(NamedTuple):
    """M mazes of one size, and what their objects are: the params of `reset` and `step`.

    Attributes:
        walls: where they are.
        objects: their kinds, 0 for none.
        starts: where an episode may begin.
        limit: of the steps of an episode.
        colours: of each kind, from 1; 0 for none.
        reward: of each kind, for stepping on it.
        ends: of each kind, whether that is the end.
    """

    walls: Bool[Array, "M H W"]
    objects: Int[Array, "M H W"]
    starts: Bool[Array, "M H W"]
    limit: Int[Array, "M"]
    colours: Int[Array, "O"]
    reward: Float[Array, "O"]
    ends: Bool[Array, "O"]


class MazeState(NamedTuple):
    """Where the agent is in which maze.

    Attributes:
        maze: its number.
        row: of the agent.
        column: of the agent.
        facing: 0 to 3 for north, east, south, west.
        step: how many it has taken.
        ended: whether the episode is over.
    """

    maze: Int[Array, ""]
    row: Int[Array, ""]
    column: Int[Array, ""]
    facing: Int[Array, ""]
    step: Int[Array, ""]
    ended: Bool[Array, ""]


def codes(params: Mazes) -> int:
    """What a cell of a view may be: codes are in [0, codes).

    Args:
        params: the mazes.

    Returns:
        How many there are.
    """
    return WALL + 1 + int(np.max(params.colours))


def stack(*parts: Mazes) -> Mazes:
    """Mazes of several sizes as one set; what is too small gets walls.

    Args:
        *parts: sets of mazes, of the same kinds of objects; how large rewards are is that of the first one.

    Returns:
        One set.

    Raises:
        MemjaxError: for no mazes, and for kinds that have other colours, ends or signs of their rewards.
    """
    require(parts, "stack needs at least one set of mazes")
    for part in parts[1:]:
        require(_same_kinds(part, parts[0]), "mazes whose objects have other colours, ends or rewards are no one set")
    height, width = (max(part.walls.shape[axis] for part in parts) for axis in (1, 2))

    def joined(grids: list, value: int) -> Array:
        # In NumPy: JAX would compile for each size, and so does its asarray, where device_put does not.
        whole = np.full((sum(map(len, grids)), height, width), value, grids[0].dtype)
        begin = 0
        for grid in grids:
            whole[begin : begin + len(grid), : grid.shape[1], : grid.shape[2]] = grid
            begin += len(grid)
        return jax.device_put(whole)

    return parts[0]._replace(
        walls=joined([part.walls for part in parts], True),
        objects=joined([part.objects for part in parts], 0),
        starts=joined([part.starts for part in parts], False),
        limit=jax.device_put(np.concatenate([part.limit for part in parts])),
    )


def _same_kinds(part: Mazes, first: Mazes) -> bool:
    own, other = ((each.colours, each.ends, np.sign(each.reward)) for each in (part, first))
    return all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(own, other, strict=True))


def reset(key: Key, params: Mazes) -> tuple[Int[Array, "D S"], MazeState]:
    """A new episode: any maze, any of its starts, any direction, all with the same chance.

    Args:
        key: draws it.
        params: the mazes.

    Returns:
        What the agent sees, and the state.

    >>> import jax
    >>> from memjax.environments import imazes
    >>> params = imazes([5])
    >>> seen, state = reset(jax.random.key(0), params)
    >>> seen.shape, int(state.row), int(state.column)
    ((6, 5), 1, 3)
    """
    which, rest = jax.random.split(key)
    return enter(rest, jax.random.randint(which, (), 0, params.walls.shape[0]), params)


def enter(key: Key, maze: Int[Array, ""], params: Mazes) -> tuple[Int[Array, "D S"], MazeState]:
    """`reset` in this maze of them: any of its starts, any direction.

    Args:
        key: draws the start.
        maze: its number.
        params: the mazes.

    Returns:
        As of `reset`.
    """
    where, how = jax.random.split(key)
    starts = params.starts[maze]
    cell = jax.random.categorical(where, jnp.where(starts.ravel(), 0.0, -jnp.inf))
    row, column = jnp.divmod(cell, starts.shape[1])
    state = MazeState(maze, row, column, jax.random.randint(how, (), 0, 4), jnp.array(0), jnp.array(False))
    return view(state, params), state


def step(
    key: Key, state: MazeState, action: Int[Array, ""], params: Mazes
) -> tuple[Int[Array, "D S"], MazeState, Float[Array, ""], Bool[Array, ""]]:
    """One of `ACTIONS`. A wall stops the agent; in an ended episode nothing moves.

    The reward is that of the kind of object on which the agent then stands, kind 0 for none.

    Args:
        key: for the usual form; nothing is drawn.
        state: before the action.
        action: a place in `ACTIONS`.
        params: the mazes.

    Returns:
        What the agent sees, the state, the reward, and whether the episode is over.
    """
    ahead = jnp.asarray(_AHEAD)[state.facing]
    row, column = state.row + ahead[0], state.column + ahead[1]
    height, width = params.walls.shape[1:]
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)  # an index of -1 would be the last row
    moves = (action == 0) & inside & ~params.walls[state.maze, row, column] & ~state.ended
    row, column = state.row + moves * ahead[0], state.column + moves * ahead[1]
    turn = jnp.where(state.ended, 0, jnp.where(action == 1, -1, jnp.where(action == 2, 1, 0)))
    kind = params.objects[state.maze, row, column]
    steps = state.step + ~state.ended
    ended = state.ended | params.ends[kind] | (steps >= params.limit[state.maze])
    reward = jnp.where(state.ended, 0.0, params.reward[kind])
    after = MazeState(state.maze, row, column, (state.facing + turn) % 4, steps, ended)
    return view(after, params), after, reward, ended


def view(state: MazeState, params: Mazes) -> Int[Array, "D S"]:
    """What the agent sees: `[DEPTH, 2 SIDE + 1]` codes, row d what is d cells ahead, the middle column straight ahead.

    Seen is what lies within 45 degrees of where it looks, if no wall lies on the straight line to it.

    Args:
        state: of the agent.
        params: the mazes.

    Returns:
        The codes.
    """
    ahead, right = jnp.asarray(_AHEAD)[state.facing], jnp.asarray(_AHEAD)[(state.facing + 1) % 4]
    depth, side = jnp.asarray(_CELLS[:, 0]), jnp.asarray(_CELLS[:, 1])
    rows = state.row + depth * ahead[0] + side * right[0]
    columns = state.column + depth * ahead[1] + side * right[1]
    height, width = params.walls.shape[1:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    place = state.maze, jnp.clip(rows, 0, height - 1), jnp.clip(columns, 0, width - 1)
    walls = params.walls[place] | ~inside
    found = jnp.where(walls, WALL, _codes(params, place))
    hidden = (jnp.asarray(_BETWEEN) & walls).any(1) | jnp.asarray(_ASIDE)
    return jnp.where(hidden, UNSEEN, found).reshape(DEPTH, 2 * SIDE + 1)


def cells(params: Mazes, maze: Int[Array, ""] | int) -> Int[Array, "H W"]:
    """A whole maze in the codes of a view.

    Args:
        params: the mazes.
        maze: its number.

    Returns:
        The codes.
    """
    return jnp.where(params.walls[maze], WALL, _codes(params, maze))


def _codes(params: Mazes, place: Any) -> Int[Array, "*n"]:
    colour = params.colours[params.objects[place]]
    return jnp.where(colour > 0, WALL + colour, FLOOR)


_CELLS = np.array([(depth, side) for depth in range(DEPTH) for side in range(-SIDE, SIDE + 1)])
_ASIDE = np.abs(_CELLS[:, 1]) > _CELLS[:, 0]


def _between() -> np.ndarray:
    """[cell, other]: whether the other one lies on the straight line from the agent to the cell, before it."""
    found = np.zeros((len(_CELLS), len(_CELLS)), bool)
    for i, (depth, side) in enumerate(_CELLS):
        for near in range(1, depth):
            # The nearest column, halves away from the middle on both sides alike.
            beside = np.sign(side) * np.floor(abs(side) * near / depth + 0.5)
            found[i] |= (_CELLS[:, 0] == near) & (_CELLS[:, 1] == beside)
    return found


_BETWEEN = _between()
