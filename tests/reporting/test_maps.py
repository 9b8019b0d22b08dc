"""Maps of accuracy over two tags, and the tables of runs with sequences."""

import numpy as np

from memjax.reporting import load_run
from memjax.reporting.maps import maps
from memjax.reporting.page import write_report
from memjax.reporting.plots import figures
from memjax.reporting.tables import other_tags, summary_rows

CELLS = {"64 x 1": 1.0, "64 x 8": 0.9, "128 x 1": 0.5, "128 x 8": 0.25, "256 x 8": 0.0}


def evaluation(**metrics):
    share = {name: {"accuracy": value, "examples": 10} for name, value in CELLS.items()}
    tags = {"length x pairs": share, "length": {"64": {"accuracy": 0.95, "examples": 20}}}
    return {
        "label": "LMM", "step": 9, "examples": 50, "metrics": {"accuracy": 0.5, "tags": tags, **metrics},
        "task": "recall", "split": "test",
    }  # fmt: skip


def test_a_map_has_the_first_tag_along_the_second_down_and_a_gap_where_nothing_was_tested(make_run):
    figure = maps([load_run(make_run(evaluation=evaluation()))])
    ax = figure.axes[0]
    shown = np.ma.filled(ax.get_images()[0].get_array(), np.nan)
    np.testing.assert_array_equal(shown, [[1.0, 0.5, np.nan], [0.9, 0.25, 0.0]])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["64", "128", "256"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "8"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length", "pairs")
    assert sorted(text.get_text() for text in ax.texts) == ["0", "100", "25", "50", "90"]
    assert ax.get_images()[0].get_clim() == (0, 1)


def test_every_run_has_its_map_and_runs_without_one_are_left_out(make_run):
    runs = [load_run(make_run(name, evaluation=evaluation())) for name in ("a", "b", "c")]
    runs.append(load_run(make_run("d")))
    titles = [title for ax in maps(runs).axes if (title := ax.get_title(loc="left"))]
    assert titles == ["a", "b", "c"]
    assert maps(runs[3:]) is None and "maps" not in figures(runs[3:])


def test_pairs_are_maps_and_no_tables(make_run):
    run = load_run(make_run(evaluation=evaluation()))
    assert other_tags([run]) == ["length"]
    page = write_report([run]).read_text()
    assert "Accuracy by two things at once" in page and "64 x 8" not in page


def test_a_text_has_a_perplexity_in_place_of_errors(make_run):
    row = summary_rows([load_run(make_run(evaluation=evaluation(perplexity=1234.56)))])[0]
    assert row["perplexity"] == "1,234.6" and not {"error %", "accuracy %"} & set(row)
