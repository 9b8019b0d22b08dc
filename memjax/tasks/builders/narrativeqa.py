"""NarrativeQA's official folder, checked whole, as the part of it that `Stories` reads."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from memjax.errors import require
from memjax.tasks.builders.new_folder import Copied, new_folder, require_place
from memjax.tasks.stories import Stories, StoriesSpec
from memjax.tasks.story_files import ASKED, SUMMARIES, read_rows
from memjax.tasks.text import guarded, plain_or_gzipped, read_text
from memjax.tasks.words import words_of
from memjax.typing import SPLITS, Split

FOLDER = "narrativeqa"
DOCUMENTS = "documents.csv"
STORIES = "tmp/*.content"  # where its own script puts the stories
COLUMNS = {SUMMARIES: ("document_id", "set", "summary"), ASKED: ("document_id", "set", "question", "answer1")}
# What may read it: how words are cut and counted is the config's to say.
_SIZES = {"words": 20, "answer_words": 20, "asked": 32, "least": 1}


class _Row(NamedTuple):
    document: str
    split: Split
    texts: tuple[str, ...]  # of the columns behind the first two


def prepare(source: Path, data_dir: Path) -> Copied:
    """Writes `data_dir/narrativeqa`, for `memjax train --config=configs/stories.py:narrativeqa --data_dir=DATA_DIR`.

    All is read and checked first; the folder is moved into place when all of it is complete and can be read. It has
    the summaries that are asked about and the questions about them, with the columns that are read.

    Args:
        source: the folder of github.com/google-deepmind/narrativeqa, with documents.csv, qaps.csv and
            third_party/wikipedia/summaries.csv; each may be gzipped, as FILE.gz. Whole stories in tmp are not read.
        data_dir: where it is written; what was prepared before is replaced.

    Raises:
        MemjaxError: for what is missing, damaged or of another kind; what was prepared is then as it was.

    ::

        print(prepare(Path("downloads/narrativeqa"), Path("data")).questions)
    """
    require(
        guarded(source, source.is_dir),
        f"{source} is no folder; give NarrativeQA's, of github.com/google-deepmind/narrativeqa",
    )
    place = data_dir / FOLDER
    require_place(place, tuple(COLUMNS), source)
    sets = _sets(source)
    summaries, asked = (list(_rows(source, name, sets)) for name in (SUMMARIES, ASKED))
    told = _told(source, summaries)
    known = [row for row in asked if row.document in told]
    kept = [row for row in known if all(map(words_of, row.texts))]
    empty = [split for split in SPLITS if not any(row.split == split for row in kept)]
    require(not empty, f"{source} has no question about a document with a summary for {', '.join(empty)}")
    of_use = {row.document for row in kept}
    left_out = [
        f"{count:,} {what} are left out"
        for count, what in (
            (len(sets) - len(told), f"documents of {DOCUMENTS} without a summary"),
            (len(asked) - len(known), "questions about documents without a summary"),
            (len(known) - len(kept), "questions without words or without an answer"),
            (len(told) - len(of_use), "documents without a question"),
            (
                guarded(source, lambda: sum(1 for _ in source.glob(STORIES))),
                "whole stories in tmp (summaries stand for them)",
            ),
        )
        if count
    ]
    stories = [row for row in summaries if row.document in of_use]
    with new_folder(place) as new:
        _write(new / SUMMARIES, COLUMNS[SUMMARIES], stories)
        _write(new / ASKED, COLUMNS[ASKED], kept)
        # Raises where it could not be trained on.
        left_out += Stories(StoriesSpec(FOLDER, data_dir=str(new.parent), **_SIZES)).notes
    return Copied(_counted(stories), _counted(kept), tuple(left_out))


def _sets(source: Path) -> dict[str, Split]:
    """To which split each document belongs."""
    sets: dict[str, Split] = {}
    for where, row in _numbered(source, DOCUMENTS, ("document_id", "set")):
        name, split = row["document_id"], row["set"]
        require(name, f"{where}: it has no document_id")
        require(name not in sets, f"{where}: the document {name!r:.60} is there twice")
        require(split in SPLITS, f"{where}: the set {split!r:.20} is none of {', '.join(SPLITS)}")
        sets[name] = cast(Split, split)
    return sets


def _rows(source: Path, name: str, sets: Mapping[str, Split]) -> Iterator[_Row]:
    for where, row in _numbered(source, name, COLUMNS[name]):
        document, split, *texts = (row[column] for column in COLUMNS[name])
        require(document in sets, f"{where}: {DOCUMENTS} has no document {document!r:.60}; get both of one version")
        own = sets[document]
        require(split == own, f"{where}: its set is {split!r:.20}, that of its document {own}; get both of one version")
        yield _Row(document, own, tuple(texts))


def _numbered(source: Path, name: str, columns: Sequence[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The rows of a file, each with where it stands."""
    path = plain_or_gzipped(source / name)
    require(guarded(path, path.is_file), f"{source} has no {name}: it is not NarrativeQA's folder; get all of it")
    for number, row in enumerate(read_rows(str(path), read_text(path), *columns), 2):
        yield f"{path}, row {number}", row


def _told(source: Path, summaries: Sequence[_Row]) -> set[str]:
    """The documents that have a summary."""
    seen: set[str] = set()
    for row in summaries:
        require(row.document not in seen, f"{source / SUMMARIES}: the document {row.document!r:.60} is there twice")
        seen.add(row.document)
    return {row.document for row in summaries if all(map(words_of, row.texts))}


def _write(path: Path, columns: Sequence[str], rows: Iterable[_Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)  # it ends lines with both marks, so that it quotes texts with either
        writer.writerow(columns)
        writer.writerows((row.document, row.split, *row.texts) for row in rows)


def _counted(rows: Sequence[_Row]) -> dict[Split, int]:
    return {split: sum(row.split == split for row in rows) for split in SPLITS}
