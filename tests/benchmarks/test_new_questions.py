"""New questions of a frozen memory: nothing but a reader is trained, and its answers are counted."""

import json

import jax
import new_questions
import numpy as np
import pytest
from rich.console import Console
from training.tiny import tiny

from memjax.experiments.arguments import read_settings
from memjax.experiments.prepare import prepare, trained_model
from memjax.tasks.evidence import Evidence
from memjax.training import experiment
from memjax.training.phase import load_phase


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that began with learned embeddings, and its task's spec."""
    folder = tmp_path_factory.mktemp("runs") / "small" / "rehearsal-0"
    made = prepare(tiny("demo", model__embeddings="sampler"))
    experiment.train(made, folder, Console(quiet=True))
    return folder, made.config.task


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Few examples, but more than one batch of each."""
    for name, value in (("EXAMPLES", 64), ("TESTED", 32), ("TOGETHER", 16)):
        monkeypatch.setattr(new_questions, name, value)


def parts_that_differ(a, b):
    same = {name: jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), a[name], b[name])) for name in a}
    return {name for name, equal in same.items() if not equal}


def test_only_the_reader_is_trained(run):
    folder, spec = run
    model, params = trained_model(folder)
    task = new_questions.new_task(spec, spec.seed + 1, 64)
    first, later = (new_questions.new_reader(model, params, task, passes, seed=0)["params"] for passes in (0, 2))
    assert parts_that_differ(first, params["params"]) == {"query", "reader", "head"}
    assert parts_that_differ(later, first) == {"query", "reader", "head"}


def test_a_reader_learns(run):
    folder, spec = run
    model, params = trained_model(folder)
    task = new_questions.new_task(spec, spec.seed, 64)
    streams = new_questions.memorized(model, params, task, "train", 64)

    def loss(passes):
        logits = new_questions.answers(
            model, new_questions.new_reader(model, params, task, passes, seed=0), streams.slots, streams.query
        )
        return -jax.nn.log_softmax(logits)[np.arange(len(streams.label)), streams.label].mean()

    assert loss(20) < loss(0) - 0.02


@pytest.mark.parametrize("variant", ["medium", "paper"])
def test_no_new_question_has_the_evidence_of_an_old_one_and_all_streams_are_of_full_length(variant):
    config, _ = read_settings([f"--config=configs/evidence.py:{variant}", "--config.task.shortest=20"])
    spec = config.task
    old, new = Evidence(spec), new_questions.new_task(spec, spec.seed + 1, 1000)
    assert new.shape == old.shape and new.size("train") >= 1000
    assert not {*map(tuple, old.chains.reshape(-1, spec.evidence).tolist())} & {
        *map(tuple, new.chains.reshape(-1, spec.evidence).tolist())
    }
    groups = [chains // (spec.facts // spec.groups) for chains in (old.chains, new.chains)]
    np.testing.assert_array_equal(*groups)
    assert set(new.lengths("train")) == {spec.length // spec.segment}


def test_a_share_is_that_of_the_right_answers_by_half(run):
    folder, spec = run
    model, params = trained_model(folder)
    task = new_questions.new_task(spec, spec.seed, 64)
    found = new_questions.tested(model, params, task)
    batch = task.examples("test", np.arange(32))

    @jax.jit
    def chosen(stream, mask, query):
        slots, _ = model.apply(params, stream, mask, method="memorize")
        return model.apply(params, slots, query, method="answer").argmax()

    asked = zip(*(batch[name] for name in ("stream", "mask", "query")))
    right, early = np.array([int(chosen(*one)) for one in asked]) == batch["label"], batch["half"] == 0
    shares = {"early": right[early].mean(), "later": right[~early].mean(), "all": right.mean()}
    assert found == {name: round(float(share), 4) for name, share in shares.items()}


def test_an_untrained_memory_is_the_one_that_training_began_with(run):
    folder, _ = run
    made = prepare(tiny("demo", model__embeddings="sampler"))
    (sampler, _), began = made.phases, new_questions.first_params(folder)["params"]
    _, learned = load_phase(made, folder, sampler)
    direction = began["embed"]["embedding"] / np.linalg.norm(began["embed"]["embedding"])
    table = learned["params"]["embed"]["embedding"]
    np.testing.assert_allclose(direction, table / np.linalg.norm(table), rtol=1e-5)
    assert parts_that_differ(began, trained_model(folder)[1]["params"]) >= {"memory", "embed"}


def test_what_is_kept_names_each_run_and_its_command(run, tmp_path):
    folder, _ = run
    out = tmp_path / "found.json"
    assert new_questions.main([str(folder), "--passes=1", f"--out={out}"]) == 0
    assert new_questions.main([str(folder), "--passes=1", "--untrained", f"--out={out}"]) == 0
    found = json.loads(out.read_text())["runs"]
    assert list(found) == ["small, rehearsal, seed 0, 1 passes", "small, untrained, seed 0, 1 passes"]
    commands = [entry["command"] for entry in found.values()]
    assert commands[0] == "python benchmarks/new_questions.py runs/small/rehearsal-0 --passes=1"
    assert commands[1] == "python benchmarks/new_questions.py runs/small/rehearsal-0 --untrained --passes=1"


def test_a_folder_that_is_no_run_is_one_line(tmp_path, capsys):
    assert new_questions.main([str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not a run" in line
