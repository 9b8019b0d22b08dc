"""The run folder: what is in it, and how it is written so that nothing is ever half there."""

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from etils import epath

from memjax.config import AnyConfig, from_mapping, to_mapping
from memjax.errors import MemjaxError, require
from memjax.files import json_text, open_own, read_entries, read_object, replacing, writing
from memjax.training.tensorboard import Events

AnyPath: TypeAlias = Path | epath.Path  # local, or in a bucket
SUMMED = ("config.json", "evaluation.json")


def write_json(path: AnyPath, value: Any) -> None:
    """Writes a JSON file at once or not at all; those of a run with a sum over all that they hold."""
    text = json_text(value, summed=path.name in SUMMED)
    if "://" in str(path):  # in a bucket, where an object is whole or not there
        with writing(path):
            path.write_text(text)
        return
    with replacing(Path(path)) as file:
        file.write(text.encode())


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from training in a run folder at the same time."""
    with writing(folder), os.fdopen(open_own(folder / ".lock", os.O_RDWR), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MemjaxError(
                f"{folder} is being trained by another process; wait for it, or give another --run"
            ) from None
        yield


def open_run(config: AnyConfig, *folders: AnyPath) -> None:
    """Makes the folders of a run with this config, or takes up those that were made for it."""
    for folder in [folder for folder in folders if not holds(folder, config)]:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", to_mapping(config))


def holds(folder: AnyPath, config: AnyConfig) -> bool:
    """Whether a folder is that of a run with this config. Raises `MemjaxError` if it is that of another run."""
    with writing(folder):
        if not (folder / "config.json").exists():
            return False
    # On another mesh it is the same run.
    own, asked = (to_mapping(each) | {"mesh": None} for each in (read_config(folder), config))
    other = _difference(own, asked, "config")
    require(not other, f"{folder} holds a run with another config ({other}); give another --run, or delete the folder")
    return True


def _difference(own: Any, asked: Any, path: str) -> str:
    """The first setting that is another, "" if none is."""
    if not (isinstance(own, Mapping) and isinstance(asked, Mapping)):
        return "" if own == asked else f"{path} is {own!r} there, not {asked!r}"
    keys = dict.fromkeys((*own, *asked))
    return next(filter(None, (_difference(own.get(key), asked.get(key), f"{path}.{key}") for key in keys)), "")


def read_config(folder: AnyPath) -> AnyConfig:
    """The config of a run."""
    path = folder / "config.json"
    require(path.is_file(), f"{folder} is not a run: it has no config.json; give a folder that `memjax train` made")
    try:
        return from_mapping(read_object(path))
    except MemjaxError as error:
        if str(path) in str(error):
            raise
        raise MemjaxError(f"{path} is no config of this version ({error}); mend it, or delete the run") from None


def has_trained(folder: AnyPath) -> bool:
    """Whether any phase of a run came as far as a line in its log or a checkpoint."""
    return (folder / "metrics.jsonl").exists() or any(folder.glob("*/[0-9]*"))


def is_whole(folder: Path) -> bool:
    """Whether a run was evaluated at its last step, and not before."""
    path = folder / "evaluation.json"
    return path.is_file() and read_object(path).get("step") == read_config(folder).training.steps


class NoLog:
    """The log of a process that is not the first: one is enough."""

    def truncate(self, step: int) -> float:
        """Nothing was spent."""
        del step
        return 0.0

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Writes nothing."""

    def close(self) -> None:
        """Nothing is open."""


class MetricsLog:
    """Appends one JSON line for each entry to `metrics.jsonl`, and scalars to TensorBoard files."""

    def __init__(self, folder: Path, phase: str):
        self._phase = phase
        self._path = folder / "metrics.jsonl"
        self._events = Events(folder, phase)

    def truncate(self, step: int) -> float:
        """Drops this phase's entries after a step, which a resumed run writes again: the seconds spent until then."""
        if not self._path.exists():
            return 0.0
        kept = [line for line in read_entries(self._path) if line["phase"] != self._phase or line["step"] <= step]
        with replacing(self._path) as file:
            file.write("".join(json.dumps(line) + "\n" for line in kept).encode())
        seconds = [line.get("seconds") for line in kept if line["phase"] == self._phase]
        numbers = [value for value in seconds if isinstance(value, (int, float)) and math.isfinite(value)]
        return max(numbers, default=0.0)

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Appends an entry; nested values go to the file only."""
        entry = {"phase": self._phase, "step": step, **values}
        with os.fdopen(open_own(self._path, os.O_WRONLY | os.O_APPEND), "ab") as file:
            file.write((json.dumps(entry, allow_nan=False) + "\n").encode())
        prefix = f"{values['split']}/" if "split" in values else ""
        scalars = {prefix + name: value for name, value in values.items() if isinstance(value, float)}
        self._events.write(step, scalars)

    def close(self) -> None:
        """Closes TensorBoard's file."""
        self._events.close()
