"""MSAN against its equations word by word."""

import jax.numpy as jnp
import numpy as np
import pytest
from choosing import (
    CANDIDATES,
    MASK,
    QUERY,
    REAL,
    SHAPE,
    STREAM,
    WIDTH,
    answered,
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


@pytest.mark.parametrize(
    ("width", "heads", "words"), [(6, 4, "must be a multiple of heads 4"), (8, 0, "heads must be")]
)
def test_a_width_that_heads_do_not_divide_is_refused(width, heads, words):
    with pytest.raises(MemjaxError, match=words):
        MSAN(SHAPE, width, heads=heads)
