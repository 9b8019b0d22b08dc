"""Whether a run notices that other data lies in the place of what it learns from.

Slips that were tried: checkpoints that lie elsewhere not looked at; the order of words; floats among the digests.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from training.tiny import tiny

from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.training.data_digests import changed_data, data_digests, keep_data_digests


class Words:
    """Examples of a few numbers that stand for words."""

    def __init__(self, numbers=range(8), vocabulary=("a", "b"), scale=1.0):
        self.numbers, self.vocabulary, self.scale = np.asarray(numbers), vocabulary, scale
        self.shape, self.notes = SimpleNamespace(tags={}), ()

    def size(self, split):
        return len(self.numbers) if split == "train" else 2

    def examples(self, split, indices):
        return {"label": self.numbers[indices], "width": self.scale * np.ones(len(indices))}


def run(task, **changes):
    return prepare(tiny(**changes))._replace(task=task)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_other_examples_are_told_and_other_words_refused(elsewhere, tmp_path, capsys):
    folder, place = tmp_path / "run", tmp_path / "checkpoints" / "run" if elsewhere else tmp_path / "run"
    folder.mkdir()
    place.mkdir(parents=True, exist_ok=True)
    changes = {"training__checkpoints": str(place.parent)} if elsewhere else {}
    keep_data_digests(run(Words(range(1, 9)), **changes), folder)
    keep_data_digests(run(Words(), **changes), folder)  # nothing was learned yet
    (place / "train" / "2").mkdir(parents=True)
    assert changed_data(run(Words(), **changes), folder) == ""
    assert changed_data(run(Words(scale=2.0), **changes), folder) == ""  # a last bit of a float is no other data
    other = run(Words([0, 1, 2, 3, 4, 5, 6, 9]), **changes)
    for _ in range(2):  # and does not forget what it learned from
        keep_data_digests(other, folder)
        assert "began to learn (train is another)" in capsys.readouterr().err
    assert "train is another" in changed_data(run(Words(range(7)), **changes), folder)
    with pytest.raises(MemjaxError, match="would mean something else"):
        keep_data_digests(run(Words(vocabulary=("b", "a")), **changes), folder)
    if elsewhere:  # the run folder is lost
        (folder / "data.json").unlink()
        assert "train is another" in changed_data(other, folder)


def test_other_settings_of_the_task_give_other_examples_without_a_word(tmp_path):
    keep_data_digests(run(Words()), tmp_path)
    (tmp_path / "train" / "2").mkdir(parents=True)
    assert changed_data(run(Words(range(5)), task__seed=3), tmp_path) == ""


def test_a_run_of_a_version_without_digests_is_taken_as_it_is(tmp_path):
    (tmp_path / "train" / "2").mkdir(parents=True)
    keep_data_digests(run(Words()), tmp_path)
    assert not (tmp_path / "data.json").exists() and changed_data(run(Words()), tmp_path) == ""


@pytest.mark.parametrize("vocabulary", [{"b", "a"}, object(), len, None])
def test_what_is_no_list_of_words_is_passed_over(vocabulary):
    assert "vocabulary" not in data_digests(run(Words(vocabulary=vocabulary)))
