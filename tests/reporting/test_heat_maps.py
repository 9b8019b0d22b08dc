"""Maps of accuracy over two tags, and of any table of numbers."""

import numpy as np
import pytest

from memjax.errors import MemjaxError
from memjax.experiments.sequence import sequence_report
from memjax.reporting import figures, load_run, save, summary_rows, write_report
from memjax.reporting.description import ACCURACY, HeatMap, Report
from memjax.reporting.heat_maps import count_ticks
from memjax.reporting.tables import tag_tables

CELLS = {"64 x 1": 1.0, "64 x 8": 0.9, "128 x 1": 0.5, "128 x 8": 0.25, "256 x 8": 0.0}
TAGS = {"length x pairs": tuple(CELLS), "length": ("64",)}


def evaluation(report=None, **metrics):
    share = {name: {"accuracy": value, "examples": 10} for name, value in CELLS.items()}
    tags = {"length x pairs": share, "length": {"64": {"accuracy": 0.95, "examples": 20}}}
    return {
        "label": "LMM", "step": 9, "examples": 50, "metrics": {"accuracy": 0.5, "tags": tags, **metrics},
        "task": "recall", "split": "test", "report": report and report.to_json(),
    }  # fmt: skip


REPORTS = pytest.mark.parametrize("report", [sequence_report(TAGS, 64, 1), None], ids=["described", "default"])


@REPORTS
def test_a_map_has_the_first_tag_along_the_second_down_and_a_gap_where_nothing_was_tested(make_run, report):
    figure = figures([load_run(make_run(evaluation=evaluation(report)))])["maps"]
    ax = figure.axes[0]
    shown = np.ma.filled(ax.get_images()[0].get_array(), np.nan)
    np.testing.assert_array_equal(shown, [[1.0, 0.5, np.nan], [0.9, 0.25, 0.0]])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["64", "128", "256"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "8"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length", "pairs")
    assert sorted(text.get_text() for text in ax.texts) == ["0", "100", "25", "50", "90"]
    assert ax.get_images()[0].get_clim() == (0, 1)


def test_every_run_has_its_map_and_runs_without_one_are_left_out(make_run):
    described = evaluation(sequence_report(TAGS, 64, 1))
    runs = [load_run(make_run(name, evaluation=described)) for name in ("a", "b", "c")]
    runs.append(load_run(make_run("d")))
    titles = [title for ax in figures(runs)["maps"].axes if (title := ax.get_title(loc="left"))]
    assert titles == ["a", "b", "c"]
    assert "maps" not in figures(runs[3:])


@REPORTS
def test_pairs_are_maps_and_no_tables(make_run, report):
    run = load_run(make_run(evaluation=evaluation(report)))
    assert [table.tag for table in tag_tables([run])] == ["length"]
    page = write_report([run]).read_text()
    assert "Accuracy by two things at once" in page and "64 x 8" not in page


def test_a_text_has_a_perplexity_in_place_of_errors(make_run):
    described = evaluation(sequence_report(TAGS, 64, 1, text=True), perplexity=1234.56)
    row = summary_rows([load_run(make_run(evaluation=described))])[0]
    assert row["perplexity"] == "1,234.6" and not {"error %", "accuracy %"} & set(row)
    row = summary_rows([load_run(make_run("old", evaluation=evaluation(perplexity=1234.56)))])[0]
    assert row["perplexity"] == "1,234.6" and row["error %"] == "50.0"


def slots(make_run, changes, name="run"):
    run = load_run(make_run(name))
    run.evaluation["slot_changes"] = changes
    return run


def test_the_slot_map_has_segments_along_and_slots_down(make_run):
    ax = figures([slots(make_run, [[0.0, 1.0, 2.0], [3.0, 4.0, None]])])["slots"].axes[0]
    image = ax.images[0]
    assert image.get_array().tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, None]]
    assert image.get_extent() == [0.5, 2.5, 3.5, 0.5]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2"]


@pytest.mark.parametrize("changes", [[[0.0, 0.0]], [[float("nan")]], [[-1.0, 2.0]], np.ones((200, 3)).tolist()])
def test_odd_slot_maps_are_drawn(make_run, tmp_path, changes):
    save({"slots": figures([slots(make_run, changes)])["slots"]}, tmp_path)


@pytest.mark.parametrize("changes", [[[1, 2], [3]], ["a"], [[], []], "a", 3, {"values": [[1]]}, {"along": ["x"]}])
def test_a_table_that_cannot_be_drawn_is_one_clear_line(make_run, changes):
    with pytest.raises(MemjaxError, match="its slot_changes cannot be drawn") as caught:
        figures([slots(make_run, changes)])
    assert "\n" not in str(caught.value) and "evaluation.json" in str(caught.value)


def test_a_table_with_names_has_them_on_its_axes(make_run):
    panel = HeatMap("ages", "Ages", "How old.", ("found", "ages"), "age", "policy", "share")
    table = {"along": ["new", "old", "$x$"], "down": ["fifo", "im"], "values": [[0.5, 0.25], [0.125, 0], [1, 2]]}
    found = {"metrics": {"accuracy": 1}, "found": {"ages": table}}
    found["report"] = Report(ACCURACY.name, (ACCURACY,), (panel,)).to_json()
    ax = figures([load_run(make_run(evaluation=found))])["ages"].axes[0]
    assert ax.images[0].get_array().tolist() == [[0.5, 0.125, 1], [0.25, 0, 2]]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["new", "old", r"\$x\$"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["fifo", "im"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", "policy")


@pytest.mark.parametrize("n", [1, 2, 8, 9, 20, 50, 1000])
def test_count_ticks(n):
    ticks = count_ticks(n)
    assert 1 <= len(ticks) <= 9
    assert ticks == sorted(set(ticks)) and ticks[0] >= 1 and ticks[-1] <= n
