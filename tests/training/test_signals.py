"""Ctrl-C in the midst of training: the step that runs is saved, and what goes on from it is as if nothing had been.

Slips that were tried: nothing saved; the second Ctrl-C taken like the first; a Ctrl-C while the first step compiles
waited for; an ignored signal heeded.
"""

import os
import signal

import jax
import pytest
from oracles.checking import assert_same
from training.test_loop import lines, run, stepper

from memjax.errors import Interrupted
from memjax.training import checkpoint

RHYTHM = {"log_every": 3, "checkpoint_every": 4}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of 6 steps at once: (folder, state)."""
    folder = tmp_path_factory.mktemp("signals") / "run"
    return folder, jax.device_get(run(folder, **RHYTHM))


@pytest.fixture(autouse=True)
def interruptible():
    """As Python starts it in a terminal, whatever started the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def interrupted(at, times=1):
    """The step, with so many Ctrl-C while it runs for the n-th time; and the list of its calls."""
    calls = []

    def step(*arguments):
        calls.append(1)
        if len(calls) == at:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        return stepper()[1](*arguments)

    return step, calls


def saved(folder):
    with checkpoint.open_checkpoints(folder / "train") as manager:
        return manager.latest_step()


@pytest.mark.parametrize("at", [2, 4, 5, 6])
def test_a_ctrl_c_saves_the_step_that_runs_and_names_it(whole, tmp_path, at, capsys):
    step, calls = interrupted(at)
    with pytest.raises(Interrupted, match=f"train step {at} is saved"):
        run(tmp_path / "run", step=step, **RHYTHM)
    assert len(calls) == at and saved(tmp_path / "run") == at
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "Ctrl-C again leaves at once" in said
    assert_same(jax.device_get(run(tmp_path / "run", **RHYTHM)), whole[1])
    assert lines(tmp_path / "run") == lines(whole[0])


def test_a_second_ctrl_c_leaves_at_once(whole, tmp_path):
    step, calls = interrupted(5, times=2)
    with pytest.raises(KeyboardInterrupt) as caught:
        run(tmp_path / "run", step=step, **RHYTHM)
    assert type(caught.value) is KeyboardInterrupt
    assert len(calls) == 5 and saved(tmp_path / "run") == 4
    assert_same(jax.device_get(run(tmp_path / "run", **RHYTHM)), whole[1])


def test_with_nothing_to_save_the_first_leaves_at_once(tmp_path, capsys):
    step, calls = interrupted(1)
    with pytest.raises(KeyboardInterrupt) as caught:
        run(tmp_path / "run", step=step, **RHYTHM)
    assert type(caught.value) is KeyboardInterrupt and not capsys.readouterr().err
    assert len(calls) == 1 and saved(tmp_path / "run") is None


def test_a_ctrl_c_during_a_validation_saves_the_next_step(tmp_path):
    def validate(params):
        os.kill(os.getpid(), signal.SIGINT)
        return {"accuracy": 0.5, "loss": 1.0}

    with pytest.raises(Interrupted, match="train step 3 is saved"):
        run(tmp_path / "run", validate=validate, **RHYTHM)
    assert saved(tmp_path / "run") == 3


def test_what_ignores_ctrl_c_goes_on_ignoring_it(whole, tmp_path):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert_same(jax.device_get(run(tmp_path / "run", step=interrupted(3)[0], **RHYTHM)), whole[1])
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
