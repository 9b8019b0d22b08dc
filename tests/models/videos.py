"""A video, a question about it, and how a system that reads the frames itself answers: for several test files."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from models import asking
from oracles.checking import assert_close
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
KINDS = [("classes", False), ("classes", True), ("candidates", True), ("click", False)]


@functools.cache
def params_of(model):
    return random_params(model, {"stream": STREAM, "mask": MASK, "query": QUERY})


@functools.partial(jax.jit, static_argnums=0)
def answered(model, params, stream, mask, query):
    slots, _ = model.apply(params, stream, mask, method="memorize")
    return model.apply(params, slots, query, method="answer")


def check_padding(model):
    params = params_of(model)
    found = answered(model, params, STREAM, MASK, QUERY)
    other = answered(model, params, np.where(MASK[..., None], STREAM, 9).astype(np.float32), MASK, QUERY)
    np.testing.assert_array_equal(other, found)
    # A segment more behind and before, frames more at both ends of each, and a longer question.
    around = ((1, 1), (1, 1))
    wider = np.pad(STREAM, (*around, (0, 0)), constant_values=np.nan), np.pad(MASK, around)
    assert_close(answered(model, params, *wider, np.pad(QUERY, (0, 3))), found, 1e-6)


def check_what_is_asked_on_the_way(model):
    params, after = params_of(model), np.array([0, 1, 3, T])
    read = jnp.asarray(STREAM), jnp.asarray(MASK), jnp.asarray(after)
    slots, aux_loss = jax.jit(functools.partial(model.apply, method="memorize_at"))(params, *read)
    found = jax.vmap(lambda slots: model.apply(params, slots, jnp.asarray(QUERY), method="answer"))(slots)
    assert aux_loss == 0
    for segments, logits in zip(after, found, strict=True):
        cut = MASK & (np.arange(T) < segments)[:, None]
        assert np.isfinite(logits).all()
        assert_close(logits, answered(model, params, STREAM, cut, QUERY), 1e-6)
    assert np.abs(np.diff(found, axis=0)).max(1).min() > 1e-4  # each time another answer


def check_gradients(model):
    """Finite gradients, of a video without frames and an empty question too, and none that is zero by mistake."""
    params = params_of(model)

    def loss(params, mask, query):
        return jax.nn.logsumexp(answered(model, params, STREAM, mask, query) * jnp.arange(1, CLASSES + 1))

    gradient = jax.jit(jax.grad(loss))
    nothing = gradient(params, np.zeros_like(MASK), np.zeros_like(QUERY))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(nothing))
    for path, leaf in jax.tree.leaves_with_path(gradient(params, MASK, QUERY)):
        assert np.isfinite(leaf).all() and (leaf != 0).any(), path


def check_other_tasks(make):
    """Items and questions that are ids, and all kinds of answers; nothing is compiled."""
    for answer, text in KINDS:
        one, model = asking.example(answer, text), make(asking.shape(answer, text))

        def run(model, one=one):
            return model.answer(model.memorize(one["stream"], one["mask"])[0], one["query"], one.get("candidates"))

        logits, _ = jax.eval_shape(
            lambda key, model=model, run=run: model.init_with_output(key, method=run), jax.random.key(0)
        )
        assert logits.shape == (2 if answer == "click" else asking.CHOICES,)
