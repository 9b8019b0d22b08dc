"""Batches: every example once an epoch, in an order of its own, resumable; evaluation once over a split."""

import contextlib

import grain
import numpy as np
import pytest
from oracles.checking import assert_same
from training.tiny import layout_of, tiny

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.experiments.stream_qa import cut_to, trimmed
from memjax.tasks.stream_task import TaskShape
from memjax.training.data import borders_of, evaluation_batches, spread, train_batches


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
    for (batch, weight, _), *halves in zip(whole, *parts, strict=True):
        assert [i for half, *_ in halves for i in ids(half)] == ids(batch)
        np.testing.assert_array_equal(np.concatenate([weights for _, weights, _ in halves]), weight)


def test_evaluation_visits_a_split_once_in_batches_of_one_shape():
    batches = list(evaluation_batches(Counting(), layout_of(Counting()), "valid", 4))
    assert [len(weight) for _, weight, _ in batches] == [4, 4, 4]
    assert [i for batch, weight, _ in batches for i, w in zip(ids(batch), weight, strict=True) if w] == list(range(10))
    assert sum(weight.sum() for _, weight, _ in batches) == 10


@pytest.mark.parametrize("limit", [5, 3, 1, 99])
def test_a_limit_is_spread_evenly_over_the_split(limit):
    expected = spread(min(limit, 10), 10).tolist()
    batches = list(evaluation_batches(Counting(), layout_of(Counting()), "valid", 4, limit))
    assert [i for batch, weight, _ in batches for i, w in zip(ids(batch), weight, strict=True) if w] == expected


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


# In order.


class InOrder(Counting):
    """A task whose training examples are to be read as they are numbered."""

    ordered = True


@pytest.mark.parametrize("seed", [0, 1])
def test_a_task_in_order_is_read_by_rising_index_over_and_over(seed):
    with opened(InOrder(train=10), seed=seed) as data:
        assert [i for _ in range(5) for i in ids(next(data))] == [*range(10), *range(10)]
    turned_off = InOrder(train=24)
    turned_off.ordered = False
    assert epochs(0, 2, turned_off) == epochs(0, 2)


@pytest.mark.parametrize("after", [1, 6, 13])
def test_order_goes_on_where_it_was(after):
    with opened(InOrder(), start=after) as data:
        assert [i for _ in range(8) for i in ids(next(data))] == [i % 24 for i in range(4 * after, 4 * after + 32)]


def test_every_process_takes_its_rows_of_an_order():
    with opened(InOrder(), 4, rows=slice(0, 2)) as first, opened(InOrder(), 4, rows=slice(2, 4)) as second:
        assert [i for _ in range(6) for half in (first, second) for i in ids(next(half))] == list(range(24))


# Buckets.


class Lengthy(Counting):
    """A task whose examples hold their own index in as many segments as they are long."""

    shape = TaskShape(100, 12, 1, 1, None, "classes", 2)

    def lengths(self, split):
        return 1 + np.arange(self.size(split)) ** 2 % 12

    def examples(self, split, indices):
        batch = super().examples(split, indices)
        mask = np.arange(12)[:, None] < Lengthy.lengths(self, split)[indices, None, None]  # whatever it says
        return batch | {"stream": np.where(mask, batch["stream"], 0), "mask": mask}


BORDERS = (5, 10)  # of the lengths 1, 2, 5, 10


@contextlib.contextmanager
def in_buckets(task=None, batch_size=4, seed=0, **part):
    task = task or Lengthy(train=25)
    data = train_batches(task, bucketed(task), batch_size, seed, **part)
    try:
        yield data
    finally:
        data.close()


def bucketed(task, count=2):
    return layout_of(task)._replace(buckets=count, cut=cut_to)


def first_ids(batch):
    return batch["stream"][:, 0, 0].tolist()


def test_buckets_are_those_of_the_train_split():
    assert borders_of(Lengthy(), bucketed(Lengthy())) == BORDERS
    assert borders_of(Lengthy(), bucketed(Lengthy(), 1)) == ()
    assert borders_of(Counting(), layout_of(Counting())) == ()


def test_candidates_are_not_cut_where_there_are_as_many_as_times_to_ask():
    asked = np.arange(4)[None, :, None] < np.full((2, 1, 3), 2)
    batch = {"stream": np.zeros((2, 8, 5), int), "mask": np.arange(8)[None, :, None] < np.full((2, 1, 5), 4)}
    batch |= {"asked": asked, "after": np.ones((2, 4), int), "query": np.zeros((2, 4, 3, 2), int)}
    batch |= {"label": np.zeros((2, 4, 3), int), "candidates": np.zeros((2, 4, 3), int)}
    shapes = {name: x.shape for name, x in cut_to(batch, 4).items()}
    assert shapes["candidates"] == (2, 4, 3) and shapes["label"] == shapes["asked"] == (2, 2, 3)
    assert shapes["after"] == (2, 2) and shapes["query"] == (2, 2, 3, 2)


def test_a_batch_has_the_shape_of_its_bucket_and_all_of_its_examples():
    task = Lengthy(train=25)
    with in_buckets(task) as data:
        batches = [next(data) for _ in range(24)]
    for batch in batches:
        rows = np.array(first_ids(batch))
        lengths = task.lengths("train")[rows]
        assert batch["stream"].shape[1] == (5 if lengths.max() <= 5 else 10)
        assert_same(batch, cut_to(task.examples("train", rows), batch["stream"].shape[1]))
        assert (batch["mask"].sum((1, 2)) == lengths).all()
    assert {batch["stream"].shape[1] for batch in batches} == set(BORDERS)
    seen = np.bincount([i for batch in batches for i in first_ids(batch)], minlength=25)
    assert sorted(seen) == [3] * 4 + [4] * 21  # 96 of 100 examples of four epochs; 4 do not divide 25


@pytest.mark.parametrize("after", [0, 1, 5, 6, 13])
def test_buckets_go_on_where_they_were(after):
    with in_buckets() as data, in_buckets(start=after) as other:
        for _ in range(after):
            next(data)
        for _ in range(8):
            assert_same(next(other), next(data))


def test_every_process_takes_its_rows_of_the_same_bucket():
    shares = []
    for rows in (slice(None), slice(0, 2), slice(2, 4)):
        with in_buckets(rows=rows) as data:
            shares.append([next(data) for _ in range(12)])
    longest = [[half["mask"].any((0, 2)).sum() for half in halves] for halves in zip(*shares[1:])]
    assert any(first != second for first, second in longest)  # alone, they would have cut them to other lengths
    for batch, first, second in zip(*shares, strict=True):
        assert_same({name: np.concatenate([first[name], second[name]]) for name in batch}, batch)


def test_with_buckets_a_task_in_order_keeps_its_order_and_a_batch_is_as_long_as_its_longest_wants():
    class Both(InOrder, Lengthy):
        pass

    task, shares = Both(train=24), []
    for rows in (slice(None), slice(0, 1), slice(1, 4)):
        with in_buckets(task, rows=rows) as data:
            shares.append([next(data) for _ in range(12)])
    assert [i for batch in shares[0] for i in first_ids(batch)] == [*range(24), *range(24)]
    for batch, first, second in zip(*shares, strict=True):
        longest = task.lengths("train")[first_ids(batch)].max()
        assert batch["stream"].shape[1] == (5 if longest <= 5 else 10)
        assert_same({name: np.concatenate([first[name], second[name]]) for name in batch}, batch)


@pytest.mark.parametrize("limit", [None, 7])
def test_evaluation_by_buckets_reads_every_example_once_and_says_which(limit):
    task = Lengthy(valid=22)
    plain = list(evaluation_batches(task, layout_of(task), "valid", 4, limit))
    batches = list(evaluation_batches(task, bucketed(task), "valid", 4, limit))
    assert len(batches) == len(plain)
    seen = [i for batch, weight, _ in batches for i, w in zip(first_ids(batch), weight, strict=True) if w]
    places = np.concatenate([places for *_, places in batches])
    wanted = [i for batch, weight, _ in plain for i, w in zip(first_ids(batch), weight, strict=True) if w]
    assert [wanted[place] for place in places] == seen and sorted(places) == list(range(len(wanted)))
    shapes = [batch["mask"].shape[:2] for batch, *_ in batches]
    assert set(shapes) == {(4, 5), (4, 10)} and shapes == sorted(shapes)
    parts = [list(evaluation_batches(task, bucketed(task), "valid", 4, limit, slice(i, i + 2))) for i in (0, 2)]
    for (batch, weight, places), *halves in zip(batches, *parts, strict=True):
        assert_same({name: np.concatenate([half[0][name] for half in halves]) for name in batch}, batch)
        assert_same(np.concatenate([half[1] for half in halves]), weight)
        assert all((half[2] == places).all() for half in halves)


def test_what_is_longer_than_all_of_train_is_padded_to_twice_its_longest():
    class Longer(Lengthy):
        def lengths(self, split):
            return np.minimum(super().lengths(split), 5) if split == "train" else super().lengths(split)

    batches = list(evaluation_batches(Longer(), bucketed(Longer(), 2), "valid", 4))
    assert {batch["mask"].shape[1] for batch, *_ in batches} == {2, 5, 10}
    assert sum(weight.sum() for _, weight, _ in batches) == 10


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (np.ones(3, int), "lengths of split train must be 24 whole numbers, each at least 1"),
        (np.ones(24), "must be 24 whole numbers"),
        (np.zeros(24, int), "each at least 1"),
        (np.full(24, 2), "behind the 2 segments that its task's `lengths` leave it"),
    ],
)
def test_lengths_that_are_wrong_are_one_line(said, words):
    class Wrong(Lengthy):
        def lengths(self, split):
            return said

    with pytest.raises(MemjaxError, match=words) as caught, in_buckets(Wrong()) as data:
        next(data)
    assert "\n" not in str(caught.value)


def test_a_task_that_says_no_lengths_has_no_buckets():
    with pytest.raises(MemjaxError, match=r"buckets need a task that says its `lengths`; set config.training.buckets"):
        borders_of(Counting(), bucketed(Counting()))
