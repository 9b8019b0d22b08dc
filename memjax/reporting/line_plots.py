"""Points of an evaluation as a curve for each run: an error by the length, a count by the age."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from memjax.reporting.columns import shown_value
from memjax.reporting.description import Lines
from memjax.reporting.intervals import share_intervals
from memjax.reporting.run_folder import drawn_from, number
from memjax.reporting.style import Shown, colour, dashes, new_figure, plain, with_data


def lines(panel: Lines, runs: Sequence[Shown]) -> Figure | None:
    """A curve for each run that has its points, with the 95% interval where examples are counted; None if none has."""
    found = with_data(panel, runs)
    if not found:
        return None
    names = [Line2D([], [], color=colour(i), ls=dashes(i), lw=2, label=name) for (i, name, _, _), _ in found]
    figure = new_figure(3.4, names if len(runs) > 1 else ())
    ax = figure.subplots()
    for run, points in found:
        with drawn_from(run.run, panel.path):
            values = sorted((float(x), *_value(y)) for x, y in points.items())
            x, y, examples = np.array(values, np.float64).reshape(-1, 3).T
            paint, style = colour(run.number), dashes(run.number)
            ax.plot(x, _shown(y, panel), color=paint, ls=style, lw=1.9, marker="o", markersize=4)
            if panel.number in ("percent", "error") and np.isfinite(examples).any():
                low, high = (_shown(ends, panel) for ends in share_intervals(y, examples))
                ax.fill_between(x, low, high, color=paint, alpha=0.15, lw=0)
    ax.set(xlabel=plain(panel.x), ylabel=plain(panel.y))
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x == round(x) else f"{x:g}")
    if panel.number != "percent":
        ax.set_ylim(bottom=0)
    return figure


def _shown(values: np.ndarray, panel: Lines) -> np.ndarray:
    return np.array([shown_value(float(value), panel.number) for value in values])


def _value(point: object) -> tuple[float, float]:
    """(value, examples) of a point."""
    if isinstance(point, dict):
        return number(point.get("accuracy")), number(point.get("examples"))
    return number(point), np.nan
