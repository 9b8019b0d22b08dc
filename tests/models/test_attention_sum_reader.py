"""The AS Reader against its equations word by word."""

import jax.numpy as jnp
import numpy as np
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
from oracles import attention_sum
from oracles.checking import assert_close, float64

from memjax.models import AttentionSumReader
from memjax.models.attention_sum_reader import SMALLEST

MODEL = AttentionSumReader(SHAPE, WIDTH)


def test_its_logits_are_those_of_the_equations():
    found = answered(MODEL, params_of(MODEL), STREAM, MASK, QUERY, CANDIDATES)
    p = float64(params_of(MODEL)["params"])
    want = attention_sum.logits(p, STREAM[MASK], QUERY[QUERY != 0], REAL, SMALLEST)
    assert_close(found[:-1], want, 1e-5)
    assert found[-1] == -jnp.inf and want[2] == np.log(SMALLEST) and len(set(want)) == 4
