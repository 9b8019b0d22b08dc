"""MemN2N with candidates that are texts, against its equations."""

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


def test_a_network_without_hops_is_refused():
    with pytest.raises(MemjaxError, match="hops"):
        MemN2NRanker(SHAPE, WIDTH, hops=0)
