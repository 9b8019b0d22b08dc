"""What a module begins with: its own `init`, traced once for equal modules."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_same
from training.tiny import mapping

from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.training.initial_params import initial_params
from memjax.training.phase import initial_state

TRACED = []


class Counted(nn.Module):
    width: int
    scale: Any = 1.0

    @nn.compact
    def __call__(self, x):
        TRACED.append(self.width)
        return nn.Dense(self.width)(x) * jnp.asarray(self.scale)

    def half(self, x):
        return self(x[: len(x) // 2])


def traces(call):
    before = len(TRACED)
    return call(), len(TRACED) - before


@pytest.mark.parametrize("method", [None, Counted.half])
def test_it_is_init_and_equal_modules_are_traced_once(method):
    key, x, width = jax.random.key(3), jnp.ones(4), 5 if method is None else 6
    first, count = traces(lambda: initial_params(Counted(width), key, x, method=method))
    assert count == 1
    assert_same(first, Counted(width).init(key, x, method=method))
    again, count = traces(lambda: initial_params(Counted(width), jax.random.key(4), x + 1, method=method))
    assert count == 0
    assert not np.array_equal(again["params"]["Dense_0"]["kernel"], first["params"]["Dense_0"]["kernel"])
    for other, given in ((Counted(width + 10), x), (Counted(width), jnp.ones(6))):
        assert traces(lambda other=other, given=given: initial_params(other, key, given, method=method))[1] == 1


def test_shapes_alone_are_traced_with_the_numbers():
    key, x = jax.random.key(0), jnp.ones(4)
    shapes, count = traces(lambda: jax.eval_shape(lambda: initial_params(Counted(7), key, x)))
    assert count == 1
    params, count = traces(lambda: initial_params(Counted(7), key, x))
    assert count == 0
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, shapes)


def test_a_module_with_an_array_among_its_settings_has_parameters_too():
    key, x = jax.random.key(0), jnp.ones(4)
    assert_same(initial_params(Counted(8, np.ones(8)), key, x), Counted(8).init(key, x))


@pytest.mark.parametrize(
    ("config", "file", "change"),
    [
        ("demo", "evidence", {"model__hops": 1}),
        ("mac", "recall", {"model__width": 24}),
        ("noisy", "retention", {"model__entries": 4}),
        ("imaze", "maze", {"model__width": 24}),
        ("copy", "algorithmic", {"model__hidden": 24}),
    ],
)
def test_of_a_config_that_is_read_twice_one_model_is_made(config, file, change, monkeypatch):
    """Of five families (spans need documents): layers made by functions, vocabularies and mazes are equal as well."""
    sizes = {f"task.{split}": 8 for split in ("train", "valid", "test")} | {"training.batch_size": 8}
    prepare(from_mapping(mapping(config, file, sizes)))  # traces it
    traced, init = [], nn.Module.init

    def recorded(self, *args, **kwargs):
        traced.append(self)
        return init(self, *args, **kwargs)

    monkeypatch.setattr(nn.Module, "init", recorded)
    experiment = prepare(from_mapping(mapping(config, file, sizes)))
    jax.eval_shape(lambda: initial_state(experiment, experiment.phases[-1]))
    assert not traced
    changed = prepare(from_mapping(mapping(config, file, sizes, **change)))
    jax.eval_shape(lambda: initial_state(changed, changed.phases[-1]))
    assert len(traced) == 1
