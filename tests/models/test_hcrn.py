"""HCRN against its equations subset by subset; the rest is in test_video_readers.py.

Slips that were tried, each of which fails a test: subsets among all places and not the real ones; subsets of one
object; the whole video's motion for a question on the way; a last unit that is not given the question.
"""

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
    N,
    T,
    answered,
    params_of,
)
from oracles import hcrn
from oracles.checking import assert_close, float64

from memjax.errors import MemjaxError
from memjax.models import HCRN
from memjax.models.hcrn import subset_shares

MODEL = HCRN(SHAPE, WIDTH, 0, jnp.float32)
FEWER = HCRN(SHAPE, WIDTH, 0, jnp.float32, largest=3, subsets=3)


@pytest.mark.parametrize("model", [MODEL, FEWER], ids=["all sizes", "fewer sizes"])
def test_its_logits_are_those_of_the_equations(model):
    params = params_of(model)
    found = answered(model, params, STREAM, MASK, QUERY)
    clips = [np.float64(clip) for clip in CLIPS]
    want = hcrn.logits(float64(params["params"]), clips, REAL, N, T, model.largest, model.subsets)
    assert_close(found, want, 1e-5)
    assert np.ptp(want) > 1e-2


@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_members_of_subsets_are_distinct_and_real_and_no_subset_is_like_another(size):
    real = np.array([1, 0, 1, 1, 1, 0, 1, 1], bool)
    shares = np.asarray(subset_shares(jnp.asarray(real), size, 2))
    assert (shares[:, ~real] == 0).all() and ((shares > 0).sum(1) == size).all()
    np.testing.assert_allclose(shares[shares > 0], 1 / size)
    assert (shares[0] != shares[1]).any()


@pytest.mark.parametrize(
    ("sizes", "words"),
    [({"width": 7}, "width must be even"), ({"largest": 1}, "largest must be"), ({"subsets": 0}, "subsets must be")],
)
def test_sizes_that_cannot_be_are_refused(sizes, words):
    with pytest.raises(MemjaxError, match=words):
        HCRN(SHAPE, **{"width": WIDTH, "head_layers": 0, "dtype": jnp.float32, **sizes})
