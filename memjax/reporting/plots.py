"""The runs as pictures: matplotlib figures, several runs on the same axes. No pyplot, so no global state."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from memjax.files import own_folder, replacing, writing
from memjax.reporting.buffer import buffer
from memjax.reporting.maps import maps
from memjax.reporting.runs import Curve, Run, number, pick, tag_values
from memjax.reporting.style import DPI, INK, colour, dashes, is_light, new_figure, plain, shown_names, styled
from memjax.reporting.walk import walk

CAPTIONS = {
    "losses": "Losses while training: lines are a running mean of what was logged, dots the validation examples.",
    "accuracy": "Accuracy while training: lines are a running mean of the batches, dots the validation examples.",
    "places": "Accuracy by the place of the evidence in the stream, with 95% intervals for the number of examples.",
    "maps": "Accuracy, in %, by two things at once.",
    "buffer": "Which lines of the first test episode the buffer held at each step, before the step's own line.",
    "walk": "Of two test episodes the one in which a view was held longest. Under the maze, at a few steps, what the "
    "agent saw (it stands below, looking up), and the views that it held: of which step, how much each was read, and "
    "with what probability it stayed.",
    "slots": "How much each segment of the stream changed each slot; every panel has its own scale.",
}


def figures(runs: Sequence[Run]) -> dict[str, Figure]:
    """All figures by name, in the order of `CAPTIONS`, without those that these runs lack."""
    makers = losses, accuracy, places, maps, buffer, walk, slots
    made = {name: maker(runs) for name, maker in zip(CAPTIONS, makers, strict=True)}
    return {name: figure for name, figure in made.items() if figure is not None}


def save(made: Mapping[str, Figure], folder: str | Path) -> dict[str, Path]:
    """Writes each figure as folder/name.png, whole or not at all; the paths by name. Raises `MemjaxError`."""
    folder = Path(folder)
    paths = {name: folder / f"{name}.png" for name in made}
    with writing(folder):
        own_folder(folder.parent, folder.name)
    for name, figure in made.items():
        with replacing(paths[name]) as file:
            # Without the software's name the same figure is the same bytes.
            figure.savefig(file, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})
    return paths


@styled
def losses(runs: Sequence[Run]) -> Figure | None:
    """A panel for each component of the loss, of the history sampler's phase too; None if none was logged."""
    return _curve_figure(runs, lambda key: key == "loss" or key.endswith("_loss"))


@styled
def accuracy(runs: Sequence[Run]) -> Figure | None:
    """Accuracy over the steps, in training and on validation examples; None if none was logged."""
    return _curve_figure(runs, lambda key: key == "accuracy")


@styled
def places(runs: Sequence[Run]) -> Figure | None:
    """Bars by the half and by the quarter of the stream where the evidence lies; None if no run has them."""
    metrics = [pick(run.evaluation, "metrics") for run in runs]
    by_tag = {tag: [tag_values(m, tag) for m in metrics] for tag in ("half", "quarter")}
    by_tag = {tag: values for tag, values in by_tag.items() if any(values)}
    if not by_tag:
        return None
    names, shown = shown_names(runs), [i for i in range(len(runs)) if any(v[i] for v in by_tag.values())]
    handles: list[Artist] = [Patch(color=colour(i), label=names[i]) for i in shown]
    if any(tag_values(pick(runs[i].evaluation, "sampler"), tag) for i in shown for tag in by_tag):
        handles.append(Line2D([], [], color=INK, lw=2.2, label="history sampler (reads the stream)"))
    chances = {chance for i in shown if np.isfinite(chance := _chance(runs[i]))}
    dotted: dict[str, Any] = {"color": INK, "lw": 1.2, "ls": (0, (4, 3))}
    if len(chances) == 1:
        handles.append(Line2D([], [], **dotted, label="chance"))
    groups = [len({name for v in values for name in v}) for values in by_tag.values()]
    figure = new_figure(3.6, handles)
    axes = figure.subplots(1, len(groups), sharey=True, squeeze=False, width_ratios=groups)[0]
    for ax, (tag, values) in zip(axes, by_tag.items()):
        _bars(ax, runs, shown, tag, values, say=len(shown) * sum(groups) <= 20)
        ax.set(title=f"by {tag} of the stream", ylim=(0, 1.08), yticks=np.linspace(0, 1, 6))
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        if len(chances) == 1:
            ax.axhline(*chances, **dotted)
    axes[0].set_ylabel("accuracy")
    return figure


@styled
def slots(runs: Sequence[Run]) -> Figure | None:
    """A map of segments x slots for each run: which slots a segment was written to; None if no run has one."""
    names, shown = shown_names(runs), [i for i, run in enumerate(runs) if pick(run.evaluation, "slot_changes")]
    if not shown:
        return None
    columns = min(len(shown), 2)
    rows = -(-len(shown) // columns)
    figure = new_figure(rows * (3.6 if columns == 1 else 2.8))
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, i in zip(grid, shown):
        image_KxT = np.ma.masked_invalid(np.asarray(pick(runs[i].evaluation, "slot_changes"), np.float64).T)
        K, T = image_KxT.shape
        low, high = (min(0.0, image_KxT.min()), image_KxT.max()) if image_KxT.count() else (0.0, 1.0)
        extent = (0.5, T + 0.5, K + 0.5, 0.5)
        high = high if high > low else low + 1
        drawn = ax.imshow(
            image_KxT, cmap="cividis", aspect="auto", interpolation="nearest", extent=extent, vmin=low, vmax=high
        )
        ax.set_facecolor("#D9D9D9")
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
        ax.set(xlabel="segment of the stream", ylabel="slot", title=names[i])
        ax.set_xticks(count_ticks(T))
        ax.set_yticks(count_ticks(K))
        bar = figure.colorbar(drawn, ax=ax, fraction=0.06, pad=0.02)
        bar.set_label("change of the slot")
        bar.outline.set_visible(False)
    for ax in grid[len(shown) :]:
        ax.set_axis_off()
    return figure


def _curve_figure(runs: Sequence[Run], wanted: Callable[[str], bool]) -> Figure | None:
    groups = [group for run in runs for group in (run.curves, run.validation)]
    # A loss that is zero throughout is one that the system does not have.
    logged = {
        (phase, key)
        for group in groups
        for phase in group
        for key, curve in group[phase].items()
        if not key.endswith("_loss") or curve.values.any()
    }
    order = ("loss", "answer_loss", "recollection_loss", "familiarity_loss")
    panels = sorted(
        (panel for panel in logged if wanted(panel[1])),
        key=lambda panel: (panel[0] != "train", panel[0], panel[1] not in order, (*order, panel[1]).index(panel[1])),
    )
    if not panels:
        return None
    names = shown_names(runs)
    handles = [Line2D([], [], color=colour(i), ls=dashes(i), lw=2, label=name) for i, name in enumerate(names)]
    dotted: dict[str, Any] = {"color": INK, "lw": 1.0, "ls": (0, (1, 2)), "zorder": 0}
    if any(np.isfinite(_guessing(run, key)) for run in runs for _, key in panels):
        handles.append(Line2D([], [], **dotted, label="guessing"))
    if any(key in run.validation.get(phase, {}) for run in runs for phase, key in panels):
        handles.append(Line2D([], [], color=INK, ls="", marker="o", markersize=4.5, label="validation examples"))
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = new_figure(rows * (3.4 if rows == 1 else 2.7), handles)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (phase, key) in zip(grid, panels):
        drawn: list[np.ndarray] = []
        for i, run in enumerate(runs):
            drawn += _draw_curve(ax, i, run.curves.get(phase, {}).get(key), run.validation.get(phase, {}).get(key))
        levels = {_guessing(run, key) for run in runs if key in run.curves.get(phase, {})}
        for level in filter(np.isfinite, levels):
            ax.axhline(level, **dotted)
        middles = np.concatenate(drawn)
        middles = middles[np.isfinite(middles)]
        where = {"train": "", "sampler": "history sampler: "}.get(phase, f"{phase}: ")
        ax.set(title=plain(where + key.replace("_", " ")), xlabel="step")
        ax.xaxis.set_major_locator(MaxNLocator(4 if columns == 3 else 5, integer=True))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        if key == "accuracy":
            ax.set_ylim(-0.02, 1.04)
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        elif middles.size and middles.min() > 0 and middles.max() > 30 * middles.min():
            ax.set_yscale("log")
    for ax in grid[len(panels) :]:
        ax.set_axis_off()
    return figure


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


def _bars(ax: Axes, runs: Sequence[Run], shown: list[int], tag: str, values: list[dict], *, say: bool) -> None:
    names = list(dict.fromkeys(name for v in values for name in v))
    width = 0.8 / len(shown)
    for n, i in enumerate(shown):
        x = np.arange(len(names)) + (n - (len(shown) - 1) / 2) * width
        height, examples = np.array([values[i].get(name, (np.nan, np.nan)) for name in names]).T
        low, high = interval(height, examples)
        ax.bar(x, height, 0.88 * width, color=colour(i))
        ax.errorbar(x, height, [height - low, high - height], fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
        sampler = tag_values(pick(runs[i].evaluation, "sampler"), tag)
        for place, name, share in zip(x, names, height):
            if name in sampler:
                level = sampler[name][0]
                ax.hlines(level, place - 0.47 * width, place + 0.47 * width, color=INK, lw=2.2, zorder=4)
            if say and np.isfinite(share):
                # At the foot of the bar no interval and no history sampler crosses it.
                on_dark = share > 0.09 and not is_light(colour(i))
                ax.text(place, 0.025, f"{100 * share:.0f}", ha="center", color="white" if on_dark else INK)
    ax.set_xticks(range(len(names)), [plain(name) for name in names])
    ax.tick_params(axis="x", length=0)
    ax.grid(axis="x", visible=False)


def running_mean(values: np.ndarray) -> np.ndarray:
    """The mean over a window of a 25th of the points around each; NaN counts for nothing, `[n] -> [n]`."""
    window = np.ones(2 * (len(values) // 50) + 1)
    finite = np.isfinite(values)
    total = np.convolve(np.where(finite, values, 0), window, "same")
    count = np.convolve(finite, window, "same")
    return np.where(count > 0.5, total / np.maximum(count, 1), np.nan)


def count_ticks(n: int) -> list[int]:
    """At most nine round numbers from 1 to n, for an axis that counts."""
    steps = (round_number * 10**power for power in range(9) for round_number in (1, 2, 5))
    step = next(step for step in steps if n <= 8 * step)
    return [*([1] if step > 2 else []), *range(step, n + 1, step)]


def interval(share: np.ndarray, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's 95% interval (low, high) of a share among so many examples; the share itself where these are unknown."""
    known = np.isfinite(share) & (examples > 0)
    n, z2 = np.where(known, examples, 1), 1.96**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * np.maximum(share * (1 - share) / n + z2 / (4 * n**2), 0)) / (1 + z2 / n)
    # Rounding may put an end a hair inside a share of 0 or 1; a bar's error may not be negative.
    return (
        np.where(known, np.fmin(middle - half, share), share),
        np.where(known, np.fmax(middle + half, share), share),
    )


def _guessing(run: Run, key: str) -> float:
    """What a curve is at for a system that knows nothing; NaN where that is not known."""
    choices = {name: number(pick(run.evaluation, name)) for name in ("classes", "recalled_among")}
    losses = {
        "answer_loss": np.log(choices["classes"]),
        "recollection_loss": np.log(choices["recalled_among"]),
        "familiarity_loss": 2 * np.log(2),
    }
    return _chance(run) if key == "accuracy" else float(losses.get(key, np.nan))


def _chance(run: Run) -> float:
    chance, classes = number(pick(run.evaluation, "chance")), number(pick(run.evaluation, "classes"))
    return 1 / classes if not np.isfinite(chance) and classes > 0 else chance
