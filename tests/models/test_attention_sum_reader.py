"""The AS Reader against its equations word by word; padding; what it is asked on the way."""

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
    check_padding,
    check_what_is_asked_on_the_way,
    params_of,
)
from oracles import attention_sum
from oracles.checking import assert_close, float64

from memjax.errors import MemjaxError
from memjax.models import AttentionSumReader
from memjax.models.attention_sum_reader import SMALLEST

MODEL = AttentionSumReader(SHAPE, WIDTH)


def test_its_logits_are_those_of_the_equations():
    found = answered(MODEL, params_of(MODEL), STREAM, MASK, QUERY, CANDIDATES)
    p = float64(params_of(MODEL)["params"])
    want = attention_sum.logits(p, STREAM[MASK], QUERY[QUERY != 0], REAL, SMALLEST)
    assert_close(found[:-1], want, 1e-5)
    assert found[-1] == -jnp.inf and want[2] == np.log(SMALLEST) and len(set(want)) == 4


def test_padding_changes_nothing():
    check_padding(MODEL)


def test_a_question_on_the_way_is_answered_from_what_was_read_alone():
    check_what_is_asked_on_the_way(MODEL)


@pytest.mark.parametrize("shape", OTHERS)
def test_a_task_of_other_answers_is_refused_in_one_line(shape):
    with pytest.raises(MemjaxError, match="the AS Reader finds words of an answer in the stream") as caught:
        AttentionSumReader(shape, WIDTH)
    assert "\n" not in str(caught.value)
