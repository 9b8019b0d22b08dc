"""The runs as pictures: matplotlib figures, several runs on the same axes. No pyplot, so no global state."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure

from memjax.errors import require
from memjax.files import own_folder, replacing, writing
from memjax.reporting.buffer_picture import buffer
from memjax.reporting.curve_plots import accuracy, losses
from memjax.reporting.description import (
    Bars,
    BufferPicture,
    HeatMap,
    Lines,
    Picture,
    SlotsPicture,
    TagMaps,
    WalkPicture,
)
from memjax.reporting.heat_maps import heat_map, tag_maps
from memjax.reporting.line_plots import lines
from memjax.reporting.run_folder import Run
from memjax.reporting.slots_picture import slots
from memjax.reporting.style import DPI, STYLE, shown_runs
from memjax.reporting.tag_bars import bars
from memjax.reporting.walk_picture import walk

LOSSES = Picture(
    "losses",
    "Losses",
    "Losses while training: lines are a running mean of what was logged, dots the validation examples.",
)
ACCURACY = Picture(
    "accuracy",
    "Accuracy",
    "Accuracy while training: lines are a running mean of the batches, dots the validation examples.",
)
# Each draws a panel for the runs that have it, or gives None where none of them has its data.
MAKERS: dict[type, Callable[..., Figure | None]] = {
    Bars: bars,
    TagMaps: tag_maps,
    HeatMap: heat_map,
    Lines: lines,
    BufferPicture: buffer,
    WalkPicture: walk,
    SlotsPicture: slots,
}


class Drawn(NamedTuple):
    """A picture of the report.

    Attributes:
        name: of its file.
        title: above it.
        caption: below it.
        figure: the picture itself.
    """

    name: str
    title: str
    caption: str
    figure: Figure


def drawings(runs: Sequence[Run]) -> list[Drawn]:
    """All pictures: losses and accuracy, then those of the runs' reports, each once, for all runs that have it; without
    those for which there is no data.

    Raises:
        MemjaxError: without runs.
    """
    require(runs, "there are no runs to plot")
    own, parts = shown_runs(runs)
    panels: list[Any] = []
    for panel in (panel for part in parts for panel in part.report.panels if isinstance(panel, Picture)):
        if panel not in panels:
            panels.append(panel)
    with matplotlib.rc_context(STYLE):
        made = [(LOSSES, losses(own)), (ACCURACY, accuracy(own))]
        for panel in panels:
            having = [part for part in parts if panel in part.report.panels]
            made.append((panel, MAKERS[type(panel)](panel, having)))
    found: dict[str, Drawn] = {}
    for picture, figure in made:
        if figure is not None:
            # Families may have different pictures of one name.
            names = (picture.name if n == 1 else f"{picture.name}-{n}" for n in itertools.count(1))
            name = next(name for name in names if name not in found)
            found[name] = Drawn(name, picture.title, picture.caption, figure)
    return list(found.values())


def figures(runs: Sequence[Run]) -> dict[str, Figure]:
    """All figures by name: losses and accuracy, then those of the runs' reports, without those that have no data.

    Raises:
        MemjaxError: without runs.
    """
    return {drawn.name: drawn.figure for drawn in drawings(runs)}


def save(made: Mapping[str, Figure], folder: str | Path) -> dict[str, Path]:
    """Writes each figure as folder/name.png, whole or not at all.

    Args:
        made: the figures by name, as of `figures`.
        folder: made if it is not there.

    Returns:
        The paths by name.

    Raises:
        MemjaxError: where nothing can be written.
    """
    folder = Path(folder)
    paths = {name: folder / f"{name}.png" for name in made}
    with writing(folder):
        own_folder(folder.parent, folder.name)
    for name, figure in made.items():
        with replacing(paths[name]) as file:
            # Without the software's name the same figure is the same bytes.
            figure.savefig(file, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})
    return paths
