"""The AS Reader against its equations word by word; padding; what it is asked on the way."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import attention_sum
from oracles.checking import assert_close
from training.tiny import random_params

from memjax.errors import MemjaxError
from memjax.models import AttentionSumReader
from memjax.models.attention_sum_reader import SMALLEST
from memjax.tasks.stream_task import TaskShape

ITEMS, T, N, WIDTH = 12, 4, 3, 8
SHAPE = TaskShape(ITEMS, T, N, ITEMS, 4, "candidates", 5)
MASK = np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 0]], bool)
STREAM = np.where(MASK, np.arange(3, 3 + T * N).reshape(T, N) % 5 + 2, 0)  # words 2 to 6, some of them twice
QUERY, CANDIDATES = np.array([7, 3, 0, 0]), np.array([[3, 0, 0], [2, 4, 0], [9, 10, 11], [3, 9, 3], [0, 0, 0]])
MODEL = AttentionSumReader(SHAPE, WIDTH)


@functools.cache
def params():
    return random_params(MODEL, {"stream": STREAM, "mask": MASK, "query": QUERY, "candidates": CANDIDATES})


@jax.jit
def answered(params, stream, mask, query, candidates):
    slots, _ = MODEL.apply(params, stream, mask, method="memorize")
    return MODEL.apply(params, slots, query, candidates, method="answer")


def test_its_logits_are_those_of_the_equations():
    found = answered(params(), STREAM, MASK, QUERY, CANDIDATES)
    p = jax.tree.map(np.float64, params()["params"])
    real = [text[text != 0] for text in CANDIDATES[:-1]]
    want = attention_sum.logits(p, STREAM[MASK], QUERY[QUERY != 0], real, SMALLEST)
    assert_close(found[:-1], want, 1e-5)
    assert found[-1] == -jnp.inf and want[2] == np.log(SMALLEST) and len(set(want)) == 4


def test_padding_changes_nothing():
    found = answered(params(), STREAM, MASK, QUERY, CANDIDATES)
    wider = jnp.pad(STREAM, ((0, 2), (0, 1)), constant_values=5), jnp.pad(MASK, ((0, 2), (0, 1)))
    longer = answered(params(), *wider, jnp.pad(QUERY, (0, 3)), jnp.pad(CANDIDATES, ((0, 0), (0, 2))))
    assert_close(longer[:-1], found[:-1], 1e-5)


def test_a_question_on_the_way_is_answered_from_what_was_read_alone():
    read = jnp.asarray(STREAM), jnp.asarray(MASK), jnp.array([1, T])
    slots, _ = MODEL.apply(params(), *read, method="memorize_at")
    asked = jnp.asarray(QUERY), jnp.asarray(CANDIDATES)
    found = jax.vmap(lambda slots: MODEL.apply(params(), slots, *asked, method="answer"))(slots)
    prefix = answered(params(), STREAM, MASK & (np.arange(T) < 1)[:, None], QUERY, CANDIDATES)
    assert_close(found[0][:-1], prefix[:-1], 1e-6)
    assert_close(found[1][:-1], answered(params(), STREAM, MASK, QUERY, CANDIDATES)[:-1], 1e-6)


@pytest.mark.parametrize(
    "shape",
    [
        TaskShape(ITEMS, T, N, ITEMS, 4, "classes", 5),
        TaskShape(ITEMS, T, N, ITEMS - 1, 4, "candidates", 5),
        TaskShape(ITEMS, T, N, ITEMS, None, "candidates", 5),
    ],
)
def test_a_task_of_other_answers_is_refused_in_one_line(shape):
    with pytest.raises(MemjaxError, match="the AS Reader finds words of an answer in the stream") as caught:
        AttentionSumReader(shape, WIDTH)
    assert "\n" not in str(caught.value)
