"""Copy, repeat copy and associative recall: what is asked follows from what was shown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax import tasks
from memjax.errors import MemjaxError

SPEC = {"bits": 4, "shortest": 2, "longest": 5, "repeats": 3, "test_lengths": "5,8", "train": 40, "valid": 8, "test": 6}


def task(kind, **changes):
    return tasks.create(tasks.AlgorithmicSpec(**{"kind": kind, **SPEC, "seed": 0, **changes}))


def rows(kind, split, **changes):
    """Of every example: its inputs up to the last step that is asked, the bits that are, and where they begin."""
    made = task(kind, **changes)
    batch = made.examples(split, np.arange(made.size(split)))
    tasks.check_batch(made.shape, batch)
    for inputs, bits, asked in zip(batch["inputs"], batch["bits"], batch["asked"], strict=True):
        start, end = asked.argmax(), len(asked) - asked[::-1].argmax()
        assert asked[start:end].all() and not bits[~asked].any()
        assert not inputs[start:].any(), "while it is asked, nothing is shown"
        yield inputs[:start], bits[asked]


every_split = pytest.mark.parametrize("split", ["train", "valid", "test"])


@every_split
def test_copy_says_what_it_was_shown(split):
    for shown, said in rows("copy", split):
        np.testing.assert_array_equal(shown[:-1, :4], said)
        np.testing.assert_array_equal(shown[:, 4], np.eye(len(shown))[-1])


@every_split
def test_repeat_copy_says_it_as_often_as_it_was_told_and_then_stops(split):
    told = set()
    for shown, said in rows("repeat_copy", split):
        times = round(float(shown[-1, 5]) * 3)
        told.add(times)
        np.testing.assert_array_equal(np.tile(shown[:-1, :4], (times, 1)), said[:-1, :4])
        np.testing.assert_array_equal(said[:, 4], np.eye(len(said))[-1])
    assert told == {1, 2, 3}


@every_split
def test_associative_recall_says_the_item_after_the_one_that_is_asked_for(split):
    for shown, said in rows("associative_recall", split):
        *items, query = shown[:-1].reshape(-1, 4, 6)
        assert all(item[0, 4] == 1 and item[0, 5] == 0 for item in items) and query[0, 5] == shown[-1, 5] == 1
        found = [n for n, item in enumerate(items[:-1]) if (item[1:, :4] == query[1:, :4]).all()]
        assert found and any((items[n + 1][1:, :4] == said).all() for n in found)


@pytest.mark.parametrize("bits", [1, 2])
def test_no_item_that_comes_twice_is_asked_for_where_another_does_not(bits):
    """Its successor would be a guess."""
    for shown, _ in rows("associative_recall", "train", bits=bits):
        *items, query = shown[:-1].reshape(-1, 4, bits + 2)[:, 1:, :bits]
        often = [(np.array(items) == item).all((1, 2)).sum() for item in items]
        assert (np.array(items) == query).all((1, 2)).sum() == 1 or 1 not in often[:-1]


@pytest.mark.parametrize("kind", ["copy", "repeat_copy", "associative_recall"])
def test_training_lengths_are_drawn_and_test_lengths_given(kind):
    made = task(kind)
    assert made.shape.tags == {"length": ("5", "8")} and made.size("test") == 12
    batch = made.examples("test", np.arange(12))
    np.testing.assert_array_equal(batch["length"], np.repeat([0, 1], 6))
    asked = made.examples("train", np.arange(40))["asked"]
    assert len({int(row.argmax()) for row in asked}) == 4, "every length from 2 to 5 occurs"


@given(index=st.integers(0, 39), others=st.lists(st.integers(0, 39), max_size=4))
@settings(max_examples=25, deadline=None)
def test_an_example_is_a_function_of_its_index(index, others):
    made = task("associative_recall")
    alone, among = (made.examples("train", np.array(chosen)) for chosen in ([index], [*others, index]))
    for name in alone:
        np.testing.assert_array_equal(alone[name][0], among[name][-1])


def test_splits_and_seeds_have_examples_of_their_own():
    first = task("copy").examples("train", np.arange(8))["inputs"]
    assert (first != task("copy").examples("valid", np.arange(8))["inputs"]).any()
    assert (first != task("copy", seed=1).examples("train", np.arange(8))["inputs"]).any()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bits": 0}, "^bits must be at least 1, not 0"),
        ({"shortest": 6}, "shortest 6 must be from 1 to longest 5"),
        ({"kind": "associative_recall", "shortest": 1}, "shortest 1 must be from 2"),
        ({"test_lengths": "5;8"}, "whole numbers with commas"),
        ({"test_lengths": "8,5"}, "must rise from 1 on"),
        ({"test_lengths": "100000"}, "200001 steps; at most 65536"),
        ({"seed": -1}, "^seed must be"),
    ],
    ids=str,
)
def test_a_task_that_cannot_be_is_one_line(changes, words):
    with pytest.raises(MemjaxError, match=words) as caught:
        task(**{"kind": "copy", **changes})
    assert "\n" not in str(caught.value)


def test_a_length_of_train_is_told_as_the_nearest_of_the_tested():
    spec = tasks.AlgorithmicSpec(
        kind="copy", bits=4, shortest=2, longest=9, repeats=1, test_lengths="3,8", train=40, valid=8, test=6, seed=0
    )
    batch = tasks.create(spec).examples("train", np.arange(40))
    lengths = batch["asked"].sum(1)
    assert batch["length"].tolist() == [int(abs(n - 8) < abs(n - 3)) for n in lengths]
    assert len(set(batch["length"])) == 2
