"""Mazes against a loop in plain Python, and against the original maps.

Slips that were tried: left and right exchanged; the corner of a wall seen through; a wall entered; the indicator's
colours exchanged; the limit one step late.
"""

import functools
import io
import tarfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_same

from memjax import environments
from memjax.environments import DEPTH, SIDE, MazeState
from memjax.environments.maze import stack
from memjax.errors import MemjaxError

ARCHIVE = Path(__file__).parents[2].parent / "shared" / "data" / "minecraft_mazes" / "tasks.tar.gz"
NORTH, EAST, SOUTH, WEST = range(4)
AHEAD = {NORTH: (-1, 0), EAST: (0, 1), SOUTH: (1, 0), WEST: (0, -1)}
needs_archive = pytest.mark.skipif(not ARCHIVE.exists(), reason="needs the archive of mazes")


@functools.cache
def jitted(name):
    return jax.jit(getattr(environments, name))


def random_mazes(seed):
    """Three mazes of 7 x 8, a third of it walls, objects of all kinds."""
    rng = np.random.default_rng(seed)
    walls = rng.random((3, 7, 8)) < 0.35
    walls[:, [0, -1]], walls[:, :, [0, -1]] = True, True
    objects = np.where(walls | (rng.random(walls.shape) < 0.7), 0, rng.integers(1, 7, walls.shape))
    one = environments.imazes([3])
    grids = (walls, objects.astype(np.int32), ~walls & (objects == 0))
    return environments.Mazes(*map(jnp.asarray, grids), jnp.full(3, 20), *one[4:])


def seen(maze, objects, colours, row, column, facing):
    """Cell by cell: what an agent there sees."""
    (a, b), (c, d) = AHEAD[facing], AHEAD[(facing + 1) % 4]

    def at(depth, side):
        y, x = row + depth * a + side * c, column + depth * b + side * d
        outside = not (0 <= y < len(maze) and 0 <= x < len(maze[0]))
        return 2 if outside or maze[y][x] else (2 + colours[objects[y][x]] if colours[objects[y][x]] else 1)

    def line(depth, side):
        for near in range(1, depth):
            beside = abs(side) * near / depth
            yield near, int(np.sign(side)) * int(beside + 0.5)

    return [
        [
            at(depth, side) if abs(side) <= depth and all(at(*between) != 2 for between in line(depth, side)) else 0
            for side in range(-SIDE, SIDE + 1)
        ]
        for depth in range(DEPTH)
    ]


@pytest.mark.parametrize("seed", [0, 2, 4, 5])  # 3 begins between four walls
def test_an_episode_is_the_loops(seed):
    params, rng = random_mazes(seed), np.random.default_rng(seed)
    walls, objects, colours = (np.asarray(x) for x in (params.walls, params.objects, params.colours))
    rewards, ends = np.asarray(params.reward), np.asarray(params.ends)
    view, state = jitted("reset")(jax.random.key(seed), params)
    maze, row, column, facing = (int(x) for x in state[:4])
    assert params.starts[maze, row, column]
    ended, turned, moved = False, 0, 0
    for t in range(25):
        assert view.tolist() == seen(walls[maze], objects[maze], colours, row, column, facing)
        action = int(rng.choice(3, p=[0.6, 0.2, 0.2]))
        view, state, reward, over = jitted("step")(jax.random.key(t), state, jnp.array(action), params)
        expected = 0.0
        if not ended:
            if action == 0 and not walls[maze, row + AHEAD[facing][0], column + AHEAD[facing][1]]:
                row, column, moved = row + AHEAD[facing][0], column + AHEAD[facing][1], moved + 1
            facing = (facing + (0, -1, 1)[action]) % 4
            turned += action > 0
            kind = objects[maze, row, column]
            expected, ended = rewards[kind], bool(ends[kind]) or t + 1 >= 20
        assert (int(state.row), int(state.column), int(state.facing)) == (row, column, facing)
        assert reward == np.float32(expected) and over == state.ended == ended
    assert turned and moved and ended


def walk(params, maze, actions, facing):
    """The views of these actions from the start of a maze, and the last reward and end."""
    row, column = (int(x[0]) for x in np.nonzero(np.asarray(params.starts[maze])))
    state = MazeState(*map(jnp.array, (maze, row, column, facing, 0, False)))
    found, reward, ended = [environments.view(state, params)], 0.0, False
    for action in actions:
        view, state, reward, ended = jitted("step")(jax.random.key(0), state, jnp.array(action), params)
        found.append(view)
    return found, float(reward), bool(ended)


@pytest.mark.parametrize("length", [3, 5, 40])
@pytest.mark.parametrize("maze", [0, 1])
def test_in_an_i_maze_the_indicator_says_which_exit_is_right(length, maze):
    params = environments.imazes([length])
    forward, left, right = range(3)
    # Looking south, west is to the right.
    for turn in (left, right):
        down = [forward] * (length - 1)
        views, reward, ended = walk(params, maze, [*down, turn, forward, forward], SOUTH)
        assert ended and reward == (1.0 if (turn == right) == (maze == 0) else -1.0)
        red, cyan = 3, 4
        assert views[-1][0, SIDE] == (red if turn == right else cyan)  # the agent stands on it
    views, _, _ = walk(params, maze, [], WEST)
    assert views[0][2, SIDE] == (5 if maze == 0 else 6)  # yellow, lime: two cells ahead
    views, _, _ = walk(params, maze, [], EAST)
    assert not np.isin(views[0], [5, 6]).any()


def test_the_codes_are_those_of_the_views():
    params = random_mazes(0)
    views, _ = jax.vmap(environments.reset, (0, None))(jax.random.split(jax.random.key(0), 500), params)
    assert set(np.unique(views)) == set(range(environments.codes(params)))


def test_mazes_start_everywhere_that_they_may_and_look_everywhere():
    params = random_mazes(1)
    _, states = jax.vmap(environments.reset, (0, None))(jax.random.split(jax.random.key(0), 3000), params)
    places = {(int(m), int(r), int(c)) for m, r, c in zip(states.maze, states.row, states.column, strict=True)}
    assert places == {tuple(map(int, place)) for place in zip(*np.nonzero(np.asarray(params.starts)), strict=True)}
    assert set(np.unique(states.facing)) == {0, 1, 2, 3}


def test_thousands_of_mazes_side_by_side_are_those_alone():
    params = environments.imazes([5, 7, 9])
    keys = jax.random.split(jax.random.key(3), 64)
    _, states = jax.vmap(environments.reset, (0, None))(keys, params)
    actions = jax.random.randint(jax.random.key(4), (64,), 0, 3)
    together = jax.vmap(environments.step, (0, 0, 0, None))(keys, states, actions, params)
    for i in range(0, 64, 9):
        state = jax.tree.map(lambda x, i=i: x[i], states)
        alone = jitted("step")(keys[i], state, actions[i], params)
        assert_same(jax.tree.map(lambda x, i=i: x[i], together), alone)


def reached(walls, start, closed=()):
    """The cells that can be reached, by a search in plain Python."""
    seen, ahead = {start}, [start]
    while ahead:
        row, column = ahead.pop()
        for cell in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            if cell not in seen and cell not in closed and not walls[cell]:
                seen.add(cell)
                ahead.append(cell)
    return seen


def test_in_a_random_maze_every_cell_and_each_exit_without_the_other_can_be_reached():
    mazes = environments.random_mazes(60, 1)
    walls, objects, starts = (np.asarray(x) for x in mazes[:3])
    for wall, object, start in zip(walls, objects, starts, strict=True):
        (begin,) = map(tuple, np.argwhere(start))
        assert reached(wall, begin) == set(map(tuple, np.argwhere(~wall)))
        sign = int(object.max())
        assert sign in (3, 6) and sorted(object[object > 0]) == [sign - 2, sign - 1, sign]
        first, second = (tuple(np.argwhere(object == sign - n)[0]) for n in (2, 1))
        assert first in reached(wall, begin, {second}) and second in reached(wall, begin, {first})
        assert tuple(np.argwhere(object == sign)[0]) == (begin[0], begin[1] - 1)
    assert len({walls[i].tobytes() for i in range(60)}) > 55
    assert_same(environments.random_mazes(60, 1), mazes)
    assert (np.asarray(environments.random_mazes(60, 2).walls) != walls).any()


@needs_archive
def test_random_mazes_are_like_the_original_ones():
    original, ours = environments.read_mazes(ARCHIVE, "SingleIndicator"), environments.random_mazes(1000)
    assert original.walls.shape == ours.walls.shape
    assert_same(original[3:], ours[3:])  # limits, colours, rewards, ends
    for size, place in ((5, (3, 7)), (6, (4, 8)), (7, (4, 9))):
        shares, free = [], []
        for mazes in (original, ours):
            chosen = np.asarray(mazes.starts)[:, *place]
            cells = ~np.asarray(mazes.walls)[chosen]
            shares.append(chosen.mean())
            free.append(cells.sum((1, 2)) - 2)
            assert cells[:, [1, 1, size, size], [1, size, 1, size]].all()
        assert abs(shares[0] - shares[1]) < 0.12
        assert abs(free[0].mean() - free[1].mean()) < 1 and free[1].min() >= free[0].min() - 2


@pytest.mark.parametrize("lengths", [5, [5.5], "57"])
def test_lengths_that_are_none_are_one_clear_line(lengths, unchecked):
    with pytest.raises(MemjaxError, match="a list of whole numbers, not"):
        environments.imazes(lengths)


@needs_archive
def test_the_i_mazes_are_the_original_ones():
    for task, lengths in (("IMaze", [5, 7, 9]), ("IMazeTest", [4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 35, 40])):
        original = environments.read_mazes(ARCHIVE, task)
        limit = {"IMaze": 50, "IMazeTest": 100}[task]
        ours = environments.imazes(lengths, limit=limit)
        if task == "IMaze":
            assert_same(original, ours)
            continue
        # Theirs are in an order of their own.
        assert original.walls.shape == ours.walls.shape

        def grids(mazes):
            return sorted(zip(*(map(bytes, np.asarray(x)) for x in mazes[:4]), strict=True))

        assert grids(original) == grids(ours)
        # Where corridors are longer, a step costs half as much.
        assert_same(original._replace(reward=ours.reward)[4:], ours[4:])
        np.testing.assert_allclose(original.reward, np.where(ours.reward == ours.reward[0], -0.02, ours.reward))


@needs_archive
@pytest.mark.parametrize(
    ("task", "shape", "limit"),
    [
        ("SingleIndicator", (1000, 9, 11), 50),
        ("SingleIndicatorLarge", (1000, 12, 14), 100),
        ("Single", (1000, 10, 10), 50),
    ],
)
def test_the_random_mazes_are_read(task, shape, limit):
    params = environments.read_mazes(ARCHIVE, task)
    assert params.walls.shape == shape and (params.limit == limit).all()
    walls, objects, starts = (np.asarray(x) for x in params[:3])
    assert (starts.any((1, 2))).all() and not (starts & walls).any() and not ((objects > 0) & walls).any()
    rewards = np.asarray(params.reward)[objects] * np.asarray(params.ends)[objects]
    assert ((rewards == 1).sum((1, 2)) == 1).all() and ((rewards == -1).sum((1, 2)) == 1).all()
    # The indicator says which of the two colours is right, with the same meaning in all mazes.
    if task != "Single":
        right = np.asarray(params.colours)[np.where(rewards == 1, objects, 0).max((1, 2))]
        yellow = (objects == 3).any((1, 2))
        assert set(right[yellow]) == {1} and set(right[~yellow]) == {2} and 400 < yellow.sum() < 600


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: environments.imazes([]), "at least one length"),
        (lambda: environments.imazes([2]), "at least 3, not 2"),
        (lambda: environments.imazes([5], limit=0), "limit must be at least 1"),
        (lambda: environments.random_mazes(0), "the count of mazes must be a whole number of at least 1, not 0"),
        (lambda: environments.read_mazes("nowhere.tar.gz", "IMaze"), "there is no file nowhere"),
        (lambda: environments.read_mazes(__file__, "IMaze"), "is no archive of mazes"),
    ],
)
def test_what_cannot_be_a_maze_is_one_clear_line(make, words):
    with pytest.raises(MemjaxError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def archive(path, changes):
    """A small archive of one maze, with some of its files changed; None leaves one out."""
    grid = {"topology.csv": "5,5,5\n5,1,5\n5,1,5\n5,5,5", "goal_0.csv": "0,0,0\n0,1,0\n0,0,0\n0,0,0"}
    files = {f"maps/0/{name}": text for name, text in (grid | {"spawn_0.csv": "0,0,0\n0,0,0\n0,1,0\n0,0,0"}).items()}
    files["goalInfo.xml"] = '<goal reward="-0.04" terminate="0"/><goal reward="1" terminate="1" objectID="1"/>'
    files["blockTypeInfo.xml"], files["task.xml"] = '<block id="1" goalID="1"/>', '<end after="50"/>'
    with tarfile.open(path, "w:gz") as tar:
        for name, text in {**files, **changes}.items():
            if text is not None:
                member = tarfile.TarInfo(f"tasks/Own/{name}")
                member.size = len(data := text if isinstance(text, bytes) else text.encode())
                tar.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"maps/0/topology.csv": "5,x,5"},
        {"maps/0/topology.csv": "5,5\n5"},
        {"maps/0/topology.csv": ""},
        {"maps/0/goal_0.csv": "0,0\n0,0"},
        {"maps/0/goal_0.csv": "0,0,0\n0,9,0\n0,0,0\n0,0,0"},
        {"maps/0/spawn_0.csv": "0,0,0\n0,0,0\n0,0,0\n0,0,0"},
        {"goalInfo.xml": '<goal reward="a" terminate="0"/>'},
        {"goalInfo.xml": "nothing"},
        {"goalInfo.xml": b"\xff\xfe"},
        {"task.xml": "no limit"},
        {"task.xml": '<end after="0"/>'},
        {"task.xml": '<end after="99999999999"/>'},
        {"maps/0/goal_0.csv": "0,0,0\n0,99999999999,0\n0,0,0\n0,0,0"},
        {"blockTypeInfo.xml": '<block id="99999999999" goalID="1"/>'},
        *(
            {"goalInfo.xml": f'<goal reward="{reward}" terminate="1" objectID="{kind}"/>'}
            for reward, kind in (("nan", 1), ("inf", 1), (1, -1), (1, 10**14))
        ),
        {"blockTypeInfo.xml": None},
    ],
)
def test_a_damaged_map_is_one_clear_line(changes, tmp_path):
    assert environments.read_mazes(archive(tmp_path / "good.tar.gz", {}), "Own").walls.shape == (1, 4, 3)
    with pytest.raises(MemjaxError, match="archive") as caught:
        environments.read_mazes(archive(tmp_path / "bad.tar.gz", changes), "Own")
    assert "\n" not in str(caught.value)


def test_mazes_whose_objects_are_others_are_no_one_set():
    mazes = environments.random_mazes(2)
    assert stack(mazes, mazes._replace(reward=mazes.reward / 2)).walls.shape[0] == 4
    for changes in ({"colours": mazes.colours + 1}, {"ends": ~mazes.ends}, {"reward": -mazes.reward}):
        with pytest.raises(MemjaxError, match="other colours, ends or rewards"):
            stack(mazes, mazes._replace(**changes))


def test_an_archive_with_altered_bytes_is_refused_whatever_they_are(tmp_path):
    data = archive(tmp_path / "good.tar.gz", {}).read_bytes()
    for place in range(40, len(data) - 8, 7):
        (tmp_path / "bad.tar.gz").write_bytes(data[:place] + bytes([data[place] ^ 85]) + data[place + 1 :])
        with pytest.raises(MemjaxError, match="is no archive of mazes, or is damaged"):
            environments.read_mazes(tmp_path / "bad.tar.gz", "Own")


def test_an_agent_does_not_leave_a_map_without_walls_around_it():
    open_ = random_mazes(0)._replace(walls=jnp.zeros((3, 7, 8), bool))
    for facing in range(4):
        state = MazeState(
            *map(jnp.array, (0, 0 if facing == NORTH else 6, 0 if facing == WEST else 7, facing, 0, False))
        )
        _, after, _, _ = jitted("step")(jax.random.key(0), state, jnp.array(0), open_)
        inside = AHEAD[facing][0] + int(state.row) in range(7) and AHEAD[facing][1] + int(state.column) in range(8)
        assert inside == ((after.row, after.column) != (state.row, state.column))


@needs_archive
@pytest.mark.parametrize(("task", "words"), [("Maze", "no task 'Maze'; it has IMaze"), ("Seq", "an order of objects")])
def test_a_task_that_the_archive_lacks_or_that_is_another_kind_is_one_clear_line(task, words):
    with pytest.raises(MemjaxError, match=words):
        environments.read_mazes(ARCHIVE, task)


@pytest.mark.parametrize(
    "make",
    [
        lambda: environments.random_mazes(3, seed=-1), lambda: environments.random_mazes(2.5),
        lambda: environments.imazes([5], limit=2.5), lambda: environments.imazes([5], limit="9"),
    ],
)  # fmt: skip
def test_mazes_that_cannot_be_made_are_one_line(make, unchecked):
    with pytest.raises(MemjaxError, match="whole number"):
        make()


def test_walls_of_random_mazes_stand_within_more_often_than_at_the_edge():
    mazes = environments.random_mazes(600, 0)
    # Of the mazes of 7 x 7 cells, in whose middle row one begins: the cells alone.
    largest = np.asarray(mazes.walls)[np.asarray(mazes.starts)[:, 4, 9]][:, 1:8, 1:8]
    inner = largest[:, 1:-1, 1:-1].mean()
    edge = (largest.sum() - largest[:, 1:-1, 1:-1].sum()) / (len(largest) * 24)
    assert edge < inner / 1.5, (edge, inner)
