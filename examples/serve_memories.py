"""A memory for each of 1,000 users: written as their messages come, kept in a file, asked in batches.

    python examples/serve_memories.py

The states of all users are one pytree of arrays. A state has one size however long its stream is: memory and file never
grow. The parameters here are random; `memjax.experiments.prepare.trained_model(FOLDER)` gives the model of a run folder
and what it has learned.
"""

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import numpy as np

from memjax import memories, streaming
from memjax.models import MemoryModel
from memjax.tasks import TaskShape

USERS, WORDS, SEGMENT, ANSWERS = 1000, 200, 8, 5  # a segment is a message of at most 8 words
BATCH = 32  # streams that are written, or questions that are answered, at once: one shape, compiled once

shape = TaskShape(
    items=WORDS, segments=1, segment=SEGMENT, queries=20, query_words=None, answer="classes", classes=ANSWERS
)
memory = memories.create("dnc", slots=16, width=32, memory_width=16, read_heads=2, hidden=32)
model = MemoryModel(shape, memory, width=32, hops=1, head_layers=1, rehearser_layers=1, rehearser_heads=2)
random = np.random.default_rng(0)

# Compiled once each; `write` gives its states away, so that they are changed in place.
write = jax.jit(partial(streaming.write, model), donate_argnums=1)
answer = jax.jit(partial(streaming.answer, model))


def messages(count):
    """So many messages from different users: the users [B], the words [B, 1, N], which of them are no padding."""
    users = random.choice(USERS, size=count, replace=False)
    words = random.integers(WORDS, size=(count, 1, SEGMENT))
    lengths = random.integers(1, SEGMENT + 1, size=(count, 1, 1))
    return jnp.array(users), jnp.array(words), jnp.array(np.arange(SEGMENT) < lengths)


def main():
    def everything(model, stream, mask, query):
        return model.answer(model.memorize(stream, mask)[0], query)

    _, words, mask = messages(1)
    params = model.init(jax.random.key(0), words[0], mask[0], jnp.array(0), method=everything)
    states = streaming.start(model, params, USERS)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(states))
    print(f"{USERS:,} states: {size / USERS:,.0f} bytes each")

    states = write(params, states, *messages(BATCH))  # compiles
    began = time.perf_counter()
    for _ in range(100):
        states = write(params, states, *messages(BATCH))
    jax.block_until_ready(states)
    print(f"a batch of {BATCH} messages: {10 * (time.perf_counter() - began):.1f} ms")

    asked = jnp.array([7, 7, 404] + [0] * (BATCH - 3))  # a batch is filled up; the rest is thrown away
    questions = jnp.arange(BATCH) % 20
    logits = answer(params, states, asked, questions)[:3]

    with TemporaryDirectory() as folder:
        file = Path(folder) / "users.npz"
        streaming.save(file, states)
        print(f"the file of all states: {file.stat().st_size / 1024:,.0f} KiB")
        states = streaming.load(file, model, params)
    again = answer(params, states, asked, questions)[:3]
    print(f"the same answers from the file: {bool(jnp.array_equal(logits, again))}")

    # What one user writes changes nobody else's answers.
    others = jnp.delete(jnp.arange(USERS), 7)[: BATCH - 1]
    before = answer(params, states, jnp.append(others, 7), questions)
    states = write(params, states, jnp.array([7]), *[part[:1] for part in messages(1)[1:]])
    after = answer(params, states, jnp.append(others, 7), questions)
    print(f"changed answers: {int((before != after).any(-1).sum())} of {BATCH}, those of user 7")
    return float((before != after).any(-1).sum())


if __name__ == "__main__":
    main()
