"""Evaluation: sums and weights over a split, divided once; and what each segment changed in the memory."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from memjax.functional import functional
from memjax.models import MemoryModel, System
from memjax.tasks import AnyTask, Split, Task
from memjax.training.data import evaluation_batches
from memjax.training.objective import answer_example
from memjax.training.sharding import place_batch, replicated, rows_here
from memjax.typing import Any, Array, Float, Params


class Measured(NamedTuple):
    """Of one example: the sum of its losses (nats), how many these are; how many answers were right, of how many."""

    loss: Float[Array, ""]
    losses: Float[Array, ""]
    right: Float[Array, ""]
    answers: Float[Array, ""]


def measure_answer(model: System, params: Params, example: dict) -> Measured:
    """One question. An answer that no model can give (label below 0) is an error, and has no part in the loss."""
    metrics, known = answer_example(model, params, example), example["label"] >= 0
    loss = jnp.where(known, metrics["answer_loss"], 0)
    return Measured(loss, known.astype(loss.dtype), metrics["accuracy"], jnp.ones(()))


def make_evaluator(measure: Callable[[Params, dict], Measured], task: AnyTask, mesh: Mesh, batch_size: int) -> Callable:
    """`evaluate(params, split, limit=None) -> metrics`, compiled once for each shape.

    Metrics: accuracy, answer_loss (nats; where there is one), answers, examples, and all but the loss for each value of
    each tag in `tags`. What diverged, so that its loss is not finite, is an error: counted in `diverged`, and
    answer_loss is NaN.
    """
    tags = task.shape.tags

    def sums(params: Params, batch: dict, weight: jax.Array) -> dict:
        params = jax.lax.with_sharding_constraint(params, replicated(mesh))
        measured = jax.vmap(measure, (None, 0))(params, batch)
        finite = jnp.isfinite(measured.loss)
        loss, right = (jnp.where(finite, x, 0) for x in (measured.loss, measured.right))
        columns = loss, measured.losses, right, measured.answers, ~finite, jnp.ones_like(weight)
        stacked = jnp.stack(columns, axis=1) * weight[:, None]
        totals = {"all": stacked.sum(0)}
        for tag, values in tags.items():
            totals[tag] = jax.nn.one_hot(batch[tag], len(values)).T @ stacked
        return totals

    sums, rows = jax.jit(sums, out_shardings=replicated(mesh)), rows_here(mesh, batch_size)

    def evaluate(params: Params, split: Split, limit: int | None = None) -> dict[str, Any]:
        totals: dict[str, np.ndarray] = {}
        for batch, weight in evaluation_batches(task, split, batch_size, limit, rows):
            weighted = place_batch(mesh, {"weight": weight}, batch_size)
            part = jax.device_get(sums(params, place_batch(mesh, batch, batch_size), **weighted))
            totals = {name: totals.get(name, 0) + value.astype(np.float64) for name, value in part.items()}
        loss, losses, right, answers, diverged, examples = totals["all"]
        by_tag = {
            tag: {
                value: {"accuracy": float(row[2] / row[3]), "answers": int(row[3]), "examples": int(row[-1])}
                for value, row in zip(values, totals[tag])
                if row[-1]
            }
            for tag, values in tags.items()
        }
        answer_loss = {"answer_loss": math.nan if diverged else float(loss / losses)} if losses or diverged else {}
        return {
            "accuracy": float(right / answers),
            **answer_loss,
            "answers": int(answers),
            "examples": int(examples),
            "diverged": int(diverged),
            "tags": by_tag,
        }

    return evaluate


def slot_changes(model: MemoryModel, params: Params, task: Task, examples: int) -> list[list[float]] | None:
    """How much each segment changed each slot, `[T][K]`: mean Euclidean distance over some test examples, without the
    segments that are padding in all of them (see `trimmed`).

    None where the number of slots grows with the stream.
    """
    batch, _ = next(evaluation_batches(task, "test", examples, examples))
    memory, params = functional(model.memory), jax.tree.map(jnp.asarray, params)
    own = {"params": params["params"]["memory"]}
    table = params["params"]["embed"]["embedding"]

    @jax.jit
    def encode(stream, mask):
        items = table[jnp.where(mask, stream, 0)].astype(model.dtype)
        return jax.vmap(memory.encode, (None, 0, 0))(own, items, mask)

    @jax.jit
    def write(state, features, mask):
        written = jax.vmap(lambda s, f, m: memory.write(own, s, f, m)[0])(state, features, mask)
        slots = jax.vmap(lambda s: memory.slots(own, s).values)
        return written, jnp.linalg.norm(slots(written) - slots(state), axis=-1).mean(0)

    features = encode(batch["stream"], batch["mask"])
    start = memory.initial_state(own)
    state = jax.tree.map(lambda x: jnp.broadcast_to(x, (examples, *x.shape)), start)
    changes = []
    for segment in range(batch["mask"].shape[1]):
        now = jax.tree.map(lambda x: x[:, segment], features)  # noqa: B023, used at once
        state, change = write(state, now, batch["mask"][:, segment])
        changes.append([round(float(value), 5) for value in change])
    return changes
