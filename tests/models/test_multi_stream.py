"""Multi-Stream against its equations word by word, and its LSTM."""

import jax
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
from oracles import multi_stream
from oracles.checking import assert_close, float64, matmuls_that_no_carry_reaches

from memjax.memories.encoders import BidirectionalLSTM
from memjax.models import MultiStream

MODEL = MultiStream(SHAPE, WIDTH)
LSTM = BidirectionalLSTM(6, 4)


def test_its_logits_are_those_of_the_equations():
    found = answered(MODEL, params_of(MODEL), STREAM, MASK, QUERY, CANDIDATES)
    p = float64(params_of(MODEL)["params"])
    want = multi_stream.logits(p, STREAM[MASK], QUERY[QUERY != 0], REAL)
    assert_close(found[:-1], want, 1e-5)
    assert found[-1] == -jnp.inf and np.ptp(want) > 1e-2


def lstm_case():
    rng = np.random.default_rng(3)
    items, mask = rng.normal(size=(5, 4)), np.array([False, True, True, False, True])
    shapes = jax.eval_shape(lambda: LSTM.init(jax.random.key(0), jnp.asarray(items), jnp.asarray(mask)))
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)
    return params, np.where(mask[:, None], items, np.nan), mask


def test_the_lstm_of_both_directions_passes_over_padding_whatever_it_holds():
    params, items, mask = lstm_case()
    last, states = jax.jit(LSTM.apply)(params, items, mask)
    want_last, want = multi_stream.bidirectional_lstm(float64(params["params"]), items[mask])
    assert_close(last, want_last, 1e-5)
    assert_close(states[mask], want, 1e-5)
    # At padding stands the state before it, in either direction.
    assert_close(states[0], np.concatenate([np.zeros(3), want[0, 3:]]), 1e-5)
    assert_close(states[3], np.concatenate([want[1, :3], want[2, 3:]]), 1e-5)


def test_what_inputs_add_to_the_gates_is_computed_before_the_scan():
    params, items, mask = lstm_case()
    assert not matmuls_that_no_carry_reaches(jax.make_jaxpr(LSTM.apply)(params, items, mask).jaxpr)
