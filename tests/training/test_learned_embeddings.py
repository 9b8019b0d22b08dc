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
from rich.console import Console
from training.tiny import random_params, tiny

from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.experiments.stream_qa import build_sampler
from memjax.experiments.stream_qa.learned_embeddings import with_learned_embeddings
from memjax.training.experiment import train
from memjax.training.phase import Phase, initial_state, load_phase

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


def test_training_begins_with_them(tmp_path):
    prepared = prepare(tiny(**LEARNED, optimizer__learning_rate=0.0))  # what it begins with, it ends with
    train(prepared, tmp_path / "run", Console(quiet=True))
    sampler, trained = (load_phase(prepared, tmp_path / "run", phase)[1]["params"] for phase in prepared.phases)
    assert_same(trained["query"], sampler["query"])
    own = initial_state(prepared, prepared.phases[-1]).params["params"]
    assert (trained["query"]["embed"]["embedding"] != own["query"]["embed"]["embedding"]).any()


def test_an_embedding_that_questions_share_stays_as_it_was_learned():
    phase = Phase("train", 1, *[None] * 3)
    own, learned = {"embed": {"embedding": jnp.ones((3, 2))}}, {"embed": {"embedding": 5 * jnp.ones((3, 2))}}
    for shared, size in ((True, 5), (False, 1)):
        begun = with_learned_embeddings(phase, shared).begin({"params": own}, {"params": learned})
        assert_close(begun["params"]["embed"]["embedding"], size * np.ones((3, 2)), 1e-6)


def test_without_rehearsal_a_sampler_is_trained_all_the_same():
    prepared = prepare(tiny(**LEARNED, rehearsal__fragments=0))
    assert [phase.name for phase in prepared.phases] == ["sampler", "train"]
    assert prepared.recipe.label == "rehearsal memory, learned embeddings, no rehearsal"


def test_a_sampler_that_is_trained_for_its_embeddings_draws_nothing():
    prepared = prepare(tiny(**LEARNED, rehearsal__sampler="random"))
    assert [phase.name for phase in prepared.phases] == ["sampler", "train"]
    sampler, params = learned(prepared), initial_state(prepared, prepared.phases[-1]).params
    batch = prepared.task.examples("train", np.arange(4))
    batch = jax.tree.map(jnp.asarray, batch) | {"key": jax.random.split(jax.random.key(0), 4)}
    loss = jax.jit(lambda frozen: prepared.phases[-1].loss(params, frozen, prepared.recipe.layout.extend(batch))[0])
    assert loss(sampler) == loss(jax.tree.map(lambda x: -3 * x, sampler))


def test_systems_without_a_memory_have_none():
    assert [phase.name for phase in prepare(tiny(**LEARNED, system="directly")).phases] == ["train"]


def test_a_sampler_without_steps_is_one_line():
    with pytest.raises(MemjaxError, match=r"^config\.training\.sampler_steps must be above 0 with config\.model\.emb"):
        tiny(**LEARNED, rehearsal__fragments=0, training__sampler_steps=0)


def test_a_curriculum_that_begins_again_is_told():
    changes = {"task__shortest": 8, "task__curriculum": 60, "training__steps": 16, "training__batch_size": 8}
    (note,) = [note for note in prepare(tiny(**changes)).recipe.notes if "begins again" in note]
    assert note.startswith("train: 16 steps of 8 read more than the 120 examples of train") and "step 15;" in note
    assert not [note for note in prepare(tiny(**changes | {"training__steps": 15})).recipe.notes if "begins" in note]
