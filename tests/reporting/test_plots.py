import json
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread
from oracles.checking import assert_close

from memjax.errors import MemjaxError
from memjax.experiments.algorithmic_family import algorithmic_report
from memjax.reporting import figures, load_run, save
from memjax.reporting.curve_plots import running_mean
from memjax.reporting.description import ACCURACY, Lines, Report
from memjax.reporting.intervals import wilson_interval


def test_all_figures_of_one_run(make_run, tmp_path):
    before = dict(matplotlib.rcParams)
    made = figures([load_run(make_run())])
    assert list(made) == ["losses", "accuracy", "places", "slots"]
    paths = save(made, tmp_path / "deep" / "plots")
    assert sorted(p.name for p in (tmp_path / "deep" / "plots").iterdir()) == sorted(f"{name}.png" for name in made)
    for path in paths.values():
        assert imread(path).std() > 0.05
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_the_same_figure_is_the_same_bytes(make_run, tmp_path):
    run = load_run(make_run(lines=[]))
    first = save({"slots": figures([run])["slots"]}, tmp_path / "1")["slots"].read_bytes()
    assert save({"slots": figures([run])["slots"]}, tmp_path / "2")["slots"].read_bytes() == first


def test_panels_follow_what_was_logged(make_run):
    titles = [ax.get_title("left") for ax in figures([load_run(make_run())])["losses"].axes]
    assert titles[:5] == ["loss", "answer loss", "familiarity loss", "recollection loss", "history sampler: loss"]
    lines = [{"phase": "train", "step": 1, "loss": 1.0}]
    run = load_run(make_run("short", lines=lines, evaluation=None))
    assert list(figures([run])) == ["losses"]
    assert figures([load_run(make_run("new", lines=[], evaluation=None))]) == {}


def test_the_lines_are_the_numbers(make_run):
    lines = [{"phase": "train", "step": step, "loss": 1.0 / step, "accuracy": step / 4} for step in (1, 2, 3)]
    lines.append({"phase": "train", "split": "valid", "step": 3, "accuracy": 0.5})
    figure = figures([load_run(make_run(lines=lines))])["accuracy"]
    train, mean, valid, guessing = figure.axes[0].get_lines()
    np.testing.assert_array_equal(train.get_xydata(), [[1, 0.25], [2, 0.5], [3, 0.75]])
    np.testing.assert_array_equal(mean.get_xydata(), train.get_xydata())
    np.testing.assert_array_equal(valid.get_xydata(), [[3, 0.5]])
    assert list(guessing.get_ydata()) == [0.1, 0.1]


def test_bars_are_the_accuracies_and_chance_is_drawn_where_all_have_one(make_run):
    runs = [load_run(make_run(name, accuracy=accuracy)) for name, accuracy in (("a", (0.6, 0.9)), ("b", (0.5, 0.8)))]
    figure = figures([*runs, load_run(make_run("c", evaluation=None))])["places"]
    halves, quarters = figure.axes
    assert [ax.get_title("left") for ax in figure.axes] == ["by half of the stream", "by quarter of the stream"]
    assert [round(patch.get_height(), 6) for patch in halves.patches] == [0.6, 0.9, 0.5, 0.8]
    assert len(quarters.patches) == 8
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["a", "b", "history sampler (reads the stream)", "chance"]
    assert any(list(line.get_ydata()) == [0.1, 0.1] for line in halves.get_lines())
    levels = [level for lines in halves.collections for level in lines.get_segments()]
    assert {level[0][1] for level in levels if level[0][1] == level[1][1]} == {0.9, 0.99}
    runs[0].evaluation["report"]["guessing"]["accuracy"] = 0.5
    figure = figures(runs)["places"]
    assert "chance" not in [text.get_text() for text in figure.legends[0].get_texts()]
    assert not any(len({*line.get_ydata()}) == 1 for line in figure.axes[0].get_lines())


def test_runs_that_want_other_pictures_have_their_own(make_run):
    first, second = (load_run(make_run(name)) for name in "ab")
    places = next(panel for panel in second.evaluation["report"]["panels"] if panel["name"] == "places")
    places["caption"] = "Another."
    made = figures([first, second])
    assert list(made) == ["losses", "accuracy", "places", "slots", "places-2"]
    assert [len(made[name].axes[0].patches) for name in ("places", "places-2")] == [2, 2]


def test_every_evaluation_of_a_run_is_drawn_and_has_a_colour_of_its_own(make_run):
    folder = make_run("a", accuracy=(0.6, 0.9))
    found = json.loads((folder / "evaluation.json").read_text())
    found["metrics"]["tags"]["half"]["early"]["accuracy"] = 0.3
    (folder / "evaluation-longer.json").write_text(json.dumps(found))
    made = figures([load_run(folder), load_run(make_run("b", accuracy=(0.5, 0.8)))])
    patches = made["places"].axes[0].patches
    assert [round(patch.get_height(), 6) for patch in patches] == [0.6, 0.9, 0.5, 0.8, 0.3, 0.9]
    assert [text.get_text() for text in made["places"].legends[0].get_texts()][:3] == ["a", "b", "a, longer"]
    assert len({patch.get_facecolor() for patch in patches}) == 3
    assert [text.get_text() for text in made["losses"].legends[0].get_texts()][:2] == ["a", "b"]


def test_losses_show_what_guessing_would_cost(make_run):
    run = load_run(make_run())
    levels = {
        ax.get_title("left"): [line.get_ydata()[0] for line in ax.get_lines() if len(set(line.get_ydata())) == 1]
        for ax in figures([run])["losses"].axes
    }
    assert levels["answer loss"] == [np.log(10)]
    assert levels["recollection loss"] == [np.log(200)]
    assert levels["familiarity loss"] == [2 * np.log(2)]
    assert levels["loss"] == []


def test_points_of_an_evaluation_are_a_line_for_each_run(make_run):
    def run(name, points):
        found = {"metrics": {"accuracy": 0.9, "wrong_bits": 1, "wrong_bits_by_length": points}}
        return load_run(make_run(name, evaluation=found | {"report": algorithmic_report({}).to_json()}))

    ax = figures([run("a", {"20": 0.5, "5": 0.25, "100": None}), run("b", {"5": 1})])["wrong_bits"].axes[0]
    first, second = ax.get_lines()
    np.testing.assert_array_equal(first.get_xydata(), [[5, 0.25], [20, 0.5], [100, np.nan]])
    np.testing.assert_array_equal(second.get_xydata(), [[5, 1]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length", "wrong bits")
    assert "wrong_bits" not in figures([load_run(make_run("c"))])
    for points in ({"a": 1}, [1], "x"):
        with pytest.raises(MemjaxError, match="wrong_bits_by_length cannot be drawn"):
            figures([run(str(points), points)])


def test_a_line_of_errors_has_the_intervals_of_its_examples(make_run):
    panel = Lines("ages", "By age", "By age.", ("metrics", "tags", "age"), "age", "error %", "error")
    tags = {"age": {"1": {"accuracy": 0.5, "examples": 100}, "10": {"accuracy": 0.25, "examples": 100}}}
    found = {"metrics": {"accuracy": 0.5, "tags": tags}}
    found["report"] = Report(ACCURACY.name, (ACCURACY,), (panel,)).to_json()
    ax = figures([load_run(make_run(evaluation=found))])["ages"].axes[0]
    np.testing.assert_array_equal(ax.get_lines()[0].get_xydata(), [[1, 50], [10, 75]])
    ends = {round(y, 1) for _, y in ax.collections[0].get_paths()[0].vertices}
    assert ends == {40.4, 59.6, 65.7, 82.5}  # Wilson's, of 50 and of 75 in 100


def test_nine_runs_with_hostile_names(make_run, tmp_path):
    names = [f"run{i}" for i in range(6)] + ["$\\frac{$", "_hidden", "a" * 200]
    runs = [load_run(make_run(name, seed=i)) for i, name in enumerate(names)]
    figure = figures(runs)["places"]
    legend = [text.get_text().strip() for text in figure.legends[0].get_texts()]
    assert "_hidden" in legend and len(legend) == 11
    assert max(map(len, legend)) < 60
    save({"places": figure}, tmp_path)


def test_nothing_but_gaps_is_drawn(make_run, tmp_path):
    lines = [{"phase": "train", "step": step, "loss": float("nan")} for step in (1, 2)]
    save(figures([load_run(make_run(lines=lines, evaluation=None))]), tmp_path)


def test_running_mean():
    values = np.arange(200.0)
    np.testing.assert_allclose(running_mean(values)[4:-4], values[4:-4])
    np.testing.assert_allclose(running_mean(values)[0], values[:5].mean())
    values[10] = np.nan
    assert running_mean(values)[10] == pytest.approx(10.0)
    assert np.isnan(running_mean(np.array([np.nan, 1.0]))).tolist() == [True, False]


def test_errors(tmp_path):
    with pytest.raises(MemjaxError, match="no runs"):
        figures([])
    (tmp_path / "file").touch()
    with pytest.raises(MemjaxError, match=r"cannot write to .*file: "):
        save({}, tmp_path / "file")


def test_a_bar_has_its_interval(make_run):
    halves = figures([load_run(make_run("a", accuracy=(0.6, 0.95)))])["places"].axes[0]
    (error,) = [each for each in halves.containers if hasattr(each, "has_yerr")]
    ends = [segment[:, 1] for segment in error.lines[2][0].get_segments()]
    assert_close(np.array(ends), np.array([wilson_interval(0.6 * 500, 500), wilson_interval(0.95 * 500, 500)]), 1e-9)


def test_each_point_has_the_interval_of_its_own_examples(make_run):
    panel = Lines("ages", "By age", "By age.", ("metrics", "tags", "age"), "age", "error %", "error")
    tags = {"age": {"1": {"accuracy": 0.5, "examples": 100}, "10": {"accuracy": 0.25, "examples": 400}}}
    found = {
        "metrics": {"accuracy": 0.5, "tags": tags},
        "report": Report(ACCURACY.name, (ACCURACY,), (panel,)).to_json(),
    }
    ax = figures([load_run(make_run(evaluation=found))])["ages"].axes[0]
    ends = {round(y, 6) for _, y in ax.collections[0].get_paths()[0].vertices}
    assert ends == {round(100 * (1 - e), 6) for c, n in ((50, 100), (100, 400)) for e in wilson_interval(c, n)}
