"""What a reader answers, and which blocks its buffer held while it read: a few questions of a test, for the report."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from memjax.experiments.spans.span_objective import read_greedily
from memjax.experiments.spans.span_scores import said_words, squad_scores
from memjax.models import BiDAF, DocumentReader, SpanLogits
from memjax.models.document_reader import Retained
from memjax.tasks import Spans
from memjax.training.objective import Example
from memjax.typing import Array, Batch, Float, Int, Params

MOST_BLOCKS = 120  # of a picture that anybody reads


class Said(NamedTuple):
    """One answer.

    Attributes:
        words: of it, padding behind.
        exact: 1 if it is the same as one of those that count as right.
        retained: what the policy did; None where there is no buffer.
    """

    words: Int[Array, "P"]
    exact: Float[Array, ""]
    retained: Retained | None


def watch(reader: DocumentReader | BiDAF, longest: int, task: Spans, params: Params, batch: Batch) -> dict[str, Any]:
    """The answers to a batch of questions, and what the buffer held of the shortest of their documents.

    Args:
        reader: the model, with a buffer or without one.
        longest: the most words that are answered.
        task: of the batch, for its words.
        params: of the reader.
        batch: of questions.

    Returns:
        As plain data, `examples_shown` of a report; as the answer the first that counts as right, or what was said
        where this does. `buffer`, as `draw_buffer` takes it, where there is one and the document is not too long for a
        picture: its lines are the blocks, and last the question.
    """

    def say(params: Params, example: Example) -> Said:
        blocks, query = example["stream"], example["query"]
        if isinstance(reader, DocumentReader):
            retained = read_greedily(reader, params, example)
            held = retained.held[-1]
            logits = reader.apply(params, blocks, held, query, method="answer")
        else:
            retained, held = None, jnp.arange(len(blocks))
            logits = reader.apply(params, blocks, query)
        said = said_words(cast(SpanLogits, logits), blocks, held, longest)
        return Said(said, squad_scores(said, example["answers"])[0], retained)

    run = jax.jit(say)
    told = []
    for row in range(len(batch["first"])):  # one by one: the activations of twelve long documents are many
        example = {name: jnp.asarray(x[row]) for name, x in batch.items()}
        told.append(jax.tree.map(np.asarray, run(params, example)))
    examples = []
    for row, said in enumerate(told):
        given = _text(task, said.words)
        right = given if said.exact else _text(task, batch["answers"][row][0])
        tags = {tag: values[batch[tag][row]] for tag, values in task.shape.tags.items()}
        question = _text(task, batch["query"][row])
        examples.append({"question": question, "answer": right, "prediction": given, "tags": tags})
    lengths = (batch["stream"] != 0).any(2).sum(1)
    shortest = int(lengths.argmin())
    found: dict[str, Any] = {"examples_shown": examples}
    if told[shortest].retained is not None and lengths[shortest] <= MOST_BLOCKS:
        document = {name: x[shortest] for name, x in batch.items()}
        found["buffer"] = _buffer(task, document, told[shortest].retained, examples[shortest])
    return found


def _buffer(task: Spans, example: Batch, retained: Retained, asked: dict[str, Any]) -> dict[str, Any]:
    blocks = example["stream"][(example["stream"] != 0).any(1)]
    count, width = blocks.shape
    held = [[], *([int(number) for number in retained.held[t] if number >= 0] for t in range(count))]
    eviction = [[round(float(x), 4) for x in retained.eviction[t][: len(held[t])]] for t in range(count)]
    support = list(range(int(example["first"]) // width, int(example["last"]) // width + 1))
    question = {"step": count, "answer": asked["answer"], "given": asked["prediction"], "support": support}
    return {
        "lines": [*(_text(task, block) for block in blocks), asked["question"]],
        "held": held,
        "eviction": [*eviction, [0.0] * len(held[-1])],  # nothing is evicted for a question
        "questions": [question],
    }


def _text(task: Spans, ids: np.ndarray) -> str:
    return " ".join(task.vocabulary[word] for word in ids if word)
