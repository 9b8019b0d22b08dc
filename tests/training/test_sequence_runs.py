"""Sequence experiments: trained through the command line, measured in blocks as at once, chunked gradients as well."""

import functools
import json
import math

import jax
import numpy as np
import pytest
from oracles.checking import assert_close
from training.tiny import CONFIGS, config_file, flags

from memjax import cli
from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare, trained_model
from memjax.experiments.reading import from_mapping, to_mapping
from memjax.experiments.sequence import build_sequence, measure_sequence, sequence_objective
from memjax.tasks import check_batch
from memjax.tasks.sequence import NOTHING
from memjax.training import experiment
from memjax.training.objective import answer_metrics

SIZES = {
    "model.width": 8, "model.depth": 1, "model.heads": 2, "model.hidden": 8, "model.window": 4, "model.chunk": 4,
    "optimizer.warmup_steps": 1, "optimizer.decay_steps": 1, "training.steps": 2, "training.batch_size": 8,
    "training.log_every": 1, "training.validate_every": 2, "training.validate_examples": 8,
    "training.checkpoint_every": 2,
}  # fmt: skip
RECALL = {
    "task.key_tokens": 5, "task.value_tokens": 5, "task.noise_tokens": 3, "task.pairs": 2, "task.length": 12,
    "task.longest": 2, "task.train": 40, "task.valid": 8, "task.test": 4, **SIZES,
}  # fmt: skip
NEEDLE = {
    "task.size": 2, "task.length": 60, "task.longest": 2, "task.train": 40, "task.valid": 8, "task.test": 2, **SIZES,
}  # fmt: skip
LANGUAGE = {"task.file": "text.txt", "task.length": 9, "task.test_length": 20, **SIZES}


def mapping(file, arg, sizes):
    settings = config_file(file)(arg).to_dict()
    for path, value in sizes.items():
        section, key = path.split(".")
        settings[section][key] = value
    return settings


@functools.cache
def made(arg="lmm", block=4):
    """(task, model, parameters, jitted measure in blocks) of a tiny recall."""
    prepared = prepare(from_mapping(mapping("recall", arg, RECALL)))
    model = build_sequence(prepared.config.model, prepared.task.shape)
    shapes = jax.eval_shape(lambda: prepared.phases[-1].init(jax.random.key(0), {"tokens": jax.numpy.zeros(2, int)}))
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: (rng.normal(size=leaf.shape) / 2).astype(np.float32), shapes)

    def measure(answer, params, example):
        return measure_sequence(model, answer, block, None, params, example)

    return prepared.task, model, params, jax.jit(measure, static_argnums=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "arg", "sizes"),
    [
        ("recall", "lmm", RECALL),
        ("recall", "lmm,rule=titans_chunked", RECALL),
        ("recall", "mac,rule=titans_deep", RECALL),
        ("needle", "mag", NEEDLE),
        ("language", "ptb,layer=mac", LANGUAGE),
        ("language", "ptb,layer=memn2n", {**LANGUAGE, "model.heads": 1, "model.hidden": 0}),
        ("language", "characters", LANGUAGE),
    ],
)
def test_it_is_trained_tested_and_reported_by_one_command(file, arg, sizes, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("a line of a text\n" * 60)
    run = tmp_path / "run"
    data = [f"--data_dir={tmp_path}"] if file != "recall" else []
    arguments = ["train", f"--config={CONFIGS / file}.py:{arg}", f"--run={run}", *data, *flags(sizes)]
    assert cli.main(arguments) == 0
    found = json.loads((run / "evaluation.json").read_text())
    metrics, shown = found["metrics"], capsys.readouterr().out
    assert found["step"] == 2 and 0 <= metrics["accuracy"] <= 1 and metrics["diverged"] == 0
    assert found["state_bytes"] > 0 and (run / "report.html").exists()
    model, params = trained_model(run)
    logits, _ = model.apply(params, jax.numpy.ones(8, int))
    assert np.isfinite(logits).all()
    if file == "language":
        assert math.isclose(metrics["perplexity"], math.exp(metrics["answer_loss"]), rel_tol=1e-6)
        assert "perplexity" in shown and f"{metrics['perplexity']:.3g}" in shown  # it is below 10
    else:
        assert (run / "plots" / "maps.png").exists() and "error %" in shown
        assert found["report"]["guessing"]["accuracy"] == {"recall": 1 / 5, "needle": 1 / 100}[file]
    assert cli.main(["evaluate", str(run)]) == 0
    again = json.loads((run / "evaluation.json").read_text())
    assert again["metrics"] == metrics


@pytest.mark.slow
def test_a_run_whose_data_is_gone_says_so_in_one_line_and_keeps_what_it_has(tmp_path, capsys):
    text, run = tmp_path / "text.txt", tmp_path / "run"
    text.write_text("a line of a text\n" * 60)
    train = [
        "train",
        f"--config={CONFIGS / 'language'}.py:ptb",
        f"--run={run}",
        f"--data_dir={tmp_path}",
        *flags(LANGUAGE),
    ]
    assert cli.main(train) == 0
    text.unlink()
    held = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for command in (train, ["evaluate", str(run)]):
        capsys.readouterr()
        assert cli.main(command) == 2
        assert capsys.readouterr().err.splitlines() == [
            f"memjax: there is no {text}; put it there, or name its folder with --data_dir=FOLDER"
        ]
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == held


@pytest.mark.parametrize("task", ["recall", "language"])
def test_a_memory_that_diverges_is_said_and_no_nan_is_written(task, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("a line of a text\n" * 60)
    sizes = RECALL if task == "recall" else {**LANGUAGE, "task.data_dir": str(tmp_path)}
    made = prepare(from_mapping(mapping(task, "lmm" if task == "recall" else "ptb", sizes)))
    key, example = jax.random.key(0), {"tokens": jax.numpy.zeros(2, int)}
    params = made.phases[-1].init(key, example)
    params = jax.tree.map_with_path(lambda path, x: x * (jax.numpy.inf if "taps" in str(path) else 1), params)
    monkeypatch.setattr(experiment, "load_phase", lambda *_: (7, params))
    found = experiment.evaluate(made, tmp_path)
    assert found["metrics"]["diverged"] == found["metrics"]["examples"] and found["metrics"]["accuracy"] == 0
    assert found["metrics"]["answer_loss"] is None and any("diverged" in note for note in found["notes"])
    assert json.loads((tmp_path / "evaluation.json").read_text())["notes"] == found["notes"]


@pytest.mark.parametrize("block", [4, 5, 100])
def test_a_sequence_measured_in_blocks_is_the_sequence_at_once(block):
    task, model, params, measure = made(block=block)
    example = {name: value[-1] for name, value in task.examples("test", np.arange(task.size("test"))).items()}
    example = {name: jax.numpy.asarray(value) for name, value in example.items()}
    metrics = answer_metrics(model.apply(params, example["tokens"])[0], jax.numpy.maximum(example["target"], 0))
    asked = example["target"] >= 0
    measured = measure(1, params, example)
    loss, right = (float(np.asarray(metrics[name])[asked].sum()) for name in ("answer_loss", "accuracy"))
    assert_close(np.array(measured[:4]), np.array([loss, asked.sum(), right, asked.sum()]), 1e-4)
    whole = measure(2, params, example)
    assert_close(np.array(whole[:4]), np.array([loss, asked.sum(), right == asked.sum(), 1.0]), 1e-4)


def test_an_answer_counts_as_a_whole_when_all_its_tokens_are_right():
    task, model, params, measure = made()
    tokens = task.examples("test", np.array([0]))["tokens"][0]
    best = np.asarray(model.apply(params, jax.numpy.asarray(tokens))[0].argmax(-1))
    target = np.where(np.arange(len(tokens)) >= len(tokens) - 3, best, -1)
    assert measure(3, params, {"tokens": tokens, "target": target}).correct == 1
    target[-1] = (target[-1] + 1) % task.shape.vocabulary
    assert measure(3, params, {"tokens": tokens, "target": target}).correct == 0
    none = measure(3, params, {"tokens": tokens, "target": np.full_like(target, NOTHING)})
    assert none.correct == none.total == 0


def test_the_loss_is_the_mean_over_the_targets_of_each_sequence():
    task, model, params, measure = made()
    batch = task.examples("train", np.arange(4))
    batch["key"] = jax.random.split(jax.random.key(0), 4)
    loss = jax.jit(sequence_objective(model))
    total, metrics = loss(params, None, batch)
    rows = [measure(1, params, {name: batch[name][i] for name in ("tokens", "target")}) for i in range(4)]
    assert_close(np.array([total]), np.array([np.mean([row.loss_sum / row.loss_count for row in rows])]), 1e-4)
    assert_close(np.array([metrics["accuracy"]]), np.array([np.mean([row.correct / row.total for row in rows])]), 1e-4)


def test_logits_where_something_is_asked_alone_give_the_same_loss_gradient_and_figures():
    task, model, params, measure = made()
    batch = jax.tree.map(jax.numpy.asarray, task.examples("train", np.arange(20)))
    assert set(np.asarray((batch["target"] != NOTHING).sum(1))) == {1, 2}
    keyed = batch | {"key": jax.random.split(jax.random.key(0), 20)}
    some, everywhere = (
        jax.jit(jax.value_and_grad(sequence_objective(model, asked), has_aux=True))(params, None, keyed)
        for asked in (3, None)
    )
    assert_close(some, everywhere, 1e-5)
    rows = [{name: batch[name][i] for name in ("tokens", "target")} for i in range(4)]
    for answer in (1, 2):
        few = jax.jit(functools.partial(measure_sequence, model, answer, 5, 2))
        for row in rows:
            assert_close(few(params, row), measure(answer, params, row), 1e-5)


def test_texts_of_a_chain_start_in_the_state_that_was_left_and_no_gradient_goes_back_through_it():
    task, model, params, _ = made()
    batch = jax.tree.map(jax.numpy.asarray, task.examples("train", np.arange(6)))
    asked = [np.flatnonzero(row != NOTHING) for row in np.asarray(batch["target"])]
    batch["key"] = jax.random.split(jax.random.key(0), 6)

    def by_hand(params, cut):
        losses = []
        for row in range(6):
            state = None if row in (0, 2, 4) else cut(state)
            logits, state = model.apply(params, batch["tokens"][row], state)
            losses.append(answer_metrics(logits[asked[row]], batch["target"][row, asked[row]])["answer_loss"].mean())
        return sum(losses) / 6

    loss = sequence_objective(model, None, 2)
    (found, _), slope = jax.jit(jax.value_and_grad(loss, has_aux=True))(params, None, batch)
    wanted, wanted_slope = jax.jit(jax.value_and_grad(lambda p: by_hand(p, jax.lax.stop_gradient)))(params)
    assert_close((found, slope), (wanted, wanted_slope), 1e-5)
    through = jax.jit(jax.grad(lambda p: by_hand(p, lambda state: state)))(params)
    gaps = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), through, slope)
    assert max(jax.tree.leaves(gaps)) > 1e-3  # the example tells them apart
    with pytest.raises(MemjaxError, match="chains of 4 texts do not divide the 6 of a device"):
        sequence_objective(model, None, 4)(params, None, batch)


def test_a_text_that_asks_nothing_has_no_part_in_the_loss_of_its_chain():
    task, model, params, _ = made()
    batch = jax.tree.map(jax.numpy.asarray, task.examples("train", np.arange(4)))
    batch["key"] = jax.random.split(jax.random.key(0), 4)
    batch["target"] = batch["target"].at[2].set(NOTHING)
    state, losses = None, {}
    for row in (0, 1, 2, 3):
        logits, state = model.apply(params, batch["tokens"][row], state if row in (1, 3) else None)
        asked = np.flatnonzero(np.asarray(batch["target"][row]) != NOTHING)
        losses[row] = answer_metrics(logits[asked], batch["target"][row, asked])["answer_loss"].mean()
    found, metrics = sequence_objective(model, None, 2)(params, None, batch)
    wanted = np.mean([(losses[0] + losses[1]) / 2, losses[3]])
    assert_close(np.array([found, metrics["answer_loss"]]), np.array([wanted, wanted]), 1e-5)


def test_documents_in_one_row_are_trained_on_and_measured_as_in_rows_of_their_own():
    task, model, params, measure = made()
    batch = jax.tree.map(jax.numpy.asarray, task.examples("train", np.arange(4)))
    alone = {name: batch[name] for name in ("tokens", "target")}
    packed = {name: x.reshape(2, -1) for name, x in alone.items()}
    packed["reset"] = jax.numpy.zeros((2, 24), bool).at[:, 12].set(True)
    check_batch(task.shape, {**task.examples("train", np.arange(2)), **jax.device_get(packed)})
    keys = jax.random.split(jax.random.key(0), 4)
    rows = [measure(1, params, {name: x[i] for name, x in alone.items()}) for i in range(4)]
    for i in range(2):
        together = measure(1, params, {name: x[i] for name, x in packed.items()})
        assert_close(together, jax.tree.map(lambda a, b: a + b, *rows[2 * i : 2 * i + 2]), 1e-5)
    loss, _ = jax.jit(sequence_objective(model))(params, None, packed | {"key": keys[:2]})
    sums = [(row.loss_sum, row.loss_count) for row in rows]
    wanted = [(a + b) / (m + n) for (a, m), (b, n) in (sums[:2], sums[2:])]
    assert_close(np.array([loss]), np.array([np.mean(wanted)]), 1e-5)
    with pytest.raises(MemjaxError, match=r"reset must be \[B, L\] of bool"):
        check_batch(task.shape, {**task.examples("train", np.arange(2)), "reset": np.zeros((2, 3), bool)})


@pytest.mark.parametrize(("share", "chain"), [(0.0, 1), (0.5, 2), (0.6, 4), (0.75, 4), (0.9, 16), (0.95, 32)])
def test_at_least_this_share_of_texts_starts_in_a_state_that_another_left(share, chain):
    model = from_mapping(
        mapping("recall", "lmm", {**RECALL, "training.batch_size": 32, "model.carry_state": share})
    ).model
    assert model.chain == chain and 1 - 1 / chain >= share


@pytest.mark.parametrize("file", ["recall", "needle", "language", "mqar"])
def test_a_config_is_the_same_after_a_round_trip(file):
    config = from_mapping(mapping(file, "", {}))
    assert from_mapping(to_mapping(config)) == config


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": "memory"}, r"config\.system for the task recall must be sequence"),
        ({"model.layer": "lmn"}, "did you mean 'lmm'"),
        ({"model.heads": 3}, "multiple of heads 3"),
        ({"model.layer": "memn2n"}, "config.model.heads must be 1 for memn2n, which has none, not 2"),
        ({"model.layer": "memn2n", "model.heads": 1}, "config.model.hidden must be 0 for memn2n"),
        ({"model.layer": "memn2n", "model.momentum": False}, "momentum=False is for layers with a surprise memory"),
        (
            {"model.layer": "attention", "model.gradient_at": "chunk"},
            "config.model.gradient_at=chunk and deep memories are for layers with a surprise memory; attention",
        ),
        (
            {"model.layer": "mac", "model.gradient_at": "chunk", "model.chunk": 3},
            "config.model.chunk 3 must be window 4 for MAC with gradient_at=chunk, whose chunk is a segment",
        ),
        ({"model.memory_layers": 2}, "config.model.gradient_at must be chunk for a deep memory, not token"),
        ({"model.memory_layers": 101, "model.gradient_at": "chunk"}, "config.model.memory_layers must be at most 100"),
        ({"model.horizon": 0.5}, "config.model.horizon must be above 1, or 0 for none, not 0.5"),
        ({"model.lower_horizon": 1.0}, "config.model.lower_horizon must be above 1, or 0 for none, not 1.0"),
        (
            {"model.depth": 1, "model.lower_horizon": 9.0},
            "lower_horizon is for the blocks below the last, and depth is 1",
        ),
        ({"model.impl": "pallas"}, "config.model.impl=pallas is for one device; set it to closed_form"),
        ({"model.gate_cost": -1.0}, "config.model.gate_cost must be from 0 to 1e6, not -1.0"),
        (
            {"model.layer": "attention", "model.gate_cost": 0.1},
            "config.model.gate_cost is for layers with a surprise memory; attention has none; set it to 0",
        ),
        ({"model.rate_bound": 2.0}, r"config.model.rate_bound must be in \[0, 1\]"),
        ({"model.loss": "l1"}, "config.model.loss"),
        ({"model.dropout": 1.0}, "dropout"),
        ({"model.carry_state": 1.0}, r"config.model.carry_state must be in \[0, 1\), not 1.0"),
        (
            {"model.carry_state": 0.9},
            "carry_state=0.9 makes chains of 16 texts, but a device has . at once; set config.training.batch_size",
        ),
        ({"model.time_constant": 0.0}, "time_constant"),
        ({"model.depth": 0}, "depth must be at least 1"),
        ({"model.depth": 101}, "depth must be at most 100,"),
        ({"model.layer": "attention", "model.momentum": False}, "momentum=False is for layers with a surprise memory"),
        ({"task.length": 0}, r"config\.task\.length must be at least 1"),
        ({"model.hidden": -1}, "hidden must be at least 0"),
        ({"model.chunk": 0}, "chunk must be at least 1"),
        ({"model.chunk": 13}, r"chunk 13 is above config\.task\.length 12"),
        ({"model.widht": 3}, "did you mean"),
        ({"training.sampler_steps": 3}, "sampler_steps"),
        ({"training.batch_size": 48}, "fewer than one batch"),
        ({"task.pairs": 3}, "power of two"),
    ],
)
def test_what_cannot_be_is_one_clear_line_before_anything_compiles(changes, words):
    settings = mapping("recall", "lmm", RECALL)
    for path, value in changes.items():
        section, _, key = path.rpartition(".")
        (settings[section] if section else settings)[key] = value
    with pytest.raises(MemjaxError, match=words) as caught:
        prepare(from_mapping(settings))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, "config.model.carry_state must be at least 0.75, not 0.0"),
        ({"model.carry_state": 0.5}, "config.model.carry_state must be at least 0.75, not 0.5"),
        ({"model.carry_state": 0.8, "training.microbatches": 2}, "config.training.microbatches must be 1, not 2"),
    ],
)
def test_texts_of_several_pieces_are_refused_where_they_would_not_be_read_whole(changes, wanted):
    sizes = NEEDLE | {"task.pieces": 4, "training.batch_size": 16} | changes
    with pytest.raises(MemjaxError, match=wanted):
        prepare(from_mapping(mapping("needle", "lmm", sizes)))


@pytest.mark.parametrize(
    ("arg", "bound", "told"),
    [
        ("lmm,rule=titans_chunked", 0.6, True),
        ("lmm,rule=titans_chunked", 0.5, False),
        ("lmm,rule=titans_chunked", 0.0, False),
        ("lmm", 1.0, False),
    ],
)
def test_rates_that_one_key_all_through_a_chunk_does_not_bear_are_said(arg, bound, told):
    notes = prepare(from_mapping(mapping("recall", arg, {**RECALL, "model.rate_bound": bound}))).recipe.notes
    said = "config.model.rate_bound 0.6 is above 2 / chunk, 0.5: with gradient_at=chunk one key all through a chunk can"
    assert [note.startswith(said) for note in notes] == [True] * told


@pytest.mark.parametrize(
    ("arg", "bounded"), [("mac,long=1", "token"), ("mac,carry=1", "write"), ("lmm,long=1", "write")]
)
def test_in_texts_of_several_pieces_mac_bounds_all_that_is_written_of_a_token(arg, bounded):
    assert from_mapping(mapping("needle", arg, {})).model.bounded == bounded


def test_a_task_of_sequences_is_no_task_for_a_memory():
    settings = config_file("evidence")("demo").to_dict() | {"system": "sequence"}
    with pytest.raises(MemjaxError, match=r"config\.system for the task evidence must be memory"):
        from_mapping(settings)


def test_all_blocks_but_the_last_have_the_lower_horizon():
    config = from_mapping(mapping("recall", "lmm", {**RECALL, "model.depth": 3, "model.lower_horizon": 9.0})).model
    shape = prepare(from_mapping(mapping("recall", "lmm", RECALL))).task.shape
    made = [make() for make in build_sequence(config, shape).make_layer]
    assert [layer.horizon for layer in made] == [9.0, 9.0, config.horizon] and config.horizon != 9.0
