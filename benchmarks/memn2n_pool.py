"""Stories on the device as whole numbers, and a batch of them with all of its sentences in one pool.

Stories differ in length: on bAbI a batch of 32 has some 260 sentences, 50 for each of them would be 1,600. So a batch
keeps its sentences end to end, and each question masks those of its own story.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import require
from memjax.models.memory_network import MemN2N, time_indices
from memjax.tasks.stream_task import Split, Task
from memjax.typing import Array, Bool, Float, Int, Key

NOBODY = -1
_CHUNK = 512


class Stories(NamedTuple):
    """A split: `line` are rows of a table of texts, the last sentences of all stories end to end, oldest first.

    start, length: where in `line` the story of a question lies. query: a row of the table of texts. target: the row of
    W that is right, or -1 for an answer that is none.
    """

    line: Int[Array, "S"]
    start: Int[Array, "E"]
    length: Int[Array, "E"]
    query: Int[Array, "E"]
    target: Int[Array, "E"]


class Rows(NamedTuple):
    """The pool of a batch: for each row its text, which question's it is (B: nobody's), and its age, from 1.

    lengths: how many sentences the story of each question has.
    """

    line: Int[Array, "R"]
    owner: Int[Array, "R"]
    age: Int[Array, "R"]
    lengths: Int[Array, "B"]


def load(task: Task, model: MemN2N, splits: tuple[Split, ...]) -> tuple[Float[Array, "U 2 V"], dict[Split, Stories]]:
    """Every distinct text as `ops.sentence_weights`, and the stories of each split."""
    parts = {split: _read(task, split, model.rows) for split in splits}
    width = max(task.shape.segment, task.shape.query_words or 0)
    texts = [ids for part in parts.values() for ids in part[:2]]
    table, place = np.unique(
        np.concatenate([np.pad(ids, ((0, 0), (0, width - ids.shape[1]))) for ids in texts]), axis=0, return_inverse=True
    )
    weights = jax.jit(jax.vmap(lambda ids: model.weigh(ids, ids != 0)))(jnp.asarray(table))
    found = np.split(place.reshape(-1).astype(np.int32), np.cumsum([len(ids) for ids in texts])[:-1])
    rows = np.array([*model.answers, NOBODY], np.int32)  # an answer that is no class is the last: -1
    stories: dict[Split, Stories] = {}
    for i, (split, (_, _, length, label)) in enumerate(parts.items()):
        start = np.cumsum(length) - length
        arrays = found[2 * i], start, length, found[2 * i + 1], rows[label]
        stories[split] = Stories(*(jnp.asarray(array, jnp.int32) for array in arrays))
    return weights, stories


def batches(order: np.ndarray, batch_size: int) -> np.ndarray:
    """Question numbers as `[batches, batch_size]`, the last batch filled up with `NOBODY`.

    Question i stands beside i + batches, so that the long stories of one task do not meet in a batch.

    >>> batches(np.arange(5), 2).tolist()
    [[0, 3], [1, 4], [2, -1]]
    """
    count = -(-len(order) // batch_size)
    filled = np.full(count * batch_size, NOBODY, np.int32)
    filled[: len(order)] = order
    return filled.reshape(batch_size, count).T.copy()


def pool_size(stories: Stories, numbers: np.ndarray) -> int:
    """How many rows the batches `[..., batch_size]` of question numbers need, as a multiple of 32."""
    length = np.append(np.asarray(stories.length), 0)  # NOBODY has none
    return int(-(-length[numbers].sum(-1).max() // 32) * 32)


def pool(stories: Stories, numbers: Int[Array, "B"], size: int) -> Rows:
    """The rows of a batch, padded to `size`, which must be enough (`pool_size`)."""
    count = jnp.where(numbers == NOBODY, 0, stories.length[numbers])
    end = jnp.cumsum(count)
    row = jnp.arange(size)
    owner = (row[:, None] >= end).sum(1)
    known = jnp.minimum(owner, len(numbers) - 1)
    place = row - (end - count)[known]
    line = stories.line[jnp.minimum(stories.start[numbers[known]] + place, len(stories.line) - 1)]
    return Rows(line, owner, jnp.where(owner < len(numbers), count[known] - place, 1), count)


def pooled_logits(
    model: MemN2N,
    params,
    texts: Float[Array, "U 2 V"],
    stories: Stories,
    numbers: Int[Array, "B"],
    size: int,
    *,
    key: Key | None = None,
    linear: bool | Bool[Array, ""] = False,
) -> Float[Array, "B E"]:
    """`MemN2N.ask` for a batch of questions; random noise in the time indices with a key."""
    rows = pool(stories, numbers, size)
    times = rows.age
    if key is not None:
        keys = jax.random.split(key, len(numbers))
        indices = jax.vmap(lambda count, key: time_indices(count, model.rows, model.rows, key=key))(rows.lengths, keys)
        times = indices[jnp.minimum(rows.owner, len(numbers) - 1), rows.age - 1]
    values = model.apply(params, texts[rows.line], times, method="embed")

    def ask(number, query):
        return model.apply(params, values, rows.owner == number, query, linear=linear, method="ask")

    return jax.vmap(ask)(jnp.arange(len(numbers)), texts[stories.query[numbers]])


def _read(task: Task, split: Split, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sentences end to end, questions, sentences of each story, labels."""
    lines, queries, lengths, labels = [], [], [], []
    for first in range(0, task.size(split), _CHUNK):
        batch = task.examples(split, np.arange(first, min(first + _CHUNK, task.size(split))))
        stream, mask = batch["stream"], batch["mask"]
        require((stream[mask] != 0).all(), "MemN2N takes the id 0 for padding, and the stream has it as a word")
        real = np.asarray(mask.any(axis=2))
        age: np.ndarray = np.flip(np.cumsum(np.flip(real, 1), axis=1), 1)
        kept = np.where(age <= rows, real, False)
        lines.append(np.where(mask, stream, 0)[kept])
        lengths.append(kept.sum(1))
        queries.append(batch["query"])
        labels.append(batch["label"])
    return np.concatenate(lines), np.concatenate(queries), np.concatenate(lengths), np.concatenate(labels)
