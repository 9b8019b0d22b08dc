"""`config.training.keep=best`: a run is tested, and used, with the parameters that were best in validation.

Slips that were tried: the last of several best ones kept; the worst one; what was saved after the newest checkpoint
left there; the best so far forgotten when a run goes on; `evaluate` with the newest.
"""

import json
import shutil
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_same
from training.test_loop import run, stopped_at
from training.tiny import CONFIGS, flags

from memjax import MemjaxError, cli
from memjax.experiments.prepare import trained_model
from memjax.reporting import load_run
from memjax.reporting.columns import result_worth
from memjax.training import checkpoint
from memjax.training.phase import told_best

OFTEN = {"validate_every": 1, "checkpoint_every": 3}


def worth(metrics):
    return metrics["accuracy"]


def validations(values):
    """A validation that says one of these after the other; the parameters that it saw."""
    left, seen = list(values), []

    def validate(params):
        seen.append(jax.device_get(params))
        return {"accuracy": left.pop(0)}

    return validate, seen


def saved(folder):
    """(steps, the parameters of the newest) of what is kept besides."""
    with checkpoint.open_checkpoints(folder / "train_best", create=False) as manager:
        steps = manager.all_steps()
        state = manager.restore(max(steps))["state"]
    return sorted(steps), state["params"]


@pytest.mark.parametrize(
    ("values", "best"),
    [
        ([0.1, 0.3, 0.2, 0.3, 0.0, 0.1], 2),
        ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], 1),
        ([0.0] * 5 + [1.0], 6),
    ],
)
def test_the_earliest_of_the_best_validations_is_kept(tmp_path, values, best):
    validate, seen = validations(values)
    run(tmp_path / "run", validate=validate, worth=worth, **OFTEN)
    steps, params = saved(tmp_path / "run")
    assert max(steps) == best
    assert_same(jax.tree.map(np.asarray, params), seen[best - 1])


@pytest.mark.parametrize(("values", "best"), [([-1.0] * 6, 1), ([-1.0] * 4 + [0.0, 0.5], 6), ([-1.0, 0.0] * 3, 2)])
def test_what_diverged_is_kept_only_until_something_did_not(tmp_path, values, best):
    def finite(metrics):
        return metrics["accuracy"] if metrics["accuracy"] >= 0 else -np.inf

    run(tmp_path / "run", validate=validations(values)[0], worth=finite, **OFTEN)
    assert max(saved(tmp_path / "run")[0]) == best


@pytest.mark.parametrize("stop", [3, 5, 6])
def test_a_run_that_was_killed_keeps_what_it_would_have_kept_in_one_go(tmp_path, stop):
    values = [0.1, 0.3, 0.2, 0.5, 0.4, 0.1]
    with pytest.raises(KeyboardInterrupt):
        validate = validations(values)[0]
        run(tmp_path / "run", validate=validate, worth=worth, step=stopped_at(stop), **OFTEN)
    start = 3 if stop > 3 else 0
    run(tmp_path / "run", validate=validations(values[start:])[0], worth=worth, **OFTEN)
    assert max(saved(tmp_path / "run")[0]) == 4


def test_what_is_trained_again_is_judged_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        validate = validations([0.1, 0.3, 0.2, 0.9])[0]
        run(tmp_path / "run", validate=validate, worth=worth, step=stopped_at(5), **OFTEN)
    run(tmp_path / "run", validate=validations([0.2, 0.1, 0.2])[0], worth=worth, **OFTEN)  # as on other devices
    assert max(saved(tmp_path / "run")[0]) == 2


def test_the_best_up_to_where_a_run_goes_on_from_outlives_those_that_are_trained_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        validate = validations([0.1, 0.5, 0.2, 0.6, 0.7])[0]
        run(tmp_path / "run", validate=validate, worth=worth, step=stopped_at(6), **OFTEN)
    assert saved(tmp_path / "run")[0] == [1, 2, 4, 5]
    run(tmp_path / "run", validate=validations([0.0] * 3)[0], worth=worth, **OFTEN)  # from step 3, as if on others
    assert saved(tmp_path / "run")[0][-1] == 2


def test_what_was_best_before_a_run_went_on_stays_the_best(tmp_path):
    run(tmp_path / "run", steps=3, validate=validations([0.1, 0.9, 0.3])[0], worth=worth, **OFTEN)
    run(tmp_path / "run", steps=6, validate=validations([0.4, 0.5, 0.6])[0], worth=worth, **OFTEN)
    assert max(saved(tmp_path / "run")[0]) == 2


def test_without_it_nothing_is_kept_besides(tmp_path):
    run(tmp_path / "run", **OFTEN)
    assert not (tmp_path / "run" / "train_best").exists()


def test_a_validation_without_a_result_is_one_line(tmp_path):
    with pytest.raises(MemjaxError, match=r"no result by which config\.training\.keep=best could go"):
        run(tmp_path / "run", worth=lambda metrics: float("nan"), **OFTEN)


def report(*columns):
    return {
        "headline": columns[0][0],
        "columns": [
            {"name": name, "path": path, "number": kind, "better": better} for name, path, kind, better in columns
        ],
    }


def test_worth_is_the_first_result_that_validations_have_and_more_is_better():
    error = ("error %", ["accuracy"], "error", "lower")
    assert result_worth(report(error), {"accuracy": 0.9}) > result_worth(report(error), {"accuracy": 0.8})
    lower = ("bits", ["bits"], "number", "lower")
    assert result_worth(report(lower), {"bits": 1.0}) > result_worth(report(lower), {"bits": 2.0})
    whole = ("HR@10 %", ["hr_10"], "percent", "higher")
    assert result_worth(report(whole, error), {"accuracy": 0.75}) == -25.0
    assert result_worth(report(whole, error), {"accuracy": 0.75, "hr_10": 0.5}) == 50.0
    assert result_worth(report(whole), {"answer_loss": 0.75}) == -0.75  # as of language models
    assert np.isnan(result_worth(report(whole), {"accuracy": 0.75}))


def test_what_diverged_is_worth_less_than_anything_and_no_other_result_speaks_for_it():
    auc, accuracy = ("AUC %", ["auc"], "percent", "higher"), ("accuracy %", ["accuracy"], "percent", "higher")
    for lost in (float("nan"), None, float("inf")):
        assert result_worth(report(auc, accuracy), {"auc": lost, "accuracy": 0.9}) == -np.inf
    assert result_worth(report(auc, accuracy), {"accuracy": 0.9}) == 90.0  # of answers that are all yes
    assert result_worth(report(auc), {"answer_loss": float("nan")}) == -np.inf


SETTINGS = [
    f"--config={CONFIGS / 'evidence.py'}:demo",
    *flags(
        training__steps=8, training__validate_every=1, training__validate_examples=1000, rehearsal__fragments=0,
        optimizer__learning_rate=0.1,
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run at a rate at which it learns nothing, so that its last validation is not the best; and all of them."""
    folder = tmp_path_factory.mktemp("best") / "run"
    assert cli.main(["train", *SETTINGS, "--config.training.keep=best", f"--run={folder}"]) == 0
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return folder, {e["step"]: e for e in entries if e["phase"] == "train" and e.get("split") == "valid"}


def test_a_run_is_tested_with_its_best_parameters_and_says_so(trained):
    folder, entries = trained
    best = max(entries, key=lambda step: (entries[step]["accuracy"], -step))
    assert best != 8, "a run whose last validation is the best shows nothing"
    evaluation = json.loads((folder / "evaluation.json").read_text())
    assert (evaluation["step"], evaluation["best_step"]) == (8, best)
    assert any(f"parameters of step {best}, the best in validation" in note for note in evaluation["notes"])
    assert load_run(folder).validated["step"] == best and not load_run(folder).unfinished


def test_on_validation_it_has_what_was_logged_at_that_step(trained, tmp_path):
    folder, entries = trained
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    assert cli.main(["evaluate", str(copy), "--split=valid"]) == 0
    (file,) = copy.glob("evaluation-*.json")
    evaluation = json.loads(file.read_text())
    logged = entries[evaluation["best_step"]]
    for name in ("accuracy", "answer_loss"):
        assert evaluation["metrics"][name] == pytest.approx(logged[name], rel=1e-6)
    assert evaluation["metrics"]["answer_loss"] != pytest.approx(entries[8]["answer_loss"], rel=1e-6)


def test_the_model_of_a_run_is_its_best(trained):
    folder, _ = trained
    _, params = trained_model(folder)
    assert_same(jax.device_get(params), jax.tree.map(jnp.asarray, saved(folder)[1]))


def test_it_cannot_be_asked_of_a_run_that_has_begun(trained, tmp_path, capsys):
    folder, _ = trained
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    assert cli.main(["train", *SETTINGS, f"--run={copy}"]) == 2
    assert "config.training.keep" in capsys.readouterr().err


def test_a_best_that_is_gone_is_not_said_to_be_tested(trained, tmp_path, capsys):
    folder, entries = trained
    best = max(entries, key=lambda step: (entries[step]["accuracy"], -step))
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    shutil.rmtree(copy / "train_best")
    (copy / "train_best" / f"{best}.orbax-checkpoint-tmp-1").mkdir(parents=True)  # as a kill leaves it
    assert cli.main(["evaluate", str(copy)]) == 0
    evaluation = json.loads((copy / "evaluation.json").read_text())
    told = "no best in validation is kept: these are the newest parameters, of step 8"
    assert "best_step" not in evaluation and told in evaluation["notes"]
    capsys.readouterr()
    trained_model(copy)
    assert told in capsys.readouterr().err


def test_a_better_one_that_was_saved_while_it_was_read_is_no_damage(unchecked):
    kept = SimpleNamespace(keeps_best=lambda _: True)
    assert "damaged" not in told_best(kept, None, 400, [200, 300])[1]
    assert "step 300, whose checkpoint is damaged" in told_best(kept, None, 200, [200, 300])[1]


def test_a_best_that_is_damaged_is_said_to_be(trained, tmp_path, capfd):
    folder, _ = trained
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    (best,) = (int(path.name) for path in (copy / "train_best").iterdir() if path.name.isdigit())
    shutil.copytree(copy / "train_best" / str(best), copy / "train_best" / "8")  # whose sum says another step
    assert cli.main(["evaluate", str(copy)]) == 0
    evaluation = json.loads((copy / "evaluation.json").read_text())
    assert evaluation["best_step"] == best
    assert any("best in validation but for step 8, whose checkpoint is damaged" in note for note in evaluation["notes"])
    shutil.rmtree(copy / "train_best" / str(best))
    capfd.readouterr()
    assert cli.main(["evaluate", str(copy)]) == 2
    assert "train_best to test the newest checkpoint" in capfd.readouterr().err.replace("\n", " ")


def test_a_run_that_goes_on_without_its_best_says_so(tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", validate=validations([0.9] * 4)[0], worth=worth, step=stopped_at(5), **OFTEN)
    shutil.rmtree(tmp_path / "run" / "train_best")
    run(tmp_path / "run", validate=validations([0.1, 0.2, 0.1])[0], worth=worth, **OFTEN)
    assert "up to step 3 no best in validation is kept" in capsys.readouterr().err
    assert max(saved(tmp_path / "run")[0]) == 5


def test_validations_of_other_examples_are_not_compared(tmp_path, capsys):
    def of(values, examples):
        validate = validations(values)[0]
        return lambda params: validate(params) | {"examples": examples}

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", validate=of([0.9] * 4, 9), worth=worth, step=stopped_at(5), **OFTEN)
    run(tmp_path / "run", validate=of([0.1, 0.2, 0.1], 250), worth=worth, **OFTEN)
    assert "validated on 250 examples now, on 9 before" in capsys.readouterr().err
    assert max(saved(tmp_path / "run")[0]) == 5
