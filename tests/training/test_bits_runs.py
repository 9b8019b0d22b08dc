"""Experiments with RNN cells on bits: trained through the command line; the loss and the wrong bits, written out."""

import json

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close
from training.tiny import CONFIGS, config_file, flags, mapping

from memjax import cli
from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare, trained_model
from memjax.experiments.reading import from_mapping, to_mapping

SIZES = {
    "task.bits": 3, "task.shortest": 1, "task.longest": 3, "task.test_lengths": "3,5", "task.train": 40,
    "task.valid": 8, "task.test": 4, "model.rows": 4, "model.memory_width": 3, "model.hidden": 5,
    "training.steps": 2, "training.batch_size": 8, "training.log_every": 1, "training.validate_every": 2,
    "training.validate_examples": 8, "training.checkpoint_every": 2,
}  # fmt: skip


def prepared(arg="copy", **changes):
    return prepare(from_mapping(mapping(arg, "algorithmic", SIZES, **changes)))


@pytest.mark.slow
@pytest.mark.parametrize("arg", ["copy", "associative_recall,cell=nutm"])
def test_it_is_trained_tested_and_reported_by_one_command(arg, tmp_path, capsys):
    sizes = {**SIZES, "task.shortest": 2}
    arguments = ["train", f"--config={CONFIGS / 'algorithmic'}.py:{arg}", f"--run={tmp_path / 'run'}", *flags(sizes)]
    assert cli.main(arguments) == 0, capsys.readouterr().err
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    metrics = found["metrics"]
    assert found["state_bytes"] > 0 and set(metrics["wrong_bits_by_length"]) == {"3", "5"}
    bits = 3 * 3 if arg.startswith("associative") else 3 * 4  # of a sequence, in the mean over lengths 3 and 5
    assert metrics["wrong_bits"] == pytest.approx((1 - metrics["accuracy"]) * bits)
    assert (tmp_path / "run" / "report.html").exists()
    model, params = trained_model(tmp_path / "run")
    assert isinstance(model, nn.RNN) and "cell" in params["params"]


def test_loss_and_right_bits_are_those_of_what_is_asked():
    made, key = prepared(), jax.random.key(0)
    drawn = made.task.examples("test", np.arange(1))
    example = {name: jnp.asarray(value[0]) for name, value in drawn.items() if name != "length"}
    phase = made.phases[0]
    params, asked = phase.init(key, example), example["asked"]
    measure = jax.jit(phase.measure)
    measured = measure(params, example)
    assert measured.loss_count == measured.total == asked.sum() * 3
    _, metrics = phase.loss(params, {}, jax.tree.map(lambda x: x[None], example) | {"key": key[None]})
    found = [measured.loss_sum / measured.total, measured.correct / measured.total]
    assert_close([metrics["answer_loss"], metrics["accuracy"]], found, 1e-5)
    # What lies after the last step that is asked is of no account.
    longer = {name: jnp.pad(x, [(0, 4)] + [(0, 0)] * (x.ndim - 1)) for name, x in example.items()}
    assert_close(measure(params, longer), measured, 1e-5)
    # All bits turned round, all that was right is wrong.
    turned = example | {"bits": jnp.where(asked[:, None], 1 - example["bits"], 0)}
    assert measure(params, turned).correct == measured.total - measured.correct


def test_a_config_survives_being_written_and_read():
    config = prepared().config
    assert from_mapping(json.loads(json.dumps(to_mapping(config)))) == config


@pytest.mark.parametrize(
    ("arg", "changes", "words"),
    [
        ("copy", {"model__rows": 0}, "config.model.rows must be at least 1, not 0"),
        ("copy", {"model__programs": 2}, "programs=2 is for the cell nutm"),
        ("copy", {"model__cell": "dcn"}, "did you mean 'dnc'"),
        ("copy", {"task__kind": "sort"}, "unknown value of config.task.kind"),
        ("sort", {}, "unknown variant of configs/algorithmic.py"),
    ],
    ids=str,
)
def test_what_cannot_be_is_one_line(arg, changes, words):
    with pytest.raises(MemjaxError, match=words):
        prepared(arg, **changes)


def test_a_system_for_another_kind_of_task_is_one_line():
    settings = config_file("algorithmic")("copy").to_dict() | {"system": "sequence"}
    with pytest.raises(MemjaxError, match="for the task algorithmic must be cell, not 'sequence'"):
        from_mapping(settings)
