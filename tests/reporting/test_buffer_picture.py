"""The picture of a buffer shows what was held, and where a question's lines were."""

import numpy as np
import pytest

from memjax.errors import MemjaxError
from memjax.reporting import figures, load_run
from memjax.reporting.buffer_picture import draw_buffer

WATCHED = {
    "lines": ["mary took the milk", "john is tired", "mary went home", "where is the milk"],
    "held": [[], [0], [0, 1], [0, 2]],
    "eviction": [[], [0.0], [0.25, 0.5], [0.1, 0.2]],
    "questions": [{"step": 3, "answer": "home", "given": "garden", "support": [0, 2]}],
}


def test_a_line_is_drawn_while_it_is_held_as_likely_as_it_was_to_stay():
    ax = draw_buffer(WATCHED).axes[0]
    image = ax.images[0].get_array().filled(np.nan)
    expected = np.full((4, 4), np.nan)
    for t, (held, eviction) in enumerate(zip(WATCHED["held"], WATCHED["eviction"], strict=True)):
        for line, goes in zip(held, eviction, strict=True):
            expected[line, t] = 1 - goes
    np.testing.assert_allclose(image, expected)


def test_the_lines_that_a_question_follows_from_have_a_ring_and_it_says_what_was_answered():
    ax = draw_buffer(WATCHED).axes[0]
    rings = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if line.get_marker() == "o"]
    assert rings == [(3, 0), (3, 2)]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [*WATCHED["lines"][:3], "where is the milk? garden, not home"]


def test_the_report_has_it_where_a_run_has_a_buffer(make_run):
    without = load_run(make_run("without"))
    run = load_run(make_run("with", evaluation={"label": "ST", "metrics": {}, "buffer": WATCHED}))
    assert "buffer" in figures([without, run]) and "buffer" not in figures([without])


def test_a_buffer_that_cannot_be_drawn_is_one_clear_line(make_run):
    run = load_run(make_run("bad", evaluation={"label": "ST", "metrics": {}, "buffer": WATCHED | {"held": [[99]]}}))
    with pytest.raises(MemjaxError, match="its buffer cannot be drawn"):
        figures([run])
