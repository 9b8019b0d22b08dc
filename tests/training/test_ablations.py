"""Every ablation that configs/evidence.py lists: one override on the command line, and it trains."""

import re

import jax
import numpy as np
import optax
import pytest
from oracles.checking import assert_finite
from training.tiny import CONFIGS, config_file, flags, random_params

from memjax import cli
from memjax.experiments.reading import to_mapping
from memjax.experiments.stream_qa import build, build_sampler
from memjax.training import experiment
from memjax.training.sharding import place_batch
from memjax.training.step import init_state, make_step

HEAD = (CONFIGS / "evidence.py").read_text().split('"""')[1]
LISTED = re.findall(r"--config\.([\w.]+)=(\S+)", HEAD)
EFFECT = {  # where an override alone says nothing: what else it needs
    "memory.update_heads": "demo,memory=continual",
    "memory.scores": "small",
    "memory.momentum": "demo,memory=surprise",
    "memory.forgetting": "demo,memory=surprise",
}
SYSTEMS = [
    "demo",
    "demo,memory=continual",
    "demo,memory=surprise",
    "demo,system=directly",
    "demo,system=multi_hop",
    "demo,discrete=1",
]


class Reached(Exception):
    """Raised in place of training."""


@pytest.fixture
def prepared(monkeypatch, tmp_path):
    """The experiment that a command line describes, by the real command line up to training."""

    def parse(*arguments, arg="demo"):
        found = []

        def train(experiment, folder, console, profile):
            found.append(experiment)
            raise Reached

        with monkeypatch.context() as patch:
            patch.setattr(experiment, "train", train)
            own = {"demo,memory=continual": {"memory__update_heads": 2}, "small": {"memory__slots": 4}}
            sizes = flags(**own.get(arg, {}), training__steps=400)
            config = f"--config={CONFIGS / 'evidence.py'}:{arg}"
            with pytest.raises(Reached):
                cli.main(["train", config, *sizes, *arguments, f"--run={tmp_path / 'run'}"])
        assert not list(tmp_path.iterdir())
        return found[0]

    return parse


def flat(mapping, prefix=""):
    result = {}
    for key, value in mapping.items():
        result |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return result


def two_steps(made):
    """Trains two steps; the history sampler's parameters are untrained: what is tested is that they are used."""
    config, task = made.config, made.task
    example = {name: value[0] for name, value in task.examples("train", np.arange(1)).items()}
    frozen = random_params(build_sampler(config, task.shape), example) if config.needs_sampler else None
    optimizer = optax.sgd(0.01)
    step = make_step(made.phases[-1].loss, optimizer, made.mesh, 8, 1, 0, made.recipe.layout.extend)
    first = jax.device_get(random_params(build(config, task.shape), example))
    state = jax.device_put(init_state(first, optimizer), jax.NamedSharding(made.mesh, jax.P()))
    for i in range(2):
        batch = place_batch(made.mesh, task.examples("train", np.arange(8 * i, 8 * i + 8)), 8)
        state, metrics = step(state, frozen, batch)
        metrics = jax.device_get(metrics)
        assert_finite(metrics)
    assert_finite(state.params)
    moved = jax.tree.map(lambda old, new: bool((old != new).any()), first["params"], dict(state.params["params"]))
    return metrics, {name: any(jax.tree.leaves(tree)) for name, tree in moved.items()}


def test_every_ablation_and_extension_is_listed():
    assert {name for name, _ in LISTED} == {
        "rehearsal.fragments", "rehearsal.sampler", "rehearsal.familiarity", "rehearsal.recollection",
        "rehearsal.mask_ratio", "memory.encoder", "memory.update_heads", "memory.slots", "task.segment",
        "memory.normalize", "memory.momentum", "memory.forgetting", "memory.context", "memory.scores",
        "model.embeddings", "memory.score_gain", "rehearsal.tied", "rehearsal.answer_after", "memory.write_heads",
        "rehearsal.anneal_steps", "rehearsal.balance", "model.read_scores",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), LISTED, ids=lambda x: str(x))
def test_every_listed_ablation_is_one_override_and_trains(prepared, name, value):
    arg = EFFECT.get(name, "demo")
    made = prepared(f"--config.{name}={value}", arg=arg)
    before, after = (flat(to_mapping(config)) for config in (prepared(arg=arg).config, made.config))
    assert {key for key in before if before[key] != after[key]} == {name}
    assert str(after[name]) in (value, f"{value}.0")
    metrics, moved = two_steps(made)
    rehearsed = made.config.rehearses
    assert moved["memory"] and moved["rehearser"] == rehearsed
    assert moved["head"] == (made.config.rehearsal.answer_after == 0)  # before that step nothing is asked
    assert ("recollection_loss" in metrics) == rehearsed


@pytest.mark.slow
@pytest.mark.parametrize("arg", SYSTEMS)
def test_every_system_trains(prepared, arg):
    made = prepared(arg=arg)
    _, moved = two_steps(made)
    assert moved.pop("embed") and moved.pop("head")
    assert all(moved.values())


@pytest.mark.parametrize("variant", ["demo", "small", "paper", "long"])
def test_every_command_of_the_head_is_a_variant(variant):
    assert f"evidence.py:{variant}" in HEAD
    assert config_file("evidence")(variant)


@pytest.mark.parametrize("arg", sorted(set(re.findall(r"evidence\.py:(\S+)", HEAD))))
def test_every_command_of_the_head_is_a_config(arg):
    assert config_file("evidence")(arg).task.name == "evidence"


@pytest.mark.slow
def test_it_trains_in_bfloat16(prepared):
    _, moved = two_steps(prepared("--config.model.dtype=bfloat16"))
    assert moved["memory"] and moved["head"] and moved["rehearser"]
