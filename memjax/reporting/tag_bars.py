"""Accuracy by the values of tags, as bars with intervals, several runs beside each other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from memjax.reporting.columns import tag_values
from memjax.reporting.description import Bars
from memjax.reporting.intervals import share_intervals
from memjax.reporting.run_folder import pick
from memjax.reporting.style import INK, Shown, colour, is_light, new_figure, plain

DASHED: dict[str, Any] = {"color": INK, "lw": 1.2, "ls": (0, (4, 3))}
LEVEL: dict[str, Any] = {"color": INK, "lw": 2.2}


def bars(panel: Bars, runs: Sequence[Shown]) -> Figure | None:
    """Axes for each tag, a bar for each of its values and each run, a level on it for each phase before the last that
    was tested and has a row of its own, and a line where all runs have one chance; None if no run has the tags.
    """
    by_tag = {tag: [tag_values(pick(run.evaluation, "metrics"), tag) for _, _, run, _ in runs] for tag in panel.tags}
    by_tag = {tag: values for tag, values in by_tag.items() if any(values)}
    shown = [n for n in range(len(runs)) if any(values[n] for values in by_tag.values())]
    if not shown:
        return None
    handles: list[Artist] = [Patch(color=colour(runs[n].number), label=runs[n].name) for n in shown]
    levels = [system for n in shown for tag in by_tag for system, values in _levels(runs[n], tag).items() if values]
    handles += [Line2D([], [], **LEVEL, label=plain(system)) for system in dict.fromkeys(levels)]
    chances = {runs[n].report.guessing["accuracy"] for n in shown if "accuracy" in runs[n].report.guessing}
    if len(chances) == 1:
        handles.append(Line2D([], [], **DASHED, label="chance"))
    groups = [len({name for v in values for name in v}) for values in by_tag.values()]
    figure = new_figure(3.6, handles)
    axes = figure.subplots(1, len(groups), sharey=True, squeeze=False, width_ratios=groups)[0]
    for ax, (tag, values) in zip(axes, by_tag.items()):
        _draw(ax, [(runs[n], values[n]) for n in shown], tag, say=len(shown) * sum(groups) <= 20)
        ax.set(title=plain(panel.tags[tag]), ylim=(0, 1.08), yticks=np.linspace(0, 1, 6))
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        if len(chances) == 1:
            ax.axhline(*chances, **DASHED)
    axes[0].set_ylabel("accuracy")
    return figure


def _draw(ax: Axes, shown: Sequence[tuple[Shown, dict]], tag: str, *, say: bool) -> None:
    names = list(dict.fromkeys(name for _, values in shown for name in values))
    width = 0.8 / len(shown)
    for n, (run, values) in enumerate(shown):
        x, paint = np.arange(len(names)) + (n - (len(shown) - 1) / 2) * width, colour(run.number)
        height, examples = np.array([values.get(name, (np.nan, np.nan)) for name in names]).T
        low, high = share_intervals(height, examples)
        ax.bar(x, height, 0.88 * width, color=paint)
        ax.errorbar(x, height, [height - low, high - height], fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
        for levels in _levels(run, tag).values():
            for place, name in zip(x, names):
                if name in levels:
                    ax.hlines(levels[name][0], place - 0.47 * width, place + 0.47 * width, **LEVEL, zorder=4)
        for place, share in zip(x, height):
            if say and np.isfinite(share):
                # At the foot of the bar no interval and no level crosses it.
                on_dark = share > 0.09 and not is_light(paint)
                ax.text(place, 0.025, f"{100 * share:.0f}", ha="center", color="white" if on_dark else INK)
    ax.set_xticks(range(len(names)), [plain(name) for name in names])
    ax.tick_params(axis="x", length=0)
    ax.grid(axis="x", visible=False)


def _levels(run: Shown, tag: str) -> dict[str, dict[str, tuple[float, float]]]:
    """The values of the tag for each phase before the last that has a row of its own, by what its row is called."""
    evaluation, phases = run.run.evaluation, [phase for phase in run.report.phases if phase.system]
    return {phase.system: tag_values(pick(evaluation, phase.name), tag) for phase in phases}
