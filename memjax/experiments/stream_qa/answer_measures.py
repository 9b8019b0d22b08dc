"""What is measured of stream QA: the answer to a question."""

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import require
from memjax.experiments.stream_qa.rehearsal_objective import answer
from memjax.models import System
from memjax.training.evaluate import Answers, Clicks, MetricSums, Ranks
from memjax.training.objective import answer_metrics
from memjax.typing import Any, Array, Batch, Bool, Float, Int, Params


def measure_answer(model: System, params: Params, example: dict) -> MetricSums:
    """All questions of a stream. An answer that no model can give (label below 0) is an error, and not in the loss.

    Args:
        model: of stream QA.
        params: of the model.
        example: `stream`, `mask`, `query`, `label` and, where the task has them, `candidates`, or `after` and `asked`.
    """
    logits, label = answer(model, params, example).logits, example["label"]
    metrics, asked = answer_metrics(logits, label), example.get("asked", jnp.ones_like(label, bool))
    yes = (
        Clicks(logits[..., 1] - logits[..., 0], jnp.where(asked, label, -1)) if model.shape.answer == "click" else None
    )
    correct, among, given = metrics["accuracy"], None, logits.argmax(-1)
    if "candidates" in example:
        among = candidate_ranks(logits, label, asked, (example["candidates"] != 0).any(-1))
        correct = (among.rank == 1).astype(jnp.float32)  # of equal logits the right one is not first
        others = jnp.where(jax.nn.one_hot(label, logits.shape[-1], dtype=bool), -jnp.inf, logits)
        given = jnp.where(correct > 0, label, others.argmax(-1))
    if label.ndim:
        given = given.reshape(-1)[shown_question(asked, example["query"])]
    return MetricSums(
        metrics["answer_loss"].sum(where=asked),
        asked.sum(where=label >= 0, dtype=jnp.float32),
        correct.sum(where=asked),
        asked.sum(dtype=jnp.float32),
        # Of clicks on the way the class is the sign of a score, and scores are ranked.
        prediction=None if yes and label.ndim else given,
        unknown=asked.sum(where=label < 0, dtype=jnp.float32),
        clicks=yes,
        ranks=among,
        answers=Answers(correct > 0, asked) if label.ndim and model.shape.answer == "classes" else None,
    )


def shown_question(asked: Array | np.ndarray, query: Array | np.ndarray) -> Any:
    """Of a stream's questions the one that a report shows, among all A M: one that is no padding, drawn by their words.

    Args:
        asked: `[A, M]` bool, which questions are no padding, at least one; of JAX or of NumPy, and so is the result.
        query: `[A, M]` or `[A, M, W]`, ids of the questions.

    >>> asked = np.array([[False, True, True]])
    >>> int(shown_question(asked, np.array([[9, 4, 2]]))), int(shown_question(asked, np.array([[9, 4, 3]])))
    (1, 2)
    """
    real = asked.reshape(-1)
    number = (query.reshape(len(real), -1) * real[:, None]).sum() % real.sum()
    return (real.cumsum() == number + 1).argmax()


def candidate_ranks(
    logits: Float[Array, "*Q C"], label: Int[Array, "*Q"], asked: Bool[Array, "*Q"], real: Bool[Array, "C"]
) -> Ranks:
    """Where the right one of some candidates stands, and what a guess gives.

    rank = 1 + the number of other candidates whose logit is not lower, so that a model that tells nothing apart has the
    last one; of n candidates, the mean of 1 / rank of a guess is `(1 + 1/2 + ... + 1/n) / n`.

    Args:
        logits: of the candidates.
        label: the place of the right one.
        asked: which questions are no padding.
        real: which candidates are no padding.

    >>> found = candidate_ranks(jnp.array([0.3, 0.9, 0.3]), jnp.array(0), jnp.array(True), jnp.ones(3, bool))
    >>> int(found.rank), round(float(found.chance), 4)
    (3, 0.6111)
    """
    own = jnp.take_along_axis(logits, label[..., None], axis=-1)
    before = ~(logits < own) & real & ~jax.nn.one_hot(label, real.size, dtype=bool)
    chance = jnp.where(real, 1 / jnp.maximum(jnp.cumsum(real), 1), 0).sum() / real.sum()
    return Ranks(1 + before.sum(-1), jnp.broadcast_to(chance, label.shape), asked)


def trimmed(batch: Batch) -> Batch:
    """The batch without the segments at its end that are padding in every stream: slots and answers are the same.

    In quarters of the stream: at most four shapes to compile. One long stream in a data set costs its own batch only.

    >>> batch = {"stream": np.ones((2, 8, 3)), "mask": np.arange(8)[None, :, None] < np.full((2, 1, 3), 3)}
    >>> trimmed(batch)["stream"].shape
    (2, 4, 3)
    """
    segments = batch["mask"].shape[1]
    quarter = -(-segments // 4)
    longest = int(np.flatnonzero(batch["mask"].any(axis=(0, 2))).max(initial=0)) + 1
    return cut_to(batch, -(-longest // quarter) * quarter)


def of_each_question(batch: Batch) -> list[str]:
    """What a batch that is asked on the way has for each of its questions. Candidates are those of all."""
    others = ("stream", "mask", "candidates")
    return [name for name, x in batch.items() if x.shape[:3] == batch["asked"].shape and name not in others]


def cut_to(batch: Batch, segments: int) -> Batch:
    """The batch without the segments behind the first so many, and without the questions that only these had room for.

    Raises:
        MemjaxError: if there is an item in them: the task's lengths are not those of its streams.

    >>> batch = {"stream": np.ones((2, 8, 3)), "mask": np.arange(8)[None, :, None] < np.full((2, 1, 3), 3)}
    >>> cut_to(batch, 3)["mask"].shape
    (2, 3, 3)
    """
    require(
        not batch["mask"][:, segments:].any(),
        f"a stream has items behind the {segments} segments that its task's `lengths` leave it",
    )
    cut = {name: batch[name][:, :segments] for name in ("stream", "mask")}
    if "asked" in batch:
        # As many times for each segment as before, where those behind are padding: again few shapes.
        total, times = batch["mask"].shape[1], batch["asked"].shape[1]
        kept = -(-times * segments // total)
        if not batch["asked"][:, kept:].any():
            cut |= {name: batch[name][:, :kept] for name in ("after", *of_each_question(batch))}
    return batch | cut
