"""The picture of a walk shows the maze, the way, and what was seen and held at the steps it names."""

import numpy as np

from memjax.reporting import figures, load_run
from memjax.reporting.walk import draw_walk, walk

VIEWS = [[[1, 1], [2, 3]], [[1, 2], [2, 0]], [[3, 1], [0, 0]]]
WATCHED = {
    "grid": [[2, 2, 2, 2], [2, 1, 2, 2], [2, 1, 3, 2], [2, 2, 2, 2], [2, 2, 2, 2]],
    "place": [[1, 1, 2], [2, 1, 2], [2, 1, 1]],
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
    assert list(zip(way.get_ydata(), way.get_xdata(), strict=True)) == [(1, 1), (2, 1), (2, 1)]
    assert "3 steps" in ax.get_xlabel() and ax.get_xlabel().endswith("1")


def test_a_tall_maze_lies_on_its_side_and_its_way_too():
    ax = draw_walk(WATCHED | {"grid": [*WATCHED["grid"][:3], [2, 1, 2, 2], [2, 2, 2, 2]]}).axes[0]
    assert ax.images[0].get_array().shape == (4, 5)
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 2]


def test_each_step_has_its_view_and_under_it_those_that_were_held():
    figure = draw_walk(WATCHED)
    shown = [np.array(view)[::-1].tolist() for view in (VIEWS[0], VIEWS[1], VIEWS[0], VIEWS[2], VIEWS[0], VIEWS[1])]
    assert [picture.tolist() for picture in pictures(figure)[1:]] == shown
    assert [ax.get_xlabel() for ax in figure.axes[-3:]] == [
        "forward, 60%", "0: read 25%\nkept 90%", "1: read 75%\nkept 70%",
    ]  # fmt: skip


def test_the_report_has_it_where_a_run_walked(make_run):
    without = load_run(make_run("without"))
    run = load_run(make_run("with", evaluation={"label": "MQN", "metrics": {}, "maze": WATCHED}))
    assert walk([without]) is None
    assert "walk" in figures([without, run]) and "walk" not in figures([without])
