"""Checkpoints name parameters by their paths: a path that changes makes every run that was saved before unreadable.

A new path, and one that is gone and read under its old name too, is written into the file beside this test.
"""

import json
from pathlib import Path

import jax
import pytest
from shipped import bases

from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.training.phase import initial_state

KEPT = json.loads(Path(__file__).with_suffix(".json").read_text())


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return bases(tmp_path_factory.mktemp("data"))


def names(config):
    """Of the parameters that the last phase trains, and of the modules that they are in."""
    made = prepare(from_mapping(config))
    return jax.tree.map(lambda _: 0, jax.eval_shape(lambda: initial_state(made, made.phases[-1])).params)


def test_every_shipped_config_is_here(known):
    assert set(known) - {"babi"} == set(KEPT)  # evidence's system, which is here; its data would have to be prepared


@pytest.mark.parametrize("name", KEPT)
def test_parameters_keep_their_paths(known, name):
    assert names(known[name]) == KEPT[name]
