"""Directly Reason, Multi-Hop Reason and the history sampler against their equations, from the stream to the logits.

Slips that were tried: the state before the last for a question on the way; the mean of a segment over its padding too.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import direct
from oracles.checking import assert_close, float64

from memjax.models import DirectlyReason, HistorySampler, MultiHopReason
from memjax.tasks import TaskShape

WIDTH = 6
CLASSES = TaskShape(9, 3, 4, 7, None, "classes", 5)
TEXTS = TaskShape(9, 3, 4, 9, 4, "candidates", 4)
SEGMENTS = [[3, 1, 8, 2], [5, 5], [7, 0, 4]]
QUERY, CANDIDATES = [2, 8, 1], [[4, 2], [6, 6, 1], [3]]
SYSTEMS = {"directly": DirectlyReason, "multi_hop": MultiHopReason, "sampler": HistorySampler}


def padded(rows, length):
    found = np.zeros((len(rows), length), np.int32)
    for row, items in zip(found, rows, strict=True):
        row[: len(items)] = items
    return found, np.arange(length) < np.array([[len(items)] for items in rows])


@functools.cache
def made(system, shape):
    """(model, its parameters, far enough from 0 for every part to matter)."""
    model = SYSTEMS[system](shape, WIDTH, 1, jnp.float32)
    query, candidates = (jnp.zeros((), int), None) if shape is CLASSES else (jnp.ones(4, int), jnp.ones((3, 4), int))

    def whole(module, stream, mask):
        slots, _ = module.memorize(stream, mask)
        return module.answer(slots, query, candidates)

    stream, mask = padded(SEGMENTS, 4)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.asarray(stream), jnp.asarray(mask), method=whole))
    rng = np.random.default_rng(4)
    return model, jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 2, shapes)


def answered(model, params, slots, query, candidates=None):
    return np.float64(model.apply(params, slots, query, candidates, method="answer"))


@pytest.mark.parametrize("system", SYSTEMS)
def test_classes_of_a_stream_of_ids(system):
    model, params = made(system, CLASSES)
    stream, mask = padded(SEGMENTS, 4)
    slots, aux_loss = model.apply(params, jnp.asarray(np.where(mask, stream, -7)), jnp.asarray(mask), method="memorize")
    found = answered(model, params, slots, jnp.array(6))
    want = direct.logits(system, float64(params["params"]), SEGMENTS, 6)
    assert_close(found, want, 1e-5)
    assert aux_loss == 0 and np.ptp(want) > 1e-2


@pytest.mark.parametrize("system", SYSTEMS)
def test_candidates_that_are_texts(system):
    model, params = made(system, TEXTS)
    stream, mask = padded(SEGMENTS, 4)
    (query,), _ = padded([QUERY], 4)
    candidates, _ = padded([*CANDIDATES, []], 4)
    slots, _ = model.apply(params, jnp.asarray(stream), jnp.asarray(mask), method="memorize")
    found = answered(model, params, slots, jnp.asarray(query), jnp.asarray(candidates))
    want = direct.logits(system, float64(params["params"]), SEGMENTS, QUERY, CANDIDATES)
    assert_close(found[:-1], want, 1e-5)
    assert found[-1] == -np.inf and np.ptp(want) > 1e-2


@pytest.mark.parametrize("system", SYSTEMS)
def test_on_the_way_it_answers_as_if_the_stream_ended_there(system):
    model, params = made(system, CLASSES)
    whole = [[3, 1, 8, 2], [5, 5, 2, 1], [7, 0, 4]]
    stream, mask = padded(whole, 4)
    after = jnp.array([1, 2, 3])
    slots, _ = model.apply(params, jnp.asarray(stream), jnp.asarray(mask), after, method="memorize_at")
    for time, segments in enumerate(after.tolist()):
        own = jax.tree.map(lambda leaf, time=time: leaf[time], slots)
        want = direct.logits(system, float64(params["params"]), whole[:segments], 2)
        assert_close(answered(model, params, own, jnp.array(2)), want, 1e-5)
