"""How the figures look: one palette, one style, one legend below the axes."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from memjax.errors import require
from memjax.reporting.runs import Run, distinct_names

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

Maker = Callable[[Sequence[Run]], Figure | None]


def styled(maker: Maker) -> Maker:
    """Makes a plot draw in this style, whatever matplotlibrc says, and refuse an empty list of runs."""

    @functools.wraps(maker)
    def draw(runs: Sequence[Run]) -> Figure | None:
        require(runs, "there are no runs to plot")
        with matplotlib.rc_context(STYLE):
            return maker(runs)

    return draw


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


def shown_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run as matplotlib is to draw it."""
    return [plain(name) for name in distinct_names(runs)]


def plain(text: str) -> str:
    """The text such that matplotlib draws it as it is, shortened in the middle if it is long."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    if len(text) > 48:
        text = f"{text[:22]} … {text[-22:]}"
    # A dollar would start mathematics; a legend leaves out what starts with an underscore.
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
