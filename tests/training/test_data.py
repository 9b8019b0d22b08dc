"""Batches: every example once an epoch, in an order of its own, resumable; evaluation once over a split."""

import contextlib

import grain
import numpy as np
import pytest
from oracles.checking import assert_same
from training.tiny import layout_of, tiny

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.experiments.stream_qa import trimmed
from memjax.tasks.stream_task import TaskShape
from memjax.training.data import evaluation_batches, train_batches


class Counting:
    """A task whose examples hold their own index."""

    shape = TaskShape(100, 1, 1, 1, None, "classes", 2)
    notes = ()

    def __init__(self, train=24, valid=10):
        self._sizes = {"train": train, "valid": valid, "test": valid}

    def size(self, split):
        return self._sizes[split]

    def examples(self, split, indices):
        stream, zeros = np.asarray(indices)[:, None, None], np.zeros(len(indices), int)
        return {"stream": stream, "mask": np.ones_like(stream, bool), "query": zeros, "label": zeros}


@contextlib.contextmanager
def opened(task, batch_size=4, seed=0, **part):
    data = train_batches(task, layout_of(task), batch_size, seed, **part)
    try:
        yield data
    finally:
        data.close()


def ids(batch):
    return batch["stream"].reshape(-1).tolist()


def epochs(seed, count, task=None):
    with opened(task or Counting(), seed=seed) as data:
        return [[i for _ in range(6) for i in ids(next(data))] for _ in range(count)]


def test_an_epoch_visits_every_example_once():
    assert [sorted(epoch) for epoch in epochs(0, 3)] == [list(range(24))] * 3


def test_every_epoch_and_every_seed_has_an_order_of_its_own():
    orders = [*epochs(0, 3), *epochs(1, 3)]
    assert len({tuple(order) for order in orders}) == 6
    assert list(range(24)) not in orders


def test_the_order_depends_on_the_seed_alone():
    assert epochs(3, 2) == epochs(3, 2)


def test_a_batch_may_reach_into_the_next_epoch():
    with opened(Counting(train=10)) as data:
        seen = [i for _ in range(5) for i in ids(next(data))]
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))


@pytest.mark.parametrize("after", [0, 1, 5, 6, 13])
def test_the_data_goes_on_where_it_was(after):
    with opened(Counting()) as data, opened(Counting(), start=after) as other:
        for _ in range(after):
            next(data)
        for _ in range(8):
            assert ids(next(other)) == ids(next(data))


def test_a_real_tasks_batches_are_its_examples():
    task = tasks.create(tiny().task)
    with opened(task, 8) as data:
        batch = next(data)
    assert isinstance(data, grain.DatasetIterator)
    everything = task.examples("train", np.arange(task.size("train")))
    for i in range(8):
        same = (everything["stream"] == batch["stream"][i]).all((1, 2))
        assert same.sum() == 1
        place = int(np.flatnonzero(same)[0])
        for name in batch:
            np.testing.assert_array_equal(batch[name][i], everything[name][place])


def test_every_process_takes_its_rows_of_each_batch():
    shares = []
    for rows in (slice(None), slice(0, 2), slice(2, 4)):
        with opened(Counting(), 4, rows=rows) as data:
            shares.append([ids(next(data)) for _ in range(6)])
    for batch, first, second in zip(*shares, strict=True):
        assert first + second == batch


def test_every_process_evaluates_its_rows():
    whole = list(evaluation_batches(Counting(), layout_of(Counting()), "valid", 4))
    parts = [
        list(evaluation_batches(Counting(), layout_of(Counting()), "valid", 4, rows=slice(i, i + 2))) for i in (0, 2)
    ]
    for (batch, weight), *halves in zip(whole, *parts, strict=True):
        assert [i for half, _ in halves for i in ids(half)] == ids(batch)
        np.testing.assert_array_equal(np.concatenate([weights for _, weights in halves]), weight)


def test_evaluation_visits_a_split_once_in_batches_of_one_shape():
    batches = list(evaluation_batches(Counting(), layout_of(Counting()), "valid", 4))
    assert [len(weight) for _, weight in batches] == [4, 4, 4]
    assert [i for batch, weight in batches for i, w in zip(ids(batch), weight, strict=True) if w] == list(range(10))
    assert sum(weight.sum() for _, weight in batches) == 10


@pytest.mark.parametrize(("limit", "expected"), [(5, [0, 2, 4, 6, 8]), (3, [0, 3, 6]), (1, [0]), (99, list(range(10)))])
def test_a_limit_is_spread_evenly_over_the_split(limit, expected):
    batches = list(evaluation_batches(Counting(), layout_of(Counting()), "valid", 4, limit))
    assert [i for batch, weight in batches for i, w in zip(ids(batch), weight, strict=True) if w] == expected


def test_a_bad_example_stops_with_one_line():
    class Bad(Counting):
        def examples(self, split, indices):
            batch = super().examples(split, indices)
            return batch | {"stream": batch["stream"] + 99}

    with opened(Bad()) as data, pytest.raises(MemjaxError, match=r"they must be in \[0, 100\)"):
        next(data)


def test_the_same_batch_however_many_were_read_ahead():
    with opened(Counting()) as data:
        first = next(data)
        state = data.get_state()
        second = next(data)
        data.set_state(state)
        assert_same(next(data), second)
        assert ids(first) != ids(second)


def lengths(*real, segments=10):
    """A batch whose streams have so many segments of two items; the first segment is padding in all of them."""
    mask = np.zeros((len(real), segments, 2), bool)
    for row, length in enumerate(real):
        mask[row, :length] = True
    mask[:, :1] = False
    return {"stream": np.arange(mask.size).reshape(mask.shape), "mask": mask, "label": np.zeros(len(real))}


@pytest.mark.parametrize(("real", "kept"), [((2, 3), 3), ((4, 2), 6), ((9, 2), 9), ((10, 10), 10), ((0, 0), 3)])
def test_what_is_padding_in_every_stream_is_cut_off_in_quarters(real, kept):
    batch = lengths(*real)
    cut = trimmed(batch)
    assert_same(cut["stream"], batch["stream"][:, :kept])
    assert_same(cut["mask"], batch["mask"][:, :kept])
    assert cut["mask"].sum() == batch["mask"].sum()
    assert_same(cut["label"], batch["label"])


def test_a_batch_has_one_of_four_shapes():
    shapes = {trimmed(lengths(length, segments=26))["mask"].shape[1] for length in range(27)}
    assert shapes == {7, 14, 21, 26}
