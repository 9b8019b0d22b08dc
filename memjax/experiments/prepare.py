"""From a config to an experiment that can be trained, or to the model that a run has trained."""

import contextlib
import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from memjax import tasks
from memjax.config.sections import MeshConfig
from memjax.errors import MemjaxError, remark, require
from memjax.experiments.arguments import place_data
from memjax.experiments.family import Family
from memjax.experiments.reading import family_of, from_mapping, plugins_of, read_config, resolved, to_mapping
from memjax.reporting.columns import result_worth
from memjax.training.data_digests import changed_data
from memjax.training.evaluate import make_evaluator
from memjax.training.phase import Experiment, best_steps, initial_state, load_phase, told_best
from memjax.training.sharding import make_mesh, row_parts
from memjax.typing import Params


def prepare(config: Any) -> Experiment:
    """Makes the task, the system and the mesh.

    Raises:
        MemjaxError: for whatever does not fit, before compiling.
    """
    name = tasks.name_of(config.task)
    family, task = family_of(name), tasks.create(config.task)
    _check_task(name, task, family)
    recipe, batch_size = family.make(config, task), config.training.batch_size
    mesh = make_mesh(config.mesh, batch_size)
    plugins = plugins_of(config)
    settings = to_mapping(config) | ({"plugins": list(plugins)} if plugins else {})
    evaluators = {
        phase.name: make_evaluator(phase.measure, task, recipe.layout, mesh, batch_size) for phase in recipe.phases
    }
    worth = partial(result_worth, recipe.report)
    experiment = Experiment(config, settings, resolved, name, task, mesh, recipe, evaluators, worth)
    examples = task.size("train")
    require(examples >= batch_size, f"there are {examples} training examples, fewer than one batch of {batch_size}")
    rows, microbatches = batch_size // row_parts(mesh), config.training.microbatches
    require(
        rows % microbatches == 0,
        f"config.training.microbatches {microbatches} must divide {rows}, the rows of a batch that each device has",
    )
    batch: Any = task.examples("train", np.arange(batch_size))
    require(isinstance(batch, dict), f"the examples of the task {name} must be a dict of arrays, not {batch!r:.40}")
    strange = ", ".join(key for key, value in batch.items() if not isinstance(value, np.ndarray))
    require(not strange, f"{strange} of a batch must be NumPy arrays")
    recipe.layout.check(batch)
    jax.eval_shape(lambda: initial_state(experiment, experiment.phases[-1]))  # sizes that cannot be end here
    return experiment


def on_these_devices(config: Any) -> Any:
    """The config of a run, to be tested or used here, whatever it was trained on.

    Its own mesh if that fits; else rows over all devices, or whole on each where they do not divide a batch.
    """
    for mesh in (config.mesh, MeshConfig(), MeshConfig(data=1, model=-1)):
        with contextlib.suppress(MemjaxError):
            make_mesh(mesh, config.training.batch_size)
            whole = dataclasses.replace(config.training, microbatches=1)  # of a step, of which there is none
            return dataclasses.replace(config, mesh=mesh, training=whole)
    return config


def read_run(folder: Path | str, data_dir: Path | str | None = None) -> Any:
    """The config of a run, to be used here: on these devices, with its data where that lies now.

    Args:
        folder: of the run.
        data_dir: where its data lies, if not where it lay; without its data no task knows its words and sizes.
    """
    settings = to_mapping(read_config(Path(folder)))
    place_data(settings, None if data_dir is None else str(data_dir))
    return on_these_devices(from_mapping(settings))


def trained_model(folder: Path | str, data_dir: Path | str | None = None) -> tuple[Any, Params]:
    """The model of a run: one of `memjax.models`, or what its family trains in its place.

    Args:
        folder: of the run.
        data_dir: where the run's data lies, if it was moved; the task needs it, for its words and sizes.

    Returns:
        The module, and what it had learned at its newest checkpoint, or at its best one, as its config says.

    Raises:
        MemjaxError: for a folder that holds no run, for a run without a checkpoint that is whole, and for one of a
            family that does not say what its model is (`Recipe.model`).

    ::

        model, params = trained_model("runs/evidence-demo")
        states = streaming.start(model, params, 1000)
    """
    folder = Path(folder)
    experiment = prepare(read_run(folder, data_dir))
    model = experiment.recipe.model
    require(model is not None, f"{folder} has no model: the family of its task gives none in its recipe")
    return model, trained_parameters(experiment, folder)


def trained_parameters(experiment: Experiment, folder: Path) -> Params:
    """What the last phase of a run had learned at its newest checkpoint, or at its best one, as its config says.

    Args:
        experiment: that of the run, as `prepare` makes it.
        folder: of the run.

    Raises:
        MemjaxError: for a run without a checkpoint that is whole, and for data of other words than it has learned.
    """
    if changed := changed_data(experiment, folder):
        remark(f"{folder}: {changed}")
    last = experiment.phases[-1]
    listed = best_steps(experiment, folder, last)
    found, params = load_phase(experiment, folder, last)
    kept, said = told_best(experiment, last, found, listed)
    if said and not kept:
        remark(f"{folder}: {said}")
    return params


def _check_task(name: str, task: Any, family: Family) -> None:
    """Raises `MemjaxError` for a task that has not what the family's contract says."""
    lacking = [each for each in ("shape", "notes", "size", "examples") if not hasattr(task, each)]
    require(not lacking, f"the task {name} lacks {', '.join(lacking)}; see docs/guides/own_task.md")
    require(
        isinstance(task.shape, family.shape),
        f"the shape of the task {name} must be a {family.shape.__name__}, as its family {family.name} has, not "
        f"{type(task.shape).__name__}",
    )
