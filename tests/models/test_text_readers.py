"""What all systems keep that read a text themselves and choose among texts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from choosing import CANDIDATES, ITEMS, MASK, QUERY, SHAPE, STREAM, WIDTH, N, T, answered, params_of
from oracles.checking import assert_close

from memjax.errors import MemjaxError
from memjax.models import MSAN, AttentionSumReader, MemN2NRanker, MultiStream
from memjax.tasks import TaskShape

MODELS = {
    "the AS Reader finds words of an answer in the stream": AttentionSumReader(SHAPE, WIDTH),
    "MemN2N embeds the words of a candidate as those of the stream": MemN2NRanker(SHAPE, WIDTH, hops=2),
    "Multi-Stream matches the words of a candidate with those of the stream": MultiStream(SHAPE, WIDTH),
    "MSAN looks for the moment of a candidate in the stream": MSAN(SHAPE, WIDTH, heads=2),
}
OTHERS = [
    TaskShape(ITEMS, T, N, ITEMS, 4, "classes", 5),
    TaskShape(ITEMS, T, N, ITEMS - 1, 4, "candidates", 5),
    TaskShape(ITEMS, T, N, ITEMS, None, "candidates", 5),
]
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: type(model).__name__)


@every_model
def test_padding_changes_nothing(model):
    params = params_of(model)
    found = answered(model, params, STREAM, MASK, QUERY, CANDIDATES)
    wider = jnp.pad(STREAM, ((0, 2), (0, 1)), constant_values=5), jnp.pad(MASK, ((0, 2), (0, 1)))
    longer = answered(model, params, *wider, jnp.pad(QUERY, (0, 3)), jnp.pad(CANDIDATES, ((0, 0), (0, 2))))
    assert_close(longer[:-1], found[:-1], 1e-5)


@every_model
def test_a_question_on_the_way_is_answered_from_what_was_read_alone(model):
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


@every_model
def test_all_of_it_learns(model):
    """Finite gradients, of what is read of an empty text too, and none that is zero by mistake."""
    params = params_of(model)

    def loss(params, mask):
        return jax.nn.logsumexp(answered(model, params, STREAM, mask, QUERY, CANDIDATES)[:-1] * jnp.arange(1, 5))

    gradient = jax.jit(jax.grad(loss))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient(params, np.zeros_like(MASK))))
    for path, leaf in jax.tree.leaves_with_path(gradient(params, MASK)):
        assert np.isfinite(leaf).all() and (leaf != 0).any(), path


@pytest.mark.parametrize("shape", OTHERS)
@pytest.mark.parametrize(("words", "model"), MODELS.items(), ids=[type(model).__name__ for model in MODELS.values()])
def test_a_task_of_other_answers_is_refused_in_one_line(words, model, shape):
    with pytest.raises(MemjaxError, match=words) as caught:
        model.clone(shape=shape)
    assert "\n" not in str(caught.value)


@every_model
def test_a_width_that_cannot_be_halved_is_refused(model):
    with pytest.raises(MemjaxError, match="width must be even"):
        model.clone(width=7)
