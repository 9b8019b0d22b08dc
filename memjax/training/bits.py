"""Experiments with RNN cells on tasks of bits: what is minimised, and the bits that are wrong."""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from memjax import tasks
from memjax.config import BitsConfig
from memjax.models import build_cell
from memjax.training.evaluate import Measured
from memjax.training.objective import Example, Loss
from memjax.training.phase import Experiment, Phase, state_bytes
from memjax.training.sharding import make_mesh
from memjax.typing import Array, Key, Params


def bits_experiment(config: BitsConfig) -> Experiment:
    """The experiment that a config describes."""
    task = tasks.create(config.task)
    cell = build_cell(config.model, task.shape)
    model = nn.RNN(cell)
    phase = Phase("train", config.training.steps, partial(_init, model), _objective(model), partial(_measure, model))

    def facts(params: Params, metrics: dict[str, Any]) -> dict[str, Any]:
        del params
        state = state_bytes(lambda: cell.initialize_carry(jax.random.key(0), (task.shape.inputs,)))
        return {"classes": 2, "chance": 0.5, "state_bytes": state, "metrics": metrics | _wrong_bits(metrics)}

    label = config.model.cell.upper()
    mesh = make_mesh(config.mesh, config.training.batch_size)
    return Experiment(config, label, task, mesh, (phase,), facts)


def _wrong_bits(metrics: dict[str, Any]) -> dict[str, Any]:
    """Wrong bits of a sequence in the mean, over all and by length (Graves et al. 2014: "bit error per sequence")."""

    def per_sequence(found: dict[str, Any]) -> float:
        return (1 - found["accuracy"]) * found["answers"] / found["examples"]

    by_length = {length: per_sequence(found) for length, found in metrics["tags"]["length"].items()}
    return {"wrong_bits": per_sequence(metrics), "wrong_bits_by_length": by_length}


def _losses(model: nn.RNN, params: Params, example: Example) -> tuple[Array, Array, Array]:
    """Sums over the bits that are asked of one sequence: cross-entropy (nats), bits that are right, bits."""
    logits = jnp.asarray(model.apply(params, example["inputs"]), jnp.float32)
    asked = jnp.broadcast_to(example["asked"][:, None], logits.shape)
    loss = optax.sigmoid_binary_cross_entropy(logits, example["bits"])
    right = (logits > 0) == (example["bits"] > 0.5)
    return jnp.where(asked, loss, 0).sum(), (asked & right).sum(), asked.sum()


def _objective(model: nn.RNN) -> Loss:
    """Mean cross-entropy of a bit in each sequence, then over the batch."""

    def one(params: Params, example: Example) -> dict[str, Array]:
        loss, right, bits = _losses(model, params, example)
        return {"answer_loss": loss / bits, "accuracy": right / bits}

    def loss(params: Params, frozen: Params, batch: Example) -> tuple[Array, dict[str, Array]]:
        del frozen
        means = jax.tree.map(jnp.mean, jax.vmap(one, (None, 0))(params, batch))
        return means["answer_loss"], means

    return loss


def _measure(model: nn.RNN, params: Params, example: Example) -> Measured:
    """One sequence: every bit that is asked is an answer."""
    loss, right, bits = (x.astype(jnp.float32) for x in _losses(model, params, example))
    return Measured(loss, bits, right, bits)


def _init(model: nn.RNN, key: Key, example: Example) -> Params:
    return jax.jit(model.init)(key, example["inputs"])
