"""MSAN against its equations word by word; padding; what it is asked on the way."""

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
from oracles import msan
from oracles.checking import assert_close, float64

from memjax.errors import MemjaxError
from memjax.models import MSAN

MODEL = MSAN(SHAPE, WIDTH, heads=2)


def test_its_logits_are_those_of_the_equations():
    found = answered(MODEL, params_of(MODEL), STREAM, MASK, QUERY, CANDIDATES)
    segments = [words[real] for words, real in zip(STREAM, MASK, strict=True) if real.any()]
    want = msan.logits(float64(params_of(MODEL)["params"]), segments, QUERY[QUERY != 0], REAL, MODEL.heads)
    assert_close(found[:-1], want, 1e-5)
    assert found[-1] == -jnp.inf and np.ptp(want) > 1e-2


def test_it_knows_in_which_segment_a_word_stands():
    words = np.array([[3, 4], [5, 6]]), np.array([[3, 4, 5], [6, 0, 0]])
    one, other = (answered(MODEL, params_of(MODEL), x, x > 0, QUERY, CANDIDATES)[:-1] for x in words)
    assert np.abs(one - other).max() > 1e-3


def test_padding_changes_nothing():
    check_padding(MODEL)


def test_a_question_on_the_way_is_answered_from_what_was_read_alone():
    check_what_is_asked_on_the_way(MODEL)


def test_all_of_it_learns():
    check_gradients(MODEL)


@pytest.mark.parametrize("shape", OTHERS)
def test_a_task_of_other_answers_is_refused_in_one_line(shape):
    with pytest.raises(MemjaxError, match="MSAN looks for the moment of a candidate in the stream") as caught:
        MSAN(shape, WIDTH)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("width", "heads", "words"), [(6, 4, "must be a multiple of heads 4"), (8, 0, "heads must be")]
)
def test_a_width_that_heads_do_not_divide_is_refused(width, heads, words):
    with pytest.raises(MemjaxError, match=words):
        MSAN(SHAPE, width, heads=heads)
