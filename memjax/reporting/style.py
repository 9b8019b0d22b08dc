"""How the figures look: one palette, one style, one legend below the axes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from memjax.reporting.default_report import report_of
from memjax.reporting.description import Report
from memjax.reporting.run_folder import Run, distinct_names, drawn_from, pick, with_parts

# Okabe and Ito's colours, which colour-blind readers can tell apart; their black and yellow are made lighter and darker
# here, to be seen beside the ink and on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5A5A5A", "#A89C00")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.2, 1.2, 1.2)))
WIDTH, DPI = 9.6, 150
INK, FAINT = "#222222", "#767676"
STYLE: dict[Any, Any] = {
    "font.size": 11,
    "font.family": ["DejaVu Sans"],
    "text.usetex": False,
    "text.color": INK,
    "axes.titlesize": 11.5,
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "white",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
}


class Shown(NamedTuple):
    """One evaluation of a run, as it is drawn.

    Attributes:
        number: of its colour and line style.
        name: in the legend.
        run: whose evaluation it is, with no other.
        report: what is shown of it.
    """

    number: int
    name: str
    run: Run
    report: Report


def shown_runs(runs: Sequence[Run]) -> tuple[list[Shown], list[Shown]]:
    """(runs, evaluations): each run, for its curves; and each evaluation, those beside the first ones behind these."""
    parts = sorted(with_parts(runs), key=lambda part: bool(part.part))
    names = map(plain, distinct_names(parts))
    shown = [Shown(i, name, part, report_of(part, runs)) for i, (name, part) in enumerate(zip(names, parts))]
    return shown[: len(runs)], shown


def with_data(panel: Any, runs: Sequence[Shown]) -> list[tuple[Shown, Any]]:
    """The runs whose evaluation has something at a panel's path, with that."""
    found = ((run, pick(run.run.evaluation, *panel.path)) for run in runs)
    return [(run, data) for run, data in found if data is not None]


def first_drawn(panel: Any, runs: Sequence[Shown], draw: Callable[[Any, Shown], Figure | None]) -> Figure | None:
    """The picture of the first run that has one; None if no run has one."""
    for run, data in with_data(panel, runs):
        with drawn_from(run.run, panel.path):
            if (figure := draw(data, run)) is not None:
                return figure
    return None


def new_figure(height: float, handles: Sequence[Artist] = ()) -> Figure:
    """A figure whose axes are `height` inches together, and a legend of the handles below them."""
    widths = [len(str(handle.get_label())) + 8 for handle in handles]
    columns = len(handles) if sum(widths) <= 105 else max(1, min(4, 105 // max(widths)))
    rows = -(-len(handles) // max(columns, 1))
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, wspace=0.03, hspace=0.03)
    figure = Figure(figsize=(WIDTH, height + 0.24 * rows + 0.1 * bool(rows)), layout=layout, facecolor="white")
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, columnspacing=1.8)
    return figure


def colour(i: int) -> str:
    """The colour of run number i."""
    return PALETTE[i % len(PALETTE)]


def is_light(colour: str) -> bool:
    """Whether dark text is easier to read on this colour than white text."""
    red, green, blue = to_rgb(colour)
    return 0.3 * red + 0.59 * green + 0.11 * blue > 0.5


def dashes(i: int):
    """The line style of run number i: of 32 no two have both colour and line style in common."""
    return DASHES[(i // 4 + i // 16) % len(DASHES)]


def plain(text: str, most: int = 48) -> str:
    """The text such that matplotlib draws it as it is, shortened in the middle if it is longer than `most`."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    if len(text) > most:
        half = most // 2 - 2
        text = f"{text[:half]} … {text[-half:]}"
    # A dollar would start mathematics; a legend leaves out what starts with an underscore.
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
