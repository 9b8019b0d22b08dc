"""Questions with their answers and what was predicted, and which answers were taken for which, for the report."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from memjax.experiments.stream_qa.answer_measures import of_each_question, shown_question
from memjax.tasks import Task
from memjax.typing import Split

EXAMPLES = 40
COUNTED = 2000  # of the confusions: examples of a generated task are made again for them
MOST_ANSWERS = 100  # of a table of confusions that anybody reads


def shown_examples(task: Task, split: Split, predictions: np.ndarray) -> dict[str, Any]:
    """`examples_shown` and `confusions` of an evaluation.

    Args:
        task: whose examples were tested.
        split: which of them.
        predictions: for each example of the split, in order, the class that was answered; of streams that are asked
            several times, to their `shown_question`.
    """
    size = len(predictions)
    rng = np.random.default_rng(0)  # drawn: at even distances a task that repeats may show one question alone
    indices = np.sort(rng.choice(size, min(COUNTED, size), replace=False))
    batch = task.examples(split, indices)
    if "asked" in batch:
        several = of_each_question(batch)
        every, place = np.arange(len(indices)), [shown_question(*one) for one in zip(batch["asked"], batch["query"])]
        flat = {name: batch[name].reshape(len(every), batch["asked"][0].size, -1) for name in several}
        batch |= {name: x[every, place].reshape(len(every), *batch[name].shape[3:]) for name, x in flat.items()}
    labels, predicted = batch["label"], predictions[indices]
    examples = []
    for row in np.sort(rng.choice(len(indices), min(EXAMPLES, len(indices)), replace=False)):
        tags = {tag: values[batch[tag][row]] for tag, values in task.shape.tags.items()}
        asked = {"question": question_text(task, batch["query"][row]), "tags": tags}
        candidates = batch["candidates"][row] if "candidates" in batch else None
        told = {"answer": labels[row], "prediction": predicted[row]}
        examples.append(asked | {name: answer_text(task, int(label), candidates) for name, label in told.items()})
    found: dict[str, Any] = {"examples_shown": examples}
    if task.shape.answer == "classes" and task.shape.classes <= MOST_ANSWERS:
        confusions: dict[str, dict[str, int]] = {}
        for label, given in zip(labels.tolist(), predicted.tolist()):
            given_for = confusions.setdefault(answer_text(task, label), {})
            given_for[answer_text(task, given)] = given_for.get(answer_text(task, given), 0) + 1
        found["confusions"] = confusions
    return found


def question_text(task: Task, query: np.ndarray | np.integer) -> str:
    """A question in the task's words, if it has a `vocabulary`; else its ids."""
    vocabulary = getattr(task, "vocabulary", None)
    if np.ndim(query) == 0:
        return str(query if vocabulary is None else vocabulary[int(query)])
    return _text(np.asarray(query).tolist(), vocabulary)


def answer_text(task: Task, label: int, candidates: np.ndarray | None = None) -> str:
    """An answer in the task's words, if it has `answers`; else the number of its class."""
    if label < 0:
        return "(no answer of train)"
    if task.shape.answer == "click":
        return ("no", "yes")[label]
    if candidates is not None:
        return _text(candidates[label].tolist(), getattr(task, "vocabulary", None))
    answers = getattr(task, "answers", None)
    return str(answers[label]) if answers is not None else str(label)


def _text(ids: Sequence[int], vocabulary: Sequence[str] | None) -> str:
    if vocabulary is None:
        return " ".join(map(str, ids))
    return " ".join(str(vocabulary[id]) for id in ids if id)  # 0 is padding
