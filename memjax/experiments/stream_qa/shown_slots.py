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
MOST = 20_000  # numbers of a map of changes: of more nothing can be seen, and they would fill evaluation.json
MOST_PICTURES = 60


@runtime_checkable
class Pictured(Task, Protocol):
    """A task whose streams can be looked at."""

    def pictured(self, split: Split, index: int, question: int) -> tuple[np.ndarray, list[int]]:
        """Of each segment a picture, `[T, H, W, 3]` uint8, and the segments in which an answer is seen, none where all
        count: their pictures show it.

        Args:
            split: of the example.
            index: of the example.
            question: which of those about the stream.
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
        `pictures` and their `shape`, packed, and `seen`, segments from 0. Nothing where a map would be too large.
    """

    @jax.jit
    def asked_of(stream, mask, query, candidates):
        slots, _ = model.apply(params, stream, mask, method="memorize")
        logits = model.apply(params, slots, query, candidates, method="answer")
        return logits, model.apply(params, slots, query, method="read_weights")

    if changed[0].size > MOST:
        return []
    found: list[dict[str, Any]] = []
    count = min(QUESTIONS, len(indices))
    for number in range(count):
        row = number * len(indices) // count
        asked: tuple[int, ...] = ()
        place, mask = 0, batch["mask"][row]
        if "after" in batch:
            # What is asked before anything was read is asked of nothing.
            real = batch["asked"][row] & (batch["after"][row] > 0)[:, None]
            places = np.flatnonzero(real[batch["asked"][row]])
            if not len(places):
                continue
            # Questions of a kind may be together: those of each stream are taken from another part.
            place = int(places[(2 * number + 1) * len(places) // (2 * count)])
            time, which = np.argwhere(batch["asked"][row])[place].tolist()
            asked, mask = (time, which), mask & (np.arange(len(mask)) < batch["after"][row, time])[:, None]
            if not mask.any():
                continue
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
    pictures, seen = task.pictured(split, index, question)
    if len(pictures) > MOST_PICTURES:
        return {"seen": seen}
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(pictures).tobytes(), 9)).decode()
    return {"pictures": packed, "shape": list(pictures.shape), "seen": seen}
