"""The gates of a run on needles, against the oracle's equations; other runs are refused."""

import jax
import jax.numpy as jnp
import needle_gates
import numpy as np
import pytest
from oracles.checking import float64
from oracles.sequence import log_sigmoid, normed
from rich.console import Console
from training.tiny import config_file

from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare, trained_parameters
from memjax.experiments.reading import from_mapping
from memjax.experiments.sequence import build_sequence
from memjax.training import experiment
from memjax.training.runs import open_run

TASK = {"size": 2, "length": 60, "longest": 2, "train": 16, "valid": 4, "test": 2}
MODEL = {"width": 8, "depth": 1, "heads": 2, "hidden": 0, "window": 4, "chunk": 4, "carry_state": 0.0}
TRAINING = {"steps": 1, "batch_size": 8, "validate_examples": 4, "validate_every": 1, "checkpoint_every": 1}


def prepared(arg, **model):
    settings = config_file("needle")(arg).to_dict()
    settings["task"] |= TASK
    settings["model"] |= MODEL | model
    settings["training"] |= TRAINING
    return prepare(from_mapping(settings))


def run(folder, arg, **model):
    made = prepared(arg, **model)
    experiment.train(made, folder, Console(quiet=True))
    return made, trained_parameters(made, folder)


@pytest.mark.parametrize("bounded", ["write", "token"])
def test_rates_and_what_is_forgotten_are_those_of_the_equations(bounded, tmp_path, monkeypatch):
    monkeypatch.setattr(needle_gates, "LENGTH", 120)
    made, params = run(tmp_path / "run", "lmm", rate_bound=0.5, bounded=bounded)
    found = needle_gates.gates(tmp_path / "run")

    batch, own = made.task.examples("test", np.arange(10, 20)), float64(params["params"])  # those of 120 characters
    assert (batch["length"] == 1).all()
    gates = own["layers_0"]["remember"]["gates"]
    x = normed(own["embed"]["embedding"][batch["tokens"]] * 8**0.5) * own["norms_0"]["scale"]
    keep, along, rate = np.split(x @ gates["kernel"] + gates["bias"], 3, axis=-1)
    forgotten = (1 - np.exp(log_sigmoid(keep + np.log(1000)))).sum(1).mean(0)
    new = 1 - np.exp(log_sigmoid(along)) if bounded == "token" else 1.0
    rates = np.median(0.5 * new * np.exp(log_sigmoid(rate)), axis=(0, 1))
    assert [(head["layer"], head["head"]) for head in found["heads"]] == [(0, 0), (0, 1)]
    np.testing.assert_allclose([head["rate"] for head in found["heads"]], rates, atol=6e-4)
    np.testing.assert_allclose([head["forgotten"] for head in found["heads"]], forgotten, atol=0.051)
    assert found["step"] == 1 and 0 <= found["accuracy"] <= 1


def test_the_question_is_read_from_the_states_of_two_places(tmp_path, monkeypatch):
    """Before the needle the last layer knows nothing of it: a model that copies its state from there must fail."""
    monkeypatch.setattr(needle_gates, "QUESTION", 30)
    made, params = run(tmp_path / "run", "lmm", depth=2)
    model = build_sequence(made.config.model, made.task.shape)
    batch = made.task.examples("test", np.arange(4))
    found = needle_gates.put_together(model, params, batch)

    read = jax.jit(model.apply)

    def right(tokens, target, lower, last):
        states = [read(params, tokens[:end])[1] for end in (lower, last)]
        said = read(params, tokens[-30:], (states[0][0], states[1][1]))[0].argmax(-1)
        return (said == target[-30:])[target[-30:] != -1].mean()

    end, half = batch["tokens"].shape[1] - 30, batch["tokens"].shape[1] // 2
    for name, places in {"from_end": (end, end), "last_then": (end, half), "lower_then": (half, end)}.items():
        rows = [right(*row, *places) for row in zip(jnp.asarray(batch["tokens"]), batch["target"], strict=True)]
        assert found[name] == pytest.approx(np.mean(rows), abs=1e-3)


def test_a_run_without_a_surprise_memory_is_one_line(tmp_path):
    made, folder = prepared("attention"), tmp_path / "run"
    folder.mkdir()
    open_run(made.settings, made.resolved, folder)
    with pytest.raises(MemjaxError, match="no run of a surprise memory on needles"):
        needle_gates.gates(folder)
