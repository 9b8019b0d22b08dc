"""Single questions of a test: the slots that answer them, what wrote these, and the segments that show the answer."""

import base64
import functools
import zlib
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training.tiny import layout_of, mapping, random_params, tiny

from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.experiments.stream_qa import build, changes_by_segment, read_examples, shown_slots, slot_changes, slots_read
from memjax.experiments.stream_qa.shown_examples import answer_text, question_text, shown_examples
from memjax.tasks import TaskShape

FILMS = {
    "task.frames": 48, "task.features": 32, "task.asked": 2, "task.train": 40, "task.valid": 3, "task.test": 6,
    "model.width": 8, "memory.slots": 4, "memory.heads": 2,
}  # fmt: skip


@functools.cache
def made(name):
    """(task, model, parameters, a batch of five test examples, their indices, what is told of three questions)."""
    prepared = prepare(tiny() if name == "evidence" else from_mapping(mapping("shapes", "video", FILMS)))
    task = prepared.task
    model = build(prepared.config, task.shape)
    example = {name: value[0] for name, value in task.examples("train", np.arange(1)).items()}
    params = random_params(model, example)
    batch, indices = read_examples(task, layout_of(task), "test", 5)
    changed = changes_by_segment(model, params, batch)
    return task, model, params, batch, indices, slots_read(model, params, task, "test", batch, indices, changed)


@pytest.mark.parametrize("name", ["evidence", "video"])
def test_the_weights_and_the_answer_are_the_readers_own_and_changes_those_of_the_stream(name):
    task, model, params, batch, _, found = made(name)
    assert len(found) == 3
    for number, told in enumerate(found):
        row = number * 5 // 3
        place = (2 * number + 1) * batch["asked"][row].sum() // 6 if "asked" in batch else None
        query, label = (x[row] if place is None else x[row, 0][place] for x in (batch["query"], batch["label"]))
        slots, _ = jax.jit(functools.partial(model.apply, method="memorize"))(
            params, batch["stream"][row], batch["mask"][row]
        )
        logits = model.apply(params, slots, jnp.asarray(query), method="answer")
        weights = model.apply(params, slots, jnp.asarray(query), method="read_weights")
        names = getattr(task, "answers", range(task.shape.classes))
        assert told["answer"] == str(names[label]) and told["given"] == str(names[int(logits.argmax())])
        np.testing.assert_allclose(told["weights"], weights, atol=1e-4)
        np.testing.assert_allclose(np.sum(told["weights"], axis=1), 1, atol=1e-3)
        alone = {name: x[row : row + 1] for name, x in batch.items()}
        expected = slot_changes(changes_by_segment(model, params, alone), alone["mask"])
        np.testing.assert_allclose(told["changes"], expected, atol=1e-3)


def test_of_a_stream_that_is_asked_on_the_way_only_what_came_before_is_told():
    task, model, params, batch, indices, _ = made("video")
    early = batch | {"after": np.full_like(batch["after"], 2)}
    changed = changes_by_segment(model, params, batch)
    found = slots_read(model, params, task, "test", early, indices, changed)
    mask = batch["mask"] & (np.arange(batch["mask"].shape[1]) < 2)[:, None]
    for number, told in enumerate(found):
        row = number * 5 // 3
        assert len(told["changes"]) == 2
        slots, _ = model.apply(params, jnp.asarray(batch["stream"][row]), jnp.asarray(mask[row]), method="memorize")
        query = batch["query"][row, 0][(2 * number + 1) * batch["asked"][row].sum() // 6]
        weights = model.apply(params, slots, jnp.asarray(query), method="read_weights")
        np.testing.assert_allclose(told["weights"], weights, atol=1e-4)


def test_what_is_asked_before_anything_was_read_is_not_told():
    task, model, params, batch, indices, _ = made("video")
    changed = changes_by_segment(model, params, batch)
    nothing = batch | {"after": np.zeros_like(batch["after"])}
    assert slots_read(model, params, task, "test", nothing, indices, changed) == []
    # Asked twice, the first time before anything was read: the second time is told.
    twice = {name: np.repeat(batch[name], 2, axis=1) for name in ("after", "asked", "query", "label")}
    twice["after"][:, 0] = 0
    same = {name: getattr(task, name) for name in ("shape", "notes", "size", "examples", "vocabulary", "answers")}
    unseen = SimpleNamespace(**same)  # no film: its questions are told by their numbers
    found = slots_read(model, params, unseen, "test", batch | twice, indices, changed)
    expected = slots_read(model, params, unseen, "test", batch, indices, changed)
    assert [(one["question"], one["changes"]) for one in found] == [(x["question"], x["changes"]) for x in expected]


def test_a_map_of_too_many_numbers_is_left_out(monkeypatch):
    task, model, params, batch, indices, _ = made("video")
    changed = changes_by_segment(model, params, batch)
    monkeypatch.setattr(shown_slots, "MOST", changed[0].size - 1)
    assert slots_read(model, params, task, "test", batch, indices, changed) == []
    monkeypatch.setattr(shown_slots, "MOST", changed[0].size)
    monkeypatch.setattr(shown_slots, "MOST_PICTURES", 2)
    found = slots_read(model, params, task, "test", batch, indices, changed)
    assert found and all("seen" in told and "pictures" not in told for told in found)


def test_a_film_is_there_to_be_looked_at_with_the_segments_that_show_the_answer():
    task, _, _, _, indices, found = made("video")
    for number, told in enumerate(found):
        index = int(indices[number * 5 // 3])
        packed = zlib.decompress(base64.b64decode(told["pictures"]))
        film = np.frombuffer(packed, np.uint8).reshape(told["shape"])
        asked = [question for _, question in task.questions("test", index)]
        place = (2 * number + 1) * len(asked) // 6
        pictures, seen = task.pictured("test", index, place)
        np.testing.assert_array_equal(film, pictures)
        assert told["question"] == asked[place].text and told["seen"] == seen


def test_a_stream_that_is_no_film_has_no_pictures():
    assert not any("pictures" in told or "seen" in told for told in made("evidence")[-1])


def test_questions_that_are_items_and_clicks_are_told_in_words():
    shape = TaskShape(3, 2, 2, 3, None, "click", 2, query_is_item=True)
    items = SimpleNamespace(shape=shape, notes=(), size=len, examples=len, vocabulary=(11, 12, 13))
    plain = SimpleNamespace(shape=shape, notes=(), size=len, examples=len)
    assert [question_text(items, np.int32(id)) for id in range(3)] == ["11", "12", "13"]
    assert [question_text(plain, np.int32(id)) for id in range(3)] == ["0", "1", "2"]
    assert [answer_text(items, label) for label in (0, 1, -1)] == ["no", "yes", "(no answer of train)"]


def test_confusions_are_of_each_right_answer_what_was_given():
    shape = TaskShape(3, 1, 1, 3, None, "classes", 2)
    batch = {"label": np.array([0, 0, 1]), "query": np.array([0, 1, 2])}
    task = SimpleNamespace(
        shape=shape, notes=(), size=lambda split: 3, answers=("a", "b"),
        examples=lambda split, indices: {name: x[indices] for name, x in batch.items()},
    )  # fmt: skip
    found = shown_examples(task, "test", np.array([1, 1, 1]))
    assert found["confusions"] == {"a": {"b": 2}, "b": {"b": 1}}
