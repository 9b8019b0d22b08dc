"""Zoology's multi-query associative recall, held against its description."""

import numpy as np
import pytest

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.tasks.mqar import distinct
from memjax.tasks.sequence import NOTHING

SPEC = {
    "vocabulary": 64, "cells": "16x4,24x2,16x1", "rows": "30,20,10", "test_cells": "16x2,40x10", "power": 0.01,
    "noise": False, "valid": 3, "test": 5, "seed": 0,
}  # fmt: skip


def mqar(**changes):
    return tasks.create(tasks.MqarSpec(**{**SPEC, **changes}))


def every(task, split):
    batch = task.examples(split, np.arange(task.size(split)))
    tasks.check_batch(task.shape, batch)
    return batch


def of_cell(task, batch, i):
    length, pairs = map(int, task.shape.tags["length x pairs"][batch["length x pairs"][i]].split(" x "))
    return length, pairs, batch["tokens"][i], batch["target"][i]


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize("noise", [False, True])
def test_pairs_come_first_and_each_key_once_more_with_its_value_as_target(split, noise):
    task = mqar(noise=noise)
    batch, cells = every(task, split), []
    for i in range(task.size(split)):
        length, pairs, tokens, target = of_cell(task, batch, i)
        cells.append((length, pairs))
        keys, values = tokens[0 : 2 * pairs : 2], tokens[1 : 2 * pairs : 2]
        assert len(set(keys)) == len(set(values)) == pairs
        assert (keys >= 1).all() and (keys < 32).all() and (values >= 32).all() and (values < 64).all()
        asked = np.flatnonzero(target != NOTHING)
        assert len(asked) == pairs and (asked >= 2 * pairs).all() and (asked % 2 == 0).all() and (asked < length).all()
        assert dict(zip(tokens[asked], target[asked])) == dict(zip(keys, values))
        others = np.delete(tokens[:length], np.concatenate([np.arange(2 * pairs), asked]))
        assert noise or (others == 0).all()
        assert (tokens[length:] == 0).all()
    sizes = {cell: cells.count(cell) for cell in set(cells)}
    assert (
        sizes
        == {
            "train": {(16, 4): 30, (24, 2): 20, (16, 1): 10},
            "valid": {(16, 4): 3, (24, 2): 3, (16, 1): 3},
            "test": {(16, 2): 5, (40, 10): 5},
        }[split]
    )


def test_gaps_follow_the_power_law_and_keys_values_and_filler_are_uniform():
    task = mqar(cells="20x1", rows="20000", noise=True)
    batch = every(task, "train")
    gaps = ((batch["target"] != NOTHING).argmax(1) - 2) // 2
    weights = np.arange(1, 10) ** (0.01 - 1)
    assert np.abs(np.bincount(gaps, minlength=9) / 20_000 - weights / weights.sum()).max() < 0.012
    for column, (low, high) in {0: (1, 32), 1: (32, 64)}.items():
        counts = np.bincount(batch["tokens"][:, column], minlength=64)[low:high]
        assert counts.sum() == 20_000 and np.abs(counts * (high - low) / 20_000 - 1).max() < 0.2
    assert np.abs(np.bincount(batch["tokens"][:, 3], minlength=64) * 64 / 20_000 - 1).max() < 0.25


def test_gaps_of_several_keys_are_drawn_one_after_another_without_replacement():
    task = mqar(cells="12x2", rows="20000")
    batch = every(task, "train")
    first = np.array([np.flatnonzero(row == key[0])[1] for row, key in zip(batch["tokens"], batch["tokens"])])
    second = np.array([np.flatnonzero(row == key[2])[1] for row, key in zip(batch["tokens"], batch["tokens"])])
    weights = np.arange(1, 5) ** (0.01 - 1)
    share = weights / weights.sum()
    expected = np.array([[share[i] * share[j] / (1 - share[i]) * (i != j) for j in range(4)] for i in range(4)])
    found = np.zeros((4, 4))
    np.add.at(found, ((first - 4) // 2, (second - 4) // 2), 1 / 20_000)
    assert np.abs(found - expected).max() < 0.012


def test_distinct_numbers_are_uniform_in_every_place():
    rows = distinct(np.arange(30_000, dtype=np.uint64), 5, 3)
    assert (np.sort(rows, axis=1)[:, 1:] != np.sort(rows, axis=1)[:, :-1]).all()
    for place in range(3):
        assert np.abs(np.bincount(rows[:, place], minlength=5) / 30_000 - 0.2).max() < 0.01


def test_the_most_targets_are_known_of_training_and_of_all():
    task = mqar(cells="16x4,24x2", rows="5,5", test_cells="64x16")
    assert (task.shape.asked, task.shape.asked_in_training) == (16, 4)
    assert (every(task, "train")["target"] != NOTHING).sum(1).max() == 4


def test_an_example_is_a_function_of_its_index():
    task = mqar()
    one, all_rows = task.examples("train", np.array([33])), every(task, "train")
    for name, values in one.items():
        assert (values[0] == all_rows[name][33]).all()
    assert (mqar(seed=1).examples("train", np.array([33]))["tokens"] != one["tokens"]).any()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cells": "64"}, "cells must be LENGTHxPAIRS with commas"),
        ({"cells": "16x4,16x4,16x1"}, "cells must differ from each other"),
        ({"cells": "15x2,24x2,16x1"}, "cells: a length is even, at least 4 times the pairs"),
        ({"test_cells": "16x5"}, "test_cells: a length is even, at least 4 times the pairs"),
        ({"test_cells": "16x0"}, "test_cells must have at least 1 pair each"),
        ({"vocabulary": 8}, "cells: 4 pairs need more keys than a vocabulary of 8 has"),
        ({"rows": "30,20"}, "rows must be a number for each of the 3 cells"),
        ({"rows": "30,20,0"}, "rows must be whole numbers from 1"),
        ({"rows": "30,20,x"}, "rows must be whole numbers from 1"),
        ({"power": 0.0}, "power must be"),
        ({"power": 1000.0}, "power must be at most 10"),
        ({"rows": "30,20,9999999999"}, "rows must be whole numbers from 1 to 2147483648"),
        ({"rows": 30}, "rows must be whole numbers"),
        ({"cells": 16}, "cells must be LENGTHxPAIRS"),
        ({"test": 10**10}, "test must be at most"),
        ({"vocabulary": 10**9}, "vocabulary must be at most"),
    ],
)
def test_what_cannot_be_is_one_clear_line(changes, words, unchecked):
    with pytest.raises(MemjaxError, match=words) as caught:
        mqar(**changes)
    assert "\n" not in str(caught.value)
