"""The check of an accelerator says "the same" of two devices that agree, and names the rows where one is wrong."""

import importlib

import jax
import numpy as np
import pytest

COMMAND = ["--config=configs/evidence.py:demo", "--config.rehearsal.fragments=0", "--config.memory.layers=1"]


@pytest.fixture(scope="module")
def computed():
    """What each device really makes of the command: every test asks for the same."""
    return {}


@pytest.fixture
def check(computed, monkeypatch):
    module = importlib.import_module("check_accelerator")
    compute = module.on

    def on(device, function, *inputs):
        place = device, function.__name__
        if place not in computed:
            computed[place] = compute(device, function, *inputs)
        return computed[place]

    monkeypatch.setattr(module, "on", on)
    return module


@pytest.fixture
def verdict(check, capsys):
    def verdict():
        with pytest.raises(SystemExit) as ended:
            check.main(COMMAND)
        return ended.value.code, capsys.readouterr().out

    return verdict


def wrong_on_the_first(check, monkeypatch, spoil):
    right = check.on

    def on(device, *inputs):
        computed = right(device, *inputs)
        return spoil(computed) if device == jax.devices()[0] else computed

    monkeypatch.setattr(check, "on", on)


def test_two_devices_that_agree(verdict):
    code, said = verdict()
    assert code == 0 and "0 of 64 rows differ" in said and "the same" in said and "NOT" not in said


def test_rows_that_are_wrong_are_named(check, verdict, monkeypatch):
    def spoil(computed):
        if not isinstance(computed, np.ndarray):
            return computed
        return computed + 0.1 * (np.arange(len(computed)) % 32 == 1)

    wrong_on_the_first(check, monkeypatch, spoil)
    code, said = verdict()
    assert code == 1 and "2 of 64 rows differ: [1, 33]" in said and "NOT the same: " + " ".join(COMMAND) in said


@pytest.mark.parametrize("factor", [0.9, np.nan])
def test_a_gradient_that_is_wrong(check, verdict, monkeypatch, factor):
    def spoil(computed):
        if isinstance(computed, np.ndarray):
            return computed
        loss, gradient = computed
        return loss, jax.tree.map(lambda x: factor * x if x.ndim == 1 else x, gradient)

    wrong_on_the_first(check, monkeypatch, spoil)
    code, said = verdict()
    assert code == 1 and "0 of 64 rows differ" in said
