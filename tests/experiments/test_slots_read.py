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
from memjax.experiments.stream_qa import build, slot_changes, slots_read

FILMS = {
    "task.frames": 48, "task.features": 32, "task.asked": 2, "task.train": 40, "task.valid": 3, "task.test": 3,
    "model.width": 8, "memory.slots": 4, "memory.heads": 2,
}  # fmt: skip


@functools.cache
def made(name):
    prepared = prepare(tiny() if name == "evidence" else from_mapping(mapping("shapes", "video", FILMS)))
    task = prepared.task
    model = build(prepared.config, task.shape)
    example = {name: value[0] for name, value in task.examples("train", np.arange(1)).items()}
    params = random_params(model, example)
    return prepared, model, params, slots_read(model, params, task, "test")


@pytest.mark.parametrize("name", ["evidence", "video"])
def test_the_weights_and_the_answer_are_the_readers_own_and_changes_those_of_the_stream(name):
    prepared, model, params, found = made(name)
    task, size = prepared.task, prepared.task.size("test")
    assert len(found) == 3
    for number, told in enumerate(found):
        index = number * size // 3
        batch = task.examples("test", np.array([index]))
        place = (2 * number + 1) * batch["asked"].sum() // 6 if "asked" in batch else None
        query, label = (x[0] if place is None else x[0, 0][place] for x in (batch["query"], batch["label"]))
        slots, _ = jax.jit(functools.partial(model.apply, method="memorize"))(
            params, batch["stream"][0], batch["mask"][0]
        )
        logits = model.apply(params, slots, jnp.asarray(query), method="answer")
        weights = model.apply(params, slots, jnp.asarray(query), method="read_weights")
        names = getattr(task, "answers", range(task.shape.classes))
        assert told["answer"] == str(names[label]) and told["given"] == str(names[int(logits.argmax())])
        np.testing.assert_allclose(told["weights"], weights, atol=1e-4)
        np.testing.assert_allclose(np.sum(told["weights"], axis=1), 1, atol=1e-3)
        one = SimpleNamespace(
            shape=task.shape, notes=(), size=lambda split: 1, examples=lambda split, indices, batch=batch: batch
        )
        alone = slot_changes(model, params, one, layout_of(task), "test", 1)
        np.testing.assert_allclose(told["changes"], alone, atol=1e-3)


def test_a_film_is_there_to_be_looked_at_with_the_segments_that_show_the_answer():
    prepared, _, _, found = made("video")
    for number, told in enumerate(found):
        pictures = prepared.task.pictures("test", number)
        packed = zlib.decompress(base64.b64decode(told["pictures"]))
        np.testing.assert_array_equal(np.frombuffer(packed, np.uint8).reshape(told["shape"]), pictures)
        asked = [question for _, question in prepared.task.questions("test", number)]
        place = (2 * number + 1) * len(asked) // 6
        assert told["question"] == asked[place].text
        assert told["seen"] == prepared.task.seen("test", number)[place]


def test_a_stream_that_is_no_film_has_no_pictures():
    assert not any("pictures" in told or "seen" in told for told in made("evidence")[-1])
