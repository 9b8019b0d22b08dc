"""A whole experiment: sampler first where one is needed, then the system, then its test; all of it resumable."""

import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from rich.console import Console

from memjax import tasks
from memjax.config import Config
from memjax.errors import require
from memjax.functional import functional
from memjax.models import AskedMemory, System, build, build_sampler
from memjax.tasks import Task, check_batch
from memjax.training import checkpoint, runs
from memjax.training.evaluate import make_evaluator, slot_changes
from memjax.training.loop import fit
from memjax.training.objective import Loss, answer_objective, init_params, rehearsal_objective
from memjax.training.sharding import make_mesh
from memjax.training.step import TrainState, init_state, make_optimizer, make_step
from memjax.typing import Params

SLOT_EXAMPLES = 64


class Experiment(NamedTuple):
    """A config with all that it describes, made and checked; nothing is trained yet."""

    config: Config
    task: Task
    model: System
    mesh: Mesh


def prepare(config: Config) -> Experiment:
    """Makes the task, the system and the mesh. Raises `MemjaxError` for whatever does not fit, before compiling."""
    task = tasks.create(config.task)
    batch_size, examples = config.training.batch_size, task.size("train")
    require(examples >= batch_size, f"there are {examples} training examples, fewer than one batch of {batch_size}")
    check_batch(task.shape, task.examples("train", np.arange(batch_size)))
    return Experiment(config, task, build(config, task.shape), make_mesh(batch_size))


def train(experiment: Experiment, folder: Path, console: Console) -> Params:
    """Trains in a run folder, going on where it was: the parameters at the end. A failure before anything was trained
    leaves no new folder.
    """
    with runs.writing(folder):
        new = not folder.exists()
    runs.open_run(folder, experiment.config)
    with runs.locked(folder):
        try:
            return _train(experiment, folder, console)
        except Exception:
            if new and not runs.has_trained(folder):
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _train(experiment: Experiment, folder: Path, console: Console) -> Params:
    config, task, model, _ = experiment
    sampler, frozen = None, None
    if config.needs_sampler:
        sampler = build_sampler(config, task.shape)
        steps = config.training.sampler_steps
        frozen = _phase(experiment, folder, "sampler", sampler, answer_objective(sampler), None, steps, console)
    if isinstance(model, AskedMemory):
        loss = rehearsal_objective(model, config.rehearsal, config.rehearses, sampler)
    else:
        loss = answer_objective(model)
    return _phase(experiment, folder, "train", model, loss, frozen, config.training.steps, console)


def evaluate(experiment: Experiment, folder: Path) -> dict[str, Any]:
    """Tests the newest checkpoint of a run; writes and returns `evaluation.json`."""
    config, task, model, mesh = experiment
    began = time.perf_counter()
    step, params = _load(experiment, folder, "train", model, config.training.steps)
    result = {
        "split": "test",
        "label": label(config),
        "task": task_name(config),
        "step": step,
        "examples": task.size("test"),
        "classes": task.shape.classes,
        "recalled_among": config.rehearsal.negatives + 1 if config.rehearsal.negatives else task.shape.items,
        "notes": list(task.notes),
        "parameters": sum(x.size for x in jax.tree.leaves(params)),
        "state_bytes": None,
        "metrics": make_evaluator(model, task, mesh, config.training.batch_size)(params, "test"),
        "sampler": None,
        "slot_changes": None,
    }
    if isinstance(model, AskedMemory):
        own = {"params": params["params"]["memory"]}
        state = jax.eval_shape(functional(model.memory).initial_state, own)
        result["state_bytes"] = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state))
        result["slot_changes"] = slot_changes(model, params, task, min(SLOT_EXAMPLES, task.size("test")))
    if config.needs_sampler:
        sampler = build_sampler(config, task.shape)
        _, frozen = _load(experiment, folder, "sampler", sampler, config.training.sampler_steps)
        result["sampler"] = make_evaluator(sampler, task, mesh, config.training.batch_size)(frozen, "test")
    result["seconds"] = time.perf_counter() - began
    runs.write_json(folder / "evaluation.json", result)
    return result


def label(config: Config) -> str:
    """What a table calls the system."""
    if config.system == "memory":
        return f"{config.memory.name} memory" + ("" if config.rehearses else ", no rehearsal")
    return {"directly": "Directly Reason", "multi_hop": "Multi-Hop Reason"}[config.system]


def task_name(config: Config) -> str:
    """The task's name in the registry."""
    return next(name for name, spec in tasks.specs.items() if type(config.task) is spec)


def _initial(experiment: Experiment, model: System, steps: int, phase: str) -> TrainState:
    config, task = experiment.config, experiment.task
    example = {name: jnp.asarray(value[0]) for name, value in task.examples("train", np.zeros(1, int)).items()}
    key = jax.random.fold_in(jax.random.key(config.training.seed), phase == "sampler")
    params = init_params(model, key, example)
    return init_state(params, make_optimizer(config.optimizer, steps))


def _load(experiment: Experiment, folder: Path, phase: str, model: System, steps: int) -> tuple[int, Params]:
    # Asked first, for the manager would make the folder.
    require((folder / phase).is_dir(), f"{folder / phase} holds no checkpoint; train the run first")
    like = jax.eval_shape(lambda: _initial(experiment, model, steps, phase))
    with checkpoint.open_checkpoints(folder / phase) as manager:
        return checkpoint.restore_params(manager, like)


def _phase(
    experiment: Experiment,
    folder: Path,
    phase: str,
    model: System,
    loss: Loss,
    frozen: Params,
    steps: int,
    console: Console,
) -> Params:
    config, task, _, mesh = experiment
    training = config.training
    evaluator = make_evaluator(model, task, mesh, training.batch_size)
    state = fit(
        folder,
        phase,
        make_step(
            loss,
            make_optimizer(config.optimizer, steps),
            mesh,
            training.batch_size,
            training.microbatches,
            training.seed,
        ),
        _initial(experiment, model, steps, phase),
        frozen,
        lambda params: evaluator(params, "valid", training.validate_examples),
        task,
        training,
        steps,
        mesh,
        console,
    )
    return state.params
