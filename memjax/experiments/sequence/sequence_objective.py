"""What is minimised and measured of sequences of tokens, some of which are answers."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.layers import gate_cost
from memjax.layers.head_memory import COSTS
from memjax.models import SequenceModel
from memjax.tasks.sequence import NOTHING
from memjax.training.evaluate import MetricSums
from memjax.training.initial_params import initial_params
from memjax.training.objective import Example, Loss, Metrics, answer_metrics, mean_objective
from memjax.typing import Array, Int, Key, Params, PyTree, State


def sequence_objective(
    model: SequenceModel, asked: int | None = None, chain: int = 1, gate_weight: float = 0.0
) -> Loss:
    """Mean answer loss over the targets of each sequence, then over the batch; whole sequences at once.

    In a chain, a text may ask nothing; it has no part in the means of its chain but that of `gate_cost`. All chains of
    a batch count alike.

    Args:
        model: of sequences.
        asked: the most targets of a sequence, if few are; a target more would be left out.
        chain: so many neighbours in a batch are read one after another, each from the state that the one before left,
            through which there is no gradient ("state passing").
        gate_weight: of `gate_cost`, which is added to the loss, so that memories write and forget no more than answers
            need.
    """

    def one(params: Params, example: Example, state: State) -> tuple[Metrics, Metrics, Array, State]:
        rngs = {"dropout": example["key"]}
        sums, state, costs = _answered(model, asked, params, example, state, train=True, rngs=rngs)
        count = sums.pop("count")
        told = {"gate_cost": gate_cost(costs)} if gate_weight else {}
        return {name: value / jnp.maximum(count, 1) for name, value in sums.items()}, told, count > 0, state

    def alone(params: Params, frozen: Params, example: Example) -> Metrics:
        metrics, told, _, _ = one(params, example, None)
        return metrics | told

    def chained(params: Params, frozen: Params, examples: Example) -> Metrics:
        def step(state, example):
            *found, state = one(params, example, state)
            return jax.lax.stop_gradient(state), found

        start = model.apply(params, method="initial_state")
        metrics, told, is_asked = jax.lax.scan(step, start, examples)[1]
        return jax.tree.map(lambda x: x.sum() / jnp.maximum(is_asked.sum(), 1), metrics) | jax.tree.map(jnp.mean, told)

    def total(means: Metrics) -> tuple[Array, Metrics]:
        loss = means["answer_loss"]
        return loss + gate_weight * means["gate_cost"] if gate_weight else loss, means

    if chain == 1:
        return mean_objective(alone, total)

    def loss(params: Params, frozen: Params, batch: Example) -> tuple[Array, Metrics]:
        rows = len(batch["tokens"])
        require(rows % chain == 0, f"chains of {chain} texts do not divide the {rows} of a device and microbatch")
        chains = jax.tree.map(lambda x: x.reshape(-1, chain, *x.shape[1:]), batch)
        return mean_objective(chained, total)(params, frozen, chains)

    return loss


def asked_places(
    target: Int[Array, "L"], most: int | None
) -> tuple[Int[Array, "A"] | None, Int[Array, "L"] | Int[Array, "A"]]:
    """Where something is asked, and the targets there; all places without `most`, the number that is enough.

    >>> asked_places(jnp.array([NOTHING, 7, NOTHING, 8]), 3)[1].tolist()
    [7, 8, -1]
    """
    if most is None or most >= target.shape[0]:
        return None, target
    at = jnp.argsort(target == NOTHING, stable=True)[:most]
    return at, target[at]


def _answered(
    model: SequenceModel, asked: int | None, params: Params, example: Example, state: State, **options: Any
) -> tuple[Metrics, State, PyTree]:
    """Sums over the targets of a sequence, or of a part: of its metrics, and their `count`; the state; `COSTS`."""
    at, target = asked_places(example["target"], asked)
    read = partial(model.apply, params, example["tokens"], state, at=at, reset=example.get("reset"), **options)
    (logits, state), costs = read(mutable=[COSTS])
    real = target != NOTHING
    metrics = answer_metrics(logits, jnp.where(real, target, 0)) | {"count": jnp.ones_like(logits[:, 0])}
    return {name: jnp.where(real, value, 0).sum() for name, value in metrics.items()}, state, costs


def measure_sequence(
    model: SequenceModel, answer: int, block: int, asked: int | None, params: Params, example: Example
) -> MetricSums:
    """One sequence of any length: loss over its targets, and answers that are right.

    Args:
        model: of sequences.
        answer: the tokens of an answer; above 1 all targets are one answer, which is right when all of them are.
        block: how many tokens are read at a time.
        asked: the most targets of a sequence, if few are.
        params: of the model.
        example: `tokens`, `target`, perhaps `reset`.
    """
    length = example["tokens"].shape[0]
    block = min(block, length)
    padding = (0, -length % block)
    blocks = {"tokens": jnp.pad(example["tokens"], padding).reshape(-1, block)}
    blocks["target"] = jnp.pad(example["target"], padding, constant_values=NOTHING).reshape(-1, block)
    if "reset" in example:
        blocks["reset"] = jnp.pad(example["reset"], padding).reshape(-1, block)

    def step(state, example):
        sums, state, _ = _answered(model, asked, params, example, state)
        return state, sums

    _, sums = jax.lax.scan(step, model.apply(params, method="initial_state"), blocks)
    loss, correct, targets = (sums[name].sum() for name in ("answer_loss", "accuracy", "count"))
    if answer > 1:
        asked_at_all = (targets > 0).astype(jnp.float32)
        return MetricSums(loss, targets, (correct == targets) * asked_at_all, asked_at_all)
    return MetricSums(loss, targets, correct, targets)


def init_sequence(model: SequenceModel, key: Key, example: Example) -> Params:
    """Parameters of a language model; their shapes do not depend on the length."""
    return initial_params(model, key, example["tokens"][:1])
