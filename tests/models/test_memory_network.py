"""MemN2N against a loop over the paper's equations; time indices; padding; what it refuses.

Slips tried, each of which fails a test here: another slope of the position weights; k from 0; H transposed; empty rows
without a share; softmaxes in the linear start; A and C exchanged; the oldest sentence with time 1; the weights as
printed.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import memory_network as oracle
from oracles.checking import assert_close, assert_finite, assert_same

from memjax.errors import MemjaxError
from memjax.models.memory_network import MemN2N, answer_rows, time_indices
from memjax.tasks.stream_task import TaskShape

WORDS, T, N, W, D = 7, 6, 4, 3, 4
SHAPE = TaskShape(WORDS, T, N, WORDS, W, "classes", 3)
ROWS = answer_rows(("<pad>", "<unknown>", "a", "b", "c", "d", "e"), ("b", "a,c", "yes"))
STORY = [[2, 3, 4], [5], [6, 2, 2, 3], [3, 5], [4, 4]]  # of T segments the last one is padding
QUERY = [5, 2]


def model(**options):
    return MemN2N(**{"shape": SHAPE, "answers": ROWS, "width": D, "hops": 2, "memory": 4} | options)


def padded(story):
    stream = np.zeros((T, N), np.int32)
    for line, words in zip(stream, story):
        line[: len(words)] = words
    return jnp.asarray(stream), jnp.asarray(stream != 0)


def question(words=QUERY):
    return jnp.asarray(words + [0] * (W - len(words)))


def initial(net):
    """Parameters without compiling an initialization, far enough from 0 for every part to matter."""
    shapes = jax.eval_shape(lambda: net.init(jax.random.key(0), *padded(STORY), question()))
    rng = np.random.default_rng(2)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) / 2, leaf.dtype), shapes)
    params["params"]["words"] = params["params"]["words"].at[:, 0].set(0)
    return params


@pytest.mark.parametrize("story", [STORY, STORY[:2], []])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize(
    ("tying", "encoding", "hops", "temporal", "places"),
    [
        ("adjacent", "position", 3, True, None),
        ("adjacent", "position", 2, True, 9),
        ("adjacent", "bag", 1, False, None),
        ("layer_wise", "position", 1, False, None),
        ("layer_wise", "bag", 3, True, None),
    ],
)
def test_logits_are_the_oracles(tying, encoding, hops, temporal, places, linear, story):
    net = model(hops=hops, tying=tying, encoding=encoding, temporal=temporal, places=places)
    params = initial(net)

    def logits(net, stream, mask, query):
        slots, loss = net.memorize(stream, mask)
        return net.ask(slots.values, slots.mask, net.weigh(query, query != 0), linear=linear), loss

    found, loss = net.apply(params, *padded(story), question(), method=logits)
    expected = oracle.answer(params["params"], story, QUERY, tying, encoding, hops, 4, linear, places=places)
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-4, atol=1e-5)
    assert found[0] == jnp.finfo(jnp.float32).min and loss == 0
    if not linear:
        np.testing.assert_allclose(net.apply(params, *padded(story), question()), expected[list(ROWS)], rtol=1e-4)


def test_an_answer_is_its_words_row_or_a_row_behind_the_vocabulary():
    assert ROWS == (3, 7, 8)
    assert model().entries == 9 and initial(model())["params"]["words"].shape == (3, 9, D)
    assert model(answers=(2, 3, 4)).entries == WORDS


def test_adjacent_tying_shares_and_layer_wise_tying_does_not_grow():
    def sizes(net):
        return jax.tree.map(jnp.shape, initial(net)["params"])

    assert sizes(model(hops=3)) == {"words": (4, 9, D), "times": (4, 4, D)}
    layer_wise = {"words": (4, 9, D), "times": (2, 4, D), "transition": (D, D)}
    assert sizes(model(hops=1, tying="layer_wise")) == sizes(model(hops=3, tying="layer_wise")) == layer_wise


def test_initial_parameters_are_normal_with_deviation_a_tenth():
    net = model(width=64)
    params = jax.jit(net.init)(jax.random.key(1), *padded(STORY), question())["params"]
    assert (params["words"][:, 0] == 0).all()
    for values in (params["words"][:, 1:], params["times"]):
        assert abs(values.mean()) < 0.01 and abs(values.std() - 0.1) < 0.01


def test_only_the_last_sentences_are_kept_and_the_newest_has_time_index_1():
    net = model()
    params = initial(net)
    assert_same(net.apply(params, *padded(STORY), question()), net.apply(params, *padded(STORY[1:]), question()))
    slots, _ = net.apply(params, *padded(STORY), method="memorize")
    tables, newest = params["params"], slots.values[0].reshape(3, D)
    for table in range(3):
        words = np.asarray(tables["words"][table])[STORY[-1]]
        expected = 2 * oracle.embed_sentence(words, [True] * len(words)) + tables["times"][table, 0]
        np.testing.assert_allclose(newest[table], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gap", [0, 2])
def test_padding_anywhere_in_the_stream_changes_nothing(gap):
    net = model()
    params, story = initial(net), STORY[:4]
    stream, mask = padded([*story[:gap], [], *story[gap:]])
    garbage = jnp.where(mask, stream, 5)
    # A pool of other rows beside them is as if it were not there: rows are not read by their place.
    assert_close(net.apply(params, garbage, mask, question()), net.apply(params, *padded(story), question()), 1e-6)


def test_no_sentence_and_no_question_give_finite_logits_and_gradients():
    net = model()
    params = initial(net)

    def total(params):
        return net.apply(params, *padded([]), question([])).sum()

    assert_finite((total(params), jax.grad(total)(params)))


def test_the_row_of_padding_has_no_gradient():
    net = model()
    params = initial(net)

    def loss(params):
        def all_logits(net, stream, mask, query):
            slots, _ = net.memorize(stream, mask)
            return net.ask(slots.values, slots.mask, net.weigh(query, query != 0))

        return -jax.nn.log_softmax(net.apply(params, *padded(STORY), question(), method=all_logits))[3]

    gradient = jax.grad(loss)(params)["params"]["words"]
    assert (gradient[:, 0] == 0).all() and (gradient[:, 2:7] != 0).any((0, 2)).all()


def test_bfloat16_is_near_float32():
    net = model()
    params = initial(net)
    near = dataclasses.replace(net, dtype=jnp.bfloat16).apply(params, *padded(STORY), question())
    assert near.dtype == jnp.float32
    assert_close(near, net.apply(params, *padded(STORY), question()), 0.05)


# Random noise.


def drawn(count, rows=50, limit=100, draws=300):
    keys = jax.random.split(jax.random.key(3), draws)
    return np.asarray(jax.vmap(lambda key: time_indices(jnp.array(count), rows, limit, key=key))(keys))[:, :count]


@pytest.mark.parametrize(("count", "most"), [(1, 1), (7, 1), (10, 1), (11, 2), (50, 5)])
def test_noise_only_inserts_empty_indices_up_to_a_tenth_and_keeps_the_order(count, most):
    indices = drawn(count)
    assert (np.diff(indices, axis=1) >= 1).all() and (indices[:, 0] >= 1).all()
    inserted = indices[:, -1] - count  # those behind the oldest are not seen
    assert inserted.min() == 0 and inserted.max() == most


def test_every_arrangement_of_empty_indices_is_as_likely():
    """Of 11 sentences with 0, 1 or 2 empties: a third each, and within it all places alike."""
    indices = drawn(11, rows=20, draws=30_000)
    found, counts = np.unique(indices, axis=0, return_counts=True)
    share = {tuple(row): n / counts.sum() for row, n in zip(found, counts, strict=True)}
    plain = tuple(range(1, 12))
    # No empties; the one behind all others of 12 places; both behind all others, of 13 * 12 / 2 arrangements.
    assert abs(share[plain] - (1 / 3 + 1 / 3 / 12 + 1 / 3 / 78)) < 0.02
    shifted = tuple(range(3, 14))
    assert abs(share[shifted] - 1 / 3 / 78) < 0.003


def test_noise_does_not_leave_the_memory_and_is_none_without_a_key():
    assert drawn(50, limit=50).max() == 50
    assert time_indices(jnp.array(3), 4, 4).tolist() == [1, 2, 3, 4]
    net = model()
    params, noisy = initial(net), set()
    plain, _ = net.apply(params, *padded(STORY), method="memorize")
    for seed in range(20):
        slots, _ = net.apply(params, *padded(STORY), key=jax.random.key(seed), method="memorize")
        noisy.add(bool((slots.values != plain.values).any()))
        assert_same(slots.mask, plain.mask)
    assert noisy == {True, False}


# What does not fit.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tying": "adjacant"}, "unknown tying 'adjacant'; did you mean 'adjacent'?"),
        ({"places": 3}, "more than the 4 words of the longest text"),
        ({"places": 9, "encoding": "bag"}, "places are for encoding position"),
        ({"encoding": "positon"}, "unknown encoding 'positon'; did you mean 'position'?"),
        ({"hops": 0}, "hops of MemN2N must be a whole number of at least 1, not 0"),
        ({"hops": 1.5}, "hops of MemN2N must be a whole number of at least 1, not 1.5"),
        ({"memory": 0}, "memory of MemN2N must be a whole number of at least 1, not 0"),
        ({"answers": (3,)}, "answers must have a row of at least 1 for each of the 3 classes"),
        ({"answers": (0, 1, 2)}, "answers must have a row of at least 1 for each of the 3 classes"),
        ({"shape": dataclasses.replace(SHAPE, answer="click")}, "MemN2N needs answers that are classes, not click"),
        ({"shape": dataclasses.replace(SHAPE, query_words=None)}, "MemN2N needs questions that are texts"),
    ],
)
def test_what_does_not_fit_is_one_line(options, message, unchecked):
    with pytest.raises(MemjaxError) as caught:
        model(**options).init(jax.random.key(0), *padded(STORY), question())
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_stream_of_another_shape_is_one_clear_line(unchecked):
    net = model()
    params, (stream, mask) = initial(net), padded(STORY)
    for other in ((stream[:2], mask[:2]), (stream[None], mask[None]), (stream, mask[:3])):
        with pytest.raises(MemjaxError, match=r"a stream and its mask are \[6, 4\]"):
            net.apply(params, *other, question())
