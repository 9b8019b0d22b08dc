"""What an agent did in a maze, as a picture: its way, and at a few steps its view and the views it held."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from memjax.reporting.runs import Run, pick
from memjax.reporting.style import INK, PALETTE, new_figure, shown_names, styled

# What a cell may be, by its code: unseen, floor, wall, then objects by their colour.
KINDS = ("not seen", "floor", "wall", "red", "cyan", "yellow", "lime")
PAINTS = ("#C9C9C6", "#FFFFFF", "#55565A", "#D64545", "#37B6C8", "#F2C230", "#8CC63F")
MOMENTS = 6
WALL = KINDS.index("wall")
_PAINT: dict[str, Any] = {
    "cmap": ListedColormap(PAINTS),
    "norm": BoundaryNorm(np.arange(len(PAINTS) + 1) - 0.5, len(PAINTS)),
    "interpolation": "nearest",
}


@styled
def walk(runs: Sequence[Run]) -> Figure | None:
    """The test episode of the first run that has one. None if no run has one."""
    for run, name in zip(runs, shown_names(runs)):
        watched = pick(run.evaluation, "maze")
        if isinstance(watched, dict):
            return draw_walk(watched, name)
    return None


def draw_walk(watched: Mapping[str, Any], title: str = "") -> Figure:
    """The maze with the way through it, and a column for each of a few steps: the view, then the views held, oldest
    first, each with the step of which it is, how much it was attended to and how likely it was to be kept.

    watched: as `memjax.training.agents.watch` gives it.
    """
    steps = len(watched["place"])
    moments = sorted({round(x) for x in np.linspace(0, steps - 1, MOMENTS)})
    entries = max(1, *(len(held) for held in watched["held"]))
    handles = [Patch(facecolor=paint, edgecolor=INK, lw=0.5, label=kind) for kind, paint in zip(KINDS, PAINTS)]
    figure = new_figure(2.6 + 1.45 * (1 + entries), handles)
    grid = figure.add_gridspec(2 + entries, MOMENTS, height_ratios=[1.7, *[1] * (1 + entries)])
    _draw_map(figure.add_subplot(grid[0, :]), watched, moments, title)
    for column, t in enumerate(moments):
        ax = _view(figure.add_subplot(grid[1, column]), watched["view"][t])
        action = watched["action"][t]
        ax.set_title(f"step {t}", fontsize=10, color=PALETTE[1])
        ax.set_xlabel(f"{action}, {max(watched['actions'][t]):.0%}", fontsize=9)
        for row, came in enumerate(watched["held"][t]):
            held = _view(figure.add_subplot(grid[2 + row, column]), watched["view"][came])
            seen, kept = watched["attention"][t][row], 1 - watched["eviction"][t][row]
            held.set_xlabel(f"{came}: read {seen:.0%}\nkept {kept:.0%}", fontsize=8)
    return figure


def _draw_map(ax: Axes, watched: Mapping[str, Any], moments: Sequence[int], title: str) -> None:
    """From above, the long side across; the way as a line, with the steps that are shown below."""
    cells, place = np.array(watched["grid"]), np.array(watched["place"])[:, :2]
    rows, columns = (np.flatnonzero((cells != WALL).any(axis)) for axis in (1, 0))
    top, left = max(rows[0] - 1, 0), max(columns[0] - 1, 0)
    cells, place = cells[top : rows[-1] + 2, left : columns[-1] + 2], place - (top, left)
    if cells.shape[0] > cells.shape[1]:
        cells, place = cells.T, place[:, ::-1]
    ax.imshow(cells, **_PAINT)
    ax.plot(place[:, 1], place[:, 0], color=PALETTE[1], lw=1.6)
    for t in moments:
        row, column = place[t]
        ax.plot(column, row, "o", color=PALETTE[1], markersize=4)
        if t in (moments[0], moments[-1]) or np.abs(place[t] - place[moments[-1]]).sum() > 1:
            ax.annotate(str(t), (column, row), xytext=(3, 4), textcoords="offset points", fontsize=8, color=PALETTE[1])
    _bare(ax)
    ax.set_title(title)
    ax.set_xlabel(f"{len(place)} steps; the last one's reward is {watched['reward'][-1]:g}", fontsize=9)


def _view(ax: Axes, view: Sequence[Sequence[int]]) -> Axes:
    """What was seen, the agent below in the middle, looking up."""
    ax.imshow(np.array(view)[::-1], **_PAINT)
    return _bare(ax)


def _bare(ax: Axes) -> Axes:
    ax.grid(visible=False)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax
