"""MemN2N with candidates that are texts, against its equations; padding; what it is asked on the way."""

import jax.numpy as jnp
import numpy as np
import pytest
from choosing import (
    CANDIDATES,
    MASK,
    OTHERS,
    QUERY,
    REAL,
    SHAPE,
    STREAM,
    WIDTH,
    answered,
    check_gradients,
    check_padding,
    check_what_is_asked_on_the_way,
    params_of,
)
from oracles import memory_network_ranker as oracle
from oracles.checking import assert_close, float64

from memjax.errors import MemjaxError
from memjax.models import MemN2NRanker

MODEL = MemN2NRanker(SHAPE, WIDTH, hops=2)


def test_its_logits_are_those_of_the_equations():
    found = answered(MODEL, params_of(MODEL), STREAM, MASK, QUERY, CANDIDATES)
    sentences = [words[real] for words, real in zip(STREAM, MASK, strict=True) if real.any()]
    want = oracle.logits(float64(params_of(MODEL)["params"]), sentences, QUERY[QUERY != 0], REAL)
    assert_close(found[:-1], want, 1e-5)
    assert found[-1] == -jnp.inf and np.ptp(want) > 1e-2


def test_padding_changes_nothing():
    check_padding(MODEL)


def test_a_question_on_the_way_is_answered_from_what_was_read_alone():
    check_what_is_asked_on_the_way(MODEL)


def test_all_of_it_learns():
    check_gradients(MODEL)


@pytest.mark.parametrize("shape", OTHERS)
def test_a_task_of_other_answers_is_refused_in_one_line(shape):
    with pytest.raises(MemjaxError, match="MemN2N embeds the words of a candidate as those of the stream") as caught:
        MemN2NRanker(shape, WIDTH)
    assert "\n" not in str(caught.value)


def test_a_network_without_hops_is_refused():
    with pytest.raises(MemjaxError, match="hops"):
        MemN2NRanker(SHAPE, WIDTH, hops=0)
