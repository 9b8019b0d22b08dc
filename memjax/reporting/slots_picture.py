"""From which slots questions were answered, as a picture: what each segment wrote, and what each hop read."""

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from memjax.reporting.description import SlotsPicture
from memjax.reporting.heat_maps import count_ticks
from memjax.reporting.style import PALETTE, Shown, first_drawn, new_figure, plain

MOST_BYTES = 1 << 24  # of the pictures of one stream: what is packed may say anything
FRAME: dict[str, Any] = {"fill": False, "edgecolor": PALETTE[1], "linewidth": 1.8, "clip_on": False}


def slots(panel: SlotsPicture, runs: Sequence[Shown]) -> Figure | None:
    """That of the first run that has one. None if no run has one."""
    return first_drawn(panel, runs, lambda read, run: draw_slots(read, run.name) if read else None)


def draw_slots(read: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """For each question the pictures of its stream, if there are any; below them how far each segment moved each slot,
    in shares of the one that it moved most, and beside these how much of each slot each hop read.

    Args:
        read: {question, answer, given, changes: [[distance, ...], ...], weights: [[share, ...], ...]} each: a row of
            changes for each segment, a row of weights for each hop. With pictures also {pictures, shape, seen}:
            `[T, H, W, 3]` bytes, packed by zlib and base64; the segments, from 0, in which the answer is seen.
        title: above it.

    Raises:
        ValueError: for tables that do not fit together.
    """
    tables = [(np.asarray(one["changes"], float), np.asarray(one["weights"], float)) for one in read]
    for changes, weights in tables:
        if changes.ndim != 2 or weights.ndim != 2 or changes.shape[1] != weights.shape[1] or 0 in changes.shape:
            raise ValueError("changes and weights are not of the same slots")
    hops = max(len(weights) for _, weights in tables)
    handles = [Patch(color=PALETTE[hop % len(PALETTE)], label=f"read at hop {hop + 1}") for hop in range(hops)]
    films = [_unpacked(one) for one in read]
    if any(film is not None for film in films):
        handles.append(Patch(label="the answer is seen here", **{**FRAME, "clip_on": True}))
    figure = new_figure(2.9 * len(read), handles)
    figure.suptitle(title, ha="left", x=0.01, fontsize=11.5)
    parts = figure.subfigures(len(read), 1, squeeze=False)[:, 0]
    for part, one, film, (changes, weights) in zip(parts, read, films, tables, strict=True):
        rows, heights = (1, [1]) if film is None else (2, [1, 2.4])
        grid = part.add_gridspec(rows, 2, width_ratios=[6, 1], height_ratios=heights)
        part.suptitle(_said(one), ha="left", x=0.07, fontsize=10)
        ax = part.add_subplot(grid[-1, 0])
        _draw_changes(ax, changes)
        seen = [segment for segment in one.get("seen", []) if 0 <= segment < len(changes)]
        for segment in seen:
            ax.add_patch(Rectangle((segment + 0.5, 0.5), 1, changes.shape[1], **FRAME))
        _draw_weights(part.add_subplot(grid[-1, 1], sharey=ax), weights)
        if film is not None:
            _draw_film(part.add_subplot(grid[0, 0]), film[: len(changes)], seen)
    return figure


def _draw_changes(ax: Axes, changes: np.ndarray) -> None:
    segments, slots = changes.shape
    # Each segment by its own scale: the first one, which finds the slots empty, would outshine the others.
    most = changes.max(1, keepdims=True)
    shares = np.divide(changes, most, out=np.zeros_like(changes), where=most > 0)
    ax.imshow(
        shares.T, cmap="cividis", aspect="auto", interpolation="nearest",
        extent=(0.5, segments + 0.5, slots + 0.5, 0.5), vmin=0, vmax=1,
    )  # fmt: skip
    ax.grid(visible=False)
    ax.set_xticks(count_ticks(segments))
    ax.set_yticks(count_ticks(slots))
    ax.set(xlabel="segment of the stream", ylabel="slot")


def _draw_weights(ax: Axes, weights: np.ndarray) -> None:
    hops, slots = weights.shape
    for hop, shares in enumerate(weights):
        places = np.arange(1, slots + 1) + (hop - (hops - 1) / 2) * 0.8 / hops
        ax.barh(places, shares, 0.8 / hops, color=PALETTE[hop % len(PALETTE)])
    ax.set_xlim(0, 1)
    ax.set(xlabel="read")
    ax.tick_params(labelleft=False)


def _draw_film(ax: Axes, film: np.ndarray, seen: Sequence[int]) -> None:
    """Pictures in a row, each above its segment."""
    count, height, width, _ = film.shape
    gap = max(1, width // 16)
    strip = np.full((height, count * (width + gap), 3), 255, np.uint8)
    for place, picture in enumerate(film):
        strip[:, place * (width + gap) : place * (width + gap) + width] = picture
    ax.imshow(strip, aspect="auto", interpolation="nearest", extent=(0, count * (width + gap), height, 0))
    for segment in seen:
        ax.add_patch(Rectangle((segment * (width + gap), 0), width, height, **FRAME))
    ax.set_axis_off()


def _unpacked(one: Mapping[str, Any]) -> np.ndarray | None:
    """Pictures as they were before they were packed, `[T, H, W, 3]`."""
    if "pictures" not in one:
        return None
    shape = tuple(int(size) for size in one["shape"])
    size = math.prod(shape)
    if len(shape) != 4 or shape[-1] != 3 or min(shape) < 1 or size > MOST_BYTES:
        raise ValueError(f"pictures cannot be of shape {list(shape)[:8]}")
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(one["pictures"], validate=True), size + 1)
    except zlib.error as error:
        raise ValueError(f"its pictures are damaged: {error}") from None
    if len(raw) != size:
        raise ValueError("its pictures are not of their shape")
    return np.frombuffer(raw, np.uint8).reshape(shape)


def _said(one: Mapping[str, Any]) -> str:
    right, given = str(one["answer"]), str(one["given"])
    said = f"given: {given}, " + ("correct" if given == right else f"correct: {right}")
    asked = str(one["question"])
    return plain((f"question {asked}" if asked.isdecimal() else f"{asked}?") + f"   {said}", 120)
