"""Evaluation: sums and weights over a split, divided once."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from memjax.training.data import Examples, Layout, evaluation_batches, spread
from memjax.training.effective_size import effective_size
from memjax.training.ranking_metrics import auc, auc_interval, by_user_interval, mrr
from memjax.training.sharding import place_batch, replicated, rows_here
from memjax.typing import Any, Array, Bool, Float, Int, Params, Split, WithGroups


class Clicks(NamedTuple):
    """Yes-or-no questions of one example, by which those with yes should be told from those with no.

    Attributes:
        score: the logit of yes.
        label: 1 for yes, 0 for no, -1 for what is not asked.
    """

    score: Float[Array, "*Q"]
    label: Int[Array, "*Q"]


class Ranks(NamedTuple):
    """Questions of one example whose answer is one of some candidates.

    Attributes:
        rank: of the right candidate, from 1.
        chance: the mean of 1 / rank of a guess.
        asked: which questions are no padding.
    """

    rank: Int[Array, "*Q"]
    chance: Float[Array, "*Q"]
    asked: Bool[Array, "*Q"]


class Answers(NamedTuple):
    """Questions of one example whose answer is a class.

    Attributes:
        right: whether the answer was.
        asked: which questions are no padding.
    """

    right: Bool[Array, "*Q"]
    asked: Bool[Array, "*Q"]


class MetricSums(NamedTuple):
    """What is measured of one example.

    Attributes:
        loss_sum: of its losses, in nats.
        loss_count: how many these are.
        correct: how many answers were correct.
        total: of how many.
        prediction: the class or candidate that was answered; of several questions to one of them.
        unknown: how many answers no model can give, where there may be such.
        clicks: where the questions are yes-or-no.
        ranks: where the answers are candidates.
        answers: where they are classes, and an example has several.
        means: other numbers by their names, of which the mean over examples is told.
    """

    loss_sum: Float[Array, ""]
    loss_count: Float[Array, ""]
    correct: Float[Array, ""]
    total: Float[Array, ""]
    prediction: Int[Array, ""] | None = None
    unknown: Float[Array, ""] | None = None
    clicks: Clicks | None = None
    ranks: Ranks | None = None
    answers: Answers | None = None
    means: Mapping[str, Float[Array, ""]] | None = None


def make_evaluator(
    measure: Callable[[Params, dict], MetricSums], task: Examples, layout: Layout, mesh: Mesh, batch_size: int
) -> Callable:
    """A function that measures parameters on a split, compiled once for each shape.

    Args:
        measure: of parameters and one example.
        task: whose examples are measured.
        layout: of its batches.
        mesh: over which batches are split.
        batch_size: rows of a batch.

    Returns:
        `evaluate(params, split, limit=None, predictions=None, intervals=False) -> metrics`. limit: how many examples,
        spread evenly over the split. predictions: a list to which what was predicted of the examples is appended, one
        array in their order. intervals: whether what intervals need is there: beside auc and mrr their 95% intervals,
        auc_interval and mrr_interval, by examples, which are users or streams with all of their questions; and of a
        task that says which examples share a stream (`WithGroups`) `independent`, for how many independent ones they
        count, and the interval of each of its `means`, by streams. Metrics: accuracy, answer_loss (nats; where there is
        one), answers, examples, and all but the loss for each value of each tag in `tags`, auc and mrr of tags of
        questions alone. What diverged, so that its loss is not finite, is an error: counted in `diverged`, and
        answer_loss is NaN. unknown_labels: how many answers no model can give, if there are any; they are errors. auc:
        of yes-or-no questions, all in one ranking, where both answers occur; NaN for scores that are not finite. mrr:
        of answers that are candidates, the mean of 1 / rank; mrr_chance: that of a guess. What is measured in `means`
        is there by its names, for each value of each tag too.
    """
    tags = task.shape.tags
    named: list[str] = []  # of the means, once they are traced

    def sums(
        params: Params, batch: dict, weight: jax.Array
    ) -> tuple[dict, jax.Array | None, dict[str, jax.Array], jax.Array]:
        params = jax.lax.with_sharding_constraint(params, replicated(mesh))
        measured = jax.vmap(measure, (None, 0))(params, batch)
        finite = jnp.isfinite(measured.loss_sum)
        loss_sum, correct = (jnp.where(finite, x, 0) for x in (measured.loss_sum, measured.correct))
        unknown = jnp.zeros_like(weight) if measured.unknown is None else measured.unknown
        columns = loss_sum, measured.loss_count, correct, measured.total, unknown, ~finite, jnp.ones_like(weight)
        means = {name: jnp.where(finite, x, 0) for name, x in (measured.means or {}).items()}
        named[:] = means
        stacked = jnp.stack([*columns, *means.values()], axis=1) * weight[:, None]
        totals = {"all": stacked.sum(0)}
        for tag, values in tags.items():
            if batch[tag].ndim == 1:
                # At the highest precision: counts that a TPU would round.
                totals[tag] = jnp.matmul(jax.nn.one_hot(batch[tag], len(values)).T, stacked, precision="highest")
        questions: dict[str, jax.Array] = {}
        if measured.clicks is not None:
            score, label = measured.clicks
            right = ((score > 0) == label) & jnp.isfinite(score)
            questions |= {"score": score, "label": label, "right": right, "asked": label >= 0}
        if measured.ranks is not None:
            questions |= measured.ranks._asdict() | {"right": measured.ranks.rank == 1}
        if measured.answers is not None:
            questions |= measured.answers._asdict()
        if questions:
            questions["asked"] = (questions["asked"].T & (weight > 0)).T
            questions["right"] = (questions["right"].T & finite).T
            questions |= {tag: batch[tag] for tag in tags if batch[tag].ndim > 1}
        return totals, measured.prediction, questions, jnp.stack([correct, measured.total, *means.values()], axis=1)

    sums, rows = jax.jit(sums, out_shardings=replicated(mesh)), rows_here(mesh, batch_size)

    def evaluate(
        params: Params,
        split: Split,
        limit: int | None = None,
        predictions: list[np.ndarray] | None = None,
        intervals: bool = False,
    ) -> dict[str, Any]:
        totals: dict[str, np.ndarray] = {}
        found: list[tuple[np.ndarray, np.ndarray]] = []
        answered: list[dict[str, np.ndarray]] = []
        counted: list[dict[str, np.ndarray]] = []
        groups: np.ndarray | None = None
        if intervals and isinstance(task, WithGroups) and jax.process_count() == 1:
            size = task.size(split)
            groups = np.asarray(task.groups(split))[spread(size if limit is None else min(limit, size), size)]
        for batch, weight, places in evaluation_batches(task, layout, split, batch_size, limit, rows):
            weighted = place_batch(mesh, {"weight": weight}, batch_size)
            part, predicted, each, of_examples = jax.device_get(
                sums(params, place_batch(mesh, batch, batch_size, layout.segmented), **weighted)
            )
            totals = {name: totals.get(name, 0) + value.astype(np.float64) for name, value in part.items()}
            if each:
                asked = each.pop("asked")
                of_example = {"example": np.nonzero(asked)[0] + len(answered) * batch_size}
                if groups is not None:
                    own = np.zeros(len(weight), int)
                    own[weight > 0] = groups[places]
                    of_example = {"example": own[np.nonzero(asked)[0]]}
                answered.append({name: x[asked] for name, x in each.items()} | of_example)
            if groups is not None:
                told = {tag: batch[tag] for tag in tags if batch[tag].ndim == 1} | {"": of_examples}
                counted.append({name: x[weight > 0] for name, x in told.items()} | {"group": groups[places]})
            if predictions is not None and predicted is not None and jax.process_count() == 1:
                found.append((predicted[weight > 0], places))
        if predictions is not None and found:
            shown, where = map(np.concatenate, zip(*found))
            predictions.append(shown[where.argsort()])
        loss_sum, loss_count, correct, total, unknown, diverged, examples, *means = totals["all"]
        names = answered[0] if answered else ()
        questions = {name: np.concatenate([part[name] for part in answered]) for name in names}
        by_tag = {
            tag: {
                value: {"accuracy": float(row[2] / row[3]), "answers": int(row[3]), "examples": int(row[6])}
                | {name: float(x / row[6]) for name, x in zip(named, row[7:], strict=True)}
                for value, row in zip(values, totals[tag])
                if row[6]
            }
            if tag in totals
            else {
                value: _of_questions({name: x[questions[tag] == number] for name, x in questions.items()})
                for number, value in enumerate(values)
                if (questions[tag] == number).any()
            }
            for tag, values in tags.items()
        }
        counts = {name: np.concatenate([part[name] for part in counted]) for name in (counted[0] if counted else ())}
        for tag in counts.keys() & by_tag.keys():
            for number, value in enumerate(tags[tag]):
                if value in by_tag[tag]:
                    by_tag[tag][value] |= _independent(counts, counts[tag] == number)
        answer_loss = (
            {"answer_loss": math.nan if diverged else float(loss_sum / loss_count)} if loss_count or diverged else {}
        )
        ordered: dict[str, Any] = _ordered(questions)
        if intervals and math.isfinite(ordered.get("auc", math.nan)):
            ordered["auc_interval"] = auc_interval(*(questions[name] for name in ("score", "label", "example")))
        if intervals and "mrr" in ordered:
            ordered["mrr_interval"] = by_user_interval(mrr, questions["rank"], questions["example"])
        if counts:
            for name, values in zip(named, counts[""].T[2:], strict=True):
                ordered[f"{name}_interval"] = by_user_interval(_mean, values, counts["group"])
        return {
            "accuracy": float(correct / total),
            **answer_loss,
            **ordered,
            **{name: float(x / examples) for name, x in zip(named, means, strict=True)},
            "answers": int(total),
            "examples": int(examples),
            **(_independent(counts, slice(None)) if counts else {}),
            "diverged": int(diverged),
            **({"unknown_labels": int(unknown)} if unknown else {}),
            "tags": by_tag,
        }

    return evaluate


def _independent(counts: dict[str, np.ndarray], chosen: Any) -> dict[str, float]:
    """For how many independent examples the chosen ones count."""
    correct, total = counts[""][chosen].T[:2].astype(np.float64)
    return {"independent": round(effective_size(correct, total, counts["group"][chosen]), 1)} if total.sum() else {}


def _mean(values: np.ndarray) -> float:
    return float(values.mean(dtype=np.float64))


def _ordered(questions: dict[str, np.ndarray]) -> dict[str, float]:
    """How well answers are ordered: the area under the curve of all yes-or-no questions together, if both answers
    occur; the mean reciprocal rank among candidates.
    """
    found = {}
    if "score" in questions and len(np.unique(questions["label"])) == 2:
        score = questions["score"]
        found["auc"] = auc(score, questions["label"]) if np.isfinite(score).all() else math.nan
    if "rank" in questions:
        found |= {"mrr": mrr(questions["rank"]), "mrr_chance": float(questions["chance"].mean(dtype=np.float64))}
    return found


def _of_questions(questions: dict[str, np.ndarray]) -> dict[str, float]:
    """What is measured of some of the questions."""
    found = {"accuracy": float(questions["right"].mean()), **_ordered(questions)}
    return found | {"answers": len(questions["right"]), "examples": len(np.unique(questions["example"]))}
