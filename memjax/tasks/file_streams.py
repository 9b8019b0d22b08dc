"""A folder of streams, as .npy files or one Parquet file, and questions about them, a line of JSON each."""

import itertools
import json
import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from memjax.errors import MemjaxError, one_line, require
from memjax.tasks.parquet_columns import read_columns
from memjax.tasks.text import guarded, read_text
from memjax.tasks.words import composed, words_of
from memjax.typing import SPLITS, Split

QUESTIONS = "questions.jsonl"
_KEYS: dict[str, Any] = {"stream": str, "query": str, "answer": (str, bool), "after": int, "split": str, "kind": str}
_WORDS = {str: "a text", (str, bool): "a text, or true or false", int: "a whole number"}
_OPTIONAL = ("after", "split", "kind")


class FileStreams(NamedTuple):
    """The streams of a folder.

    Attributes:
        items: of each stream, by its name: whole numbers or words `[L]`, or vectors `[L, d]`.
        width: d of vectors, None for ids.
        notes: what had to be put in order.
    """

    items: dict[str, np.ndarray]
    width: int | None
    notes: tuple[str, ...]


class FileQuestion(NamedTuple):
    """One line of the questions.

    Attributes:
        stream: its name.
        query: a text.
        answer: a text, or yes or no.
        after: how many items are read before it comes.
        split: where it belongs; None where the file does not say.
        kind: what it asks for, to split metrics by; "" where the file does not say.
    """

    stream: str
    query: str
    answer: str | bool
    after: int
    split: Split | None
    kind: str = ""


def read_streams(folder: Path) -> FileStreams:
    """The streams of FOLDER/streams/*.npy, one in each, or of FOLDER/streams.parquet.

    The Parquet file has the columns `stream` and `item`, and may have `time`: then the items of a stream are in its
    order, else in that of the rows. Items are whole numbers, words, or lists of numbers.

    Raises:
        MemjaxError: for a folder without streams, a damaged file, vectors of several widths, and numbers that are not
            finite.
    """
    table = folder / "streams.parquet"
    files = guarded(folder, lambda: sorted((folder / "streams").glob("*.npy")))
    whole = guarded(table, table.exists)
    require(
        files or whole,
        f"{folder} has no streams: put there streams/NAME.npy, one for each stream, or streams.parquet with "
        "the columns stream and item",
    )
    require(not (files and whole), f"{folder} has both streams/*.npy and streams.parquet; leave one of them")
    found, notes = ({file.stem: _npy(file) for file in files}, ()) if files else _parquet(table)
    plain = [unicodedata.normalize("NFC", name) for name in found]
    twice = [name for name, count in Counter(plain).items() if count > 1]
    if twice:
        raise MemjaxError(
            f"two streams of {folder} are called {twice[0]!r}, in other forms of Unicode; give both one, or two names"
        )
    found = dict(zip(plain, found.values(), strict=True))
    empty = [name for name, items in found.items() if not len(items)]
    if empty:
        notes = (*notes, f"{len(empty):,} of {len(found):,} streams are left out: they have no items")
        found = {name: items for name, items in found.items() if len(items)}
    require(found, f"no stream of {folder} has items")
    first, items = next(iter(found.items()))
    for name, each in found.items():
        require(
            _kind(each) == _kind(items),
            f"stream {name} has {_kind(each)}, stream {first} {_kind(items)}; all must be of one kind",
        )
        if each.ndim == 2:
            finite = np.isfinite(each).all(axis=1)
            require(
                finite.all(),
                f"stream {name} has a vector whose numbers are not finite, item {finite.argmin()}; mend it",
            )
    return FileStreams(found, None if items.ndim == 1 else items.shape[1], notes)


def read_questions(folder: Path, streams: Mapping[str, np.ndarray]) -> list[FileQuestion]:
    """The questions of FOLDER/questions.jsonl.

    Raises:
        MemjaxError: for a line that is none, names a stream that there is not, or comes after more items than it has;
            and where only some lines say their split, or some answers are texts and others yes or no.
    """
    path = folder / QUESTIONS
    found = []
    # Not splitlines: a text in JSON may hold other marks that end lines elsewhere.
    for number, line in enumerate(read_text(path).removeprefix("\ufeff").split("\n"), 1):
        if line.strip():
            found.append(_question(f"line {number} of {path}", line, streams))
    require(found, f"{path} has no questions")
    for what, kinds in (
        ("say their split and others do not", {question.split is None for question in found}),
        ("have true or false for an answer and others a text", {type(question.answer) for question in found}),
    ):
        require(len(kinds) == 1, f"some lines of {path} {what}")
    return found


def _question(place: str, line: str, streams: Mapping[str, np.ndarray]) -> FileQuestion:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MemjaxError(f"{place} is no JSON ({one_line(error)})") from None
    require(isinstance(given, dict), f"{place} is no JSON object")
    given = {key: value for key, value in given.items() if value is not None or key not in _OPTIONAL}
    unknown = sorted(given.keys() - _KEYS.keys())
    require(not unknown, f"{place} has {', '.join(map(repr, unknown))}; there are {', '.join(_KEYS)}")
    for key, kind in _KEYS.items():
        require(key in given or key in _OPTIONAL, f"{place} has no {key!r}")
        value = given.get(key)
        right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        require(key not in given or right, f"{place}: {key!r} is {value!r:.40}; it must be {_WORDS[kind]}")
    require(words_of(given["query"]), f"{place}: the query {given['query']!r:.40} has no words")
    name = unicodedata.normalize("NFC", given["stream"])
    require(name in streams, f"{place}: there is no stream {name!r:.60} with items")
    length = len(streams[name])
    after = given.get("after", length)
    require(1 <= after <= length, f"{place}: after must be from 1 to {length}, the items of its stream, not {after}")
    split = given.get("split")
    require(split is None or split in SPLITS, f"{place}: split must be {', '.join(SPLITS)}, not {split!r:.40}")
    answer = given["answer"]
    if isinstance(answer, str):
        answer = unicodedata.normalize("NFC", answer)
    return FileQuestion(name, given["query"], answer, after, cast(Any, split), given.get("kind") or "")


def _npy(path: Path) -> np.ndarray:
    try:
        with path.open("rb") as file:
            items = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # a damaged header fails in many ways; words of pandas are objects
        raise MemjaxError(
            f"{path} cannot be read: {one_line(error)}; write it with numpy.save, words as numpy.array(words, str)"
        ) from None
    ids = items.ndim == 1 and items.dtype.kind in "iuU"
    vectors = items.ndim == 2 and items.shape[1] > 0 and items.dtype.kind in "iuf"
    require(
        ids or vectors,
        f"{path} holds {items.dtype}{list(items.shape)}; a stream is whole numbers or words [L], or vectors [L, d]",
    )
    if ids and items.dtype.kind == "U":
        return composed(items)
    if not ids:
        return items
    require(not items.size or items.max() < 2**63, f"{path} has whole numbers of 2^63 or more")
    return items.astype(np.int64)


def _parquet(path: Path) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    columns = read_columns(path, {"stream": "names", "item": "items"}, {"time": "times"})
    names = columns["stream"].astype(str)
    order, notes = np.argsort(names, kind="stable"), list[str]()
    if "time" in columns:
        times = columns["time"]
        late = (times[order][1:] < times[order][:-1]) & (names[order][1:] == names[order][:-1])
        order = np.lexsort((times, names))
        if late.any():
            notes.append(
                f"{int(late.sum()):,} items stand behind a later one of their stream in {path.name}: sorted by time"
            )
    names, items = names[order], columns["item"][order]
    starts = [*np.flatnonzero(np.append(True, names[1:] != names[:-1])).tolist(), len(order)]
    return {str(names[start]): items[start:end] for start, end in itertools.pairwise(starts)}, tuple(notes)


def _kind(items: np.ndarray) -> str:
    if items.ndim == 2:
        return f"vectors of {items.shape[1]} numbers"
    return "words" if items.dtype.kind == "U" else "whole numbers"
