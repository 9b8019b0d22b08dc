"""What data a run learns from, as digests in its folder: whether other data lies there now is seen by them."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from memjax.errors import MemjaxError, remark
from memjax.files import read_object
from memjax.training import checkpoint, runs
from memjax.training.data import Examples
from memjax.training.phase import Experiment
from memjax.typing import SPLITS, Split

FILE = "data.json"
LOOKED_AT = 4  # examples of each split, evenly spread: enough to see another file, cheap enough for films
WORDS = ("vocabulary", "answers", "item_names")  # what numbers stand for, of tasks that have such


def data_digests(experiment: Experiment) -> dict[str, Any]:
    """Of the task of an experiment: of what its numbers stand for, where it says so in words, and of some examples.

    Args:
        experiment: whose task it is.

    Returns:
        Digests: `vocabulary`, `answers` and `item_names`, of tasks that have them; `settings`, those of the task but
        for where its data lies; and `train`, `valid` and `test`, of how many examples there are and of `LOOKED_AT` of
        each.
    """
    task = experiment.task
    settings = {name: value for name, value in experiment.settings["task"].items() if name != "data_dir"}
    texts = {"settings": json.dumps(settings, sort_keys=True)}
    for name in WORDS:
        value = getattr(task, name, None)
        if _are_words(value):
            # Of more words than a model tells apart (SpansShape.known) the others are compared alone.
            texts[name] = json.dumps(list(value)[: getattr(task.shape, "known", None)])
    parts = {name: text.encode() for name, text in texts.items()} | {split: _some(task, split) for split in SPLITS}
    return {name: hashlib.sha256(data).hexdigest()[:16] for name, data in parts.items()}


def _are_words(value: Any) -> TypeGuard[Sequence[str | int]]:
    """Whether it is a list of texts or numbers: of anything else no text is the same in every process."""
    return isinstance(value, (list, tuple)) and all(isinstance(each, (str, int)) for each in value)


def _some(task: Examples, split: Split) -> bytes:
    count = task.size(split)
    batch = task.examples(split, np.unique(np.linspace(0, count - 1, min(LOOKED_AT, count)).astype(int)))
    arrays = sorted((name, np.ascontiguousarray(value)) for name, value in batch.items())
    # Floats may be computed, and then differ in a last bit from machine to machine.
    whole = [(name, array) for name, array in arrays if array.dtype.kind in "iub"]
    return b"".join([str(count).encode(), *(f"{n}{a.dtype.str}{a.shape}".encode() + a.tobytes() for n, a in whole)])


def keep_data_digests(experiment: Experiment, folder: Path) -> None:
    """Writes them where nothing was learned yet; otherwise looks whether they are still the same, and says if not.

    Args:
        experiment: of the run.
        folder: of the run; if its checkpoints lie elsewhere, they are kept there, too.

    Raises:
        MemjaxError: where numbers stand for other words or answers than those that the run has learned.
    """
    places = checkpoint.places(folder, experiment.config.training.checkpoints)
    if any(map(runs.has_checkpoint, places)):
        if changed := changed_data(experiment, folder):
            remark(f"{folder}: {changed}")
        return
    digests = data_digests(experiment)
    for place in places:
        runs.write_json(place / FILE, digests)


def changed_data(experiment: Experiment, folder: Path) -> str:
    """Whether data with the same settings is another than what a run has learned from: in words, or "".

    Args:
        experiment: of the run, or with other settings of its task.
        folder: of the run; of a run of a version that kept no digests nothing is known.

    Raises:
        MemjaxError: as of `keep_data_digests`.
    """
    places = checkpoint.places(folder, experiment.config.training.checkpoints)
    with checkpoint.reaching(places[0]):
        kept = next((read_object(place / FILE) for place in places if (place / FILE).exists()), None)
    if kept is None:
        return ""
    now = data_digests(experiment)
    for name in WORDS:
        if name in kept and kept[name] != now.get(name):
            raise MemjaxError(
                f"the {name} of this data is another than that of the data which {folder} has learned from, and its "
                "numbers would mean something else; give the data that it was trained on"
            )
    others = [split for split in SPLITS if kept.get(split) != now[split]]
    if not others or kept.get("settings") != now["settings"]:
        return ""
    return f"this is not the data with which the run began to learn ({', '.join(others)} is another)"
