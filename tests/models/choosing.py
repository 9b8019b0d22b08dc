"""A text, a question and candidates, and how a system that reads the text itself answers: for several test files."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from oracles.checking import assert_close
from training.tiny import random_params

from memjax.tasks.stream_task import TaskShape

ITEMS, T, N, WIDTH = 12, 4, 3, 8
SHAPE = TaskShape(ITEMS, T, N, ITEMS, 4, "candidates", 5)
MASK = np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 0]], bool)
STREAM = np.where(MASK, np.arange(3, 3 + T * N).reshape(T, N) % 5 + 2, 0)  # words 2 to 6, some of them twice
QUERY, CANDIDATES = np.array([7, 3, 0, 0]), np.array([[3, 0, 0], [2, 4, 0], [9, 10, 11], [3, 9, 3], [0, 0, 0]])
REAL = [text[text != 0] for text in CANDIDATES[:-1]]
OTHERS = [
    TaskShape(ITEMS, T, N, ITEMS, 4, "classes", 5),
    TaskShape(ITEMS, T, N, ITEMS - 1, 4, "candidates", 5),
    TaskShape(ITEMS, T, N, ITEMS, None, "candidates", 5),
]


@functools.cache
def params_of(model):
    return random_params(model, {"stream": STREAM, "mask": MASK, "query": QUERY, "candidates": CANDIDATES})


@functools.partial(jax.jit, static_argnums=0)
def answered(model, params, stream, mask, query, candidates):
    slots, _ = model.apply(params, stream, mask, method="memorize")
    return model.apply(params, slots, query, candidates, method="answer")


def check_padding(model):
    params = params_of(model)
    found = answered(model, params, STREAM, MASK, QUERY, CANDIDATES)
    wider = jnp.pad(STREAM, ((0, 2), (0, 1)), constant_values=5), jnp.pad(MASK, ((0, 2), (0, 1)))
    longer = answered(model, params, *wider, jnp.pad(QUERY, (0, 3)), jnp.pad(CANDIDATES, ((0, 0), (0, 2))))
    assert_close(longer[:-1], found[:-1], 1e-5)


def check_what_is_asked_on_the_way(model):
    params, after = params_of(model), np.array([0, 1, T])
    read = jnp.asarray(STREAM), jnp.asarray(MASK), jnp.asarray(after)
    slots, aux_loss = model.apply(params, *read, method="memorize_at")
    asked = jnp.asarray(QUERY), jnp.asarray(CANDIDATES)
    found = jax.vmap(lambda slots: model.apply(params, slots, *asked, method="answer"))(slots)
    assert aux_loss == 0
    for segments, logits in zip(after, found, strict=True):
        prefix = answered(model, params, STREAM, MASK & (np.arange(T) < segments)[:, None], QUERY, CANDIDATES)
        assert np.isfinite(logits[:-1]).all() and logits[-1] == -jnp.inf
        assert_close(logits[:-1], prefix[:-1], 1e-6)


def check_gradients(model):
    """Finite gradients, of what is read of an empty text too, and none that is zero by mistake."""
    params = params_of(model)

    def loss(params, mask):
        return jax.nn.logsumexp(answered(model, params, STREAM, mask, QUERY, CANDIDATES)[:-1] * jnp.arange(1, 5))

    gradient = jax.jit(jax.grad(loss))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient(params, np.zeros_like(MASK))))
    for path, leaf in jax.tree.leaves_with_path(gradient(params, MASK)):
        assert np.isfinite(leaf).all() and (leaf != 0).any(), path
