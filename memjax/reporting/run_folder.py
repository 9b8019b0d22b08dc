"""A run folder, read: its config, its curves, its evaluation."""

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memjax.errors import MemjaxError, one_line, require
from memjax.files import read_entries, read_object
from memjax.reporting.description import Report

LARGEST = 3.5e38  # no result is larger: everything is computed in float32
LAST = "train"  # the phase that a run is about; phases before it have names of their own


class Curve(NamedTuple):
    """One logged number over the training steps.

    Attributes:
        steps: `[n]`, strictly increasing.
        values: `[n]`, NaN where it was not finite.
    """

    steps: np.ndarray
    values: np.ndarray


Curves = dict[str, dict[str, Curve]]


@dataclass(frozen=True)
class Run:
    """What one run folder holds.

    Attributes:
        name: of the folder.
        path: of the folder.
        config: config.json.
        curves: what was logged in training, by phase (the last is "train") and key.
        validation: what was logged of the validations, by phase and key.
        evaluation: evaluation.json; None without it.
        validated: the validation of the phase "train" whose parameters were tested, the last or the best; all of it.
        more: the evaluations beside the first one, by the NAME in evaluation-NAME.json.
        saved: the last step of the phase "train" of which there is a checkpoint; 0 without one.
        part: this NAME, in what `with_parts` makes of such an evaluation; else "".
    """

    name: str
    path: Path
    config: dict[str, Any]
    curves: Curves
    validation: Curves
    evaluation: dict[str, Any] | None
    validated: dict[str, Any] | None = None
    more: dict[str, dict[str, Any]] = field(default_factory=dict)
    saved: int = 0
    part: str = ""

    @property
    def label(self) -> str:
        """The system in words, as it was evaluated, or else from the config."""
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

    @property
    def step(self) -> float:
        """The step that was evaluated, or else the last one that was logged, validated or saved; 0 before that."""
        step = number(pick(self.evaluation, "step"))
        validated = number(pick(self.validated, "step"))
        return step if math.isfinite(step) else np.nanmax([last_step(self, LAST, 0.0), validated, self.saved])

    @property
    def unfinished(self) -> str:
        """Where a run is that was not trained to its end, "step 67 of 11,000"; "" if it was, or if nobody knows."""
        steps = number(pick(self.config, "training", "steps"))
        return f"step {self.step:,.0f} of {steps:,.0f}" if self.step < steps else ""


def runs_in(folder: Path) -> list[Path]:
    """The run folders in that of a comparison, by name."""
    return sorted(file.parent for file in folder.glob("*/config.json"))


def load_run(path: str | Path) -> Run:
    """Reads a run folder: config.json; metrics.jsonl, evaluation.json and every evaluation-NAME.json where they exist.

    Imports nothing that the run needs.

    Raises:
        MemjaxError: for what is no run folder, and for what is damaged.
    """
    path = Path(path)
    what = "it is a file" if path.is_file() else "there is no such folder"
    require(path.is_dir(), f"{path} is no run folder: {what}")
    runs = runs_in(path)
    inside = f"; give those in it, as {' '.join(map(str, runs[:2]))}" if runs else ""
    require((path / "config.json").is_file(), f"{path} is no run folder: it has no config.json{inside}")
    config = read_object(path / "config.json")
    curves, validation, validations = _read_metrics(path / "metrics.jsonl")
    evaluations = {}
    for file in sorted(path.glob("evaluation*.json")):
        part = re.fullmatch(r"evaluation(?:-(.+))?\.json", file.name)
        if part and file.is_file():
            evaluations[part[1]] = read_object(file)
            _check_evaluation(evaluations[part[1]], file)
    evaluation = evaluations.pop(None, None)
    name = path.resolve().name or str(path)
    validated = _beside(evaluation, validations)
    saved = max((int(file.name) for file in (path / LAST).glob("*") if re.fullmatch(r"\d{1,15}", file.name)), default=0)
    return Run(name, path, config, curves, validation, evaluation, validated, evaluations, saved)


def _beside(evaluation: Any, validations: dict[int, dict[str, Any]]) -> dict[str, Any] | None:
    """The validation of the parameters that were tested: the best one, if the run kept these, or the last."""
    best = number(pick(evaluation, "best_step"))
    newest = validations[max(validations)] if validations else None
    return validations.get(int(best), newest) if math.isfinite(best) else newest


def last_step(run: Run, phase: str, otherwise: float = math.nan) -> float:
    """The last step of a phase that was logged."""
    return max((float(curve.steps[-1]) for curve in run.curves.get(phase, {}).values()), default=otherwise)


def with_parts(runs: Sequence[Run]) -> list[Run]:
    """Every run, and behind it one for each evaluation beside its first, which has no curves."""
    return [
        each
        for run in runs
        for each in (
            run,
            *(
                replace(run, curves={}, validation={}, validated=None, evaluation=evaluation, more={}, part=name)
                for name, evaluation in run.more.items()
            ),
        )
    ]


@contextlib.contextmanager
def drawn_from(run: Run, place: Sequence[str]) -> Iterator[None]:
    """Turns what cannot be drawn of a part of the evaluation into one line: whatever is wrong, the file is damaged."""
    try:
        yield
    except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        path = run.path / (f"evaluation-{run.part}.json" if run.part else "evaluation.json")
        raise MemjaxError(
            f"{path} is damaged: its {'.'.join(place)} cannot be drawn ({one_line(error)}); evaluate again"
        ) from None


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run, in order: the folder's, with as many of its parents as it takes to tell the runs apart, and
    the name of the evaluation where it is not the first.
    """
    paths = [run.path.resolve() for run in runs]
    by_path = {path: run.name for path, run in zip(paths, runs)}
    for depth in range(2, max((len(path.parts) for path in paths), default=0) + 1):
        given = [*by_path.values()]
        repeated = {name for name in given if given.count(name) > 1}
        by_path = {path: "/".join(path.parts[-depth:]) if name in repeated else name for path, name in by_path.items()}
    names = [by_path[path] + (f", {run.part}" if run.part else "") for path, run in zip(paths, runs)]
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


def _check_evaluation(evaluation: dict[str, Any], path: Path) -> None:
    require(isinstance(evaluation.get("metrics"), dict), f"{path} is damaged: it has no metrics")
    if evaluation.get("report") is not None:
        try:
            Report.from_json(evaluation["report"])
        except MemjaxError as error:
            raise MemjaxError(f"{path} is damaged ({error}); evaluate again") from None


def _read_metrics(path: Path) -> tuple[Curves, Curves, dict[int, dict[str, Any]]]:
    """(training, validation) curves, and the validations of the last phase by their steps; all empty without the file.
    Of two lines for one step the later one counts.
    """
    records: dict[tuple[bool, str], dict[int, dict[str, Any]]] = {}
    for record in read_entries(path):
        held_out, step = record.get("split") not in (None, "train"), record["step"]
        records.setdefault((held_out, record["phase"]), {})[int(step)] = record
    train, valid = ({p: _curves(r) for (held, p), r in records.items() if held == h} for h in (False, True))
    return train, valid, records.get((True, LAST), {})


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
