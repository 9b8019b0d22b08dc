"""What is measured of the slots: what each segment changes in them, how alike they are, and what can be recollected."""

import jax
import jax.numpy as jnp
import numpy as np

from memjax.functional import functional
from memjax.memories import Slots
from memjax.models import MemoryModel
from memjax.models.fragments import Among, as_ids, build_fragments
from memjax.tasks import Task
from memjax.training.data import Layout, evaluation_batches, spread
from memjax.typing import Any, Batch, Params, Split

SLOT_EXAMPLES = 64


def read_examples(task: Task, layout: Layout, split: Split, examples: int) -> tuple[Batch, np.ndarray]:
    """Some examples in one batch, whatever their lengths, and their indices.

    Args:
        task: whose streams are read.
        layout: of its batches.
        split: which of them.
        examples: how many are read, spread evenly over the split; no more than there are.
    """
    batch, *_ = next(evaluation_batches(task, layout._replace(buckets=1), split, examples, examples))
    return batch, spread(examples, task.size(split))


def memorized(model: MemoryModel, params: Params, batch: Batch) -> Slots:
    """The slots after the stream of each example.

    Args:
        model: the memory, and what stands around it.
        params: of the model.
        batch: the examples.
    """

    # Parameters are arguments everywhere here: as constants they would make each run's program one of its own.
    def memorize(params, stream, mask):
        return model.apply(params, stream, mask, method="memorize")[0]

    return jax.jit(jax.vmap(memorize, (None, 0, 0)))(params, batch["stream"], batch["mask"])


def changes_by_segment(model: MemoryModel, params: Params, batch: Batch) -> np.ndarray:
    """How far each segment moved each slot of each example, `[B, T, K]`: Euclidean distances.

    Args:
        model: the memory, and what stands around it.
        params: of the model.
        batch: the examples.
    """
    memory = functional(model.memory)

    def own(params):
        return {"params": params["params"].get("memory", {})}

    @jax.jit
    def begin(params, stream, mask):
        items = model.apply(params, stream, mask, method="embed_items")
        state = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(mask), *x.shape)), memory.initial_state(own(params)))
        return jax.vmap(memory.encode, (None, 0, 0))(own(params), items, mask), state

    @jax.jit
    def write(params, state, features, mask, segment):
        memory_params, (now, there) = own(params), jax.tree.map(lambda x: x[:, segment], (features, mask))
        written = jax.vmap(lambda s, f, m: memory.write(memory_params, s, f, m)[0])(state, now, there)
        slots = jax.vmap(lambda s: memory.slots(memory_params, s).values)
        return written, jnp.linalg.norm(slots(written) - slots(state), axis=-1)

    features, state = begin(params, batch["stream"], batch["mask"])
    changes = []
    for segment in range(batch["mask"].shape[1]):
        state, change = write(params, state, features, batch["mask"], segment)
        changes.append(np.asarray(change))
    return np.stack(changes, axis=1)


def slot_changes(changed: np.ndarray, mask: np.ndarray) -> list[list[float | None]]:
    """How much each segment changed each slot: the mean over examples.

    Args:
        changed: of `changes_by_segment`.
        mask: of the examples, `[B, T, N]`.

    Returns:
        `[T][K]`. Padding is left out: the mean is over the examples that have an item in the segment. T ends with the
        longest stream; a segment before its end that is padding in all of them is a row of None.
    """
    there: np.ndarray = np.any(mask, axis=2)
    changes: list[list[float | None]] = []
    for segment in range(int(np.flatnonzero(there.any(0)).max()) + 1):
        own = changed[there[:, segment], segment]
        changes.append([round(float(x), 5) for x in own.mean(0)] if len(own) else [None] * changed.shape[2])
    return changes


def slot_cosines(slots: Slots) -> list[list[float]]:
    """How alike what the slots hold is: the mean absolute cosine of each pair, over the examples.

    Of the part of a slot that depends on the stream, `m_k` less its mean over the examples: slots may start far from
    each other and yet all be given the same.

    Args:
        slots: of two examples or more.

    Returns:
        `[K][K]`, 1 where the two are the same.
    """

    @jax.jit
    def cosines(values):
        own = values - values.mean(0)
        unit = own / jnp.maximum(jnp.linalg.norm(own, axis=-1, keepdims=True), 1e-12)
        return jnp.abs(jnp.einsum("bkd,bjd->bkj", unit, unit)).mean(0)

    return np.round(np.asarray(cosines(slots.values)), 4).tolist()


def recollected_by_age(
    model: MemoryModel, params: Params, batch: Batch, slots: Slots, *, mask_ratio: float
) -> dict[str, dict[str, Any]]:
    """Which share of a segment's hidden items the rehearser names first among all items, by the age of the segment.

    Items that are vectors are told from those of the same stream.

    Args:
        model: the memory, and what stands around it.
        params: of the model.
        batch: the examples.
        slots: after the stream of each.
        mask_ratio: the share of a segment's items that is hidden, as in training.

    Returns:
        For each age, 0 for the last segment of a stream, the share as "accuracy", and as "examples" of how many items.
    """

    @jax.jit
    def recollected(params, slots, stream, mask):
        def one(example):
            key, slots, stream, mask = example
            every = jnp.arange(mask.shape[0])
            ids, others, vectors = as_ids(stream, mask, stream, mask)
            fragments = build_fragments(key, ids, mask, others, mask, every, mask.any(-1), mask_ratio=mask_ratio)
            among = None if vectors is None else Among(ids.reshape(-1), mask.reshape(-1))
            found = model.apply(params, slots, fragments, vectors, among, method="recollect")
            right = found == fragments.items
            if vectors is not None:  # the same one at two places is the same item
                right |= (vectors[found] == vectors[fragments.items]).all(-1)
            return (fragments.hidden & right).sum(-1), fragments.hidden.sum(-1)

        keys = jax.random.split(jax.random.key(0), len(mask))
        # One after another: the scores of all items at all places of many long streams are gigabytes.
        return jax.lax.map(one, (keys, slots, stream, mask))

    right, hidden = map(np.asarray, recollected(params, slots, batch["stream"], batch["mask"]))
    real = np.any(batch["mask"], axis=-1)
    ages = np.cumsum(real[:, ::-1], axis=1)[:, ::-1] - 1  # of a segment of padding too, but nothing of it is hidden
    shares = {}
    for age in range(int(ages.max()) + 1):
        asked = int(np.sum(hidden, where=ages == age))
        if asked:
            share = float(np.sum(right, where=ages == age)) / asked
            shares[str(age)] = {"accuracy": round(share, 5), "examples": asked}
    return shares
