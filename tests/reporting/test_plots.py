import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

from memjax.errors import MemjaxError
from memjax.reporting import figures, load_run, plots, save


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
    first = save({"slots": plots.slots([run])}, tmp_path / "1")["slots"].read_bytes()
    assert save({"slots": plots.slots([run])}, tmp_path / "2")["slots"].read_bytes() == first


def test_panels_follow_what_was_logged(make_run):
    titles = [ax.get_title("left") for ax in plots.losses([load_run(make_run())]).axes]
    assert titles[:5] == ["loss", "answer loss", "recollection loss", "familiarity loss", "history sampler: loss"]
    lines = [{"phase": "train", "step": 1, "loss": 1.0}]
    run = load_run(make_run("short", lines=lines, evaluation=None))
    assert list(figures([run])) == ["losses"]
    assert figures([load_run(make_run("new", lines=[], evaluation=None))]) == {}


def test_the_lines_are_the_numbers(make_run):
    lines = [{"phase": "train", "step": step, "loss": 1.0 / step, "accuracy": step / 4} for step in (1, 2, 3)]
    lines.append({"phase": "train", "split": "valid", "step": 3, "accuracy": 0.5})
    figure = plots.accuracy([load_run(make_run(lines=lines))])
    train, mean, valid = figure.axes[0].get_lines()
    np.testing.assert_array_equal(train.get_xydata(), [[1, 0.25], [2, 0.5], [3, 0.75]])
    np.testing.assert_array_equal(mean.get_xydata(), train.get_xydata())
    np.testing.assert_array_equal(valid.get_xydata(), [[3, 0.5]])


def test_bars_are_the_accuracies_and_chance_is_drawn_where_known(make_run):
    runs = [load_run(make_run(name, accuracy=accuracy)) for name, accuracy in (("a", (0.6, 0.9)), ("b", (0.5, 0.8)))]
    figure = plots.places([*runs, load_run(make_run("c", evaluation=None))])
    halves, quarters = figure.axes
    assert [round(patch.get_height(), 6) for patch in halves.patches] == [0.6, 0.9, 0.5, 0.8]
    assert len(quarters.patches) == 8
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "a",
        "b",
        "history sampler (reads the stream)",
    ]
    for run in runs:
        run.evaluation["classes"] = 10
    figure = plots.places(runs)
    assert figure.legends[0].get_texts()[-1].get_text() == "chance"
    assert any(list(line.get_ydata()) == [0.1, 0.1] for line in figure.axes[0].get_lines())


def test_losses_show_what_guessing_would_cost(make_run):
    run = load_run(make_run())
    run.evaluation.update({"classes": 10, "recalled_among": 200})
    levels = {
        ax.get_title("left"): [line.get_ydata()[0] for line in ax.get_lines() if len(set(line.get_ydata())) == 1]
        for ax in plots.losses([run]).axes
    }
    assert levels["answer loss"] == [np.log(10)]
    assert levels["recollection loss"] == [np.log(200)]
    assert levels["familiarity loss"] == [2 * np.log(2)]


def test_the_slot_map_has_segments_along_and_slots_down(make_run):
    run = load_run(make_run())
    run.evaluation["slot_changes"] = [[0.0, 1.0, 2.0], [3.0, 4.0, float("nan")]]
    image = plots.slots([run]).axes[0].images[0]
    assert image.get_array().tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, None]]
    assert image.get_extent() == [0.5, 2.5, 3.5, 0.5]


@pytest.mark.parametrize("changes", [[[0.0, 0.0]], [[float("nan")]], [[-1.0, 2.0]], np.ones((200, 3)).tolist()])
def test_odd_slot_maps_are_drawn(make_run, tmp_path, changes):
    run = load_run(make_run())
    run.evaluation["slot_changes"] = changes
    save({"slots": plots.slots([run])}, tmp_path)


def test_nine_runs_with_hostile_names(make_run, tmp_path):
    names = [f"run{i}" for i in range(6)] + ["$\\frac{$", "_hidden", "a" * 200]
    runs = [load_run(make_run(name, seed=i)) for i, name in enumerate(names)]
    figure = plots.places(runs)
    legend = [text.get_text().strip() for text in figure.legends[0].get_texts()]
    assert "_hidden" in legend and len(legend) == 10
    assert max(map(len, legend)) < 60
    save({"places": figure}, tmp_path)


def test_nothing_but_gaps_is_drawn(make_run, tmp_path):
    lines = [{"phase": "train", "step": step, "loss": float("nan")} for step in (1, 2)]
    save(figures([load_run(make_run(lines=lines, evaluation=None))]), tmp_path)


def test_running_mean():
    values = np.arange(200.0)
    np.testing.assert_allclose(plots.running_mean(values)[4:-4], values[4:-4])
    np.testing.assert_allclose(plots.running_mean(values)[0], values[:5].mean())
    values[10] = np.nan
    assert plots.running_mean(values)[10] == pytest.approx(10.0)
    assert np.isnan(plots.running_mean(np.array([np.nan, 1.0]))).tolist() == [True, False]


def test_interval():
    low, high = plots.interval(np.array([0.5, 0.0, 1.0, 0.7]), np.array([100.0, 10.0, 10.0, np.nan]))
    # Wilson's intervals for 50 of 100, 0 of 10, 10 of 10 (Brown, Cai and DasGupta 2001).
    np.testing.assert_allclose(low, [0.4038, 0.0, 0.7225, 0.7], atol=1e-4)
    np.testing.assert_allclose(high, [0.5962, 0.2775, 1.0, 0.7], atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 8, 9, 20, 50, 1000])
def test_count_ticks(n):
    ticks = plots.count_ticks(n)
    assert 1 <= len(ticks) <= 9
    assert ticks == sorted(set(ticks)) and ticks[0] >= 1 and ticks[-1] <= n


def test_errors(tmp_path):
    with pytest.raises(MemjaxError, match="no runs"):
        figures([])
    (tmp_path / "file").touch()
    with pytest.raises(MemjaxError, match=r"cannot write to .*file: "):
        save({}, tmp_path / "file")
