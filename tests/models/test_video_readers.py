"""E-VQA, E-MN and E-SA against their equations frame by frame; what they and HCRN keep of padding and on the way.

Slips that were tried, each of which fails a test here: states of the whole video for a question on the way; rows
of padding that are asked; E-SA without the product with the question.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import asking
from models.videos import (
    CLASSES,
    CLIPS,
    MASK,
    QUERY,
    REAL,
    SHAPE,
    STREAM,
    WIDTH,
    T,
    answered,
    params_of,
)
from oracles import video_readers
from oracles.checking import assert_close, float64

from memjax.models import EMN, ESA, EVQA, HCRN

MAKE = {
    "e_vqa": functools.partial(EVQA, width=WIDTH, head_layers=0, dtype=jnp.float32),
    "e_mn": functools.partial(EMN, width=WIDTH, head_layers=0, dtype=jnp.float32, hops=2),
    "e_sa": functools.partial(ESA, width=WIDTH, head_layers=0, dtype=jnp.float32),
}
EVERY = {**MAKE, "hcrn": functools.partial(HCRN, width=WIDTH, head_layers=0, dtype=jnp.float32)}
MODELS = {name: make(SHAPE) for name, make in EVERY.items()}
KINDS = [("classes", False), ("classes", True), ("candidates", True), ("click", False)]
SIZES = {"e_mn": {"hops": 2}}


@pytest.mark.parametrize("name", MAKE)
def test_its_logits_are_those_of_the_equations(name):
    params = params_of(MODELS[name])
    found = answered(MODELS[name], params, STREAM, MASK, QUERY)
    oracle = getattr(video_readers, name)
    want = oracle(float64(params["params"]), np.float64(np.concatenate(CLIPS)), REAL, **SIZES.get(name, {}))
    assert_close(found, want, 1e-5)
    assert np.ptp(want) > 1e-2


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_nothing(name):
    model = MODELS[name]
    params = params_of(model)
    found = answered(model, params, STREAM, MASK, QUERY)
    other = answered(model, params, np.where(MASK[..., None], STREAM, 9).astype(np.float32), MASK, QUERY)
    np.testing.assert_array_equal(other, found)
    # A segment more behind and before, frames more at both ends of each, and a longer question.
    around = ((1, 1), (1, 1))
    wider = np.pad(STREAM, (*around, (0, 0)), constant_values=np.nan), np.pad(MASK, around)
    assert_close(answered(model, params, *wider, np.pad(QUERY, (0, 3))), found, 1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_a_question_on_the_way_is_answered_from_what_was_read_alone(name):
    model = MODELS[name]
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


@pytest.mark.parametrize("name", MODELS)
def test_all_of_it_learns(name):
    """Finite gradients, of a video without frames and an empty question too, and none that is zero by mistake."""
    model = MODELS[name]
    params = params_of(model)

    def loss(params, mask, query):
        return jax.nn.logsumexp(answered(model, params, STREAM, mask, query) * jnp.arange(1, CLASSES + 1))

    gradient = jax.jit(jax.grad(loss))
    nothing = gradient(params, np.zeros_like(MASK), np.zeros_like(QUERY))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(nothing))
    for path, leaf in jax.tree.leaves_with_path(gradient(params, MASK, QUERY)):
        assert np.isfinite(leaf).all() and (leaf != 0).any(), path


@pytest.mark.parametrize("name", MODELS)
def test_it_reads_ids_and_answers_in_every_way(name):
    """Items and questions that are ids, and all kinds of answers; nothing is compiled."""
    for answer, text in KINDS:
        one, model = asking.example(answer, text), EVERY[name](asking.shape(answer, text))

        def run(model, one=one):
            return model.answer(model.memorize(one["stream"], one["mask"])[0], one["query"], one.get("candidates"))

        logits, _ = jax.eval_shape(
            lambda key, model=model, run=run: model.init_with_output(key, method=run), jax.random.key(0)
        )
        assert logits.shape == (2 if answer == "click" else asking.CHOICES,)
