"""What was logged while training, as curves: losses and accuracy over the steps, several runs on the same axes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from memjax.reporting.run_folder import LAST, Curve
from memjax.reporting.style import INK, Shown, colour, dashes, new_figure, plain

DOTTED: dict[str, Any] = {"color": INK, "lw": 1.0, "ls": (0, (1, 2)), "zorder": 0}


def losses(runs: Sequence[Shown]) -> Figure | None:
    """A panel for each component of the loss, those of the phases before the last one too; None if none was logged."""
    return _curve_figure(runs, lambda key: key == "loss" or key.endswith("_loss"))


def accuracy(runs: Sequence[Shown]) -> Figure | None:
    """Accuracy over the steps, in training and on validation examples; None if none was logged."""
    return _curve_figure(runs, lambda key: key == "accuracy")


def _curve_figure(runs: Sequence[Shown], wanted: Callable[[str], bool]) -> Figure | None:
    groups = [group for _, _, run, _ in runs for group in (run.curves, run.validation)]
    # A loss that is zero throughout is one that the system does not have.
    logged = {
        (phase, key)
        for group in groups
        for phase in group
        for key, curve in group[phase].items()
        if not key.endswith("_loss") or curve.values.any()
    }
    panels = sorted(
        (panel for panel in logged if wanted(panel[1])),
        key=lambda panel: (panel[0] != LAST, panel[0], panel[1] != "loss", panel[1]),
    )
    if not panels:
        return None
    handles = [Line2D([], [], color=colour(i), ls=dashes(i), lw=2, label=name) for i, name, _, _ in runs]
    if any(_guessing(shown, key) for shown in runs for _, key in panels):
        handles.append(Line2D([], [], **DOTTED, label="guessing"))
    if any(key in run.validation.get(phase, {}) for _, _, run, _ in runs for phase, key in panels):
        handles.append(Line2D([], [], color=INK, ls="", marker="o", markersize=4.5, label="validation examples"))
    titles = {phase.name: phase.title for _, _, _, report in runs for phase in report.phases} | {LAST: ""}
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = new_figure(rows * (3.4 if rows == 1 else 2.7), handles)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (phase, key) in zip(grid, panels):
        where = titles.get(phase, phase)
        ax.set(title=plain(f"{where}{': ' if where else ''}{key.replace('_', ' ')}"), xlabel="step")
        ax.xaxis.set_major_locator(MaxNLocator(4 if columns == 3 else 5, integer=True))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        _draw_curves(ax, runs, phase, key)
    for ax in grid[len(panels) :]:
        ax.set_axis_off()
    return figure


def _draw_curves(ax: Axes, runs: Sequence[Shown], phase: str, key: str) -> None:
    drawn: list[np.ndarray] = []
    for i, _, run, _ in runs:
        drawn += _draw_curve(ax, i, run.curves.get(phase, {}).get(key), run.validation.get(phase, {}).get(key))
    levels = {level for shown in runs if key in shown.run.curves.get(phase, {}) for level in _guessing(shown, key)}
    for level in sorted(levels):
        ax.axhline(level, **DOTTED)
    middles = np.concatenate(drawn)
    middles = middles[np.isfinite(middles)]
    if key == "accuracy":
        ax.set_ylim(-0.02, 1.04)
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    elif middles.size and middles.min() > 0 and middles.max() > 30 * middles.min():
        ax.set_yscale("log")


def _draw_curve(ax: Axes, i: int, train: Curve | None, valid: Curve | None) -> list[np.ndarray]:
    middles = []
    if train is not None:
        middles.append(running_mean(train.values))
        ax.plot(train.steps, train.values, color=colour(i), lw=0.8, alpha=0.22)
        lonely = "o" if np.isfinite(train.values).sum() < 2 else None
        ax.plot(train.steps, middles[-1], color=colour(i), ls=dashes(i), lw=1.9, marker=lonely)
    if valid is not None:
        middles.append(valid.values)
        size = 5.5 if len(valid.steps) <= 30 else 3.5
        ax.plot(valid.steps, valid.values, "o", color=colour(i), markersize=size, mec="white", mew=0.6, zorder=3)
    return middles


def running_mean(values: np.ndarray) -> np.ndarray:
    """The mean over a window of a 25th of the points around each; NaN counts for nothing, `[n] -> [n]`."""
    window = np.ones(2 * (len(values) // 50) + 1)
    finite = np.isfinite(values)
    total = np.convolve(np.where(finite, values, 0), window, "same")
    count = np.convolve(finite, window, "same")
    return np.where(count > 0.5, total / np.maximum(count, 1), np.nan)


def _guessing(shown: Shown, key: str) -> list[float]:
    """What a curve is at for a system that knows nothing, where its report says that."""
    return [shown.report.guessing[key]] if key in shown.report.guessing else []
