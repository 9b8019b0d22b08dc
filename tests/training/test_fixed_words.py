"""One embedding of words for stream, question and candidates; and one that the task makes of its texts, not trained."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import choosing
from models.asking import WIDTH, memory
from models.choosing import CANDIDATES, ITEMS, MASK, QUERY, SHAPE, STREAM
from oracles.checking import assert_same
from training.tiny import flags, mapping, random_params

from memjax import cli, tasks
from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare, trained_model
from memjax.experiments.reading import from_mapping, read_config
from memjax.models import DirectlyReason, HistorySampler, MemoryModel, MultiHopReason
from memjax.tasks.dialogue_files import DREAM

EXAMPLE = {"stream": STREAM, "mask": MASK, "query": QUERY, "candidates": CANDIDATES}
MODELS = {
    "memory": lambda shared: MemoryModel(SHAPE, memory(), WIDTH, 2, 1, 1, 2, shared_words=shared),
    "directly": lambda shared: DirectlyReason(SHAPE, WIDTH, 0, np.float32, shared_words=shared),
    "multi_hop": lambda shared: MultiHopReason(SHAPE, WIDTH, 0, np.float32, 2, shared_words=shared),
    "sampler": lambda shared: HistorySampler(SHAPE, WIDTH, 0, np.float32, shared_words=shared),
}
TURNS = ["M: where is the cat?", "W: the cat is in the garden.", "M: the dog is in the house.", "W: and the bird?"]
ASKED = [{"question": "Where is the cat?", "choice": ["The garden.", "The house."], "answer": "The garden."}]
SIZES = {
    "training.steps": 3,
    "training.sampler_steps": 2,
    "training.batch_size": 8,
    "model.width": 8,
    "memory.slots": 4,
}


def answered(model, params):
    return choosing.answered(model, params, STREAM, MASK, QUERY, CANDIDATES)


@pytest.mark.parametrize("name", MODELS)
def test_a_shared_embedding_is_as_three_that_are_the_same(name):
    own, shared = MODELS[name](False), MODELS[name](True)
    params = random_params(shared, EXAMPLE)
    table = params["params"]["embed"]
    assert table["embedding"].shape == (ITEMS, WIDTH)
    flat = [path for path, _ in jax.tree.leaves_with_path(params) if "embedding" in jax.tree_util.keystr(path)]
    assert len(flat) == 1
    three = jax.tree.map(lambda x: x, params)
    three["params"]["query"]["embed"] = table
    three["params"]["head"]["score"]["QueryEncoder_0"]["embed"] = table
    assert_same(answered(shared, params), answered(own, three))
    other = random_params(own, EXAMPLE)["params"]["query"]["embed"]
    assert (answered(own, {"params": {**three["params"], "query": {**three["params"]["query"], "embed": other}}}) !=
            answered(own, three)).any()  # fmt: skip


def write_dream(root):
    """Eight dialogues of each split, in DREAM's files."""
    (root / "dream").mkdir()
    for split, name in DREAM.items():
        (root / "dream" / name).write_text(json.dumps([[TURNS, ASKED, f"{split}-{i}"] for i in range(8)]))
    return root


@pytest.fixture
def folder(tmp_path):
    return write_dream(tmp_path)


def config(folder, arg="dream", **changes):
    return from_mapping(mapping(arg, "dialogues", SIZES, task__data_dir=str(folder), task__least=1, **changes))


def began_and_stepped(made):
    """(parameters at the start, gradient of the loss) of each phase."""
    task, recipe = made.task, made.recipe
    batch = recipe.layout.extend(jax.tree.map(jnp.asarray, recipe.layout.trim(task.examples("train", np.arange(6)))))
    frozen = None
    for phase in recipe.phases:
        params = phase.init(jax.random.key(0), jax.tree.map(lambda x: x[0], batch))
        keys = jax.random.split(jax.random.key(1), 6)
        slopes = jax.jit(jax.grad(phase.loss, has_aux=True))
        yield params, slopes(params, frozen, {**batch, "key": keys})[0]
        frozen = params


@pytest.mark.parametrize("words", ["shared", "fixed"])
def test_fixed_words_are_the_tasks_vectors_and_are_not_trained_by_sampler_or_memory(folder, words):
    made = prepare(config(folder, model__words=words))
    vectors = made.task.word_vectors(8)
    assert vectors.shape == (made.task.shape.items, 8) and len(made.recipe.phases) == 2
    for params, gradient in began_and_stepped(made):
        table, slope = params["params"]["embed"]["embedding"], gradient["params"]["embed"]["embedding"]
        assert (np.asarray(table) == vectors).all() == (words == "fixed")
        assert np.any(slope) == (words != "fixed")
        assert np.any(gradient["params"]["head"]["score"]["QueryEncoder_0"]["text"]["rightward_w_x"])
        assert "embed" not in params["params"]["query"]


def test_a_trained_run_still_has_the_vectors_and_is_evaluated_anew(folder, tmp_path, capsys):
    run = tmp_path / "run"
    sizes = flags(SIZES | {"task.least": 1, "rehearsal.fragments": 0, "training.checkpoint_every": 3})
    command = ["train", "--config=configs/dialogues.py:dream", f"--data_dir={folder}", f"--run={run}", *sizes]
    assert cli.main(command) == 0, capsys.readouterr().err
    _, params = trained_model(run)
    vectors = prepare(read_config(run)).task.word_vectors(8)
    assert_same(params["params"]["embed"]["embedding"], vectors)
    first = json.loads((run / "evaluation.json").read_text())["metrics"]
    assert cli.main(["evaluate", str(run)]) == 0, capsys.readouterr().err
    assert json.loads((run / "evaluation.json").read_text())["metrics"] == first


def test_vectors_are_of_train_its_questions_and_answers(folder):
    task = prepare(config(folder)).task
    assert np.any(task.word_vectors(4)[task.vocabulary.index("garden")])
    ids = {word: place for place, word in enumerate(task.vocabulary)}
    said = "m where is the cat w the cat is in the garden m the dog is in the house w and the bird"
    text = f"{said} where is the cat the garden the house".split()
    expected = tasks.word_vectors([np.array([ids[word] for word in text])] * 8, len(ids), 4)
    assert_same(task.word_vectors(4), expected)


def test_what_has_no_such_words_is_one_clear_line(folder, monkeypatch):
    with pytest.raises(MemjaxError, match=r"config.model.words=shared is for tasks whose questions are texts of the"):
        prepare(from_mapping(mapping(model__words="shared")))
    monkeypatch.delattr(tasks.Dialogues, "word_vectors")
    with pytest.raises(MemjaxError, match=r"makes no vectors of its words .*model.words=shared, or own"):
        prepare(config(folder, model__words="fixed"))
