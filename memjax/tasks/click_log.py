"""Logs of clicks: what each user touched, in order. Lines "user item", MovieLens' ratings with times, or Parquet."""

from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memjax.errors import MemjaxError, require
from memjax.tasks.parquet_columns import read_columns
from memjax.tasks.text import guarded, read_text
from memjax.typing import Int


class ClickLog(NamedTuple):
    """A file of clicks.

    Attributes:
        items: ids from 0, those of the first user in order of time, then those of the next.
        begin: where each user's items begin, and where the last one's end.
        vocabulary: the numbers or words of the items in the file, by their ids.
        notes: what had to be put in order.
    """

    items: Int[np.ndarray, "clicks"]
    begin: Int[np.ndarray, "users+1"]
    vocabulary: tuple[int | str, ...]
    notes: tuple[str, ...]


class _Format(NamedTuple):
    header: str | None
    separator: str | None
    fields: int
    columns: tuple[int, ...]  # user, item, and time where there is one
    line: str  # what one looks like, for errors
    origin: str


_SEQUENCES = _Format(None, None, 2, (0, 1), "user item", "ml-1m.txt is that of github.com/kang205/SASRec")
_RATINGS = _Format(
    "userId,movieId,rating,timestamp",
    ",",
    4,
    (0, 1, 3),
    "user,item,rating,time",
    "ratings.csv is that of MovieLens, grouplens.org",
)


def read_clicks(path: Path) -> ClickLog:
    """The clicks of a file of lines "user item", each user's in order of time, or of ratings (.csv), sorted by time.

    Or of a .parquet file, whose columns are user, item and, if there is one, time: numbers or words, sorted by time.
    Every rating is a click, whatever it says. What a user touched at the same time stays in the order of the file.
    Items get ids in order of their numbers: where these are 1 to V, item i has the id i - 1.

    Raises:
        MemjaxError: for a file that is missing or damaged, and for a line that is not as it must be.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".parquet"]:
        columns = read_columns(path, {"user": "names", "item": "names"}, {"time": "times"})
        return _in_order(path, "clicks", *columns.values())
    form = _RATINGS if ".csv" in suffixes else _SEQUENCES
    require(
        guarded(path, path.exists),
        f"there is no {path}; put it there, or name its folder with --data_dir=FOLDER ({form.origin})",
    )
    return _in_order(path, "ratings", *_columns(path, read_text(path), form))


def _in_order(path: Path, what: str, users: np.ndarray, items: np.ndarray, times: np.ndarray | None = None) -> ClickLog:
    """A log of clicks in the order of the file, each user's sorted by time where there are times."""
    notes, order = [], np.argsort(users, kind="stable")
    if times is not None:
        late = _count_neighbours(users[order], times[order], np.less)
        order = np.lexsort((times, users))
        tied = _count_neighbours(users[order], times[order], np.equal)
        if late:
            notes.append(f"{late:,} {what} stand behind a later one of their user in {path.name}: sorted by time")
        if tied:
            notes.append(f"{tied:,} {what} have the time of the one before: their order is that of the file")
    vocabulary, ids = np.unique(items[order], return_inverse=True)
    begin = np.unique(users[order], return_index=True)[1]
    return ClickLog(ids.astype(np.int32), np.append(begin, len(ids)), tuple(vocabulary.tolist()), tuple(notes))


def _columns(path: Path, text: str, form: _Format) -> np.ndarray:
    """The whole numbers of a file, `[columns, lines]`."""
    text = text.removeprefix("\ufeff")  # Excel writes a mark in front
    require(text.strip(), f"{path} has no clicks; a line is {form.line!r}")
    lines = text.rstrip("\r\n").split("\n")
    if form.header is not None:
        found = lines.pop(0).removesuffix("\r")
        require(found == form.header, f"{path} begins with {found[:60]!r}, not with {form.header!r}")
    first = 1 if form.header is None else 2
    numbers = array("q")
    for number, line in enumerate(lines, first):
        fields = line.split(form.separator)
        try:
            if len(fields) != form.fields:
                raise ValueError
            numbers.extend([int(fields[column]) for column in form.columns])
        except (ValueError, OverflowError):
            raise MemjaxError(
                f"line {number} of {path} is {line[:40]!r}, not {form.line!r} in whole numbers; correct it"
            ) from None
    require(numbers, f"{path} has no clicks; a line is {form.line!r}")
    return np.array(numbers, np.int64).reshape(-1, len(form.columns)).T


def _count_neighbours(users: np.ndarray, times: np.ndarray, compare: np.ufunc) -> int:
    """How many clicks have a time that compares so with that of the click before, of the same user."""
    return int((compare(times[1:], times[:-1]) & (users[1:] == users[:-1])).sum())
