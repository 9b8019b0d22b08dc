"""Accuracy over two tags at once, as pictures: by length and by depth, by length and by number of pairs."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memjax.reporting.runs import Run, pick, tag_values
from memjax.reporting.style import new_figure, plain, shown_names, styled

BETWEEN = " x "  # of the two tags in the name of a pair, and of their values


def is_pair(tag: str) -> bool:
    """Whether the tag is a pair of two others."""
    return BETWEEN in tag


@styled
def maps(runs: Sequence[Run]) -> Figure | None:
    """A map for each run and pair of tags, all of one scale, the share in each cell; None if no run has any."""
    panels = []
    for run, name in zip(runs, shown_names(runs)):
        tags = pick(run.evaluation, "metrics", "tags")
        panels += [(run, name, tag) for tag in (tags if isinstance(tags, dict) else {}) if is_pair(tag)]
    if not panels:
        return None
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    figure = new_figure(rows * (3.6 if columns == 1 else 3.0))
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (run, name, tag) in zip(grid, panels):
        drawn = _map(ax, run, tag)
        ax.set_title(name)
    bar = figure.colorbar(drawn, ax=list(grid), fraction=0.03, pad=0.02, ticks=np.linspace(0, 1, 6))
    bar.set_label("accuracy")
    bar.ax.set_yticklabels([f"{10 * n * 2}%" for n in range(6)])
    bar.outline.set_visible(False)
    for ax in grid[len(panels) :]:
        ax.set_axis_off()
    return figure


def _map(ax: Axes, run: Run, tag: str):
    values = tag_values(pick(run.evaluation, "metrics"), tag)
    across = list(dict.fromkeys(name.partition(BETWEEN)[0] for name in values))
    down = list(dict.fromkeys(name.partition(BETWEEN)[2] for name in values))
    shares = np.array([[values.get(f"{x}{BETWEEN}{y}", (np.nan,))[0] for x in across] for y in down])
    drawn = ax.imshow(np.ma.masked_invalid(shares), cmap="cividis", vmin=0, vmax=1, aspect="auto")
    ax.set_facecolor("#D9D9D9")
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set_xticks(range(len(across)), [plain(name) for name in across])
    ax.set_yticks(range(len(down)), [plain(name) for name in down])
    ax.set(xlabel=plain(tag.partition(BETWEEN)[0]), ylabel=plain(tag.partition(BETWEEN)[2]))
    for (y, x), share in np.ndenumerate(shares):
        if np.isfinite(share):
            ax.text(x, y, f"{100 * share:.0f}", ha="center", va="center", color="black" if share > 0.55 else "white")
    return drawn
