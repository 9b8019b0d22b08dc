"""Streams of vectors: in every system, rehearsed among the items of the same stream, and as ids of the same vectors.

Slips that were tried, each of which fails a test here: padding that reaches the projection; drawn places of padding
that count; the item itself among those that it is told from; the other stream's vectors in front.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.asking import T, memory
from oracles import losses
from oracles.checking import assert_close, assert_finite, assert_same
from training.tiny import random_params

from memjax import streaming
from memjax.errors import MemjaxError
from memjax.experiments.stream_qa.slot_measures import memorized, recollected_by_age
from memjax.models import DirectlyReason, HistorySampler, MemoryModel, MultiHopReason
from memjax.models.fragments import Among, as_ids, build_fragments
from memjax.models.rehearser import stream_candidates
from memjax.tasks import TaskShape, check_batch

N, WIDTH, OWN, QUERIES = 3, 8, 5, 9
SHAPE = TaskShape(0, T, N, QUERIES, None, "classes", 4, item_width=OWN)
SYSTEMS = {
    "memory": MemoryModel(SHAPE, memory(), WIDTH, 1, 1, 1, 2),
    "directly": DirectlyReason(SHAPE, WIDTH, 1, jnp.float32),
    "multi_hop": MultiHopReason(SHAPE, WIDTH, 1, jnp.float32, 1),
    "sampler": HistorySampler(SHAPE, WIDTH, 1, jnp.float32),
}
MASK = np.ones((T, N), bool)
MASK[1], MASK[-1, 1:] = False, False
STREAM, OTHER = np.float32(np.random.default_rng(0).normal(size=(2, T, N, OWN)))


@functools.cache
def params_of(name):
    return random_params(SYSTEMS[name], {"stream": STREAM, "mask": MASK, "query": np.array(1)})


def logits(name, stream=STREAM):
    def run(model, stream):
        return model.answer(model.memorize(stream, jnp.asarray(MASK))[0], jnp.array(2))

    return SYSTEMS[name].apply(params_of(name), jnp.asarray(stream), method=run)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_reads_vectors_and_no_padding(name):
    found = logits(name)
    assert found.shape == (4,) and np.isfinite(found).all()
    assert_same(logits(name, np.where(MASK[..., None], STREAM, np.nan)), found)
    assert (np.abs(logits(name, STREAM * np.float32(1.5)) - found) > 1e-5).any()


def test_the_same_vector_at_another_place_is_recollected():
    """Of a stream of one vector alone, whichever place is named."""
    batch = {"stream": np.ones((2, T, N, OWN), np.float32), "mask": np.stack([MASK, MASK])}
    slots = memorized(SYSTEMS["memory"], params_of("memory"), batch)
    found = recollected_by_age(SYSTEMS["memory"], params_of("memory"), batch, slots, mask_ratio=0.5)
    assert found and all(point["accuracy"] == 1 for point in found.values())


def test_an_item_is_projected():
    params = params_of("memory")["params"]["embed"]
    items = SYSTEMS["memory"].apply(params_of("memory"), jnp.asarray(STREAM), jnp.asarray(MASK), method="embed_items")
    want = STREAM @ np.float64(params["kernel"]) + np.float64(params["bias"])
    assert_close(items[MASK], want[MASK], 1e-5)


def rehearsed(stream=STREAM, params=None):
    """The fragments of the stream, their vectors, among what they are told, the two losses, what is recalled."""
    mask, chosen, drawn = jnp.asarray(MASK), jnp.array([0, 3, 2]), jnp.array([True, True, False])
    ids, others, vectors = as_ids(jnp.asarray(stream), mask, jnp.asarray(OTHER), mask)
    parts = build_fragments(jax.random.key(2), ids, mask, others, mask, chosen, drawn, mask_ratio=0.5)
    among = Among(ids.reshape(-1), mask.reshape(-1))

    def run(model, vectors):
        slots, _ = model.memorize(jnp.asarray(stream), mask)
        told = {"negatives": 4, "key": jax.random.key(4), "vectors": vectors, "among": among}
        return model.rehearse(slots, parts, **told), model.rehearser(
            slots, model.embed(vectors)[parts.items], parts.real, parts.hidden
        )

    found, (recalled, _) = SYSTEMS["memory"].apply(params or params_of("memory"), vectors, method=run)
    return parts, vectors, among, found, recalled


def test_recollection_tells_a_vector_from_others_of_the_same_stream():
    parts, vectors, among, (recollection, _), recalled = rehearsed()
    embed = jax.tree.map(np.float64, params_of("memory")["params"]["embed"])
    table = np.float64(vectors) @ embed["kernel"] + embed["bias"]
    targets, valid, ids = map(np.asarray, stream_candidates(jax.random.key(4), parts.items, 4, among, vectors))
    assert set(ids[parts.items.size :]) <= set(np.flatnonzero(MASK)) and len(set(ids[parts.items.size :])) == 4
    want = [
        losses.recollection_loss(np.float64(recalled[f]), table[ids], targets[f], parts.hidden[f], valid[f])
        for f in np.flatnonzero(parts.drawn)
    ]
    np.testing.assert_allclose(recollection, np.mean(want), rtol=1e-5)


def test_a_negative_fragment_has_vectors_of_the_other_stream():
    parts, vectors, *_ = rehearsed()
    replaced = np.asarray(parts.negative != parts.items)
    assert replaced[:2].any()
    others = {tuple(v) for v in OTHER[MASK].tolist()}
    assert all(tuple(v) in others for v in np.asarray(vectors)[parts.negative[replaced]].tolist())
    own = np.asarray(vectors)[np.where(parts.real, parts.items, 0)]
    assert (own[np.asarray(parts.real)] == STREAM[[0, 3, 2]][np.asarray(parts.real)]).all()


def test_every_place_of_the_stream_is_drawn_at_most_once_and_padding_never():
    among = Among(jnp.array([7, 7, 5, 3, 2]), jnp.array([True, True, True, False, True]))
    items = jnp.array([[7, 2]])
    for seed in range(20):
        targets, valid, ids = map(np.asarray, stream_candidates(jax.random.key(seed), items, 9, among))
        assert targets.tolist() == [[0, 1]] and ids[:2].tolist() == [7, 2]
        for place, item in enumerate((7, 2)):
            assert sorted(ids[valid[0, place]].tolist()) == sorted({7: [5, 2], 2: [7, 7, 5]}[item])
    seen = {tuple(np.asarray(stream_candidates(jax.random.key(s), items, 1, among)[2])) for s in range(60)}
    assert {ids[-1] for ids in seen} == {7, 5, 2}


def test_an_equal_vector_elsewhere_is_no_negative():
    vectors = jnp.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0], [0.0, 0.0]])
    among, items = Among(jnp.arange(4), jnp.array([True, True, True, False])), jnp.array([[0, 2]])
    _, valid, ids = map(np.asarray, stream_candidates(jax.random.key(0), items, 4, among, vectors))
    assert set(ids[valid[0, 0]].tolist()) == {2} and set(ids[valid[0, 1]].tolist()) == {0, 1}


def test_recollection_has_gradients_to_the_stream_and_nothing_of_the_padding():
    def loss(stream, params):
        *_, (recollection, familiarity), _ = rehearsed(stream, params)
        return recollection + familiarity

    garbage = jnp.where(MASK[..., None], STREAM, jnp.nan)
    slope, by_params = jax.grad(loss, (0, 1))(garbage, params_of("memory"))
    assert_finite(slope)
    assert_finite(by_params)
    assert_same(by_params, jax.grad(loss, 1)(jnp.asarray(STREAM), params_of("memory")))
    assert (slope[~MASK] == 0).all() and (np.abs(slope[MASK]).max(-1) > 0).all()


def test_a_batch_of_vectors_is_checked():
    batch = {"stream": STREAM[None], "mask": MASK[None], "query": np.array([1]), "label": np.array([3])}
    check_batch(SHAPE, batch)
    check_batch(SHAPE, batch | {"stream": np.where(MASK[..., None], STREAM, np.nan)[None]})  # it is padding
    for change, words in (
        ({"stream": np.where(STREAM > 1, np.inf, STREAM)[None]}, "vectors with numbers that are not finite"),
        ({"stream": STREAM[None].astype(int)}, "vectors of a stream must be floats, not int64"),
        ({"stream": STREAM[None, ..., :4]}, r"must be \[B, 4, 3\], vectors \[5\]"),
    ):
        with pytest.raises(MemjaxError, match=words):
            check_batch(SHAPE, batch | change)
    for items, width in ((3, 5), (0, 0), (0, None)):
        with pytest.raises(MemjaxError, match="items are ids, of which there is at least one, or vectors"):
            TaskShape(items, T, N, QUERIES, None, "classes", 4, item_width=width)


def test_states_are_streamed_as_vectors_come():
    model, params = SYSTEMS["memory"], params_of("memory")
    states = streaming.start(model, params, 3)
    whole = streaming.write(model, params, states, [2], STREAM[None, :1], MASK[None, :1])
    parts = streaming.write(model, params, states, [2], [STREAM[0].tolist()])
    assert_close(parts, whole, 1e-6)
    for stream, words in (
        ([[[1.0, 2.0]]], r"a stream is a list of vectors \[5\], not float64\[1, 2\]"),
        ([[[1.0] * 5, [1.0] * 4]], r"a stream is a list of vectors \[5\], not lists of several lengths"),
        ([[[np.nan] * 5]], "numbers that are not finite"),
    ):
        with pytest.raises(MemjaxError, match=words):
            streaming.write(model, params, states, [2], stream)
