"""A memory in words: what it is told is the stream that the task would have given, and its answer the model's."""

import types

import jax.numpy as jnp
import numpy as np
import pytest
from models.asking import memory
from oracles.checking import assert_close, assert_same
from training.tiny import mapping, random_params

from memjax import streaming
from memjax.config import from_mapping
from memjax.conversation import Conversation, open_run
from memjax.errors import MemjaxError
from memjax.models import AskedMemory, DirectlyReason
from memjax.tasks import TaskShape
from memjax.training import experiment

WORDS = ("<pad>", "<unknown>", "bathroom", "garden", "in", "is", "kitchen", "mary", "the", "went", "where", "zoë")
ANSWERS = ("bathroom", "garden", "kitchen")
SHAPE = TaskShape(len(WORDS), 4, 5, len(WORDS), 4, "classes", len(ANSWERS))
TASK = types.SimpleNamespace(shape=SHAPE, vocabulary=WORDS, answers=ANSWERS)


@pytest.fixture(scope="module")
def system():
    model = AskedMemory(SHAPE, memory(segment=5), 8, 2, 1, 1, 2)
    example = {"stream": np.ones((4, 5), int), "mask": np.ones((4, 5), bool), "query": np.ones(4, int), "label": 0}
    return model, random_params(model, example)


@pytest.fixture
def told(system):
    return Conversation(TASK, *system)


def test_what_is_told_and_asked_are_the_ids_of_its_words(told, system):
    told.tell("Mary went in the KITCHEN.\nZoë is in the garden!  Mary is in the bathroom")
    stream = jnp.array([[[7, 9, 4, 8, 6], [11, 5, 4, 8, 3], [7, 5, 4, 8, 2]]])
    model, params = system
    states = streaming.write(model, params, streaming.start(model, params, 1), [0], stream, jnp.ones((1, 3, 5), bool))
    assert_close(told.states, states, 1e-5)
    logits = streaming.answer(model, params, told.states, [0], jnp.array([[10, 5, 7, 0]]))
    assert told.ask("Where is Mary?") == ANSWERS[int(logits[0].argmax())]
    before = told.states
    told.ask("Where is Zoe\u0308?")  # two characters for one
    assert_same(told.states, before)


def test_answers_differ_by_what_was_told(told):
    """Not trained: but not the same whatever is said."""
    found = set()
    for place in ANSWERS:
        told.start_over()
        told.tell(f"mary is in the {place}. " * 3)
        found.add(tuple(np.asarray(told.states[0]).ravel()))
    assert len(found) == 3


def test_in_turns_as_at_once(told, system):
    other = Conversation(TASK, *system)
    other.tell("mary is in the garden. zoë is in the kitchen")
    told.tell("mary is in the garden")
    told.tell("zoë is in the kitchen")
    assert_close(told.states, other.states, 1e-5)
    told.start_over()
    assert_same(told.states, streaming.start(*system, 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mary is in the kitchn", "not trained on the word 'kitchn'; did you mean 'kitchen'.$"),
        ("Mary is in the garden. xyzzy", "not trained on the word 'xyzzy'; it knows 10 words"),
        ("mary <pad>", "not trained on the word 'pad'"),
        ("mary went in the garden the", "a sentence has 6 words, this model reads at most 5; say it in two"),
        (" ...", r"there is no word in ' ...'"),
        ("", "there is no word in ''"),
        (None, "a text is a str, not a NoneType"),
        (b"mary", "a text is a str, not a bytes"),
    ],
)
def test_a_text_that_cannot_be_read_is_one_line_and_nothing_of_it_is_read(told, unchecked, text, words):
    before = told.states
    with pytest.raises(MemjaxError, match=words):
        told.tell(text)
    assert_same(told.states, before)
    with pytest.raises(MemjaxError):
        told.ask(text)
    assert_same(told.states, before)


def test_a_question_that_is_too_long_is_one_line(told):
    with pytest.raises(MemjaxError, match=r"^the question has 5 words, this model reads at most 4$"):
        told.ask("where is mary in the")


def test_only_memories_of_tasks_in_words_can_be_talked_to(system, unchecked):
    ids = types.SimpleNamespace(shape=TaskShape(9, 4, 5, 9, None, "classes", 3))
    with pytest.raises(MemjaxError, match=r"is no task of words; memjax.streaming writes and asks with ids"):
        Conversation(ids, *system)
    with pytest.raises(MemjaxError, match="a DirectlyReason keeps no state that can be told more"):
        Conversation(TASK, DirectlyReason(SHAPE, 8, 1, jnp.float32), {})


STORY = """1 Mary went to the {0}.
2 John went to the {1}.
3 Where is Mary? \t{0}\t1
4 Where is John? \t{1}\t2
"""
PLACES = ("kitchen", "garden", "hall")


@pytest.mark.slow
def test_a_run_is_told_its_own_stories_and_answers_as_its_model(tmp_path):
    from rich.console import Console

    from memjax.tasks.builders.babi import prepare

    raw = tmp_path / "raw" / "mine"
    raw.mkdir(parents=True)
    stories = "".join(STORY.format(a, b) for a in PLACES for b in PLACES)
    for split in ("train", "test"):
        (raw / f"qa1_single_{split}.txt").write_text(stories * 2)
    prepare(raw.parent, tmp_path / "data")
    sizes = {"model.width": 8, "memory.slots": 3, "memory.layers": 1, "memory.heads": 2, "rehearsal.layers": 1}
    sizes |= {"rehearsal.heads": 2, "rehearsal.fragments": 2, "rehearsal.sampler": "random", "training.batch_size": 8}
    sizes |= {
        "training.steps": 2,
        "training.checkpoint_every": 2,
        "training.validate_every": 2,
        "optimizer.warmup_steps": 1,
    }
    settings = mapping("rehearsal,task=1,folder=mine", "babi", sizes, task__data_dir=str(tmp_path / "data"))
    prepared = experiment.prepare(from_mapping(settings))
    experiment.train(prepared, tmp_path / "run", Console(quiet=True))

    told, task = open_run(tmp_path / "run"), prepared.task
    batch = task.examples("test", np.arange(8))
    model, params = experiment.trained_model(tmp_path / "run")
    states = streaming.start(model, params, 8)
    states = streaming.write(model, params, states, np.arange(8), batch["stream"], batch["mask"])
    wanted = np.asarray(streaming.answer(model, params, states, np.arange(8), batch["query"])).argmax(1)
    for i in range(8):
        told.start_over()
        for sentence in batch["stream"][i][batch["mask"][i].any(1)]:
            told.tell(" ".join(task.vocabulary[word] for word in sentence if word))
        assert (
            told.ask(" ".join(task.vocabulary[word] for word in batch["query"][i] if word)) == task.answers[wanted[i]]
        )
