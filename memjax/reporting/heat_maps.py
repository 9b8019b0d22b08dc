"""Tables of numbers as colours, a map for each run: accuracy by two tags, or any values with rows and columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from memjax.reporting.columns import tag_values
from memjax.reporting.description import BETWEEN, HeatMap, TagMaps
from memjax.reporting.run_folder import drawn_from, pick
from memjax.reporting.style import Shown, new_figure, plain, with_data

GAP = "#D9D9D9"


def tag_maps(panel: TagMaps, runs: Sequence[Shown]) -> Figure | None:
    """A map for each run and pair of tags, all of one scale, the share in each cell; None if no run has any."""
    found = [(run, tag) for run in runs for tag in panel.tags if tag_values(pick(run.run.evaluation, "metrics"), tag)]
    if not found:
        return None
    figure, grid = _grid(len(found), 3.0)
    for ax, (run, tag) in zip(grid, found):
        drawn = _tag_map(ax, run, tag)
        ax.set_title(run.name)
    bar = figure.colorbar(drawn, ax=grid, fraction=0.03, pad=0.02, ticks=np.linspace(0, 1, 6))
    bar.set_label("accuracy")
    bar.ax.set_yticklabels([f"{10 * n * 2}%" for n in range(6)])
    bar.outline.set_visible(False)
    return figure


def _tag_map(ax: Axes, run: Shown, tag: str) -> AxesImage:
    values = tag_values(pick(run.run.evaluation, "metrics"), tag)
    along = list(dict.fromkeys(name.partition(BETWEEN)[0] for name in values))
    down = list(dict.fromkeys(name.partition(BETWEEN)[2] for name in values))
    shares = np.array([[values.get(f"{x}{BETWEEN}{y}", (np.nan,))[0] for x in along] for y in down])
    drawn = _draw(ax, shares, vmin=0, vmax=1)
    ax.set_xticks(range(len(along)), [plain(name) for name in along])
    ax.set_yticks(range(len(down)), [plain(name) for name in down])
    ax.set(xlabel=plain(tag.partition(BETWEEN)[0]), ylabel=plain(tag.partition(BETWEEN)[2]))
    for (y, x), share in np.ndenumerate(shares):
        if np.isfinite(share):
            ax.text(x, y, f"{100 * share:.0f}", ha="center", va="center", color="black" if share > 0.55 else "white")
    return drawn


def heat_map(panel: HeatMap, runs: Sequence[Shown]) -> Figure | None:
    """A map for each run that has the table, each with a scale of its own; None if none has it."""
    found = with_data(panel, runs)
    if not found:
        return None
    figure, grid = _grid(len(found), 2.8)
    for ax, (run, table) in zip(grid, found):
        with drawn_from(run.run, panel.path):
            drawn = _table(ax, table)
        ax.set(xlabel=plain(panel.along), ylabel=plain(panel.down), title=run.name)
        bar = figure.colorbar(drawn, ax=ax, fraction=0.06, pad=0.02)
        bar.set_label(plain(panel.value))
        bar.outline.set_visible(False)
    return figure


def _table(ax: Axes, table: Any) -> AxesImage:
    """Columns of numbers, the first at the left; with names for both, or else numbers from 1."""
    named = isinstance(table, dict)
    values = np.asarray(table["values"] if named else table, np.float64).T
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError("it is not a table of numbers")
    image = np.ma.masked_invalid(values)
    low, high = (min(0.0, image.min()), image.max()) if image.count() else (0.0, 1.0)
    down, along = values.shape
    extent = (0.5, along + 0.5, down + 0.5, 0.5)
    drawn = _draw(ax, image, vmin=low, vmax=high if high > low else low + 1, extent=extent)
    for axis, count, names in ((ax.xaxis, along, "along"), (ax.yaxis, down, "down")):
        ticks = count_ticks(count)
        axis.set_ticks(ticks, [plain(str(table[names][tick - 1])) for tick in ticks] if named else None)
    return drawn


def _grid(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Axes for so many maps, at most two beside each other."""
    columns = min(count, 2)
    rows = -(-count // columns)
    figure = new_figure(rows * (3.6 if columns == 1 else height))
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax in grid[count:]:
        ax.set_axis_off()
    return figure, list(grid[:count])


def _draw(ax: Axes, values: np.ndarray, **scale: Any) -> AxesImage:
    drawn = ax.imshow(np.ma.masked_invalid(values), cmap="cividis", aspect="auto", interpolation="nearest", **scale)
    ax.set_facecolor(GAP)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return drawn


def count_ticks(n: int) -> list[int]:
    """At most nine round numbers from 1 to n, for an axis that counts."""
    steps = (round_number * 10**power for power in range(9) for round_number in (1, 2, 5))
    step = next(step for step in steps if n <= 8 * step)
    return [*([1] if step > 2 else []), *range(step, n + 1, step)]
