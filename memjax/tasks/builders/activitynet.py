"""ActivityNet-QA with features of one's own, as a folder of streams and questions that `FileTask` reads."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memjax.errors import require
from memjax.tasks.builders.features import Read, is_archive, opened_features
from memjax.tasks.builders.new_folder import new_folder, require_place, write_names
from memjax.tasks.file_streams import QUESTIONS
from memjax.tasks.file_task import LONGEST, FileTask, FileTaskSpec
from memjax.tasks.text import guarded, parsed, plain_or_gzipped, read_text
from memjax.typing import SPLITS, Split

FILES = dict(zip(SPLITS, ("train", "val", "test"), strict=True))
# The numbers of ActivityNet-QA's types.
KINDS = ("motion", "spatial", "temporal", "yes/no", "colour", "object", "location", "number", "other")
FOLDER = "activitynet_qa"
MISSING = "videos_without_features.txt"
CLASSES = 1000  # the commonest answers of train, as its authors have it


class Prepared(NamedTuple):
    """What was written.

    Attributes:
        questions: how many of each split.
        videos: how many have features.
        rare: questions of train whose answer is none of the classes: left out.
        missing: videos that are asked about and have no features, by their names, which `MISSING` has a line each:
            their questions are left out.
    """

    questions: dict[Split, int]
    videos: int
    rare: int
    missing: tuple[str, ...]


class _Question(NamedTuple):
    video: str
    text: str
    answer: str
    kind: str


def prepare(source: Path, features: Path, data_dir: Path, *, frames: int = 0) -> Prepared:
    """Writes `data_dir/activitynet_qa`, for `memjax train --config=configs/files.py:DATA_DIR/activitynet_qa`.

    Questions are read first; the folder is moved into place when all of it is complete and can be read. Answers are the
    1,000 commonest of train; a question of valid or test with another one counts as an error.

    Args:
        source: ActivityNet-QA's folder `dataset`, with train_q.json, train_a.json, val_q.json, ...; each may be
            gzipped, as FILE.gz.
        features: a folder with NAME.npy for each video, or v_NAME.npy, `[frames, d]`; or an archive FILE.npz of
            `numpy.savez`, with an array NAME or v_NAME for each.
        data_dir: where it is written; what was prepared before is replaced.
        frames: how many are kept of a video, evenly spread; 0 for all.

    Raises:
        MemjaxError: for what is missing, damaged or of another kind.
    """
    require(frames >= 0, f"frames must be at least 0, not {frames}")
    for folder in (source,) if is_archive(features) else (source, features):
        wanted = "ActivityNet-QA's" if folder == source else "with --features one of .npy files, or an archive .npz"
        require(guarded(folder, folder.is_dir), f"{folder} is no folder; name {wanted}")
    place = data_dir / FOLDER
    require_place(place, (QUESTIONS, MISSING, "streams/*.npy"), source, features)
    asked = {split: _questions(source, name) for split, name in FILES.items()}
    classes = {answer for answer, _ in Counter(one.answer for one in asked["train"]).most_common(CLASSES)}
    rare = sum(one.answer not in classes for one in asked["train"])
    asked["train"] = [one for one in asked["train"] if one.answer in classes]
    names = sorted({one.video for own in asked.values() for one in own})
    with opened_features(features, names) as readers:
        missing = tuple(name for name in names if name not in readers)
        for split, own in asked.items():
            asked[split] = [one for one in own if one.video in readers]
            require(asked[split], f"{features} has features of no video of {FILES[split]}, as NAME.npy or v_NAME.npy")
        _write(asked, readers, missing, place, frames)
    return Prepared({split: len(own) for split, own in asked.items()}, len(readers), rare, missing)


def _questions(source: Path, name: str) -> list[_Question]:
    questions, answers = (_rows(source, f"{name}_{kind}.json") for kind in "qa")
    for kind, rows in (("question", questions), ("answer", answers)):
        ids = Counter(str(row.get("question_id", "")) for row in rows)
        twice = sorted(own for own, count in ids.items() if count > 1 or not own)
        require(not twice, f"{source}: the {kind}s of {name} have no question_id of their own, such as {twice[:1]}")
    by_id = {str(row["question_id"]): row for row in answers}
    found = []
    for row in questions:
        own = str(row.get("question_id"))
        where = f"{source}: question {own!r:.60} of {name}"
        require(own in by_id, f"{where} has no answer")
        answer = by_id[own]
        texts = [row.get("video_name"), row.get("question"), answer.get("answer")]
        require(all(isinstance(text, str) and text for text in texts), f"{where} lacks a video, a text or an answer")
        video, question, said = map(str, texts)
        kind = str(answer.get("type"))
        require(kind in map(str, range(len(KINDS))), f"{where}: its type is {kind:.20}, not 0 to {len(KINDS) - 1}")
        # The name becomes one of a file.
        require(video == Path(video).name, f"{where}: {video!r:.60} cannot be the name of a video")
        found.append(_Question(video, question, said, KINDS[int(kind)]))
    return found


def _rows(source: Path, name: str) -> list[dict[str, Any]]:
    path = plain_or_gzipped(source / name)
    require(path.is_file(), f"{source} has no {name}: it is not ActivityNet-QA's folder dataset; get all of it")
    rows = parsed(path, read_text(path))
    fits = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    require(fits, f"{path} is not ActivityNet-QA's: it must be a list of objects")
    return rows


def _write(
    asked: dict[Split, list[_Question]], readers: Mapping[str, Read], missing: Sequence[str], folder: Path, frames: int
) -> None:
    with new_folder(folder) as new:
        (new / "streams").mkdir()
        for name, read in readers.items():
            np.save(new / "streams" / f"{name}.npy", _kept(read(), frames))
        with (new / QUESTIONS).open("w", encoding="utf-8") as file:
            for split, own in asked.items():
                for one in own:
                    row = {"stream": one.video, "query": one.text, "answer": one.answer, "kind": one.kind}
                    file.write(json.dumps(row | {"split": split}) + "\n")
        if missing:
            write_names(new / MISSING, missing)
        FileTask(FileTaskSpec(segment=1, length=LONGEST, data_dir=str(new)))  # raises where it could not be trained on


def _kept(features: np.ndarray, frames: int) -> np.ndarray:
    places = np.arange(len(features))
    if 0 < frames < len(features):
        middle = np.array([len(features) // 2])
        places = np.linspace(0, len(features) - 1, frames).round().astype(int) if frames > 1 else middle
    with np.errstate(over="ignore"):  # what is too large is refused as not finite
        return features[places].astype(np.float32)
