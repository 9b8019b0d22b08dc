"""A whole experiment: its phases one after another, then its test; all of it resumable."""

import contextlib
import json
import math
import platform
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from etils import epath
from rich.console import Console

from memjax import __version__
from memjax.errors import MemjaxError, remark, require
from memjax.files import read_entries, writing
from memjax.training import checkpoint, runs
from memjax.training.data_digests import changed_data, data_digests, keep_data_digests
from memjax.training.phase import Experiment, best_steps, load_phase, newest_step, run_phase, told_best
from memjax.training.processes import by_first, devices, everywhere, of_first, require_shared
from memjax.training.sharding import fetch
from memjax.typing import Params, Split

LIBRARIES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint")


def train(experiment: Experiment, folder: Path, console: Console, profile: bool = False) -> Params:
    """Trains in a run folder, going on where it was. A failure before anything was trained leaves no new folder.

    Args:
        experiment: as `prepare` makes one.
        folder: of the run.
        console: for the progress.
        profile: whether traces of some steps of each phase are written to `folder/profile`.

    Returns:
        The parameters at the end of the last phase.

    Raises:
        MemjaxError: for a folder that holds a run with another config or of other words, that another process trains in
            or that cannot be written to, and as `fit` does.
    """
    require_alike(experiment)
    with contextlib.ExitStack() as held:
        by_first(lambda: held.enter_context(_taken(folder, experiment)))
        by_first(lambda: keep_data_digests(experiment, folder))
        require_shared(checkpoint.place(folder, experiment.config.training.checkpoints))
        learned = None
        for phase in experiment.phases:
            learned = run_phase(experiment, folder, phase, learned, console, profile)
        return learned


def require_alike(experiment: Experiment) -> None:
    """Raises `MemjaxError` in all processes unless they have one config and one data: they would train apart."""
    if jax.process_count() == 1:
        return
    config = runs.compared(experiment.settings) | {"mesh": experiment.settings["mesh"]}
    own = json.loads(json.dumps({"config": config, "data": data_digests(experiment)}))  # as the first one's comes
    first = of_first(own)

    def look() -> None:
        for key, theirs, ours in runs.differences(first, own):
            other = f"{key} is {ours!r} here and {theirs!r} in the first process"
            told = "its data is another than that of the first process" if key.startswith("data.") else other
            raise MemjaxError(f"{told}; give all processes the same")

    everywhere(look)


@contextlib.contextmanager
def _taken(folder: Path, experiment: Experiment) -> Iterator[None]:
    """A run folder for this run alone; it goes again if nothing comes of it."""
    own, place = epath.Path(folder), checkpoint.place(folder, experiment.config.training.checkpoints)
    folders = checkpoint.places(folder, experiment.config.training.checkpoints)  # without the first nothing is made
    with checkpoint.reaching(place):
        runs.check_changes(experiment.settings, experiment.resolved, *folders)
        require(
            place.exists() or not (folder / "evaluation.json").exists(),
            f"{folder} has been trained, and its checkpoints are not in {place}; if the run was renamed, rename the "
            "folder of its checkpoints too, or give another --run",
        )
        with writing(folder):
            new = {each for each in folders if not each.exists()}
        for each in folders:
            with writing(each):
                each.mkdir(parents=True, exist_ok=True)
    mine = {own}
    with runs.locked(folder), contextlib.ExitStack() as held:
        try:
            if place != own and "://" not in str(place):  # nobody can lock a bucket
                held.enter_context(runs.locked(Path(place)))
            mine.add(place)
            with checkpoint.reaching(place):
                runs.open_run(experiment.settings, experiment.resolved, *folders)
            if own in new and runs.has_trained(place):
                remark(f"{folder} is new, and goes on from the checkpoints in {place}")
            yield
        except Exception:
            if not any(map(runs.has_trained, mine)):
                for each in new & mine:
                    with contextlib.suppress(OSError):  # the error before it is the one to be told
                        each.rmtree(missing_ok=True)
            raise


def versions() -> dict[str, str]:
    """Of what has computed; of memjax also where it is not installed but on PYTHONPATH."""
    found = {name: metadata.version(name) for name in LIBRARIES}
    return {"memjax": __version__, **found, "python": platform.python_version()}


def evaluate(
    experiment: Experiment, folder: Path, split: Split = "test", file: str = "evaluation.json", command: str = ""
) -> dict[str, Any]:
    """Tests the newest checkpoint of a run, or the best one, as its config says.

    Args:
        experiment: that of the run.
        folder: of the run.
        split: on which it is tested.
        file: of the run folder, in which the result is written.
        command: what the user typed, for the report.

    Returns:
        What was written: `metrics`, `step` (of the newest checkpoint), `parameters` (how many numbers), `state_bytes`,
        `seconds` and more, as plain data. NaN is None there.

    Raises:
        MemjaxError: for a run without a checkpoint that is whole, and for data of other words than it has learned.
    """
    task, *before, last = experiment.task, *experiment.phases
    began = time.perf_counter()
    changed: list[str] = []
    by_first(lambda: changed.append(changed_data(experiment, folder)))
    listed = best_steps(experiment, folder, last)
    found, params = load_phase(experiment, folder, last)
    kept, said = told_best(experiment, last, found, listed)
    best = {"best_step": found} if kept else {}
    predictions: list[np.ndarray] = []
    metrics = experiment.evaluators[last.name](params, split, predictions=predictions, intervals=True)
    params = fetch(experiment.mesh, params)
    result = {
        "split": split,
        "label": experiment.recipe.label,
        "task": experiment.task_name,
        "step": newest_step(experiment, folder, last) if best else found,
        **best,
        "examples": task.size(split),
        "notes": [*task.notes, *experiment.recipe.notes],
        "parameters": sum(x.size for x in jax.tree.leaves(params)),
        "state_bytes": None,
        "metrics": metrics,
        "report": experiment.recipe.report,
        "command": command,
        "versions": versions(),
        "devices": devices(),
        "trained_on": _trained_on(folder, last.name),
    }
    result |= experiment.recipe.facts(params, metrics, split)
    if experiment.recipe.shown and predictions:
        result |= experiment.recipe.shown(split, np.concatenate(predictions))
    for phase in before:
        _, learned = load_phase(experiment, folder, phase)
        result[phase.name] = _without_nan(experiment.evaluators[phase.name](learned, split))
    result["metrics"] = _without_nan(result["metrics"])
    result["notes"] += [text for text in changed if text]
    if said:
        result["notes"].append(said)
    if unknown := metrics.get("unknown_labels"):
        result["notes"].append(f"{unknown} of {metrics['answers']} answers are none that train has: they are errors")
    if metrics["diverged"]:
        result["notes"].append(f"on {metrics['diverged']} of {metrics['examples']} examples the memory diverged")
    result["seconds"] = time.perf_counter() - began
    by_first(lambda: runs.write_json(folder / file, result))
    return result


def _trained_on(folder: Path, phase: str) -> str:
    """The devices that a phase was trained on, one after another; "" of a run of a version that did not say."""
    entries = (entry for entry in read_entries(folder / "metrics.jsonl") if entry["phase"] == phase)
    return ", then ".join(dict.fromkeys(entry["devices"] for entry in entries if "devices" in entry))


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: None stands for the mean of what diverged, however deep."""
    if isinstance(value, dict):
        return {name: _without_nan(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
