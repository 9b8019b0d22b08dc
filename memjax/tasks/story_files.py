"""Stories with questions from files: FairytaleQA's archive, and the layout of NarrativeQA's folder."""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from memjax.archives import tar_files
from memjax.errors import MemjaxError, require
from memjax.tasks.stream_task import Split
from memjax.tasks.text import decoded, guarded, read_text
from memjax.typing import SPLITS

# The folders of FairytaleQA.
_FOLDERS: Mapping[str, Split] = {"train": "train", "val": "valid", "test": "test"}
# Not those that begin with a point, which a Mac puts beside the others.
_MEMBER = re.compile(r"(?:.*/)?(questions|section-stories)/(train|val|test)/([^/.][^/]*)-(?:questions|story)\.csv")
SUMMARIES, ASKED = "third_party/wikipedia/summaries.csv", "qaps.csv"


class StoryQuestion(NamedTuple):
    """A question about a story.

    Attributes:
        text: of it.
        answer: the first one that is given.
        kind: what is asked for, as the data set calls it; "" where it says nothing.
        sections: in which of the story's sections the answer lies, from 0; none where nobody says.
        local: whether it begins in the first of these, and is no summary of them.
        others: further answers that count as right.
        explicit: whether the answer is said to stand in the story.
    """

    text: str
    answer: str
    kind: str = ""
    sections: tuple[int, ...] = ()
    local: bool = False
    others: tuple[str, ...] = ()
    explicit: bool = False

    @property
    def section(self) -> int | None:
        """In which section the answer begins; None of a summary, and where nobody says."""
        return self.sections[0] if self.local else None


class Story(NamedTuple):
    """A story and what is asked about it.

    Attributes:
        name: in the data set.
        sections: the text, at least one.
        questions: perhaps none.
    """

    name: str
    sections: tuple[str, ...]
    questions: tuple[StoryQuestion, ...]


def read_stories(path: Path) -> dict[Split, list[Story]]:
    """The stories of each split, in order of their names.

    Args:
        path: FairytaleQA's archive (github.com/uci-soe/FairytaleQAData, folder data-by-train-split), or the folder of
            NarrativeQA, with qaps.csv and third_party/wikipedia/summaries.csv; its stories here are the summaries.

    Raises:
        MemjaxError: for what is missing, damaged, or of another kind.
    """
    found = _narrative(path) if guarded(path, path.is_dir) else _fairytales(path)
    empty = [split for split in SPLITS if not any(story.questions for story in found[split])]
    require(not empty, f"{path} has no story with a question for {', '.join(empty)}")
    return found


def _fairytales(path: Path) -> dict[Split, list[Story]]:
    parts: dict[str, dict[tuple[Split, str], tuple[str, str]]] = {"questions": {}, "section-stories": {}}
    for name, data in guarded(path, lambda: list(tar_files(path, r"(?s).*\.csv"))):
        if match := _MEMBER.fullmatch(name):
            kind, folder, story = match.groups()
            key, where = (_FOLDERS[folder], story), f"{path}: {name}"
            require(key not in parts[kind], f"{where} is there twice")
            parts[kind][key] = where, decoded(where, data)
    texts, asked = parts["section-stories"], parts["questions"]
    require(texts, f"{path} has no section-stories/train/NAME-story.csv: it is not FairytaleQA's archive")
    strange = sorted({story for _, story in asked.keys() - texts.keys()})
    require(not strange, f"{path} has questions about {len(strange)} stories that are not there, such as {strange[:1]}")
    twice = sorted(name for name, count in Counter(story for _, story in texts).items() if count > 1)
    require(not twice, f"{path} has {len(twice)} stories in several splits, such as {twice[:1]}")
    found: dict[Split, list[Story]] = {split: [] for split in SPLITS}
    for (split, story), text in sorted(texts.items()):
        told, rows = read_rows(*text, "section", "text"), []
        if (split, story) in asked:
            rows = read_rows(*asked[split, story], "question", "answer1", "attribute1", "cor_section")
        numbers = [row["section"].strip() for row in told]
        questions = tuple(_question(row, numbers) for row in rows)
        found[split].append(Story(story, tuple(row["text"] for row in told), questions))
    return found


def _question(row: Mapping[str, str], numbers: list[str]) -> StoryQuestion:
    others = tuple(answer for i in range(2, 7) if (answer := row.get(f"answer{i}", "")))
    explicit = row.get("ex-or-im1") == "explicit"
    named = [number.strip() for number in row["cor_section"].split(",")]
    sections = tuple(numbers.index(number) for number in named if number in numbers)
    local = row.get("local-or-sum", "local") == "local" and named[0] in numbers
    return StoryQuestion(row["question"], row["answer1"], row["attribute1"], sections, local, others, explicit)


def _narrative(path: Path) -> dict[Split, list[Story]]:
    told, questions = path / SUMMARIES, path / ASKED
    there = told.exists() and questions.exists()
    require(there, f"{path} is a folder without {ASKED} and {SUMMARIES}: it is not NarrativeQA's")
    texts: dict[tuple[str, str], str] = {}
    for row in read_rows(str(told), read_text(told), "document_id", "set", "summary"):
        key = row["set"], row["document_id"]
        require(key[0] in SPLITS, f"{told}: the set {key[0]!r} is none of {', '.join(SPLITS)}")
        require(key not in texts, f"{told}: the document {key[1]!r} is there twice")
        texts[key] = row["summary"]
    asked: dict[tuple[str, str], list[StoryQuestion]] = {key: [] for key in texts}
    for row in read_rows(str(questions), read_text(questions), "document_id", "set", "question", "answer1"):
        key = row["set"], row["document_id"]
        require(key in asked, f"{questions} asks about {key[1]!r} of {key[0]!r}, which has no summary")
        asked[key].append(StoryQuestion(row["question"], row["answer1"]))
    return {
        split: [
            Story(name, (texts[own, name],), tuple(asked[own, name])) for own, name in sorted(texts) if own == split
        ]
        for split in SPLITS
    }


def read_rows(where: str, text: str, *columns: str) -> list[dict[str, str]]:
    r"""The rows of a file, by the names of their columns.

    Args:
        where: its name, for errors.
        text: all of it.
        columns: that it must have; it may have others.

    Raises:
        MemjaxError: for a text that is no table, or lacks a column.

    >>> read_rows("qaps.csv", "question,answer1\nWho?,a fox\n", "question")
    [{'question': 'Who?', 'answer1': 'a fox'}]
    """
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    limit = csv.field_size_limit(2**31 - 1)  # a whole story may stand in one field
    try:
        rows = list(reader)
    except csv.Error as error:
        raise MemjaxError(f"{where} is no file of columns: {error}; get it again") from None
    finally:
        csv.field_size_limit(limit)
    lacking = [column for column in columns if column not in (reader.fieldnames or ())]
    require(not lacking, f"{where} has no column {', '.join(lacking)}")
    odd = next((number for number, row in enumerate(rows, 2) if None in row or None in row.values()), None)
    require(odd is None, f"{where}, row {odd}: it has not as many columns as the first row")
    return rows
