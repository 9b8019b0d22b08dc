"""A run folder, read: its config, its curves, its evaluation."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memjax.errors import MemjaxError, one_line, require
from memjax.files import read_entries, read_object

LARGEST = 3.5e38  # no result is larger: everything is computed in float32


class Curve(NamedTuple):
    """One logged number over the training steps: both `[n]`, steps strictly increasing; NaN where it was not finite."""

    steps: np.ndarray
    values: np.ndarray


Curves = dict[str, dict[str, Curve]]


@dataclass(frozen=True)
class Run:
    """What one run folder holds: curves and validation by phase ("sampler", "train") and key; evaluation or None."""

    name: str
    path: Path
    config: dict[str, Any]
    curves: Curves
    validation: Curves
    evaluation: dict[str, Any] | None

    @property
    def label(self) -> str:
        """The system in words: as it was evaluated, or else from the config."""
        label = pick(self.evaluation, "label")
        if isinstance(label, str) and label:
            return label
        system = str(self.config.get("system", "unknown system"))
        memory = pick(self.config, "memory", "name")
        return f"{memory} memory" if system == "memory" and memory else system.replace("_", " ")

    @property
    def task(self) -> str:
        """The name of the task, or ""."""
        return str(pick(self.config, "task", "name") or pick(self.evaluation, "task") or "")


def load_run(path: str | Path) -> Run:
    """Reads a run folder: config.json; metrics.jsonl and evaluation.json where they exist. Raises `MemjaxError`."""
    path = Path(path)
    require(path.is_dir(), f"{path} is no run folder: there is no such folder")
    require((path / "config.json").is_file(), f"{path} is no run folder: it has no config.json")
    config = read_object(path / "config.json")
    curves, validation = _read_metrics(path / "metrics.jsonl")
    evaluation = None
    if (path / "evaluation.json").is_file():
        evaluation = read_object(path / "evaluation.json")
        _check_evaluation(evaluation, path / "evaluation.json")
    return Run(path.resolve().name or str(path), path, config, curves, validation, evaluation)


@contextlib.contextmanager
def drawn_from(run: Run, what: str) -> Iterator[None]:
    """Turns what cannot be drawn of a part of the evaluation into one line: whatever is wrong, the file is damaged."""
    try:
        yield
    except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        path = run.path / "evaluation.json"
        raise MemjaxError(
            f"{path} is damaged: its {what} cannot be drawn ({one_line(error)}); evaluate again"
        ) from None


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run, in order: the folder's, with as many of its parents as it takes to tell the runs apart."""
    parts = [run.path.resolve().parts for run in runs]
    names = [run.name for run in runs]
    for depth in range(2, max(map(len, parts), default=0) + 1):
        repeated = {name for name in names if names.count(name) > 1}
        names = ["/".join(p[-depth:]) if name in repeated else name for name, p in zip(names, parts)]
    # The same folder given twice is still two rows and two lines.
    return [f"{name} ({names[: i + 1].count(name)})" if name in names[:i] else name for i, name in enumerate(names)]


def pick(tree: Any, *keys: str) -> Any:
    """What lies under the keys in nested dicts; None where there is no such thing."""
    for key in keys:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(key)
    return tree


def number(value: Any) -> float:
    """The value as a float; NaN for whatever is no number, or none of float32's."""
    counts = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST
    return float(value) if counts else math.nan


def tag_values(metrics: Any, tag: str) -> dict[str, tuple[float, float]]:
    """`{value: (accuracy, examples)}` of a tag of an evaluation's metrics, in its own order; {} without the tag."""
    values = pick(metrics, "tags", tag)
    if not isinstance(values, dict):
        return {}
    return {name: (number(pick(v, "accuracy")), number(pick(v, "examples"))) for name, v in values.items()}


def _check_evaluation(evaluation: dict[str, Any], path: Path) -> None:
    require(isinstance(evaluation.get("metrics"), dict), f"{path} is damaged: it has no metrics")
    changes = evaluation.get("slot_changes")
    if changes is None:
        return
    try:
        shape = np.asarray(changes, np.float64).shape
    except (TypeError, ValueError):
        shape = ()
    require(
        len(shape) == 2 and 0 not in shape,
        f"{path} is damaged: slot_changes is not a table [segments][slots] of numbers",
    )


def _read_metrics(path: Path) -> tuple[Curves, Curves]:
    """(training, validation) curves; both {} without the file. Of two lines for one step the later one counts."""
    records: dict[tuple[bool, str], dict[int, dict[str, Any]]] = {}
    for record in read_entries(path):
        held_out = record.get("split") not in (None, "train")
        records.setdefault((held_out, record["phase"]), {})[int(record["step"])] = record
    train, valid = ({p: _curves(r) for (held, p), r in records.items() if held == h} for h in (False, True))
    return train, valid


def _curves(records: dict[int, dict[str, Any]]) -> dict[str, Curve]:
    curves = {}
    for key in dict.fromkeys(key for record in records.values() for key in record):
        points = sorted((s, number(r[key])) for s, r in records.items() if _is_number_or_null(r.get(key, "")))
        if key not in ("phase", "split", "step") and points:
            steps, values = map(np.asarray, zip(*points))
            curves[key] = Curve(steps, values)
    return curves


def _is_number_or_null(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
