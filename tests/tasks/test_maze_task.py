"""Episodes of mazes: which mazes train and test see, in what order, with what names; what is refused."""

from pathlib import Path

import numpy as np
import pytest

from memjax import tasks
from memjax.errors import MemjaxError

ARCHIVE = Path(__file__).parents[2].parent / "shared" / "data" / "minecraft_mazes"
SPEC = {
    "kind": "imaze", "train_lengths": "5,7,9", "test_lengths": "4,5,12", "generated": 0, "data_dir": "", "train": 200,
    "valid": 50, "test": 4, "seed": 0,
}  # fmt: skip


def maze(**changes):
    return tasks.create(tasks.MazeSpec(**{**SPEC, **changes}))


def every(task, split):
    batch = task.examples(split, np.arange(task.size(split)))
    tasks.check_batch(task.shape, batch)
    return batch


def corridors(task, batch):
    """The lengths of the corridors, counted on the maps."""
    return (~np.asarray(task.mazes.walls)[batch["maze"], :, 3]).sum(1)


def test_each_split_walks_the_corridors_that_it_should():
    task = maze()
    assert set(corridors(task, every(task, "train"))) == set(corridors(task, every(task, "valid"))) == {5, 7, 9}
    test = every(task, "test")
    assert corridors(task, test).tolist() == [4] * 4 + [5] * 4 + [12] * 4
    assert [int(task.shape.tags["length"][value]) for value in test["length"]] == corridors(task, test).tolist()


def test_both_indicators_are_tested_alike_and_trained_both():
    task = maze()
    indicator = np.asarray(task.mazes.objects).max((1, 2))  # 6 is lime, 5 the exit that belongs to it
    assert np.unique(indicator[every(task, "test")["maze"]], return_counts=True)[1].tolist() == [6, 6]
    assert len(set(indicator[every(task, "train")["maze"]])) == 2


def test_an_episode_is_a_function_of_its_split_and_index():
    task, again, other = maze(), maze(), maze(seed=1)
    whole = every(task, "train")
    part = again.examples("train", np.array([7, 3, 150]))
    for name, value in part.items():
        assert (value == whole[name][[7, 3, 150]]).all()
    assert (every(other, "train")["seed"] != whole["seed"]).any()
    assert len(np.unique(whole["seed"])) == 200
    assert not set(every(task, "valid")["seed"]) & set(whole["seed"])


def test_the_shape_says_what_an_agent_must_know():
    shape = maze(train_lengths="5", test_lengths="60").shape
    assert (shape.mazes, shape.codes, shape.steps) == (4, 7, 50)  # training's own limit


@pytest.mark.skipif(not ARCHIVE.exists(), reason="needs the archive of mazes")
def test_random_mazes_hold_a_tenth_of_the_first_set_out_and_test_on_the_two_others():
    task = maze(kind="single_indicator", data_dir=str(ARCHIVE), train=5000, valid=1000, test=1000)
    train, valid, test = (set(every(task, split)["maze"]) for split in ("train", "valid", "test"))
    assert train <= set(range(900)) and valid == set(range(900, 1000)) and test == set(range(1000, 3000))
    assert len(train) > 850
    names = task.shape.tags["mazes"]
    assert [names[value] for value in every(task, "test")["mazes"][[0, 999, 1000]]] == [*[names[1]] * 2, names[2]]
    assert task.shape.steps == 50 and int(task.mazes.limit[2999]) == 100


@pytest.mark.skipif(not ARCHIVE.exists(), reason="needs the archive of mazes")
def test_with_generated_mazes_the_whole_first_set_is_held_out():
    task = maze(kind="single_indicator", data_dir=str(ARCHIVE), generated=60, train=2000, valid=2000, test=2)
    train, valid, test = (set(every(task, split)["maze"]) for split in ("train", "valid", "test"))
    assert train == set(range(3000, 3060)) and valid <= set(range(1000)) and test == {1000, 1001, 2000, 2001}
    assert task.shape.tags["mazes"][3] == "generated" and task.shape.steps == 50


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"generated": -1}, r"^generated must be from 0"),
        ({"generated": 5}, "generated is for random mazes"),
        ({"train": 0}, r"^train must be at least 1"),
        ({"train_lengths": "5,x"}, r"^train_lengths must be whole numbers with commas"),
        ({"test_lengths": "7,5"}, r"^test_lengths must rise from 3 on: 7,5"),
        ({"test_lengths": "2"}, "must rise from 3 on"),
        ({"test_lengths": "5,99999999999999999999"}, "at most 10000 cells of a corridor"),
        ({"train_lengths": "5,501"}, "train_lengths may be at most 500 cells of a corridor"),
        ({"kind": "single_indicator", "data_dir": "nowhere"}, "there is no file nowhere"),
        ({"seed": -1}, r"^seed must be in"),
    ],
)
def test_what_cannot_be_is_one_clear_line(changes, words):
    with pytest.raises(MemjaxError, match=words) as caught:
        maze(**changes)
    assert "\n" not in str(caught.value)


def test_a_maze_that_there_is_not_is_refused():
    task = maze()
    batch = every(task, "train")
    with pytest.raises(MemjaxError, match="the mazes are from"):
        tasks.check_batch(task.shape, batch | {"maze": batch["maze"] + 100})
    with pytest.raises(MemjaxError, match=r"must be in \[0, 200\) for the train split"):
        task.examples("train", np.array([200]))
