"""The loop around a step: what it writes, how it resumes, and how it stops. On a loss that compiles at once."""

import functools
import json
import math
import os
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_same
from rich.console import Console
from training.tiny import layout_of, tiny

from memjax import tasks
from memjax.config import MeshConfig, OptimizerConfig, TrainingConfig
from memjax.errors import MemjaxError, Preempted
from memjax.experiments.reading import read_config, resolved, to_mapping
from memjax.files import read_object
from memjax.training import checkpoint, runs
from memjax.training.loop import Fit, fit
from memjax.training.sharding import make_mesh
from memjax.training.step import init_state, make_optimizer, make_step

TRAINING = TrainingConfig(
    steps=6, batch_size=8, microbatches=1, log_every=1, validate_every=2, validate_examples=8,
    checkpoint_every=3, checkpoints="", seed=3,
)  # fmt: skip


@functools.cache
def mesh():
    return make_mesh(MeshConfig(-1, 1, 1, 1), 8)


def noisy_loss(params, frozen, batch):
    """Depends on the parameters, the data and the step's key."""
    noise = jax.vmap(jax.random.normal)(batch["key"])
    error = params["w"][batch["stream"]].sum((1, 2)) - batch["label"] - noise
    return (error**2).mean(), {"answer_loss": (error**2).mean(), "accuracy": noise.mean()}


@functools.cache
def task():
    return tasks.create(tiny().task)


@functools.cache
def stepper(learning_rate=0.01, loss=noisy_loss):
    optimizer = make_optimizer(OptimizerConfig(learning_rate, 0, 0, 1.0), 6)
    return optimizer, make_step(loss, optimizer, mesh(), 8, 1, seed=3)


def validate(params):
    return {"accuracy": 0.5, "loss": float(params["w"].sum()), "tags": {"half": {}}}


def run(folder, steps=6, *, step=None, validate=validate, learning_rate=0.01, loss=noisy_loss, worth=None, **changes):
    folder.mkdir(exist_ok=True)
    optimizer, step_fn = stepper(learning_rate, loss)
    state = init_state({"w": jnp.linspace(-1, 1, 20)}, optimizer)
    config = TrainingConfig(**{**vars(TRAINING), **changes})
    job = Fit(folder, "train", steps, step or step_fn, None, validate, task(), layout_of(task()), config, mesh(), worth)
    return fit(job, state, Console(quiet=True))


def stopped_at(number):
    """The step, interrupted as by Ctrl-C when it is called for the n-th time."""
    _, step_fn = stepper()
    calls = []

    def step(*arguments):
        calls.append(1)
        if len(calls) == number:
            raise KeyboardInterrupt
        return step_fn(*arguments)

    return step


def lines(folder, **but):
    result = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in result]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of 6 steps at once: (folder, state)."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, jax.device_get(run(folder))


def test_every_step_and_every_validation_is_logged_once(whole):
    folder, _ = whole
    logged = [(line["step"], line.get("split")) for line in lines(folder)]
    assert logged == [
        (1, None),
        (2, None),
        (2, "valid"),
        (3, None),
        (4, None),
        (4, "valid"),
        (5, None),
        (6, None),
        (6, "valid"),
    ]
    for line in lines(folder):
        assert line["phase"] == "train"
        assert line.keys() >= ({"loss", "accuracy", "tags"} if "split" in line else {"answer_loss", "grad_norm"})


def test_training_in_two_goes_is_training_in_one(whole, tmp_path):
    folder, state = whole
    again = tmp_path / "run"
    run(again, steps=3)
    resumed = run(again, steps=6)
    assert_same(jax.device_get(resumed), state)
    # The first go also validates where it ends.
    got = [line for line in lines(again) if (line["step"], line.get("split")) != (3, "valid")]
    assert got == lines(folder)


@pytest.mark.parametrize("stop", [1, 3, 4, 5, 6])
def test_an_interrupted_run_goes_on_from_its_checkpoint_without_gaps_or_doubles(whole, tmp_path, stop):
    folder, state = whole
    again = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(again, step=stopped_at(stop))
    resumed = run(again)
    assert_same(jax.device_get(resumed), state)
    assert lines(again) == lines(folder)


def test_metrics_that_were_not_logged_yet_are_part_of_a_checkpoint(tmp_path):
    rhythm = {"log_every": 3, "checkpoint_every": 2}
    whole = run(tmp_path / "whole", **rhythm)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "again", step=stopped_at(6), **rhythm)
    assert_same(jax.device_get(run(tmp_path / "again", **rhythm)), jax.device_get(whole))
    assert lines(tmp_path / "again") == lines(tmp_path / "whole")


@pytest.mark.parametrize("at", [1, 2, 4, 5, 6])
def test_a_run_that_is_asked_to_stop_saves_first_and_goes_on_as_if_nothing_had_been(tmp_path, at):
    rhythm = {"log_every": 3, "checkpoint_every": 4}
    whole = run(tmp_path / "whole", **rhythm)
    calls = []

    def step(*arguments):
        calls.append(1)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return stepper()[1](*arguments)

    with pytest.raises(Preempted, match=f"train step {at} is saved"):
        run(tmp_path / "again", step=step, **rhythm)
    assert len(calls) == at
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert_same(jax.device_get(run(tmp_path / "again", **rhythm)), jax.device_get(whole))
    assert lines(tmp_path / "again") == lines(tmp_path / "whole")


def test_a_finished_run_is_not_trained_again(whole, tmp_path):
    folder, state = whole
    before = lines(folder)
    again = run(folder, step=stopped_at(1))
    assert_same(jax.device_get(again), state)
    assert lines(folder) == before


def test_half_a_line_left_by_a_crash_is_dropped(whole, tmp_path):
    folder, _ = whole
    again = tmp_path / "run"
    run(again, steps=3)
    with (again / "metrics.jsonl").open("a") as file:
        file.write('{"phase": "train", "step": 4, "answer_l')
    run(again)
    assert [line for line in lines(again) if (line["step"], line.get("split")) != (3, "valid")] == lines(folder)


def test_resuming_keeps_what_other_phases_wrote(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    other = {"phase": "sampler", "step": 900, "answer_loss": 1.0}
    (folder / "metrics.jsonl").write_text(json.dumps(other) + "\n")
    run(folder, steps=2)
    assert lines(folder)[0] == other and len(lines(folder)) == 4


def test_logged_numbers_are_means_since_the_last_line(whole, tmp_path):
    run(tmp_path / "run", log_every=2, checkpoint_every=6)
    single = {line["step"]: line for line in lines(whole[0]) if "split" not in line}
    for line in (line for line in lines(tmp_path / "run") if "split" not in line):
        for name in ("answer_loss", "accuracy", "grad_norm"):
            expected = (single[line["step"]][name] + single[line["step"] - 1][name]) / 2
            np.testing.assert_allclose(line[name], expected, rtol=1e-6)


def test_the_newest_checkpoints_are_kept(whole):
    with checkpoint.open_checkpoints(whole[0] / "train") as manager:
        assert manager.latest_step() == 6
        assert 1 <= len(manager.all_steps()) <= 2


def test_tensorboard_files_are_written(whole):
    assert list((whole[0] / "tensorboard" / "train").glob("events.*"))


# A loss that is not finite.


def broken_at(at, part="recollection_loss"):
    """The step, with a part of its loss that is NaN at one step."""

    def broken(state, frozen, batch):
        new, metrics = stepper()[1](state, frozen, batch)
        return new, metrics | {part: jnp.where(new.step == at, jnp.nan, metrics["accuracy"])}

    return broken


def test_a_loss_that_is_not_finite_stops_with_step_part_and_last_checkpoint(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(MemjaxError) as caught:
        run(folder, step=broken_at(5), validate_every=6)
    message = str(caught.value)
    assert message.startswith("train step 5: recollection_loss is not finite; ") and "\n" not in message
    assert f"step 3 in {folder.resolve() / 'train'}" in message
    assert "learning_rate" in message
    assert [line["step"] for line in lines(folder)] == [1, 2, 3, 4]


def test_parameters_that_are_not_finite_are_never_saved(tmp_path):
    for rate in (1e30, 1e39):
        folder = tmp_path / f"run{rate}"
        with pytest.raises(MemjaxError, match=r"train step 1: .*no checkpoint was saved") as caught:
            run(folder, learning_rate=rate, checkpoint_every=1, validate_every=1)
        assert "\n" not in str(caught.value)
        assert not [path for path in (folder / "train").iterdir() if path.name.isdigit()]


@pytest.mark.parametrize("at", [2, 3, 6])
@pytest.mark.parametrize("log_every", [1, 4, 6])
def test_the_step_is_named_that_broke_however_rarely_it_logs(tmp_path, at, log_every):
    with pytest.raises(MemjaxError, match=f"train step {at}: recollection_loss is not finite; "):
        run(tmp_path / "run", step=broken_at(at), log_every=log_every)
    saved = max((int(p.name) for p in (tmp_path / "run" / "train").iterdir() if p.name.isdigit()), default=0)
    assert saved == (at - 1) // 3 * 3
    assert all(math.isfinite(line["accuracy"]) for line in lines(tmp_path / "run")) if at > log_every else True


def test_a_validation_that_is_not_finite_stops_with_one_line(tmp_path):
    def broken(params):
        return {"accuracy": 0.0, "loss": math.nan}

    with pytest.raises(MemjaxError):
        run(tmp_path / "run", validate=broken)


# Checkpoints.


@pytest.mark.parametrize(
    "like",
    [
        {"w": jnp.zeros(21)},
        {"w": jnp.zeros((20, 2))},
        {"v": jnp.zeros(20)},
        {"w": jnp.zeros(20), "b": jnp.zeros(1)},
        {},
    ],
    ids=["longer", "another rank", "another name", "one more", "none"],
)
def test_a_checkpoint_of_another_model_is_refused_in_one_line(whole, like):
    optimizer, _ = stepper()
    with checkpoint.open_checkpoints(whole[0] / "train") as manager, pytest.raises(MemjaxError) as caught:
        checkpoint.restore(manager, init_state(like, optimizer), mesh())
    assert "another model" in str(caught.value) and "\n" not in str(caught.value)


def test_resuming_another_models_checkpoint_is_refused_in_one_line(whole, tmp_path):
    (tmp_path / "run").mkdir()
    run(tmp_path / "run", steps=3)
    optimizer, step_fn = stepper()
    state = init_state({"w": jnp.zeros(7)}, optimizer)
    with pytest.raises(MemjaxError, match="another model") as caught:
        job = Fit(tmp_path / "run", "train", 6, step_fn, None, validate, task(), layout_of(task()), TRAINING, mesh())
        fit(job, state, Console(quiet=True))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("which", ["all", "metadata", "arrays"])
def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path, which):
    run(tmp_path / "run", steps=3)
    folder = tmp_path / "run" / "train" / "3" / "state"
    files = [path for path in folder.rglob("*") if path.is_file()]
    chosen = {
        "all": files,
        "metadata": [path for path in files if path.parent == folder and path.name.startswith("_")],
        "arrays": [path for path in files if path.parent != folder],
    }[which]
    assert chosen
    for path in chosen:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(MemjaxError, match="damaged or of another model") as caught:
        run(tmp_path / "run")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wide", [False, True])
def test_a_checkpoint_of_another_precision_is_no_damaged_one(tmp_path, wide):
    with jax.enable_x64(wide):
        run(tmp_path / "run", steps=2)
    with jax.enable_x64(not wide), pytest.raises(MemjaxError, match=f"was trained with JAX_ENABLE_X64={int(wide)}"):
        run(tmp_path / "run", steps=3)


def test_a_run_without_a_checkpoint_is_one_line(tmp_path):
    with checkpoint.open_checkpoints(tmp_path / "train") as manager, pytest.raises(MemjaxError, match="no checkpoint"):
        checkpoint.restore(manager, init_state({"w": jnp.zeros(20)}, stepper()[0]), mesh())


def test_what_goes_while_it_is_listed_is_looked_for_again(tmp_path, monkeypatch):
    state = run(tmp_path / "run", steps=2)
    like, opened, tried = jax.eval_shape(lambda: state), checkpoint.open_checkpoints, []

    def gone(*arguments, **options):
        tried.append(1)
        if len(tried) != 3:
            raise FileNotFoundError("commit_timestamp")
        return opened(*arguments, **options)

    monkeypatch.setattr(checkpoint, "open_checkpoints", gone)
    monkeypatch.setattr(checkpoint.time, "sleep", lambda _: None)
    place = tmp_path / "run" / "train"
    assert_same(checkpoint.read_newest(place, like, mesh()), state)
    with pytest.raises(MemjaxError, match=r"cannot read checkpoints in .* try again"):
        checkpoint.read_newest(place, like, mesh())


def test_a_folder_of_checkpoints_that_cannot_be_made_is_one_line_at_once(tmp_path):
    (tmp_path / "train").write_text("mine")
    with pytest.raises(MemjaxError, match="cannot write to"), runs.writing(tmp_path):
        checkpoint.open_checkpoints(tmp_path / "train")


def test_checkpoints_lie_where_the_config_says_and_are_found_there(whole, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    run(tmp_path / "run", steps=3, checkpoints=str(elsewhere))
    assert not (tmp_path / "run" / "train").exists() and (elsewhere / "run" / "train" / "3").is_dir()
    resumed = run(tmp_path / "run", steps=6, checkpoints=str(elsewhere), step=stopped_at(4))  # it takes three
    assert_same(jax.device_get(resumed), whole[1])


# Run folders.


def test_two_processes_never_train_in_one_folder(tmp_path):
    script = "import pathlib, sys\nfrom memjax.training import runs\nwith runs.locked(pathlib.Path(sys.argv[1])): pass"
    command = [sys.executable, "-c", script, str(tmp_path)]
    with runs.locked(tmp_path):
        second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode and "is being trained by another process" in second.stderr.splitlines()[-1]
    assert subprocess.run(command).returncode == 0


def open_run(config, folder):
    runs.open_run(to_mapping(config), resolved, folder)


def test_a_run_folder_is_taken_up_by_the_same_config_alone(tmp_path):
    folder = tmp_path / "a" / "run"
    open_run(tiny(), folder)
    open_run(tiny(), folder)
    assert read_config(folder) == tiny()
    (folder / "train" / "2").mkdir(parents=True)  # a checkpoint
    before = (folder / "config.json").read_text()
    with pytest.raises(MemjaxError, match=r"another config \(config.training.seed is 0 there, not 1\)") as caught:
        open_run(tiny(training__seed=1), folder)
    assert "\n" not in str(caught.value)
    assert (folder / "config.json").read_text() == before
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "train"]


def test_a_run_goes_on_with_other_microbatches_and_says_so(tmp_path, capsys):
    open_run(tiny(), tmp_path)
    (tmp_path / "train" / "2").mkdir(parents=True)
    open_run(tiny(training__microbatches=2), tmp_path)
    assert "config.training.microbatches is 2 now, it was 1" in capsys.readouterr().err


def test_before_the_first_checkpoint_any_setting_may_be_changed_and_is_told(tmp_path, capsys):
    open_run(tiny(), tmp_path)
    open_run(tiny(training__seed=1), tmp_path)
    assert read_config(tmp_path) == tiny(training__seed=1)
    assert "config.training.seed is 1 now, it was 0" in capsys.readouterr().err


def test_half_a_checkpoint_is_none(tmp_path, capsys):
    open_run(tiny(), tmp_path)
    (tmp_path / "sampler" / "1.orbax-checkpoint-tmp").mkdir(parents=True)  # as a kill leaves it
    open_run(tiny(training__seed=1), tmp_path)
    assert "config.training.seed is 1 now, it was 0" in capsys.readouterr().err


def test_checkpoints_without_a_config_are_of_nothing_known(tmp_path):
    (tmp_path / "train" / "3").mkdir(parents=True)
    with pytest.raises(MemjaxError, match=r"has checkpoints and no config\.json"):
        open_run(tiny(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train"]


def test_curves_of_another_config_that_was_never_saved_are_gone(tmp_path, capsys):
    open_run(tiny(), tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"phase": "sampler", "step": 1, "seconds": 300.0}\n')
    open_run(tiny(), tmp_path)
    assert (tmp_path / "metrics.jsonl").exists()
    open_run(tiny(rehearsal__sampler="random"), tmp_path)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_run_whose_rate_has_fallen_says_so_when_it_is_to_go_on_for_longer(tmp_path, capsys):
    for done, decay, told in ((3, 2, True), (2, 2, False), (3, 0, False)):
        folder = tmp_path / f"{done}{decay}"
        open_run(tiny(optimizer__decay_steps=decay), folder)
        (folder / "train" / str(done)).mkdir(parents=True)
        open_run(tiny(optimizer__decay_steps=decay, training__steps=9), folder)
        said = capsys.readouterr().err
        assert "steps is 9 now" in said
        assert ("the learning rate had begun to fall at step 2, as it would not in a run of 9 steps" in said) == told


def test_after_it_only_how_far_a_run_goes_and_how_often_it_looks(tmp_path, capsys):
    open_run(tiny(), tmp_path)
    (tmp_path / "train" / "2").mkdir(parents=True)
    longer = tiny(training__steps=9, training__log_every=3, training__checkpoint_every=3)
    open_run(longer, tmp_path)
    assert read_config(tmp_path) == longer
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "config.training.steps is 9 now, it was 4" in told and "log_every" in told


def test_fewer_steps_than_a_run_has_are_refused_and_nothing_is_written(tmp_path, capsys):
    open_run(tiny(), tmp_path)
    (tmp_path / "train" / "3").mkdir(parents=True)
    with pytest.raises(MemjaxError, match="has 3 steps already, more than 2; give more"):
        open_run(tiny(training__steps=2), tmp_path)
    assert read_config(tmp_path) == tiny() and not capsys.readouterr().err


def test_a_config_that_an_older_version_wrote_has_the_defaults_of_what_is_new(tmp_path, capsys):
    open_run(tiny(), tmp_path)
    (tmp_path / "train" / "2").mkdir(parents=True)
    settings = read_object(tmp_path / "config.json")
    assert settings["memory"].pop("write_gain") == 1.0  # as if the size were new; the class has this default
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert read_config(tmp_path) == tiny()
    open_run(tiny(), tmp_path)
    assert not capsys.readouterr().err


def test_a_run_of_a_memory_of_another_package_says_which_module_to_name(tmp_path):
    """Its task is memjax's own, so that its config is one of this version."""
    open_run(tiny(), tmp_path)
    settings = read_object(tmp_path / "config.json")
    settings["memory"], settings["plugins"] = {"name": "averages", "slots": 3}, ["not_here"]
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(MemjaxError, match="needs what not_here brings: give --plugin=not_here"):
        read_config(tmp_path)


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/memjax-run"])
def test_a_run_folder_that_cannot_be_written_is_one_line(tmp_path, where):
    (tmp_path / "file").write_text("here already")
    with pytest.raises(MemjaxError, match="cannot write to") as caught:
        open_run(tiny(), tmp_path / where)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_run_folder_with_too_long_a_name_is_one_line(tmp_path):
    with pytest.raises(MemjaxError):
        open_run(tiny(), tmp_path / ("x" * 300))


def test_a_run_that_may_no_longer_be_written_is_one_line(tmp_path, monkeypatch):
    open_run(tiny(), tmp_path)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("memjax.files.os.fsync", refuse)
    with pytest.raises(MemjaxError):
        runs.write_json(tmp_path / "evaluation.json", {})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "",
        "{}",
        '{"task": 3}',
        "[1]",
    ],
)
def test_a_damaged_config_is_one_line(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(MemjaxError) as caught:
        read_config(tmp_path)
    assert "\n" not in str(caught.value)


def test_json_is_written_at_once_or_not_at_all(tmp_path):
    runs.write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError):
        runs.write_json(tmp_path / "a.json", {"x": math.nan})
    assert read_object(tmp_path / "a.json") == {"x": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
