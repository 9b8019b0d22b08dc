"""A whole experiment: its phases one after another, then its test; all of it resumable."""

import contextlib
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from etils import epath
from rich.console import Console

from memjax import tasks
from memjax.config import AnyConfig, BitsConfig, Config, RetentionConfig, SequenceConfig
from memjax.errors import remark, require
from memjax.models import System, build
from memjax.tasks import TaskShape, check_batch
from memjax.training import checkpoint, runs
from memjax.training.agents import agent_experiment
from memjax.training.asked import asked_experiment
from memjax.training.bits import bits_experiment
from memjax.training.phase import Experiment, initial_state, load_phase, phase_evaluator, run_phase
from memjax.training.processes import by_first, require_shared
from memjax.training.retention import retention_experiment
from memjax.training.sequences import sequence_experiment
from memjax.training.sharding import fetch, row_parts
from memjax.typing import Params


def keep_compiled(folder: str) -> None:
    """Keeps compiled programs in a folder, for the next run."""
    if "://" not in folder:
        with runs.writing(Path(folder)):
            Path(folder).mkdir(parents=True, exist_ok=True)  # JAX would only warn
    jax.config.update("jax_compilation_cache_dir", folder)


def prepare(config: AnyConfig) -> Experiment:
    """Makes the task, the system and the mesh. Raises `MemjaxError` for whatever does not fit, before compiling."""
    experiment = _experiment(config)
    task, batch_size = experiment.task, config.training.batch_size
    examples = task.size("train")
    require(examples >= batch_size, f"there are {examples} training examples, fewer than one batch of {batch_size}")
    rows, microbatches = batch_size // row_parts(experiment.mesh), config.training.microbatches
    require(
        rows % microbatches == 0,
        f"config.training.microbatches {microbatches} must divide {rows}, the rows of a batch that each device has",
    )
    check_batch(task.shape, task.examples("train", np.arange(batch_size)))
    jax.eval_shape(lambda: initial_state(experiment, experiment.phases[-1]))  # sizes that cannot be end here
    return experiment


def _experiment(config: AnyConfig) -> Experiment:
    if isinstance(config, Config):
        return asked_experiment(config)
    if isinstance(config, SequenceConfig):
        return sequence_experiment(config)
    if isinstance(config, BitsConfig):
        return bits_experiment(config)
    return retention_experiment(config) if isinstance(config, RetentionConfig) else agent_experiment(config)


def train(experiment: Experiment, folder: Path, console: Console, profile: bool = False) -> Params:
    """Trains in a run folder, going on where it was: the parameters at the end. A failure before anything was trained
    leaves no new folder. profile: traces of some steps of each phase are written to `folder/profile`.
    """
    with contextlib.ExitStack() as held:
        by_first(lambda: held.enter_context(_taken(folder, experiment.config)))
        require_shared(checkpoint.place(folder, experiment.config.training.checkpoints))
        learned = None
        for phase in experiment.phases:
            learned = run_phase(experiment, folder, phase, learned, console, profile)
        return learned


@contextlib.contextmanager
def _taken(folder: Path, config: AnyConfig) -> Iterator[None]:
    """A run folder for this run alone; it goes again if nothing comes of it."""
    own, place = epath.Path(folder), checkpoint.place(folder, config.training.checkpoints)
    folders = dict.fromkeys((place, own))  # first what may be out of reach; without it nothing is made
    with checkpoint.reaching(place):
        with runs.writing(folder):
            new = {each for each in folders if not each.exists()}
        runs.open_run(config, *folders)
    mine = {own}
    with runs.locked(folder), contextlib.ExitStack() as held:
        try:
            if place != own and "://" not in str(place):  # nobody can lock a bucket
                held.enter_context(runs.locked(Path(place)))
            mine.add(place)
            if own in new and runs.has_trained(place):
                remark(f"{folder} is new, and goes on from the checkpoints in {place}")
            yield
        except Exception:
            if not any(map(runs.has_trained, mine)):
                for each in new & mine:
                    with contextlib.suppress(OSError):  # the error before it is the one to be told
                        each.rmtree(missing_ok=True)
            raise


def trained_model(folder: Path | str) -> tuple[System, Params]:
    """The model of a run on a task that asks a memory, and what it had learned at its newest checkpoint.

    model, params = trained_model("runs/evidence-demo")
    states = streaming.start(model, params, 1000)
    """
    return trained_task(folder)[1:]


def trained_task(folder: Path | str) -> tuple[Any, System, Params]:
    """The task of such a run, and `trained_model`."""
    folder = Path(folder)
    config = runs.read_config(folder)
    require(isinstance(config, Config), f"{folder} is no run of a system that is asked; see configs/evidence.py")
    experiment = prepare(config)
    shape = cast(TaskShape, experiment.task.shape)
    params = load_phase(experiment, folder, experiment.phases[-1])[1]
    return experiment.task, build(cast(Config, config), shape), params


def evaluate(experiment: Experiment, folder: Path) -> dict[str, Any]:
    """Tests the newest checkpoint of a run; writes and returns `evaluation.json`."""
    task, *before, last = experiment.task, *experiment.phases
    began = time.perf_counter()
    step, params = load_phase(experiment, folder, last)
    params = fetch(experiment.mesh, params)
    metrics = phase_evaluator(experiment, last)(params, "test")
    result = {
        "split": "test",
        "label": experiment.label,
        "task": task_name(experiment.config),
        "step": step,
        "examples": task.size("test"),
        "notes": list(task.notes),
        "parameters": sum(x.size for x in jax.tree.leaves(params)),
        "state_bytes": None,
        "metrics": metrics,
        "sampler": None,
        "slot_changes": None,
    }
    result |= experiment.facts(params, metrics)
    for phase in before:
        _, learned = load_phase(experiment, folder, phase)
        result[phase.name] = _without_nan(phase_evaluator(experiment, phase)(learned, "test"))
    result["metrics"] = _without_nan(result["metrics"])
    if metrics["diverged"]:
        result["notes"].append(f"on {metrics['diverged']} of {metrics['examples']} examples the memory diverged")
    result["seconds"] = time.perf_counter() - began
    by_first(lambda: runs.write_json(folder / "evaluation.json", result))
    return result


def _without_nan(metrics: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: None stands for the mean of what diverged."""
    return {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in metrics.items()}


def task_name(config: AnyConfig) -> str:
    """The task's name in the registry."""
    return next(name for name, spec in tasks.specs.items() if type(config.task) is spec)
