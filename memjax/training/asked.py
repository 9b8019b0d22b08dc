"""Experiments with a memory that is asked: a sampler first where one is needed, then the system."""

from functools import partial
from typing import Any

from memjax import tasks
from memjax.config import Config
from memjax.functional import functional
from memjax.models import HistorySampler, MemoryModel, System, build, build_sampler
from memjax.training.evaluate import measure_answer, slot_changes
from memjax.training.objective import answer_objective, init_params, rehearsal_objective
from memjax.training.phase import Experiment, Phase, state_bytes
from memjax.training.sharding import make_mesh
from memjax.typing import Params

SLOT_EXAMPLES = 64


def asked_experiment(config: Config) -> Experiment:
    """The experiment that a config describes."""
    task = tasks.create(config.task)
    model, training = build(config, task.shape), config.training
    sampler = build_sampler(config, task.shape) if config.needs_sampler else None
    phases = [_phase("sampler", training.sampler_steps, sampler, answer_objective(sampler))] if sampler else []
    if isinstance(model, MemoryModel):
        loss = rehearsal_objective(model, config.rehearsal, config.rehearses, sampler)
    else:
        loss = answer_objective(model)
    phases.append(_phase("train", training.steps, model, loss))

    def facts(params: Params, metrics: dict[str, Any]) -> dict[str, Any]:
        del metrics
        among = config.rehearsal.negatives + 1 if config.rehearsal.negatives else task.shape.items
        found: dict[str, Any] = {"classes": task.shape.classes, "recalled_among": among}
        if isinstance(model, MemoryModel):
            own = {"params": params["params"]["memory"]}
            found["state_bytes"] = state_bytes(lambda: functional(model.memory).initial_state(own))
            found["slot_changes"] = slot_changes(model, params, task, min(SLOT_EXAMPLES, task.size("test")))
        return found

    mesh = make_mesh(config.mesh, config.training.batch_size)
    return Experiment(config, _label(config), task, mesh, tuple(phases), facts)


def _phase(name: str, steps: int, model: System | HistorySampler, loss) -> Phase:
    return Phase(name, steps, partial(init_params, model), loss, partial(measure_answer, model))


def _label(config: Config) -> str:
    if config.system == "memory":
        return f"{config.memory.name} memory" + ("" if config.rehearses else ", no rehearsal")
    return {"directly": "Directly Reason", "multi_hop": "Multi-Hop Reason"}[config.system]
