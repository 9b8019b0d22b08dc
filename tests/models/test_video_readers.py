"""E-VQA, E-MN and E-SA against their equations frame by frame; padding; what they are asked on the way.

Slips that were tried, each of which fails a test here: states of the whole video for a question on the way; rows
of padding that are asked; E-SA without the product with the question.
"""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from models.videos import (
    CLIPS,
    MASK,
    QUERY,
    REAL,
    SHAPE,
    STREAM,
    WIDTH,
    answered,
    check_gradients,
    check_other_tasks,
    check_padding,
    check_what_is_asked_on_the_way,
    params_of,
)
from oracles import video_readers
from oracles.checking import assert_close, float64

from memjax.models import EMN, ESA, EVQA

MAKE = {
    "e_vqa": functools.partial(EVQA, width=WIDTH, head_layers=0, dtype=jnp.float32),
    "e_mn": functools.partial(EMN, width=WIDTH, head_layers=0, dtype=jnp.float32, hops=2),
    "e_sa": functools.partial(ESA, width=WIDTH, head_layers=0, dtype=jnp.float32),
}
MODELS = {name: make(SHAPE) for name, make in MAKE.items()}
SIZES = {"e_mn": {"hops": 2}}


@pytest.mark.parametrize("name", MODELS)
def test_its_logits_are_those_of_the_equations(name):
    params = params_of(MODELS[name])
    found = answered(MODELS[name], params, STREAM, MASK, QUERY)
    oracle = getattr(video_readers, name)
    want = oracle(float64(params["params"]), np.float64(np.concatenate(CLIPS)), REAL, **SIZES.get(name, {}))
    assert_close(found, want, 1e-5)
    assert np.ptp(want) > 1e-2


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_nothing(name):
    check_padding(MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_a_question_on_the_way_is_answered_from_what_was_read_alone(name):
    check_what_is_asked_on_the_way(MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_all_of_it_learns(name):
    check_gradients(MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_it_reads_ids_and_answers_in_every_way(name):
    check_other_tasks(MAKE[name])
