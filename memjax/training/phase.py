"""A phase of training: what is trained, on what loss, measured how. Phases follow one another; each has checkpoints."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from rich.console import Console

from memjax.errors import require
from memjax.training import checkpoint
from memjax.training.best_checkpoint import Worth, best_place
from memjax.training.data import Examples, Layout
from memjax.training.evaluate import MetricSums
from memjax.training.loop import Fit, fit
from memjax.training.objective import Example, Loss
from memjax.training.sharding import placed
from memjax.training.step import TrainState, init_state, make_optimizer, make_step
from memjax.typing import Key, Params, Split


def _own(own: Params, learned: Params | None) -> Params:
    return own


def with_learned(own: Params, learned: Params | None) -> Params:
    """A phase's own first parameters, but those that the phase before has trained: a `Phase.begin`."""
    return own if learned is None else {"params": {**own["params"], **learned["params"]}}


class Phase(NamedTuple):
    """What is trained, for how long, on what loss, measured how.

    Attributes:
        name: of its folder of checkpoints, and in the log.
        steps: how many.
        init: `init(key, example)`, its own initial parameters.
        loss: `loss(params, frozen, batch) -> (loss, metrics)`; frozen is what the phase before has learned.
        measure: `measure(params, example)`, what is measured of one example.
        begin: what it begins with, given its own initial parameters and what the phase before has learned.
        stream: which stream of random numbers makes its initial parameters.
    """

    name: str
    steps: int
    init: Callable[[Key, Example], Params]
    loss: Loss
    measure: Callable[[Params, Example], MetricSums]
    begin: Callable[[Params, Params | None], Params] = _own
    stream: int = 0


class Recipe(NamedTuple):
    """What a family makes of a config and its task.

    Attributes:
        label: the system in words.
        phases: in order; each is given, frozen, what the one before has learned. The last one, "train", is what the
            experiment is about.
        layout: of the task's batches.
        facts: `facts(params, metrics, split)`, what an evaluation says besides, from the last phase's parameters and
            its metrics on a split; it may add to these.
        report: what a report shows of it, as plain data (`memjax.reporting.description`).
        shown: of what was predicted of each example of a split, what the report tells of single ones.
        notes: what must be said of these settings, before training and beside any figure.
        model: what the last phase trains, a module whose parameters are those of that phase; None where it is none.
    """

    label: str
    phases: tuple[Phase, ...]
    layout: Layout
    facts: Callable[[Params, dict[str, Any], Split], dict[str, Any]]
    report: Mapping[str, Any]
    shown: Callable[[Split, np.ndarray], dict[str, Any]] | None = None
    notes: tuple[str, ...] = ()
    model: Any = None


class Experiment(NamedTuple):
    """A config with all that it describes, made and checked; nothing is trained yet.

    Attributes:
        config: a dataclass that has at least `task`, `optimizer`, `training` and `mesh`.
        settings: the same as plain dicts, which the run folder keeps, with the names of the modules that brought what
            memjax does not have itself.
        resolved: settings of a folder with all defaults, to be compared with these.
        task_name: of the registry.
        task: whose examples it is trained and tested on.
        mesh: all devices.
        recipe: what the family makes of it.
        worth: of a validation of the last phase, how good it is; the more, the better.
        evaluators: of each phase, by its name, `evaluate(params, split, ...) -> metrics` as `make_evaluator` makes it:
            validations and the test compile it once.
    """

    config: Any
    settings: Mapping[str, Any]
    resolved: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    task_name: str
    task: Examples
    mesh: Mesh
    recipe: Recipe
    evaluators: Mapping[str, Callable[..., dict[str, Any]]]
    worth: Worth

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Those of the recipe, in order."""
        return self.recipe.phases

    def keeps_best(self, phase: Phase) -> bool:
        """Whether the parameters of a phase that count are those that were best in validation."""
        return self.config.training.keep == "best" and phase.name == self.phases[-1].name


def initial_state(experiment: Experiment, phase: Phase) -> TrainState:
    """The state before the first step of a phase."""
    config, task = experiment.config, experiment.task
    example = {name: jnp.asarray(value[0]) for name, value in task.examples("train", np.zeros(1, int)).items()}
    key = jax.random.fold_in(jax.random.key(config.training.seed), phase.stream)
    return init_state(phase.init(key, example), make_optimizer(config.optimizer, phase.steps))


def parameter_shapes(experiment: Experiment) -> dict[str, tuple[int, ...]]:
    """Of all parameters of the last phase, by their paths; nothing is computed."""
    params = jax.eval_shape(lambda: initial_state(experiment, experiment.phases[-1])).params
    return {jax.tree_util.keystr(path): leaf.shape for path, leaf in jax.tree.leaves_with_path(params)}


def run_phase(
    experiment: Experiment, folder: Path, phase: Phase, frozen: Params, console: Console, profile: bool = False
) -> Params:
    """Trains a phase in a run folder, going on where it was.

    Args:
        experiment: all of it.
        folder: of the run.
        phase: of the experiment.
        frozen: what the phase before has learned; None for the first.
        console: for the progress.
        profile: as of `train`.

    Returns:
        The parameters that count: at its end, or those that were best in validation.

    Raises:
        MemjaxError: as `fit` does.
    """
    config, task, mesh = experiment.config, experiment.task, experiment.mesh
    training, validate = config.training, experiment.evaluators[phase.name]

    def begin(frozen: Params) -> TrainState:
        state = initial_state(experiment, phase)
        return state._replace(params=phase.begin(state.params, frozen))

    # Several processes each make their part. One makes all of it on one device: what does not fit is an error there,
    # while of eight devices that all ask for too much JAX waits for ever.
    places = placed(mesh, jax.eval_shape(begin, frozen)) if jax.process_count() > 1 else None
    layout, optimizer = experiment.recipe.layout, make_optimizer(config.optimizer, phase.steps)
    sizes = training.batch_size, training.microbatches, training.seed
    job = Fit(
        folder=folder,
        name=phase.name,
        steps=phase.steps,
        step=make_step(phase.loss, optimizer, mesh, *sizes, layout.extend),
        frozen=frozen,
        validate=lambda params: validate(params, "valid", training.validate_examples),
        task=task,
        layout=layout,
        config=training,
        mesh=mesh,
        worth=experiment.worth if experiment.keeps_best(phase) else None,
        before=sum(each.steps for each in experiment.phases[: experiment.phases.index(phase)]),
    )
    console.out(f"{phase.name}: compiling ...")
    state = fit(job, jax.jit(begin, out_shardings=places)(frozen), console, profile)
    return load_phase(experiment, folder, phase)[1] if experiment.keeps_best(phase) else state.params


def load_phase(experiment: Experiment, folder: Path, phase: Phase) -> tuple[int, Params]:
    """What a phase has learned.

    Args:
        experiment: that of the run.
        folder: of the run.
        phase: of the experiment.

    Returns:
        (step, parameters) of its newest checkpoint that is whole; or of the best one, as the config says, once there
        is one.

    Raises:
        MemjaxError: if there is none.
    """
    place, advice = checkpoint.place(folder, experiment.config.training.checkpoints) / phase.name, {}
    if best_steps(experiment, folder, phase):
        place = best_place(folder, experiment.config.training.checkpoints, phase.name)
        advice = {"deleted": "to test the newest checkpoint"}
    like = jax.eval_shape(lambda: initial_state(experiment, phase))
    state = checkpoint.read_newest(place, like, experiment.mesh, **advice)
    return int(state.step), state.params


def told_best(experiment: Experiment, phase: Phase, found: int, listed: list[int]) -> tuple[bool, str]:
    """Whether parameters are the best in validation; and what is to be said of that: nothing, where none are kept.

    Args:
        experiment: that of the run.
        phase: of the experiment.
        found: the step of the parameters, as of `load_phase`.
        listed: as of `best_steps`, before they were loaded: a run that goes on may save better ones meanwhile.
    """
    if not experiment.keeps_best(phase):
        return False, ""
    if not listed:
        return False, f"no best in validation is kept: these are the newest parameters, of step {found:,}"
    told = f"tested with the parameters of step {found:,}, the best in validation"
    return True, told if found >= max(listed) else f"{told} but for step {max(listed):,}, whose checkpoint is damaged"


def best_steps(experiment: Experiment, folder: Path, phase: Phase) -> list[int]:
    """Of which steps a best checkpoint is kept, whole or damaged."""
    if not experiment.keeps_best(phase):
        return []
    place = best_place(folder, experiment.config.training.checkpoints, phase.name)
    with checkpoint.reaching(place):
        return [int(path.name) for path in place.glob("[0-9]*") if path.name.isdigit()]


def newest_step(experiment: Experiment, folder: Path, phase: Phase) -> int:
    """How far a phase was trained, by its newest checkpoint.

    Args:
        experiment: that of the run.
        folder: of the run.
        phase: of the experiment.

    Raises:
        MemjaxError: if there is none.
    """
    place = checkpoint.place(folder, experiment.config.training.checkpoints) / phase.name
    with checkpoint.open_checkpoints(place, create=False) as manager:
        steps = manager.all_steps()
    require(bool(steps), f"{place} holds no checkpoint; train the run first")
    return max(steps)


def state_bytes(make_state: Callable[[], Any]) -> int:
    """The bytes of a state, which is not made for it."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(jax.eval_shape(make_state)))
