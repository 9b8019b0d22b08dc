"""Single questions of a test: from which slots the answer was read, and which segments had written these."""

import base64
import zlib
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from memjax.experiments.stream_qa.shown_examples import answer_text, question_text
from memjax.models import MemoryModel
from memjax.tasks import Task
from memjax.typing import Batch, Params, Split

QUESTIONS = 3


@runtime_checkable
class Pictured(Task, Protocol):
    """A task whose streams can be looked at."""

    def pictures(self, split: Split, index: int) -> np.ndarray:
        """Of each segment of a stream a picture, `[T, H, W, 3]` uint8.

        Args:
            split: of the example.
            index: of the example.
        """
        ...

    def seen(self, split: Split, index: int) -> list[list[int]]:
        """For each question about a stream, in order, the segments in which its answer is seen; none where all count.

        Args:
            split: of the example.
            index: of the example.
        """
        ...


def slots_read(
    model: MemoryModel,
    params: Params,
    task: Task,
    split: Split,
    batch: Batch,
    indices: np.ndarray,
    changed: np.ndarray,
) -> list[dict[str, Any]]:
    """For a few questions: their texts, how much of each slot each hop read, and what had written it.

    Args:
        model: the memory, and what stands around it.
        params: of the model.
        task: whose streams are read.
        split: which of them.
        batch: some examples.
        indices: of the examples.
        changed: of the same, of `changes_by_segment`.

    Returns:
        As plain data, for each question `question`, `answer`, `given`; `weights [C][K]` of the slots at each hop;
        `changes [T][K]`, how far each segment before the question moved each slot; and of a task that is `Pictured`,
        `pictures` and their `shape`, packed, and `seen`, segments from 0.
    """

    @jax.jit
    def asked_of(stream, mask, query, candidates):
        slots, _ = model.apply(params, stream, mask, method="memorize")
        logits = model.apply(params, slots, query, candidates, method="answer")
        return logits, model.apply(params, slots, query, method="read_weights")

    found = []
    count = min(QUESTIONS, len(indices))
    for number in range(count):
        row = number * len(indices) // count
        asked: tuple[int, ...] = ()
        place, mask = 0, batch["mask"][row]
        if "after" in batch:
            times, numbers = np.nonzero(batch["asked"][row])
            # Questions of a kind may be together: those of each stream are taken from another part.
            place = (2 * number + 1) * len(times) // (2 * count)
            asked = int(times[place]), int(numbers[place])
            mask = mask & (np.arange(len(mask)) < batch["after"][row, asked[0]])[:, None]
        query, label = batch["query"][row][asked], int(batch["label"][row][asked])
        candidates = batch["candidates"][row] if "candidates" in batch else None
        logits, weights = asked_of(batch["stream"][row], mask, jnp.asarray(query), candidates)
        texts = {"answer": label, "given": int(np.argmax(logits))}
        found.append(
            {"question": question_text(task, query)}
            | {name: answer_text(task, answer, candidates) for name, answer in texts.items()}
            | {"weights": np.round(np.asarray(weights, np.float64), 4).tolist()}
            | {"changes": np.round(changed[row, : _count(mask)].astype(np.float64), 4).tolist()}
            | (_pictured(task, split, int(indices[row]), place) if isinstance(task, Pictured) else {})
        )
    return found


def _count(mask: np.ndarray) -> int:
    """How many segments there are before the padding at the end."""
    return int(np.flatnonzero(mask.any(1)).max(initial=-1)) + 1


def _pictured(task: Pictured, split: Split, index: int, question: int) -> dict[str, Any]:
    pictures = task.pictures(split, index)
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(pictures).tobytes(), 9)).decode()
    return {"pictures": packed, "shape": list(pictures.shape), "seen": task.seen(split, index)[question]}
