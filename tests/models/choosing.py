"""A text, a question and candidates, and how a system that reads the text itself answers: for several test files."""

import functools

import jax
import numpy as np
from training.tiny import random_params

from memjax.tasks.stream_task import TaskShape

ITEMS, T, N, WIDTH = 12, 4, 3, 8
SHAPE = TaskShape(ITEMS, T, N, ITEMS, 4, "candidates", 5)
MASK = np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 0]], bool)
STREAM = np.where(MASK, np.arange(3, 3 + T * N).reshape(T, N) % 5 + 2, 0)  # words 2 to 6, some of them twice
QUERY, CANDIDATES = np.array([7, 3, 0, 0]), np.array([[3, 0, 0], [2, 4, 0], [9, 10, 11], [3, 9, 3], [0, 0, 0]])
REAL = [text[text != 0] for text in CANDIDATES[:-1]]


@functools.cache
def params_of(model):
    return random_params(model, {"stream": STREAM, "mask": MASK, "query": QUERY, "candidates": CANDIDATES})


@functools.partial(jax.jit, static_argnums=0)
def answered(model, params, stream, mask, query, candidates):
    slots, _ = model.apply(params, stream, mask, method="memorize")
    return model.apply(params, slots, query, candidates, method="answer")
