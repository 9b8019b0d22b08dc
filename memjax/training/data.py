"""Batches for training, shuffled or in order, endless, resumable; and batches for evaluation, each example once."""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grain
import numpy as np

from memjax.errors import MemjaxError, require
from memjax.training import buckets
from memjax.typing import Batch, Examples, Int, Ordered, Split, WithLengths

ALL = slice(None)


def same(batch: Any) -> Any:
    """The batch as it is."""
    return batch


def uncut(batch: Batch, length: int) -> Batch:
    """The batch as it is: its family knows no lengths."""
    return batch


class Layout(NamedTuple):
    """What is particular to a family's batches.

    Attributes:
        check: raises `MemjaxError` for a batch that is not what the task promises.
        trim: drops, on the host, what is padding in all rows.
        extend: adds, in the step, what an example takes from other rows of the whole batch.
        segmented: the names of what is split over the mesh's axis "sequence", along its second axis, and of which
            padding is nothing.
        buckets: into how many the examples are sorted by their lengths; 1 for none. Then `trim` is not asked.
        cut: drops, on the host, what is behind a length; raises `MemjaxError` if that is not padding alone.
    """

    check: Callable[[Batch], None]
    trim: Callable[[Batch], Batch] = same
    extend: Callable[[Any], Any] = same
    segmented: tuple[str, ...] = ()
    buckets: int = 1
    cut: Callable[[Batch, int], Batch] = uncut


def train_batches(
    task: Examples, layout: Layout, batch_size: int, seed: int, start: int = 0, rows: slice = ALL
) -> grain.DatasetIterator:
    """An endless iterator over batches for training.

    Every epoch visits all training examples in an order of its own, which depends on the seed and the epoch alone: what
    is in a batch depends on its number, and not on how many processes read it. A task that is `ordered` is read by
    rising index instead. With buckets, batches of one are padded to one length, that of all processes; in order, each
    to the least length that holds it.

    Args:
        task: whose split "train" is read.
        layout: of its batches; each is checked.
        batch_size: rows of a batch, of all processes.
        seed: of the order, where there is none.
        start: the number of the first batch.
        rows: those of each batch that this process reads.
    """
    size, borders = task.size("train"), borders_of(task, layout)
    lengths = lengths_of(task, "train") if borders else None
    ordered = isinstance(task, Ordered) and task.ordered

    def load(indices: np.ndarray) -> Batch:
        batch = task.examples("train", indices[rows])
        layout.check(batch)
        if lengths is not None:
            return _cut(layout, borders, batch, lengths[indices])
        return layout.trim(batch) if len(indices[rows]) == batch_size else batch  # processes must agree on a shape

    if lengths is not None and not ordered:
        batches = _bucketed(lengths, borders, batch_size, seed)
    else:
        indices = grain.MapDataset.range(size)
        indices = indices if ordered else indices.seed(seed).shuffle()
        batches = indices.repeat().batch(batch_size, drop_remainder=True)
    loaded = batches[start:].map(load)
    return iter(loaded.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=4)))


def evaluation_batches(
    task: Examples, layout: Layout, split: Split, batch_size: int, limit: int | None = None, rows: slice = ALL
) -> Iterator[tuple[Batch, np.ndarray, np.ndarray]]:
    """Batches over a split once, in order; with buckets, those of the shortest first.

    Args:
        task: whose examples are read.
        layout: of its batches.
        split: which examples.
        batch_size: rows of a batch, of all processes.
        limit: how many examples, spread evenly over the split; all, if not given.
        rows: those of each batch that this process reads.

    Returns:
        (batch, weight, places), one after another. The last batch is filled up with examples of weight 0, so that all
        batches have as many rows. places: of the examples of all processes, without those, among all that are read.
    """
    size, borders = task.size(split), borders_of(task, layout)
    count = size if limit is None else min(limit, size)
    indices = spread(count, size)
    lengths = lengths_of(task, split)[indices] if borders else np.zeros(count, int)
    order = buckets.sorted_by_bucket(lengths, borders) if borders else np.arange(count)
    for start in range(0, count, batch_size):
        places = order[start : start + batch_size]
        real = (np.arange(batch_size) < len(places)).astype(np.float32)[rows]
        filled = np.resize(indices[places], batch_size)[rows]
        batch = task.examples(split, filled)
        if borders:
            batch = _cut(layout, borders, batch, lengths[places])
        elif len(filled) == batch_size:
            batch = layout.trim(batch)
        yield batch, real, places


def spread(count: int, size: int) -> Int[np.ndarray, "count"]:
    """So many of the numbers below `size`, rising: one of each stretch of equal length, the same at every call.

    Neighbours of a split are alike, as questions about one story. Which of a stretch is drawn: a split may repeat
    itself, as where its answers take turns, and the first of each stretch would be the same few of them.

    >>> spread(3, 3), len(spread(4, 10))
    (array([0, 1, 2]), 4)
    """
    starts = np.arange(count + 1) * size // max(count, 1)
    # Of a generator's methods random() is the one that gives the same numbers in every version of NumPy.
    return starts[:-1] + (np.random.default_rng(0).random(count) * np.diff(starts)).astype(np.int64)


def borders_of(task: Examples, layout: Layout) -> tuple[int, ...]:
    """The lengths that batches of all splits are padded to, chosen by those of train; none without buckets.

    Raises:
        MemjaxError: for a task that does not say its lengths, or says them wrong.
    """
    return buckets.bucket_borders(lengths_of(task, "train"), layout.buckets) if layout.buckets > 1 else ()


def lengths_of(task: Examples, split: Split) -> Int[np.ndarray, "E"]:
    """The length of each example of a split.

    Raises:
        MemjaxError: for a task that does not say them, or says them wrong.
    """
    if not isinstance(task, WithLengths):
        raise MemjaxError("buckets need a task that says its `lengths`; set config.training.buckets to 1")
    lengths = np.asarray(task.lengths(split))
    require(
        lengths.shape == (task.size(split),) and np.issubdtype(lengths.dtype, np.integer) and (lengths > 0).all(),
        f"the task's lengths of split {split} must be {task.size(split)} whole numbers, each at least 1",
    )
    return lengths


def _cut(layout: Layout, borders: tuple[int, ...], batch: Batch, lengths: np.ndarray) -> Batch:
    """A process's rows of a batch, padded as far as the lengths of the whole batch want it."""
    return layout.cut(batch, buckets.padded_length(borders, int(lengths.max())))


def _bucketed(lengths: np.ndarray, borders: tuple[int, ...], batch_size: int, seed: int) -> grain.MapDataset:
    """The indices of each batch of training, by its number."""
    together = buckets.stretch_of(len(lengths), batch_size)

    @functools.lru_cache(maxsize=1)  # batches are read in order: each stretch is made once
    def stretch(number: int) -> np.ndarray:
        return buckets.stretch_batches(lengths, borders, batch_size, seed, number)

    return grain.MapDataset.range(sys.maxsize).map(lambda number: stretch(number // together)[number % together])
