"""What is measured of stream QA: the answer to a question, and what each segment changed in the memory."""

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import require
from memjax.experiments.stream_qa.rehearsal_objective import answer
from memjax.functional import functional
from memjax.models import MemoryModel, System
from memjax.tasks import Task
from memjax.training.data import Layout, evaluation_batches
from memjax.training.evaluate import MetricSums
from memjax.training.objective import answer_metrics
from memjax.typing import Batch, Params


def measure_answer(model: System, params: Params, example: dict) -> MetricSums:
    """One question. An answer that no model can give (label below 0) is an error, and has no part in the loss.

    Args:
        model: of stream QA.
        params: of the model.
        example: `stream`, `mask`, `query`, `label` and, where the task has them, `candidates`.
    """
    logits, _ = answer(model, params, example)
    metrics, known = answer_metrics(logits, example["label"]), (example["label"] >= 0).astype(jnp.float32)
    return MetricSums(
        metrics["answer_loss"], known, metrics["accuracy"], jnp.ones(()), prediction=logits.argmax(), unknown=1 - known
    )


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


def cut_to(batch: Batch, segments: int) -> Batch:
    """The batch without the segments behind the first so many.

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
    return batch | {name: batch[name][:, :segments] for name in ("stream", "mask")}


def slot_changes(
    model: MemoryModel, params: Params, task: Task, layout: Layout, examples: int
) -> list[list[float | None]]:
    """How much each segment changed each slot: mean Euclidean distance over some test examples.

    Args:
        model: the memory, and what stands around it.
        params: of the model.
        task: whose test is read.
        layout: of its batches.
        examples: how many are read, spread evenly over the test.

    Returns:
        `[T][K]`. Padding is left out: the mean is over the examples that have an item in the segment. T ends with the
        longest stream; a segment before its end that is padding in all of them is a row of None.
    """
    batch, *_ = next(evaluation_batches(task, layout._replace(buckets=1), "test", examples, examples))
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
        distance = jnp.linalg.norm(slots(written) - slots(state), axis=-1)
        return written, jnp.where(mask.any(1)[:, None], distance, 0).sum(0)

    features = encode(batch["stream"], batch["mask"])
    start = memory.initial_state(own)
    state = jax.tree.map(lambda x: jnp.broadcast_to(x, (examples, *x.shape)), start)
    counts = np.trim_zeros(batch["mask"].any(2).sum(0), "b").tolist()  # how many examples have each segment
    changes: list[list[float | None]] = []
    for segment, count in enumerate(counts):
        now = jax.tree.map(lambda x: x[:, segment], features)  # noqa: B023, used at once
        state, change = write(state, now, batch["mask"][:, segment])
        changes.append([round(float(value) / count, 5) if count else None for value in change])
    return changes
