"""Batches for training, shuffled, endless, resumable; and batches for evaluation, in order."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grain
import numpy as np

from memjax.typing import Batch, Examples, Split

ALL = slice(None)


def same(batch: Any) -> Any:
    """The batch as it is."""
    return batch


class Layout(NamedTuple):
    """What is particular to a family's batches.

    Attributes:
        check: raises `MemjaxError` for a batch that is not what the task promises.
        trim: drops, on the host, what is padding in all rows.
        extend: adds, in the step, what an example takes from other rows of the whole batch.
        segmented: the names of what is split over the mesh's axis "sequence", along its second axis, and of which
            padding is nothing.
    """

    check: Callable[[Batch], None]
    trim: Callable[[Batch], Batch] = same
    extend: Callable[[Any], Any] = same
    segmented: tuple[str, ...] = ()


def train_batches(
    task: Examples, layout: Layout, batch_size: int, seed: int, start: int = 0, rows: slice = ALL
) -> grain.DatasetIterator:
    """An endless iterator over batches for training.

    Every epoch visits all training examples in an order of its own, which depends on the seed and the epoch alone: what
    is in a batch depends on its number, and not on how many processes read it.

    Args:
        task: whose split "train" is read.
        layout: of its batches; each is checked.
        batch_size: rows of a batch, of all processes.
        seed: of the order.
        start: the number of the first batch.
        rows: those of each batch that this process reads.
    """
    size = task.size("train")

    def load(indices: np.ndarray) -> Batch:
        batch = task.examples("train", indices[rows])
        layout.check(batch)
        return layout.trim(batch) if len(indices[rows]) == batch_size else batch  # processes must agree on a shape

    indices = grain.MapDataset.range(size).seed(seed).shuffle().repeat()
    batches = indices.batch(batch_size, drop_remainder=True)[start:].map(load)
    return iter(batches.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=4)))


def evaluation_batches(
    task: Examples, layout: Layout, split: Split, batch_size: int, limit: int | None = None, rows: slice = ALL
) -> Iterator[tuple[Batch, np.ndarray]]:
    """Batches over a split once, in order.

    Args:
        task: whose examples are read.
        layout: of its batches.
        split: which examples.
        batch_size: rows of a batch, of all processes.
        limit: how many examples, spread evenly over the split; all, if not given.
        rows: those of each batch that this process reads.

    Returns:
        (batch, weight), one after another. The last batch is filled up with examples of weight 0, so that all batches
        have one shape.
    """
    size = task.size(split)
    count = size if limit is None else min(limit, size)
    # With a limit, spread evenly: neighbours are alike (same story, chains in order).
    indices = np.arange(count) * size // count
    for start in range(0, count, batch_size):
        chunk = indices[start : start + batch_size]
        filled, real = np.resize(chunk, batch_size)[rows], (np.arange(batch_size) < len(chunk)).astype(np.float32)[rows]
        batch = task.examples(split, filled)
        yield (layout.trim(batch) if len(filled) == batch_size else batch), real
