"""A memory may begin with the embeddings that the history sampler has learned, where this is rehearsed or not.

Breaks that the tests were seen to catch: questions of its own; items at the sampler's size; a sampler that draws
fragments though they are drawn at random.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracles.checking import assert_close, assert_same
from training.tiny import random_params, tiny

from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.experiments.stream_qa import build_sampler
from memjax.training.phase import initial_state

LEARNED = {"model__embeddings": "sampler"}


@pytest.fixture(scope="module")
def prepared():
    return prepare(tiny(**LEARNED))


def example(prepared):
    return {name: value[0] for name, value in prepared.task.examples("train", np.arange(1)).items()}


def learned(prepared):
    return random_params(build_sampler(prepared.config, prepared.task.shape), example(prepared))


def test_questions_are_the_samplers_and_items_too_at_the_size_that_they_had(prepared):
    own, sampler = initial_state(prepared, prepared.phases[-1]).params, learned(prepared)
    begun = prepared.phases[-1].begin(own, sampler)["params"]
    assert_same(begun["query"], sampler["params"]["query"])
    items, theirs = begun["embed"]["embedding"], sampler["params"]["embed"]["embedding"]
    assert_close(optax.global_norm(items), optax.global_norm(own["params"]["embed"]), 1e-5)
    assert_close(items / jnp.linalg.norm(items), theirs / jnp.linalg.norm(theirs), 1e-6)
    for name in begun.keys() - {"query", "embed"}:
        assert_same(begun[name], own["params"][name])


def test_before_the_sampler_is_trained_they_are_its_own(prepared):
    own = initial_state(prepared, prepared.phases[-1]).params
    assert prepared.phases[-1].begin(own, None) is own


@pytest.mark.parametrize("changes", [{"rehearsal__sampler": "random"}, {"rehearsal__fragments": 0}], ids=str)
def test_a_sampler_that_draws_nothing_is_trained_for_its_embeddings_alone(changes):
    prepared = prepare(tiny(**LEARNED, **changes))
    assert [phase.name for phase in prepared.phases] == ["sampler", "train"]
    sampler, params = learned(prepared), initial_state(prepared, prepared.phases[-1]).params
    batch = prepared.task.examples("train", np.arange(4))
    batch = jax.tree.map(jnp.asarray, batch) | {"key": jax.random.split(jax.random.key(0), 4)}
    loss = jax.jit(lambda frozen: prepared.phases[-1].loss(params, frozen, prepared.recipe.layout.extend(batch))[0])
    assert loss(sampler) == loss(jax.tree.map(lambda x: -3 * x, sampler))


def test_systems_without_a_memory_have_none():
    with pytest.raises(MemjaxError, match=r"config\.model\.embeddings=sampler is for memories"):
        tiny(**LEARNED, system="directly")
