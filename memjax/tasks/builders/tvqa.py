"""TVQA's official folder, checked whole, as the part of it that `Dialogues` reads."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from memjax.errors import require
from memjax.tasks.builders.new_folder import Copied, new_folder, require_place, write_names
from memjax.tasks.builders.subtitles import subtitles_of
from memjax.tasks.dialogue_files import (
    HELD_OUT,
    TVQA_CHOICES,
    TVQA_QUESTIONS,
    TVQA_SUBTITLES,
    Subtitle,
    choice_question,
    read_lines,
)
from memjax.tasks.dialogues import Dialogues, DialoguesSpec
from memjax.tasks.text import guarded, plain_or_gzipped
from memjax.typing import SPLITS, Split

FOLDER = "tvqa"
SILENT = "clips_without_subtitles.txt"
RELEASE = "tvqa_qa_release"  # the folder that the questions' archive makes
KEYS = ("vid_name", "q", *TVQA_CHOICES, "answer_idx", "ts")
# What may read it: how words are cut and counted is the config's to say.
_SIZES = {"words": 20, "answer_words": 20, "least": 1}


class _Found(NamedTuple):
    kept: list[dict[str, Any]]
    unanswered: int
    silent: list[str]  # the clips of questions that are not kept, for the subtitles lack them


def prepare(source: Path, data_dir: Path) -> Copied:
    """Writes `data_dir/tvqa`, for `memjax train --config=configs/dialogues.py:tvqa --data_dir=DATA_DIR`.

    All is read and checked first; the folder is moved into place when all of it is complete and can be read. It has
    the questions that have an answer and a clip with subtitles, and the subtitles of these clips, with the keys that
    are read; and the names of clips without subtitles, if there are some.

    Args:
        source: TVQA's folder, with tvqa_train.jsonl and tvqa_val.jsonl, there or in tvqa_qa_release, which may be
            gzipped; and with its subtitles, as `subtitles_of` reads them. Its public test has no answers: it is not
            read.
        data_dir: where it is written; what was prepared before is replaced.

    Raises:
        MemjaxError: for what is missing, damaged or of another kind; what was prepared is then as it was.

    ::

        print(prepare(Path("downloads/tvqa"), Path("data")).questions)
    """
    require(guarded(source, source.is_dir), f"{source} is no folder; give TVQA's, with {TVQA_QUESTIONS[0]}")
    place = data_dir / FOLDER
    require_place(place, (*TVQA_QUESTIONS, TVQA_SUBTITLES, SILENT), source)
    paths = {name: _path(source, name) for name in TVQA_QUESTIONS}
    said = subtitles_of(source)
    found = {name: _questions(path, said) for name, path in paths.items()}
    clips = {name: list(dict.fromkeys(row["vid_name"] for row in one.kept)) for name, one in found.items()}
    train, test = TVQA_QUESTIONS
    for name, least in ((train, HELD_OUT), (test, 1)):
        require(
            len(clips[name]) >= least,
            f"{source}: {name} has questions with an answer about {len(clips[name])} clips with subtitles, at "
            f"least {least} are needed; get all of both",
        )
    asked = dict.fromkeys(clip for own in clips.values() for clip in own)
    silent = sorted({clip for one in found.values() for clip in one.silent})
    left_out = _left_out(found.values(), silent, len(said) - len(asked), place)
    with new_folder(place) as new:
        for name, one in found.items():
            _write(new / name, one.kept)
        subtitles = ([{"start": line.start, "text": line.text} for line in said[clip]] for clip in asked)
        _write(new / TVQA_SUBTITLES, ({"vid_name": clip, "sub": sub} for clip, sub in zip(asked, subtitles)))
        if silent:
            write_names(new / SILENT, silent)
        # Raises where it could not be trained on.
        left_out += Dialogues(DialoguesSpec(FOLDER, data_dir=str(new.parent), **_SIZES)).notes
    held_out = set(clips[train][HELD_OUT - 1 :: HELD_OUT])
    of_train = ["valid" if row["vid_name"] in held_out else "train" for row in found[train].kept]
    streams = len(clips[train]) - len(held_out), len(held_out), len(clips[test])
    questions = of_train.count("train"), of_train.count("valid"), len(found[test].kept)
    return Copied(_by_split(streams), _by_split(questions), tuple(left_out))


def _by_split(counts: tuple[int, int, int]) -> dict[Split, int]:
    return dict(zip(SPLITS, counts, strict=True))


def _path(source: Path, name: str) -> Path:
    paths = [plain_or_gzipped(folder / name) for folder in (source, source / RELEASE)]
    found = guarded(source, lambda: [path for path in paths if path.is_file()])
    require(found, f"{source} has no {name}, and no {RELEASE}/{name}: it is not TVQA's folder; get all of it")
    return found[0]


def _questions(path: Path, said: dict[str, list[Subtitle]]) -> _Found:
    found = _Found([], 0, [])
    for where, row in read_lines(path):
        clip, unanswered = row.get("vid_name"), row.get("answer_idx") is None
        require(isinstance(clip, str) and clip, f"{where}: it has no vid_name")
        # What is left out is checked, too.
        choice_question(where, row | ({"answer_idx": 0} if unanswered else {}), said.get(clip, []))
        if unanswered:
            found = found._replace(unanswered=found.unanswered + 1)
        elif clip not in said:
            found.silent.append(clip)
        else:
            found.kept.append({key: row[key] for key in KEYS})
    return found


def _left_out(found: Collection[_Found], silent: list[str], unasked: int, place: Path) -> list[str]:
    unanswered, about = sum(one.unanswered for one in found), sum(len(one.silent) for one in found)
    lines = {
        f"{unanswered:,} questions without an answer are left out": unanswered,
        f"{len(silent):,} clips have no subtitles, and are named in {place / SILENT}: their {about:,} questions are "
        "left out": about,
        f"{unasked:,} clips that no such question is about are left out": unasked,
    }
    return [line for line, count in lines.items() if count]


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
