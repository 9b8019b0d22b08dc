"""The run folder: what is in it, and how it is written so that nothing is ever half there."""

import contextlib
import fcntl
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from etils import epath

from memjax.errors import MemjaxError, remark, require
from memjax.files import json_text, open_own, read_entries, read_object, replacing, writing
from memjax.training.tensorboard import Events

AnyPath: TypeAlias = Path | epath.Path  # local, or in a bucket
Settings: TypeAlias = Mapping[str, Any]

# What may be changed after the first checkpoint: how far a run goes, how often it looks and saves, and in how many
# parts it reads a batch, which other devices may ask for.
FREE = {
    f"training.{name}"
    for name in ("steps", "log_every", "validate_every", "validate_examples", "checkpoint_every", "microbatches")
}
SUMMED = ("config", "data", "evaluation")  # the files of a run that begin like this have a sum


def write_json(path: AnyPath, value: Any) -> None:
    """Writes a JSON file at once or not at all; those of a run with a sum over all that they hold."""
    text = json_text(value, summed=path.name.startswith(SUMMED))
    if "://" in str(path):  # in a bucket, where an object is whole or not there
        with writing(path):
            path.write_text(text)
        return
    with replacing(Path(path)) as file:
        file.write(text.encode())


def require_writable(folder: Path) -> None:
    """Raises `MemjaxError` unless a file can be written into a folder."""
    with writing(folder), tempfile.NamedTemporaryFile(dir=folder, prefix="."):
        pass


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


def open_run(settings: Settings, resolved: Callable[[Settings], Settings], *folders: AnyPath) -> None:
    """Writes the config of a run into its folders, or takes up what they hold; says what is changed.

    Args:
        settings: as of `check_changes`.
        resolved: as of `check_changes`.
        folders: of the run.

    Raises:
        MemjaxError: as `check_changes` does, and where nothing can be written.
    """
    changed = check_changes(settings, resolved, *folders)
    for folder in folders:
        if changed or not (folder / "config.json").exists():
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
                if not any(map(has_checkpoint, folders)):  # of another config, perhaps with other phases
                    (folder / "metrics.jsonl").unlink(missing_ok=True)
            write_json(folder / "config.json", settings)
    if changed:
        remark(f"{folders[-1]}: {', '.join(changed)}")


def check_changes(settings: Settings, resolved: Callable[[Settings], Settings], *folders: AnyPath) -> list[str]:
    """What of the settings is another than in these folders of one run.

    Before the first checkpoint anything may be another; then `FREE` alone, which does not change what was computed so
    far.

    Args:
        settings: of the run, as plain dicts.
        resolved: the settings of a folder as this version writes them, for a config that an older version has written.
        folders: of the run; one without a config is passed over.

    Returns:
        A phrase for each setting that is another.

    Raises:
        MemjaxError: for any other setting, for a config that this version cannot read, and for checkpoints without one.
    """
    changed: dict[str, str] = {}
    with writing(folders[-1]):
        known = [folder for folder in folders if (folder / "config.json").exists()]
    require(
        bool(known) or not any(map(has_checkpoint, folders)),
        f"{folders[-1]} has checkpoints and no config.json, which says of what they are; put it back, or give another "
        "--run",
    )
    for folder in known:
        written = read_settings(folder)
        try:
            held = resolved(written)
        except MemjaxError as error:
            path = folder / "config.json"
            raise MemjaxError(f"{path} is no config of this version ({error}); give another --run") from None
        for key, own, asked in differences(compared(held), compared(settings)):
            changed[key] = f"config.{key} is {asked!r} now, it was {own!r}"
            require(
                key in FREE or not any(map(has_checkpoint, folders)),
                f"{folder} holds a run with another config (config.{key} is {own!r} there, not {asked!r}); give "
                "another --run",
            )
            if key == "training.steps":
                changed[key] += _of_other_steps(own, asked, held.get("optimizer", {}).get("decay_steps", 0), *folders)
    return list(changed.values())


def _of_other_steps(own: int, asked: int, decay: int, *folders: AnyPath) -> str:
    """What is to be said where a run is to have other steps than its own, in the last `decay` of which its rate falls.

    Raises `MemjaxError` if the last phase, "train" in every family, has more steps already.
    """
    saved = (path.name for folder in folders for path in (folder / "train").glob("[0-9]*"))
    done = max((int(name) for name in saved if name.isdigit()), default=0)
    require(done <= asked, f"{folders[-1]} has {done} steps already, more than {asked}; give more, or another --run")
    falls = min(own, asked) - decay
    if falls >= min(done, own):
        return ""
    begun = f"; the learning rate had begun to fall at step {max(0, falls):,}"
    return f"{begun}, as it would not in a run of {asked:,} steps"


def is_same_run(held: Settings, asked: Settings) -> bool:
    """Whether settings are those of one run, wherever it is computed."""
    return compared(held) == compared(asked)


def compared(settings: Settings) -> dict[str, Any]:
    """Without what is no part of what a run computes: its devices, where its data lies, what brought its parts."""
    task = {key: value for key, value in settings["task"].items() if key != "data_dir"}
    return {key: value for key, value in settings.items() if key not in ("mesh", "plugins")} | {"task": task}


def differences(own: Any, asked: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The settings that are others: by name, what they are there, and here."""
    if not (isinstance(own, Mapping) and isinstance(asked, Mapping)):
        if own != asked:
            yield path.removeprefix("."), own, asked
        return
    for key in dict.fromkeys((*own, *asked)):
        yield from differences(own.get(key), asked.get(key), f"{path}.{key}")


def read_settings(folder: AnyPath) -> dict[str, Any]:
    """The config of a run, as it was written."""
    path = folder / "config.json"
    require(path.is_file(), f"{folder} is not a run: it has no config.json; give a folder that `memjax train` made")
    return read_object(path)


def has_trained(folder: AnyPath) -> bool:
    """Whether any phase of a run came as far as a line in its log or a checkpoint."""
    return (folder / "metrics.jsonl").exists() or has_checkpoint(folder)


def has_checkpoint(folder: AnyPath) -> bool:
    """Whether any phase of a run came as far as a checkpoint."""
    # What a kill has left half written has a name that goes on behind its number.
    return any(path.name.isdigit() for path in folder.glob("*/[0-9]*"))


def is_whole(folder: Path) -> bool:
    """Whether a run was evaluated at its last step, and not before."""
    path = folder / "evaluation.json"
    training = read_settings(folder).get("training")
    return path.is_file() and isinstance(training, Mapping) and read_object(path).get("step") == training.get("steps")


class NoLog:
    """The log of a process that is not the first: one is enough."""

    def truncate(self, step: int) -> float:
        """Nothing was spent."""
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
