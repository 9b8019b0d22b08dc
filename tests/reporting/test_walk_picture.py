"""The picture of a walk shows the maze, the way, and what was seen and held at the steps it names."""

import numpy as np
import pytest

from memjax.errors import MemjaxError
from memjax.reporting import figures, load_run
from memjax.reporting.walk_picture import _moments, draw_walk

VIEWS = [[[1, 1], [2, 3]], [[1, 2], [2, 0]], [[3, 1], [0, 0]]]
WATCHED = {
    "grid": [[2, 2, 2, 2], [2, 1, 2, 2], [2, 1, 3, 2], [2, 2, 2, 2], [2, 2, 2, 2]],
    "place": [[1, 1, 2], [2, 1, 2], [2, 1, 1], [2, 2, 1]],
    "end": "the right exit",
    "view": VIEWS,
    "action": ["forward", "look left", "forward"],
    "actions": [[0.9, 0.05, 0.05], [0.2, 0.7, 0.1], [0.6, 0.2, 0.2]],
    "reward": [-0.04, -0.04, 1.0],
    "held": [[], [0], [0, 1]],
    "attention": [[], [1.0], [0.25, 0.75]],
    "eviction": [[], [0.0], [0.1, 0.3]],
}


def pictures(figure):
    return [ax.images[0].get_array() for ax in figure.axes]


def test_the_map_is_cropped_to_the_maze_and_the_way_is_in_it():
    ax = draw_walk(WATCHED).axes[0]
    cells = ax.images[0].get_array()
    assert cells.tolist() == [[2, 2, 2, 2], [2, 1, 2, 2], [2, 1, 3, 2], [2, 2, 2, 2]]
    way = ax.lines[0]
    assert list(zip(way.get_ydata(), way.get_xdata(), strict=True)) == [(1, 1), (2, 1), (2, 1), (2, 2)]
    assert ax.get_xlabel() == "the maze from above: 3 steps, the right exit"


def test_a_tall_maze_is_turned_and_not_mirrored():
    """South becomes east: what is to the right of an agent that looks south, west, is then south, to its right."""
    ax = draw_walk(WATCHED | {"grid": [*WATCHED["grid"][:3], [2, 1, 2, 2], [2, 2, 2, 2]]}).axes[0]
    assert ax.images[0].get_array().tolist() == np.rot90([*WATCHED["grid"][:3], [2, 1, 2, 2], [2, 2, 2, 2]]).tolist()
    way = ax.lines[0]
    assert list(zip(way.get_ydata(), way.get_xdata(), strict=True)) == [(2, 1), (2, 2), (2, 2), (1, 2)]


def test_the_step_of_the_view_that_was_held_longest_is_shown():
    held = [[], *[[0] for _ in range(3)], *[[3] for _ in range(27)]]
    assert _moments(held) == [0, 3, 12, 18, 24, 30]
    assert _moments([[], [0]]) == [0, 1] and _moments([[]]) == [0]


def test_of_many_views_those_that_were_read_most_are_drawn():
    many = WATCHED | {
        "held": [[], [0], list(range(20))], "view": [*VIEWS, *VIEWS * 6],
        "attention": [[], [1.0], [0.01 * n for n in range(20)]], "eviction": [[], [0.0], [0.0] * 20],
    }  # fmt: skip
    labels = [ax.get_xlabel() for ax in draw_walk(many).axes[-8:]]
    assert [label.split(":")[0] for label in labels] == [f"of step {n}" for n in range(12, 20)]


@pytest.mark.parametrize(
    "damage",
    [{}, "text", [], *[WATCHED | {name: []} for name in ("grid", "place", "view", "held", "eviction", "actions")]],
)
def test_a_walk_that_cannot_be_drawn_is_one_clear_line(make_run, damage):
    run = load_run(make_run("bad", evaluation={"label": "MQN", "metrics": {}, "maze": damage}))
    with pytest.raises(MemjaxError, match="its maze cannot be drawn") as caught:
        figures([run])
    assert "\n" not in str(caught.value)


def test_each_step_has_its_view_and_under_it_those_that_were_held():
    figure = draw_walk(WATCHED)
    shown = [np.array(view)[::-1].tolist() for view in (VIEWS[0], VIEWS[1], VIEWS[0], VIEWS[2], VIEWS[0], VIEWS[1])]
    assert [picture.tolist() for picture in pictures(figure)[1:]] == shown
    assert [ax.get_xlabel() for ax in figure.axes[-3:]] == [
        "forward, 60%", "of step 0: read 25%\nstays with 90%", "of step 1: read 75%\nstays with 70%",
    ]  # fmt: skip


def test_the_report_has_it_where_a_run_walked(make_run):
    without = load_run(make_run("without"))
    run = load_run(make_run("with", evaluation={"label": "MQN", "metrics": {}, "maze": WATCHED}))
    assert "walk" in figures([without, run]) and "walk" not in figures([without])
