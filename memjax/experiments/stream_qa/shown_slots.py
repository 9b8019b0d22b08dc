"""Single questions of a test: from which slots the answer was read, and which segments had written these."""

import base64
import zlib
from typing import Any, Protocol, runtime_checkable

import jax
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
    if changed[0].size > MOST:
        return []

    @jax.jit
    def asked_of(params, stream, mask, query, candidates):
        slots, _ = model.apply(params, stream, mask, method="memorize")
        logits = model.apply(params, slots, query, candidates, method="answer")
        return logits, model.apply(params, slots, query, method="read_weights")

    found: list[dict[str, Any]] = []
    count = min(QUESTIONS, len(indices))
    for number in range(count):
        row = number * len(indices) // count
        chosen = _question({name: x[row] for name, x in batch.items()}, number, count)
        if chosen is None:
            continue
        place, asked, mask = chosen
        query, label = batch["query"][row][asked], int(batch["label"][row][asked])
        candidates = batch["candidates"][row] if "candidates" in batch else None
        logits, weights = asked_of(params, batch["stream"][row], mask, np.asarray(query), candidates)
        texts = {"answer": label, "given": int(np.argmax(logits))}
        found.append(
            {"question": question_text(task, query)}
            | {name: answer_text(task, answer, candidates) for name, answer in texts.items()}
            | {"weights": np.round(np.asarray(weights, np.float64), 4).tolist()}
            | {"changes": np.round(changed[row, : _count(mask)].astype(np.float64), 4).tolist()}
            | (_pictured(task, split, int(indices[row]), place) if isinstance(task, Pictured) else {})
        )
    return found


def _question(example: Batch, number: int, count: int) -> tuple[int, tuple[int, ...], np.ndarray] | None:
    """A question of one example of several: its place among them, its axes, and the mask of what was read before it.
    None where nothing was read before any.
    """
    mask = example["mask"]
    if "after" not in example:
        return 0, (), mask
    order = np.argwhere(example["asked"])
    read = mask & (np.arange(len(mask)) < example["after"][:, None])[:, :, None]
    there: np.ndarray = np.any(read, axis=(1, 2))
    places = np.flatnonzero(there[order[:, 0]])
    if not len(places):
        return None
    # Questions of a kind may be together: those of each example are taken from another part.
    place = int(places[(2 * number + 1) * len(places) // (2 * count)])
    time, which = order[place].tolist()
    return place, (time, which), read[time]


def _count(mask: np.ndarray) -> int:
    """How many segments there are before the padding at the end."""
    return int(np.flatnonzero(mask.any(1)).max(initial=-1)) + 1


def _pictured(task: Pictured, split: Split, index: int, question: int) -> dict[str, Any]:
    pictures, seen = task.pictured(split, index, question)
    if len(pictures) > MOST_PICTURES:
        return {"seen": seen}
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(pictures).tobytes(), 9)).decode()
    return {"pictures": packed, "shape": list(pictures.shape), "seen": seen}
