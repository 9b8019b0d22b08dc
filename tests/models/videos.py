"""A video, a question about it, and how a system that reads the frames itself answers: for several test files."""

import functools

import jax
import numpy as np
from training.tiny import random_params

from memjax.tasks.stream_task import TaskShape

T, N, OWN, WIDTH, WORDS, CLASSES = 6, 6, 5, 8, 4, 3
SHAPE = TaskShape(0, T, N, 9, WORDS, "classes", CLASSES, item_width=OWN)
MASK = np.ones((T, N), bool)
MASK[0, [1, 4]], MASK[1], MASK[2, 1:], MASK[-1, :3] = False, False, False, False
STREAM = np.float32(np.random.default_rng(3).normal(size=(T, N, OWN)))
STREAM[~MASK] = np.nan
CLIPS = [frames[real] for frames, real in zip(STREAM, MASK, strict=True) if real.any()]
QUERY = np.array([7, 3, 5, 0])
REAL = QUERY[QUERY != 0]


@functools.cache
def params_of(model):
    return random_params(model, {"stream": STREAM, "mask": MASK, "query": QUERY})


@functools.partial(jax.jit, static_argnums=0)
def answered(model, params, stream, mask, query):
    slots, _ = model.apply(params, stream, mask, method="memorize")
    return model.apply(params, slots, query, method="answer")
