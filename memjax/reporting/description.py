"""What the report of a run shows, as plain data: its results, their names, and the tables and pictures beside them.

Reporting knows kinds of numbers and kinds of pictures. Which of them a run has is said by its family of experiments, in
a `Report` that is kept in evaluation.json under the key "report": `Report(...).to_json()` when it is written,
`Report.from_json(...)` when it is read. A family needs no other part of reporting. Each class below is an object of the
JSON with the same names; a panel has its "kind" besides.

>>> error = Column("error %", ("accuracy",), "error", "lower")
>>> report = Report("error %", (error,), (TagTable("Error by task", "task", "error"),))
>>> report.to_json()["panels"]
[{'kind': 'table', 'title': 'Error by task', 'tag': 'task', 'number': 'error'}]
>>> Report.from_json(report.to_json()) == report
True

Other keys of evaluation.json that a page shows where they are there:

    metrics         the numbers that columns are read from; {value: {accuracy, examples}} of each tag in metrics.tags
    interval        [low, high] of the headline's value in metrics; without it, NAME_interval in metrics; without both,
                    Wilson's interval of accuracy, a share of the examples, is computed, of the number `independent` in
                    metrics where examples share streams
    examples_shown  [{question, answer, prediction, tags: {name: value}}, ...], all of them texts
    confusions      {answer: {prediction: count}}, with those that are right
    notes           [text, ...]: what must be said beside the figures
    command         the command that trained the run, one text
    versions        {package: version}
    devices         on which it was tested, one text
    trained_on      on which it was trained, one text, shown if it is another
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memjax.errors import MemjaxError, require
from memjax.reporting.described import read_value

# How a value is shown. percent: a share in [0, 1], in %. error: a share of what is right, shown as what is wrong, in %.
# number: with one decimal, or three figures where it is small. count: a whole number.
Share = Literal["percent", "error"]
Number = Literal["percent", "error", "number", "count"]

BETWEEN = " x "  # of the two tags in the name of a pair, and of their values


@dataclass(frozen=True)
class Column:
    """One result of a run: a column in the table of results.

    Attributes:
        name: the column's heading.
        path: the keys under which the value lies in the metrics, those of the test and those of the validation alike;
            "*" stands for every key there is, and gives the mean of their values.
        number: how it is shown.
        better: which values are the better ones.
        over: with a "*", not the mean but how many of the values are more than this, as they are shown: 5.0 is 5% of a
            "percent" or "error".
    """

    name: str
    path: tuple[str, ...]
    number: Number
    better: Literal["higher", "lower"]
    over: float | None = None


ERROR = Column("error %", ("accuracy",), "error", "lower")
ACCURACY = Column("accuracy %", ("accuracy",), "percent", "higher")


@dataclass(frozen=True)
class Phase:
    """A phase of training before the last one: what its curves are called, and its row in the table of results.

    Attributes:
        name: of the phase, in metrics.jsonl; evaluation.json has its metrics under the same name.
        title: before the name of a curve.
        system: what stands in its row; "" for no row.
        meaning: a sentence below the table, where it has a row.
    """

    name: str
    title: str
    system: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class TagTable:
    """A table with a row for each value of a tag of the metrics, and a column for each run.

    Attributes:
        title: above it.
        tag: its name.
        number: how accuracy is shown.
    """

    title: str
    tag: str
    number: Share


@dataclass(frozen=True)
class Picture:
    """What all pictures have.

    Attributes:
        name: of its file, in small letters.
        title: above it.
        caption: a sentence or two below it.
    """

    name: str
    title: str
    caption: str


@dataclass(frozen=True)
class Bars(Picture):
    """Accuracy by tags, as bars with intervals.

    Attributes:
        tags: for each tag the title of its axes.
    """

    tags: Mapping[str, str]


@dataclass(frozen=True)
class TagMaps(Picture):
    """Accuracy by two tags at once, as a heat map for each run and each tag.

    Attributes:
        tags: such as "length x depth", whose values are "64 x 1st half": the first lies along, the second down.
    """

    tags: tuple[str, ...]


@dataclass(frozen=True)
class HeatMap(Picture):
    """A table of numbers as a heat map, for each run.

    Attributes:
        path: the keys under which it lies in evaluation.json: a list of columns, each a list of numbers (None for a
            gap), or {"along": [name], "down": [name], "values": [[number]]} with names for both.
        along: what the columns are.
        down: what the rows are.
        value: what the colours are.
    """

    path: tuple[str, ...]
    along: str
    down: str
    value: str


@dataclass(frozen=True)
class Lines(Picture):
    """A curve for each run.

    Attributes:
        path: the keys under which its points lie in evaluation.json, {x: y}, the x as texts; y is a number, or has
            "accuracy" and "examples", as a value of a tag.
        x: what lies along.
        y: what lies up.
        number: how y is shown.
    """

    path: tuple[str, ...]
    x: str
    y: str
    number: Number


@dataclass(frozen=True)
class BufferPicture(Picture):
    """What a buffer held of a stream of lines.

    Attributes:
        path: the keys in evaluation.json of what `draw_buffer` takes.
    """

    path: tuple[str, ...]


@dataclass(frozen=True)
class WalkPicture(Picture):
    """What an agent did in a maze.

    Attributes:
        path: the keys in evaluation.json of what `draw_walk` takes.
    """

    path: tuple[str, ...]


@dataclass(frozen=True)
class SlotsPicture(Picture):
    """From which slots a few questions were answered, and what had written these.

    Attributes:
        path: the keys in evaluation.json of what `draw_slots` takes.
    """

    path: tuple[str, ...]


Panel = TagTable | Bars | TagMaps | HeatMap | Lines | BufferPicture | WalkPicture | SlotsPicture
KINDS: dict[str, type] = {
    "table": TagTable,
    "bars": Bars,
    "maps": TagMaps,
    "heat_map": HeatMap,
    "lines": Lines,
    "buffer": BufferPicture,
    "walk": WalkPicture,
    "slots": SlotsPicture,
}
OWN_PICTURES = ("losses", "accuracy")  # which every run has
# What the columns beside the results are called, in all tables.
OWN_COLUMNS = {"run", "evaluation", "task", "system", "examples", "parameters", "state KiB", "steps", "time", "seeds"}
OWN_COLUMNS |= {"95% interval", "ms per step", "split", "step", "answer loss"}


@dataclass(frozen=True)
class Report:
    """All that a family wants shown of a run.

    Attributes:
        headline: the name of the column that is the result, which runs are ordered by.
        columns: in the order in which they are shown.
        panels: in the order in which they are shown.
        meaning: a sentence or two on what the columns mean.
        guessing: for each logged number ("accuracy", "answer_loss") what it is at for a system that knows nothing.
        phases: those before the last one.

    Raises:
        MemjaxError: for a headline that is no column, for names that are given twice or that reporting has given, and
            for names of pictures that cannot be those of files.
    """

    headline: str
    columns: tuple[Column, ...]
    panels: tuple[Panel, ...] = ()
    meaning: str = ""
    guessing: Mapping[str, float] = dataclasses.field(default_factory=dict)
    phases: tuple[Phase, ...] = ()

    def __post_init__(self):
        names = [column.name for column in self.columns]
        require(self.headline in names, f"the headline {self.headline!r} is the name of no column")
        require(len({*names}) == len(names), "two columns have one name")
        for name in names:
            require(name not in OWN_COLUMNS, f"a column of results cannot be called {name!r}: every table has one")
        pictures = [panel.name for panel in self.panels if isinstance(panel, Picture)]
        for name in pictures:
            require(re.fullmatch("[a-z][a-z0-9_]{0,40}", name), f"{name!r} cannot be the name of a picture's file")
        taken = [*pictures, *OWN_PICTURES]
        require(len({*taken}) == len(taken), f"two pictures have one name, or one of reporting's own: {OWN_PICTURES}")

    @property
    def first(self) -> Column:
        """The column of the headline."""
        return next(column for column in self.columns if column.name == self.headline)

    def to_json(self) -> dict[str, Any]:
        """As it is kept in evaluation.json."""
        kinds = {cls: kind for kind, cls in KINDS.items()}
        panels = [{"kind": kinds[type(panel)], **_plain(panel)} for panel in self.panels]
        return _plain(self) | {"panels": panels}

    @classmethod
    def from_json(cls, value: Any) -> "Report":
        """What `to_json` gave.

        Raises:
            MemjaxError: for anything else, naming the place in it.
        """
        require(isinstance(value, dict), "report is no object")
        panels = value.get("panels", [])
        require(isinstance(panels, list), "report.panels is no list")
        read = tuple(_read_panel(panel, f"report.panels[{i}]") for i, panel in enumerate(panels))
        rest = {name: item for name, item in value.items() if name != "panels"}
        report = read_value(cls, rest, "report")
        return dataclasses.replace(report, panels=read)


def tag_panels(tags: Iterable[str], number: Share = "error") -> tuple[Panel, ...]:
    """A table for each tag, and one picture with the maps of all pairs.

    Args:
        tags: their names; that of a pair has " x " in it.
        number: how the tables show accuracy.

    >>> [type(panel).__name__ for panel in tag_panels(["length", "depth", "length x depth"])]
    ['TagTable', 'TagTable', 'TagMaps']
    """
    names = tuple(tags)
    single, pairs = ([tag for tag in names if (BETWEEN in tag) == paired] for paired in (False, True))
    word = {"error": "Error", "percent": "Accuracy"}[number]
    tables = tuple(TagTable(f"{word} by {tag}", tag, number) for tag in single)
    maps = TagMaps("maps", "Accuracy by two things at once", "Accuracy, in %, by two things at once.", tuple(pairs))
    return (*tables, maps) if pairs else tables


def _plain(described: Any) -> dict[str, Any]:
    """Of a dataclass, with lists and dicts in place of tuples and mappings."""

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            return _plain(value)
        if isinstance(value, tuple):
            return [plain(item) for item in value]
        return dict(value) if isinstance(value, Mapping) else value

    return {field.name: plain(getattr(described, field.name)) for field in dataclasses.fields(described)}


def _read_panel(value: Any, where: str) -> Panel:
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise MemjaxError(f"{where}.kind must be one of {', '.join(KINDS)}")
    return read_value(KINDS[kind], {name: item for name, item in value.items() if name != "kind"}, where)
