"""What an agent did in a maze, as a picture: its way, and at a few steps its view and the views it held."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from memjax.reporting.description import WalkPicture
from memjax.reporting.style import INK, PALETTE, Shown, first_drawn, new_figure, plain

# What a cell may be, by its code: unseen, floor, wall, then objects by their colour.
KINDS = ("not seen", "floor", "wall", "red", "cyan", "yellow", "lime")
PAINTS = ("#C9C9C6", "#FFFFFF", "#55565A", "#D64545", "#37B6C8", "#F2C230", "#8CC63F")
MOMENTS, ENTRIES = 6, 8  # the most columns and rows of views
WALL = KINDS.index("wall")
_PAINT: dict[str, Any] = {
    "cmap": ListedColormap(PAINTS),
    "norm": BoundaryNorm(np.arange(len(PAINTS) + 1) - 0.5, len(PAINTS)),
    "interpolation": "nearest",
}


def walk(panel: WalkPicture, runs: Sequence[Shown]) -> Figure | None:
    """That of the first run that has one. None if no run has one."""
    return first_drawn(panel, runs, lambda watched, run: draw_walk(watched, f"{run.name}: {plain(run.run.label)}"))


def draw_walk(watched: Mapping[str, Any], title: str = "") -> Figure:
    """The maze with the way through it, and a column for each of a few steps, one of them that of the view which was
    held longest: the view, then the views held, oldest first, each with the step of which it is, how much it was
    attended to and how likely it was to stay. Of many, those that were attended to most.

    Args:
        watched: {grid: [[code]] of the maze's cells, one of `KINDS`; place: [[row, column, direction], ...] at each
            step and at the end; end: text; view: [[[code]]], action: [text], actions: [[probability]] at each step;
            held, attention, eviction: [[number, ...], ...]}: for each step the steps at which the entries held came,
            how much each was attended to, how likely each was to be evicted.
        title: above it.
    """
    moments = _moments(watched["held"])
    entries = min(ENTRIES, max(1, *(len(held) for held in watched["held"])))
    handles = [Patch(facecolor=paint, edgecolor=INK, lw=0.5, label=kind) for kind, paint in zip(KINDS, PAINTS)]
    figure = new_figure(2.6 + 1.45 * (1 + entries), handles)
    grid = figure.add_gridspec(2 + entries, MOMENTS, height_ratios=[1.7, *[1] * (1 + entries)])
    _draw_map(figure.add_subplot(grid[0, :]), watched, moments, title)
    for column, t in enumerate(moments):
        ax = _view(figure.add_subplot(grid[1, column]), watched["view"][t])
        action = watched["action"][t]
        ax.set_title(f"step {t}", fontsize=10, color=PALETTE[1])
        ax.set_xlabel(plain(f"{action}, {max(watched['actions'][t]):.0%}"), fontsize=9)
        entries_now = zip(watched["held"][t], watched["attention"][t], watched["eviction"][t], strict=True)
        most = sorted(sorted(entries_now, key=lambda entry: -entry[1])[:ENTRIES])
        for row, (came, seen, goes) in enumerate(most):
            held = _view(figure.add_subplot(grid[2 + row, column]), watched["view"][came])
            held.set_xlabel(f"of step {came}: read {seen:.0%}\nstays with {1 - goes:.0%}", fontsize=8)
    return figure


def _moments(held: Sequence[Sequence[int]]) -> list[int]:
    """Steps from first to last, about as far from each other; one gives way to that of the view held longest."""
    steps = len(held)
    moments = sorted({round(x) for x in np.linspace(0, steps - 1, MOMENTS)})
    _, longest = max(((t - came, came) for t, entries in enumerate(held) for came in entries), default=(0, 0))
    inner = moments[1:-1]
    if longest in moments or not inner:
        return moments
    nearest = min(inner, key=lambda t: abs(t - longest))
    return sorted({*moments, longest} - {nearest})


def _draw_map(ax: Axes, watched: Mapping[str, Any], moments: Sequence[int], title: str) -> None:
    """From above, turned so that the long side lies across; the way as a line, with the steps that are shown below."""
    cells, place = np.array(watched["grid"]), np.array(watched["place"])[:, :2]
    steps = len(place) - 1
    rows, columns = (np.flatnonzero((cells != WALL).any(axis)) for axis in (1, 0))
    top, left = max(rows[0] - 1, 0), max(columns[0] - 1, 0)
    cells, place = cells[top : rows[-1] + 2, left : columns[-1] + 2], place - (top, left)
    if cells.shape[0] > cells.shape[1]:
        # A turn, not a mirror: what was on the agent's right stays there.
        cells, place = np.rot90(cells), np.stack([cells.shape[1] - 1 - place[:, 1], place[:, 0]], 1)
    ax.imshow(cells, **_PAINT)
    ax.plot(place[:, 1], place[:, 0], color=PALETTE[1], lw=1.6)
    for t in moments:
        row, column = place[t]
        ax.plot(column, row, "o", color=PALETTE[1], markersize=4)
        if not any((np.abs(place[t] - place[other]) <= 1).all() for other in moments if other < t):
            ax.annotate(str(t), (column, row), xytext=(3, 4), textcoords="offset points", fontsize=8, color=PALETTE[1])
    _bare(ax)
    ax.set_title(title)
    ax.set_xlabel(plain(f"the maze from above: {steps} steps, {watched['end']}"), fontsize=9)


def _view(ax: Axes, view: Sequence[Sequence[int]]) -> Axes:
    """What was seen, the agent below in the middle, looking up."""
    ax.imshow(np.array(view)[::-1], **_PAINT)
    return _bare(ax)


def _bare(ax: Axes) -> Axes:
    ax.grid(visible=False)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax
