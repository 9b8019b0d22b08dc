"""Experiments with sequence layers: what is minimised, and what is measured on a long sequence, block by block."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from memjax import tasks
from memjax.config import SequenceConfig, SequenceModelConfig
from memjax.models import SequenceModel, build_sequence
from memjax.models.language import BLOCK
from memjax.tasks.sequence import NOTHING
from memjax.training.evaluate import Measured
from memjax.training.objective import Example, Loss, answer_metrics
from memjax.training.phase import Experiment, Phase, state_bytes
from memjax.training.sharding import make_mesh
from memjax.typing import Array, Key, Params


def sequence_experiment(config: SequenceConfig) -> Experiment:
    """The experiment that a config describes."""
    task = tasks.create(config.task)
    shape, model = task.shape, build_sequence(config.model, task.shape)
    chunk = config.model.chunk
    block = chunk * max(1, BLOCK // chunk)  # with gradients per chunk a stream is cut between chunks
    measure = partial(measure_sequence, model, shape.answer, block)
    phase = Phase("train", config.training.steps, partial(init_sequence, model), sequence_objective(model), measure)

    def facts(params: Params, metrics: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"classes": shape.choices, "chance": shape.choices**-shape.answer}
        found["state_bytes"] = state_bytes(lambda: model.apply(params, method="initial_state"))
        if shape.text:
            found["metrics"] = metrics | {"perplexity": math.exp(min(metrics["answer_loss"], 700))}
        return found

    mesh = make_mesh(config.mesh, config.training.batch_size)
    return Experiment(config, _label(config.model), task, mesh, (phase,), facts)


def sequence_objective(model: SequenceModel) -> Loss:
    """Mean answer loss over the targets of each sequence, then over the batch; whole sequences at once."""

    def one(params: Params, example: Example) -> dict[str, Array]:
        rngs = {"dropout": example["key"]}
        logits, _ = model.apply(params, example["tokens"], train=True, rngs=rngs)
        asked = example["target"] != NOTHING
        metrics = answer_metrics(logits, jnp.where(asked, example["target"], 0))
        return {name: jnp.where(asked, value, 0).sum() / asked.sum() for name, value in metrics.items()}

    def loss(params: Params, frozen: Params, batch: Example) -> tuple[Array, dict[str, Array]]:
        del frozen
        means = jax.tree.map(jnp.mean, jax.vmap(one, (None, 0))(params, batch))
        return means["answer_loss"], means

    return loss


def measure_sequence(model: SequenceModel, answer: int, block: int, params: Params, example: Example) -> Measured:
    """One sequence of any length, `block` tokens at a time: loss over its targets, and answers that are right.

    answer: the tokens of an answer; above 1 all targets are one answer, which is right when all of them are.
    """
    length = example["tokens"].shape[0]
    block = min(block, length)
    padding = (0, -length % block)
    tokens = jnp.pad(example["tokens"], padding).reshape(-1, block)
    target = jnp.pad(example["target"], padding, constant_values=NOTHING).reshape(-1, block)

    def step(state, inputs):
        tokens, target = inputs
        logits, state = model.apply(params, tokens, state)
        asked = target != NOTHING
        metrics = answer_metrics(logits, jnp.where(asked, target, 0))
        of_each = metrics["answer_loss"], metrics["accuracy"], jnp.ones(block)
        return state, jnp.stack([jnp.where(asked, x, 0).sum() for x in of_each])

    _, sums = jax.lax.scan(step, model.apply(params, method="initial_state"), (tokens, target))
    loss, right, asked = sums.sum(0)
    if answer > 1:
        return Measured(loss, asked, (right == asked).astype(jnp.float32), jnp.ones(()))
    return Measured(loss, asked, right, asked)


def init_sequence(model: SequenceModel, key: Key, example: Example) -> Params:
    """Parameters of a language model; their shapes do not depend on the length."""
    return jax.jit(model.init)(key, example["tokens"][:1])


def _label(model: SequenceModelConfig) -> str:
    if model.layer == "attention":
        return f"attention over {model.window}"
    if model.layer == "memn2n":
        return f"MemN2N, {model.depth} hops over {model.window}"
    missing = [f"no {name}" for name in ("momentum", "forgetting") if not getattr(model, name)]
    chunked = [f"gradients per chunk of {model.chunk}"] if model.gradient_at == "chunk" else []
    return ", ".join([model.layer.upper(), *chunked, *missing])
