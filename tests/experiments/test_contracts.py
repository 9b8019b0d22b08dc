"""A task of somebody else's that does not keep its contract: one line that says what is wrong, before compiling."""

import dataclasses
import json
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from memjax import memories, tasks
from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.memories import Memory, Slots
from memjax.tasks import SequenceShape, TaskShape
from memjax.training import experiment

SHAPE = TaskShape(9, 3, 2, 9, None, "classes", 4, {"half": ("early", "later")})


@dataclass(frozen=True)
class ToldSpec:
    train: int = 32

    def __post_init__(self):
        if self.train < 8:
            raise MemjaxError(f"train must be at least 8, not {self.train}")


class Told:
    """A right task; the tests spoil it."""

    notes, shape = (), SHAPE
    changed = staticmethod(lambda batch: batch)

    def __init__(self, spec):
        self.spec = spec

    def size(self, split):
        return self.spec.train

    def examples(self, split, indices):
        rows = np.asarray(indices)
        stream = (rows[:, None, None] + np.arange(6).reshape(3, 2)) % 9
        batch = {"stream": stream, "mask": np.ones_like(stream, bool), "query": rows % 9, "label": rows % 4}
        return self.changed({**batch, "half": rows % 2})


def without(batch, name):
    return {key: x for key, x in batch.items() if key != name}


@pytest.fixture
def told(monkeypatch):
    """Registers a task, for one test, by the class; the config that trains it."""

    def register(task, **spec):
        monkeypatch.setitem(tasks.registry, "told", tasks.registry["evidence"]._replace(spec=ToldSpec, make=task))
        memory, training = {"name": "memn2n", "slots": 2}, {"steps": 2, "batch_size": 8}
        settings = {"system": "memory", "memory": memory, "training": training, "model": {"width": 8}}
        settings["rehearsal"] = {"fragments": 0}
        return settings | {"task": {"name": "told", **spec}}

    return register


def refused(settings):
    with pytest.raises(MemjaxError) as caught:
        prepare(from_mapping(settings))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_right_one_is_taken(told):
    assert prepare(from_mapping(told(Told))).task_name == "told"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: without(b, "query"), "a batch lacks query; it has half, label, mask, stream"),
        (lambda b: without(b, "half"), "a batch lacks half"),
        (lambda b: b | {"label": b["label"] + 1}, "the labels are from 1 to 4; they must be in [-1, 4)"),
        (lambda b: b | {"stream": b["stream"] + 1}, "the stream has item ids from 1 to 9; they must be in [0, 9)"),
        (lambda b: b | {"stream": b["stream"][:, :2]}, "must be [B, 3, 2], as the task's shape says, not [8, 2, 2]"),
        (lambda b: b | {"mask": b["mask"].astype(int)}, "the mask must be of true and false, not int64"),
        (lambda b: b | {"query": b["query"][:, None]}, "query must be [B], not [8, 1]"),
        (lambda b: b | {"query": b["query"] * 1.0}, "they must be whole numbers"),
        (lambda b: b | {"label": list(b["label"])}, "label of a batch must be NumPy arrays"),
        (lambda b: b | {"tags": {"half": b["half"]}}, "tags of a batch must be NumPy arrays"),
        (lambda b: None, "the examples of the task told must be a dict of arrays, not None"),
        (lambda b: b | {"half": b["half"] + 1}, "the tag half is from 1 to 2"),
    ],
)
def test_a_batch_that_is_not_what_the_shape_says_is_one_line(told, change, words):
    spoiled = type("Spoiled", (Told,), {"changed": staticmethod(change)})
    assert words in refused(told(spoiled))


def test_a_shape_that_changes_later_in_the_data_is_one_line_too(told, tmp_path):
    class Changing(Told):
        def examples(self, split, indices):
            batch = super().examples(split, indices)
            return batch if max(indices) < 16 else batch | {"stream": batch["stream"][:, :, :1]}

    prepared = prepare(from_mapping(told(Changing)))
    with pytest.raises(MemjaxError, match=r"must be \[B, 3, 2\]") as caught:
        experiment.train(prepared, tmp_path / "run", Console(quiet=True))
    assert "\n" not in str(caught.value)


class Averages(Memory):
    """Slot k is the mean of what came at place k of a segment: nothing is learned."""

    width: int

    def initial_state(self):
        return jnp.zeros((self.num_slots, self.width)), jnp.zeros(self.num_slots)

    def write(self, state, features, mask, *, key=None):
        return (state[0] + jnp.where(mask[:, None], features, 0), state[1] + mask), jnp.zeros(())

    def slots(self, state):
        return Slots(state[0] / jnp.maximum(state[1], 1)[:, None], state[1] > 0)


def test_a_memory_without_parameters_is_tested_on_a_task_with_one_question(told, tmp_path, monkeypatch):
    class OneQuestion(Told):
        shape = dataclasses.replace(SHAPE, queries=1)

        def examples(self, split, indices):
            rows = np.asarray(indices)
            label = np.where((split == "test") & (rows < 3), -1, rows % 4)  # three answers that no class is
            return super().examples(split, rows) | {"query": np.zeros(len(rows), int), "label": label}

    monkeypatch.setitem(memories.registry, "averages", Averages)
    settings = told(OneQuestion)
    settings["memory"]["name"] = "averages"
    prepared = prepare(from_mapping(settings))
    experiment.train(prepared, tmp_path / "run", Console(quiet=True))
    experiment.evaluate(prepared, tmp_path / "run", "test", "evaluation.json", "memjax evaluate")
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert found["step"] == 2 and found["state_bytes"] == 4 * (2 * 8 + 2)
    assert found["notes"] == ["3 of 32 answers are none that train has: they are errors"]


def test_buckets_want_a_task_that_says_its_lengths(told):
    class Lengthy(Told):
        def lengths(self, split):
            return np.full(self.size(split), 3)

    for task, buckets in ((Told, 1), (Lengthy, 1), (Lengthy, 4)):
        settings = told(task)
        settings["training"]["buckets"] = buckets
        assert prepare(from_mapping(settings)).recipe.layout.buckets == buckets
    settings = told(Told)
    settings["training"]["buckets"] = 4
    assert refused(settings).endswith("set config.training.buckets to 1")


@pytest.mark.parametrize("missing", ["shape", "notes", "size", "examples"])
def test_a_task_that_lacks_a_part_is_one_line(told, missing):
    parts = {name: getattr(Told, name) for name in ("shape", "notes", "size", "examples") if name != missing}
    lacking = type(
        "Lacking", (), {"__init__": lambda self, spec: setattr(self, "spec", spec), **parts, "changed": None}
    )
    assert f"the task told lacks {missing}" in refused(told(lacking))


def test_a_shape_of_another_family_is_one_line(told):
    other = type("Other", (Told,), {"shape": SequenceShape(9, 4)})
    assert "must be a TaskShape, as its family stream_qa has, not SequenceShape" in refused(told(other))


def test_a_spec_checks_itself_and_the_path_is_put_in_front(told):
    assert refused(told(Told, train=3)) == "config.task.train must be at least 8, not 3"


def test_a_family_that_there_is_not_is_one_line(told, monkeypatch):
    settings = told(Told)
    monkeypatch.setitem(tasks.registry, "told", tasks.registry["told"]._replace(family="stream_qs"))
    assert "did you mean 'stream_qa'?" in refused(settings)


@pytest.mark.parametrize(
    ("register", "words"),
    [
        (lambda: tasks.register_task("evidence", ToldSpec, Told), "there is a task 'evidence' already"),
        (lambda: tasks.register_task("told", dict, Told), "must be a dataclass"),
        (lambda: tasks.register_task("told", ToldSpec(), Told), "must be a dataclass"),
        (lambda: tasks.register_task("my task", ToldSpec, Told), "must be one word"),
        (lambda: tasks.register_task("told", ToldSpec, "Told"), "must be a class or a function"),
        (lambda: memories.register_memory("told", Told), "Memory"),
    ],
)
def test_what_cannot_be_registered_is_one_line_and_leaves_nothing(register, words, unchecked):
    before = dict(tasks.registry), dict(memories.registry)
    with pytest.raises(MemjaxError, match=words) as caught:
        register()
    assert "\n" not in str(caught.value) and (tasks.registry, memories.registry) == before
