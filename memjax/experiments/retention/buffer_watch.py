"""What a buffer holds while a stream is read, and why: a stream read as in a test, and told step by step."""

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from memjax.memories.policies import policies
from memjax.models import StreamReader
from memjax.models.stream_reader import Read
from memjax.tasks import Episodic
from memjax.training.objective import Example
from memjax.typing import Array, Batch, Key, Params


def read_stream(reader: StreamReader, lines: Array, params: Params, example: Example, key: Key | None = None) -> Read:
    """One stream; with a key, what is evicted is drawn."""
    return cast(Read, reader.apply(params, lines, example["line"], example["label"] >= 0, key))


def read_greedily(reader: StreamReader, lines: Array, params: Params, example: Example) -> Read:
    """One stream as it is tested: the likeliest entry is evicted, or of `uniform` one that is drawn.

    Args:
        reader: the model.
        lines: of the task, as word ids.
        params: of the reader.
        example: `line` and `label`.
    """
    line = example["line"]
    # By the stream, so that every test is the same.
    key = jax.random.fold_in(jax.random.key(0), (line * jnp.arange(len(line))).sum())
    return read_stream(reader, lines, params, example, policies[reader.policy].test_key(key))


def watch(reader: StreamReader, task: Episodic, params: Params, batch: Batch) -> dict[str, Any]:
    """What the buffer held, step by step, in the first episode of a batch, read as in a test.

    Args:
        reader: the model.
        task: of the batch, for its words.
        params: of the reader.
        batch: of episodes.

    Returns:
        As plain data, `lines`: their texts. `held`, `eviction`: for each step the steps at which its entries came,
        before its own line was written, and how likely each of them was to be evicted. `questions`: the steps that ask,
        with what is right, what was answered and the lines that it follows from.
    """
    line, label, support = (np.asarray(batch[name][0]) for name in ("line", "label", "support"))
    example = {"line": jnp.asarray(line), "label": jnp.asarray(label)}
    read = jax.tree.map(np.asarray, jax.jit(partial(read_greedily, reader))(jnp.asarray(task.lines), params, example))
    steps = range(int((line != 0).sum()))
    held = [[int(came) for came in read.entries[t] if came >= 0] for t in steps]
    names = [*task.answers, "(no answer of train)"]
    questions = [
        {
            "step": t,
            "answer": names[label[t]],
            "given": task.answers[int(read.logits[t].argmax())],
            "support": [int(fact) for fact in support[t] if fact >= 0],
        }
        for t in steps
        if label[t] >= 0
    ]
    return {
        "lines": [" ".join(task.vocabulary[word] for word in task.lines[line[t]] if word) for t in steps],
        "held": held,
        "eviction": [[round(float(x), 4) for x in read.eviction[t][: len(held[t])]] for t in steps],
        "questions": questions,
    }
