"""Dialogues with multiple-choice questions from files: the folders of DREAM and of TVQA."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from memjax.errors import MemjaxError, require
from memjax.tasks.stream_task import Split
from memjax.tasks.text import guarded, parsed, plain_or_gzipped, read_text
from memjax.typing import SPLITS

DREAM = {"train": "train.json", "valid": "dev.json", "test": "test.json"}
TVQA_QUESTIONS = ("tvqa_train.jsonl", "tvqa_val.jsonl")
TVQA_SUBTITLES = "tvqa_preprocessed_subtitles.jsonl"
TVQA_CHOICES = tuple(f"a{i}" for i in range(5))
LATEST = 1e6  # seconds: more is a mistake
HELD_OUT = 10  # every so many-th clip of TVQA's train split is for validation


class ChoiceQuestion(NamedTuple):
    """A question about a dialogue, and its choices.

    Attributes:
        text: of it.
        choices: at least two.
        right: which of them is.
        turn: at which turn of the dialogue the moment begins in which the answer lies, from 0; None where nobody says.
    """

    text: str
    choices: tuple[str, ...]
    right: int
    turn: int | None = None


class Subtitle(NamedTuple):
    """A line that is said.

    Attributes:
        start: when, in seconds of its clip.
        text: of it.
    """

    start: float
    text: str


class Dialogue(NamedTuple):
    """What is said, turn by turn, and what is asked about it.

    Attributes:
        name: in the data set.
        turns: the texts, perhaps none.
        questions: at least one.
    """

    name: str
    turns: tuple[str, ...]
    questions: tuple[ChoiceQuestion, ...]


def read_dialogues(folder: Path) -> dict[Split, list[Dialogue]]:
    """The dialogues of each split, in the order of the files.

    Of TVQA, whose public test has no answers, `tvqa_val` is the test, and every tenth clip of train is for validation.

    Args:
        folder: DREAM's (github.com/nlpdata/dream), with train.json, dev.json and test.json; or TVQA's, with
            tvqa_train.jsonl, tvqa_val.jsonl and tvqa_preprocessed_subtitles.jsonl. Each may be gzipped, as FILE.gz.

    Raises:
        MemjaxError: for what is missing, damaged, or of another kind.
    """
    require(guarded(folder, folder.is_dir), f"there is no folder {folder}; put it there, or give --data_dir=FOLDER")
    if _there(folder, *DREAM.values()):
        found: dict[Split, list[Dialogue]] = {split: _dream(folder, DREAM[split]) for split in SPLITS}
    elif _there(folder, *TVQA_QUESTIONS, TVQA_SUBTITLES):
        found = _tvqa(folder)
    else:
        wanted = f"{', '.join(DREAM.values())} of DREAM, or {', '.join((*TVQA_QUESTIONS, TVQA_SUBTITLES))} of TVQA"
        raise MemjaxError(f"{folder} has not the files {wanted}")
    empty = [split for split in SPLITS if not found[split]]
    require(not empty, f"{folder} has no dialogue with a question for {', '.join(empty)}")
    return found


def _there(folder: Path, *names: str) -> bool:
    return all(plain_or_gzipped(folder / name).exists() for name in names)


def _dream(folder: Path, name: str) -> list[Dialogue]:
    path = plain_or_gzipped(folder / name)
    entries = parsed(path, read_text(path))
    require(isinstance(entries, list), f"{path} is not DREAM's: it must be a list of [turns, questions, name]")
    found = []
    for place, entry in enumerate(entries):
        where = f"{path}, entry {place}"
        require(
            isinstance(entry, list) and len(entry) == 3 and _texts(entry[0]) and isinstance(entry[1], list),
            f"{where}: it must be [turns, questions, name], the turns a list of texts",
        )
        questions = []
        for asked in entry[1]:
            fits = isinstance(asked, dict) and _texts(asked.get("choice")) and _texts([asked.get("question")])
            require(fits and len(asked["choice"]) > 1, f"{where}: a question must have question, choice and answer")
            require(asked.get("answer") in asked["choice"], f"{where}: an answer is none of its choices")
            choices = tuple(asked["choice"])
            questions.append(ChoiceQuestion(asked["question"], choices, choices.index(asked["answer"])))
        if questions:
            found.append(Dialogue(str(entry[2]), tuple(entry[0]), tuple(questions)))
    return found


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _tvqa(folder: Path) -> dict[Split, list[Dialogue]]:
    said = read_subtitles(folder)
    train, test = (_clips(folder, name, said) for name in TVQA_QUESTIONS)
    valid = train[HELD_OUT - 1 :: HELD_OUT]
    return {"train": [clip for i, clip in enumerate(train) if (i + 1) % HELD_OUT], "valid": valid, "test": test}


def read_subtitles(folder: Path) -> dict[str, list[Subtitle]]:
    """What is said in each clip, in the order in which it begins, of TVQA's preprocessed subtitles.

    Args:
        folder: with tvqa_preprocessed_subtitles.jsonl, which may be gzipped.

    Raises:
        MemjaxError: for what is missing, damaged, or of another kind.
    """
    said: dict[str, list[Subtitle]] = {}
    for where, row in read_lines(folder / TVQA_SUBTITLES):
        clip, subtitles = row.get("vid_name"), row.get("sub")
        require(isinstance(clip, str) and isinstance(subtitles, list), f"{where}: it has no vid_name, or no list sub")
        require(clip not in said, f"{where}: the clip {clip!r} is there twice")
        # In the order of the file where two begin together.
        said[clip] = sorted((_subtitle(where, subtitle) for subtitle in subtitles), key=lambda one: one.start)
    return said


def _subtitle(where: str, row: Any) -> Subtitle:
    found: Any = row if isinstance(row, dict) else {}
    start, text = found.get("start"), found.get("text")
    fits = isinstance(start, (int, float)) and 0 <= start < LATEST and isinstance(text, str)
    require(fits, f"{where}: a subtitle must have a text, and a start in seconds")
    return Subtitle(float(start), text)


def _clips(folder: Path, name: str, said: dict[str, list[Subtitle]]) -> list[Dialogue]:
    """In the order in which they are asked about."""
    asked: dict[str, list[ChoiceQuestion]] = {}
    for where, row in read_lines(folder / name):
        clip = row.get("vid_name")
        require(isinstance(clip, str) and clip in said, f"{where}: {TVQA_SUBTITLES} has no clip {clip!r}")
        asked.setdefault(clip, []).append(choice_question(where, row, said[clip]))
    return [Dialogue(clip, tuple(one.text for one in said[clip]), tuple(own)) for clip, own in asked.items()]


def choice_question(where: str, row: dict[str, Any], said: Sequence[Subtitle]) -> ChoiceQuestion:
    """A question of TVQA.

    Args:
        where: it stands, for errors.
        row: its object, with q, a0 to a4, answer_idx and ts.
        said: the subtitles of its clip, in the order in which they begin.

    Raises:
        MemjaxError: for one that is not as it must be.

    >>> row = {"q": "Who?", "answer_idx": 1, "ts": "2-3"} | {f"a{i}": f"{i}." for i in range(5)}
    >>> choice_question("line 1", row, [Subtitle(0.0, "Hi."), Subtitle(1.5, "Bye.")])
    ChoiceQuestion(text='Who?', choices=('0.', '1.', '2.', '3.', '4.'), right=1, turn=1)
    """
    right, given = row.get("answer_idx"), [row.get(key) for key in ("q", *TVQA_CHOICES)]
    require(_texts(given), f"{where}: it must have q and {TVQA_CHOICES[0]} to {TVQA_CHOICES[-1]}")
    question, *choices = map(str, given)
    require(str(right) in map(str, range(len(choices))), f"{where}: answer_idx is {right!r}, not 0 to 4")
    begin = _begin(where, row.get("ts"))
    # The turn that is being said when the moment begins.
    turn = None if begin is None else max(0, bisect_right([one.start for one in said], begin) - 1)
    return ChoiceQuestion(question, tuple(choices), int(str(right)), turn)


def _begin(where: str, moment: Any) -> float | None:
    """Of "48.6-60", or of [48.6, 60] as TVQA+ has it; None where it is not known, which is "nan-nan"."""
    begin = (
        moment.split("-")[0] if isinstance(moment, str) else moment[0] if isinstance(moment, list) and moment else ""
    )
    try:
        seconds = float(begin)
    except (TypeError, ValueError, OverflowError):
        raise MemjaxError(f"{where}: ts is {moment!r:.40}, not begin-end in seconds") from None
    return None if math.isnan(seconds) else seconds


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The objects of a file of lines in JSON, each with where it stands; the file may be gzipped, as FILE.gz.

    Raises:
        MemjaxError: for a file that is missing or damaged, and a line that is none.
    """
    path = plain_or_gzipped(path)
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            row = parsed(f"{path}, line {number}", line)
            require(isinstance(row, dict), f"{path}, line {number}: it is no object")
            yield f"{path}, line {number}", row
