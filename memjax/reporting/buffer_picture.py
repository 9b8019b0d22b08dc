"""What a buffer of few entries held of a stream, as a picture: one episode, line by line (LEMN, Fig. 5 and 6)."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from memjax.reporting.description import BufferPicture
from memjax.reporting.style import INK, PALETTE, Shown, first_drawn, new_figure, plain

RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 7,
    "markerfacecolor": "none",
    "markeredgecolor": PALETTE[1],
    "markeredgewidth": 1.8,
}
DOTTED: dict[str, Any] = {"color": PALETTE[1], "linewidth": 1, "linestyle": ":"}


def buffer(panel: BufferPicture, runs: Sequence[Shown]) -> Figure | None:
    """That of the first run that has one. None if no run has one."""
    return first_drawn(panel, runs, lambda watched, run: draw_buffer(watched, run.name))


def draw_buffer(watched: Mapping[str, Any], title: str = "") -> Figure:
    """A row for each line of the stream, a column for each step; what was held, and how likely it was to be kept.

    The lines that a question follows from, its support, have a ring at its step; the question's own row says what was
    answered.

    Args:
        watched: {lines: [text], held: [[line, ...], ...], eviction: [[probability, ...], ...], questions: [{step,
            answer, given, support: [line, ...]}, ...]}: for each step the lines that were held before its own was
            written, and how likely each was to be evicted.
        title: above it.
    """
    lines, held, eviction, questions = (watched[key] for key in ("lines", "held", "eviction", "questions"))
    handles = [Line2D([], [], linestyle="", **RING), Line2D([], [], **DOTTED)]
    names = "a line that the question follows from: held on a bar, else missing", "a question"
    for handle, name in zip(handles, names, strict=True):
        handle.set_label(name)
    figure = new_figure(1.4 + 0.21 * len(lines), handles)
    ax = figure.subplots()
    steps = range(len(lines))
    image = [[float("nan")] * len(lines) for _ in lines]
    for t in steps:
        for came, goes in zip(held[t], eviction[t], strict=True):
            image[came][t] = 1 - goes
    drawn = ax.imshow(image, cmap="viridis", norm=Normalize(0, 1), aspect="auto", interpolation="nearest")
    by_step = {question["step"]: question for question in questions}
    for t, question in by_step.items():
        ax.axvline(t, **DOTTED)
        for fact in question["support"]:
            ax.plot(t, fact, **RING)
    labels = []
    for t, line in enumerate(lines):
        question, text = by_step.get(t), textwrap.shorten(line, 44)
        labels.append(plain(text if question is None else f"{text}? {_said(question)}", 90))
    ax.set_yticks(steps, labels, fontsize=8)
    for t, label in zip(steps, ax.get_yticklabels(), strict=True):
        label.set_color(PALETTE[1] if t in by_step else INK)
    ax.grid(visible=False)
    ax.set(xlabel="step of the stream")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title(title)
    bar = figure.colorbar(drawn, ax=ax, fraction=0.03, pad=0.02)
    bar.set_label("probability of being kept")
    bar.outline.set_visible(False)
    return figure


def _said(question: Mapping[str, Any]) -> str:
    right, given = question["answer"], question["given"]
    return f"{given} (right)" if given == right else f"{given}, not {right}"
