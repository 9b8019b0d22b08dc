"""New questions of a frozen memory: nothing but a reader is trained, and its answers are counted."""

import jax
import new_questions
import numpy as np
import pytest
from rich.console import Console
from training.tiny import tiny

from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare, trained_model
from memjax.training import experiment


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "small" / "rehearsal-0"
    made = prepare(tiny("demo", rehearsal__sampler="random"))
    experiment.train(made, folder, Console(quiet=True))
    return folder, made.config.task


def test_only_the_reader_is_trained(run):
    folder, spec = run
    model, params = trained_model(folder)
    task = new_questions.questions(spec, spec.seed + 1, 64)
    learned = new_questions.new_reader(model, params, task, passes=1, seed=0)["params"]
    for name, part in params["params"].items():
        same = jax.tree.map(lambda ours, theirs: bool((ours == theirs).all()), learned[name], part)
        assert all(jax.tree.leaves(same)) == (name not in ("query", "reader", "head")), name


def test_the_questions_are_as_many_and_their_evidence_is_new(run):
    _, spec = run
    old, new = (new_questions.questions(spec, spec.seed + more, 64) for more in (0, 1))
    assert new.shape == old.shape and new.size("train") >= 64
    same = (new.chains == old.chains).all(-1)
    assert same.mean() < 0.2


def test_a_share_is_that_of_the_right_answers_by_half(run, monkeypatch):
    folder, spec = run
    monkeypatch.setattr(new_questions, "TESTED", 32)
    model, params = trained_model(folder)
    task = new_questions.questions(spec, spec.seed, 64)
    found = new_questions.tested(model, params, task)
    batch = task.examples("test", np.arange(32))

    @jax.jit
    def chosen(stream, mask, query):
        slots, _ = model.apply(params, stream, mask, method="memorize")
        return model.apply(params, slots, query, method="answer").argmax()

    right = [
        int(chosen(batch["stream"][row], batch["mask"][row], batch["query"][row])) == batch["label"][row]
        for row in range(32)
    ]
    right, early = np.array(right), batch["half"] == 0
    assert found == {
        "early": round(float(right[early].mean()), 4),
        "later": round(float(right[~early].mean()), 4),
        "all": round(float(right.mean()), 4),
    }


def test_what_is_kept_names_the_run_and_its_command(run, monkeypatch, tmp_path):
    folder, _ = run
    for name, value in (("EXAMPLES", 64), ("TESTED", 64), ("PASSES", 1)):
        monkeypatch.setattr(new_questions, name, value)
    monkeypatch.setattr(
        "sys.argv", ["new_questions.py", str(folder), "--untrained", f"--out={tmp_path / 'found.json'}"]
    )
    new_questions.main()
    found = new_questions.json.loads((tmp_path / "found.json").read_text())
    assert list(found["runs"]) == ["small/untrained", "small/rehearsal-0"]
    assert found["command"] == "python benchmarks/new_questions.py runs/small/rehearsal-0 --untrained"


def test_a_folder_that_is_no_run_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["new_questions.py", str(tmp_path)])
    with pytest.raises(MemjaxError, match="is not a run"):
        new_questions.main()
