"""What data a run learns from, as digests in its folder: whether other data lies there now is seen by them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from memjax.errors import MemjaxError, remark
from memjax.files import read_object
from memjax.training import runs
from memjax.training.phase import Experiment

FILE = "data.json"
LOOKED_AT = 4  # examples of train, evenly spread: enough to see another file, cheap enough for films
WORDS = ("vocabulary", "answers")  # what numbers stand for, of tasks that have such


def data_digests(experiment: Experiment) -> dict[str, Any]:
    """Of the task of an experiment: of what its numbers stand for, where it says so, and of some of its examples.

    Args:
        experiment: whose task it is.

    Returns:
        `vocabulary` and `answers`, of tasks that have them, `settings`, those of the task but for where its data lies,
        and `examples`: digests. `train`: how many examples there are.
    """
    task = experiment.task
    found: dict[str, Any] = {name: _digest(repr(getattr(task, name)).encode()) for name in WORDS if hasattr(task, name)}
    settings = {name: value for name, value in experiment.settings["task"].items() if name != "data_dir"}
    found["settings"] = _digest(json.dumps(settings, sort_keys=True, default=repr).encode())
    count = task.size("train")
    batch = task.examples("train", np.unique(np.linspace(0, count - 1, min(LOOKED_AT, count)).astype(int)))
    arrays = sorted((name, np.ascontiguousarray(value)) for name, value in batch.items())
    parts = (f"{name}{array.dtype.str}{array.shape}".encode() + array.tobytes() for name, array in arrays)
    return found | {"examples": _digest(b"".join(parts)), "train": count}


def keep_data_digests(experiment: Experiment, folder: Path) -> None:
    """Writes them where nothing was learned yet; otherwise looks whether they are still the same, and says if not.

    Args:
        experiment: of the run.
        folder: of the run.

    Raises:
        MemjaxError: where numbers stand for other words or answers than those that the run has learned.
    """
    if not runs.has_checkpoint(folder):
        runs.write_json(folder / FILE, data_digests(experiment))
    elif changed := changed_data(experiment, folder):
        remark(f"{folder}: {changed}")


def changed_data(experiment: Experiment, folder: Path) -> str:
    """Whether data with the same settings is another than what a run has learned from: in words, or "".

    Args:
        experiment: of the run, or with other settings of its task.
        folder: of the run; of a run of a version that kept no digests nothing is known.

    Raises:
        MemjaxError: as of `keep_data_digests`.
    """
    if not (folder / FILE).exists():
        return ""
    kept, now = read_object(folder / FILE), data_digests(experiment)
    for name in WORDS:
        if name in kept and kept[name] != now.get(name):
            raise MemjaxError(
                f"the {name} of this data is another than that of the data which {folder} has learned from, and its "
                "numbers would mean something else; give the data that it was trained on"
            )
    same = all(kept.get(name) == now[name] for name in ("examples", "train")) or kept.get("settings") != now["settings"]
    return "" if same else "its data is another now than when it began to learn, though the settings are the same"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
