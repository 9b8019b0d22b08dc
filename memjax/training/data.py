"""Batches for training, shuffled, endless, resumable; and batches for evaluation, in order."""

from collections.abc import Iterator

import grain
import jax
import numpy as np

from memjax.errors import require
from memjax.tasks import Batch, Split, Task, check_batch


def train_batches(task: Task, batch_size: int, seed: int) -> grain.DatasetIterator:
    """An iterator over this process's share of each batch; its position can be checkpointed.

    Every epoch visits all training examples in an order of its own, which depends on the seed and the epoch alone.
    """
    processes = jax.process_count()
    require(batch_size % processes == 0, f"batch size {batch_size} must be a multiple of {processes} processes")
    size = task.size("train")

    def load(indices: np.ndarray) -> Batch:
        batch = task.examples("train", indices)
        check_batch(task.shape, batch)
        return batch

    indices = grain.MapDataset.range(size).seed(seed).shuffle().repeat()
    share = indices[jax.process_index() :: processes]
    batches = share.batch(batch_size // processes, drop_remainder=True).map(load)
    return iter(batches.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=4)))


def evaluation_batches(
    task: Task, split: Split, batch_size: int, limit: int | None = None
) -> Iterator[tuple[Batch, np.ndarray]]:
    """(batch, weight) over a split once, or over `limit` examples spread evenly over it.

    The last batch is filled up with examples of weight 0, so that all batches have one shape.
    """
    size = task.size(split)
    count = size if limit is None else min(limit, size)
    # With a limit, spread evenly: neighbours are alike (same story, chains in order).
    indices = np.arange(count) * size // count
    for start in range(0, count, batch_size):
        chunk = indices[start : start + batch_size]
        filled = np.resize(chunk, batch_size)
        yield task.examples(split, filled), (np.arange(batch_size) < len(chunk)).astype(np.float32)
