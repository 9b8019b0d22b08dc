"""Batches for training, shuffled, endless, resumable; and batches for evaluation, in order."""

from collections.abc import Iterator

import grain
import numpy as np

from memjax.tasks import AnyTask, Batch, Split, check_batch

ALL = slice(None)


def train_batches(
    task: AnyTask, batch_size: int, seed: int, start: int = 0, rows: slice = ALL
) -> grain.DatasetIterator:
    """An iterator over these rows of each batch, from batch `start` on.

    Every epoch visits all training examples in an order of its own, which depends on the seed and the epoch alone: what
    is in a batch depends on its number, and not on how many processes read it.
    """
    size = task.size("train")

    def load(indices: np.ndarray) -> Batch:
        batch = task.examples("train", indices[rows])
        check_batch(task.shape, batch)
        return trimmed(batch) if len(indices[rows]) == batch_size else batch  # processes must agree on a shape

    indices = grain.MapDataset.range(size).seed(seed).shuffle().repeat()
    batches = indices.batch(batch_size, drop_remainder=True)[start:].map(load)
    return iter(batches.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=4)))


def evaluation_batches(
    task: AnyTask, split: Split, batch_size: int, limit: int | None = None, rows: slice = ALL
) -> Iterator[tuple[Batch, np.ndarray]]:
    """(batch, weight) over a split once, or over `limit` examples spread evenly over it; of each batch these rows.

    The last batch is filled up with examples of weight 0, so that all batches have one shape.
    """
    size = task.size(split)
    count = size if limit is None else min(limit, size)
    # With a limit, spread evenly: neighbours are alike (same story, chains in order).
    indices = np.arange(count) * size // count
    for start in range(0, count, batch_size):
        chunk = indices[start : start + batch_size]
        filled, real = np.resize(chunk, batch_size)[rows], (np.arange(batch_size) < len(chunk)).astype(np.float32)[rows]
        batch = task.examples(split, filled)
        yield (trimmed(batch) if len(filled) == batch_size else batch), real


def trimmed(batch: Batch) -> Batch:
    """The batch without the segments at its end that are padding in every stream: slots and answers are the same.
    A batch of sequences is as it was.

    In quarters of the stream: at most four shapes to compile. One long stream in a data set costs its own batch only.

    >>> batch = {"stream": np.ones((2, 8, 3)), "mask": np.arange(8)[None, :, None] < np.full((2, 1, 3), 3)}
    >>> trimmed(batch)["stream"].shape
    (2, 4, 3)
    """
    if "mask" not in batch:
        return batch
    segments = batch["mask"].shape[1]
    quarter = -(-segments // 4)
    longest = int(np.flatnonzero(batch["mask"].any(axis=(0, 2))).max(initial=0)) + 1
    kept = min(segments, -(-longest // quarter) * quarter)
    return batch | {name: batch[name][:, :kept] for name in ("stream", "mask")}
