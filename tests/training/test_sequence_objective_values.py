"""What is minimised and measured on sequences of tokens and of bits, against NumPy: values and slopes.

Slips tried, each of which fails a test here: no dropout in training; the mean over all tokens, or over the steps that
ask in place of their bits; a sum over the batch; a token without a target counted, or the padding of the last block;
bits that are not asked for; accuracy the other way, or from another threshold; an answer right by one of its tokens;
a state that is not handed on between blocks; losses not counted; wrong bits not by the sequence, or the right ones;
perplexity by another base.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import objectives
from training.slopes import assert_slopes
from training.tallied import assert_tallied
from training.tiny import mapping

from memjax.experiments.algorithmic_family import build_cell
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.experiments.sequence import build_sequence, measure_sequence
from memjax.training.evaluate import make_evaluator

TRAINING = {"training.batch_size": 8, "training.steps": 2}
LAYER = {
    "model.layer": "memn2n", "model.width": 6, "model.depth": 1, "model.heads": 1, "model.hidden": 0,
    "model.window": 4, "model.chunk": 4,
}  # fmt: skip
RECALL = {
    "task.key_tokens": 5, "task.value_tokens": 5, "task.noise_tokens": 3, "task.pairs": 2, "task.length": 12,
    "task.longest": 2, "task.train": 40, "task.valid": 8, "task.test": 4, "model.dropout": 0.3, **LAYER, **TRAINING,
}  # fmt: skip
BITS = {
    "task.bits": 3, "task.shortest": 1, "task.longest": 3, "task.test_lengths": "3,5", "task.train": 40,
    "task.valid": 8, "task.test": 3, "model.rows": 4, "model.memory_width": 3, "model.hidden": 5, **TRAINING,
}  # fmt: skip


def random_params(prepared, example, scale=0.5):
    """Drawn without compiling an initialization."""
    shapes = jax.eval_shape(lambda: prepared.phases[-1].init(jax.random.key(0), jax.tree.map(jnp.asarray, example)))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: (scale * rng.normal(size=leaf.shape)).astype(np.float32), shapes)


class Made(NamedTuple):
    """logits: `(params, batch, train) -> ` those of each row. wanted: what the oracle compares them with."""

    prepared: Any
    params: dict
    batch: dict
    logits: Callable
    oracle: Callable
    wanted: tuple[str, ...]

    def found(self, params, batch, train):
        """(losses, which are right) of each row, by the oracle."""
        rows = zip(self.logits(params, batch, train), *(batch[name] for name in self.wanted), strict=True)
        return [self.oracle(*row) for row in rows]


@functools.cache
def tokens():
    """Sequences with 1, 4, 12 and 3 targets; what is trained has dropout."""
    prepared = prepare(from_mapping(mapping("lmm", "recall", RECALL)))
    model, rng = build_sequence(prepared.config.model, prepared.task.shape), np.random.default_rng(1)
    asked = np.array(["000100000000", "100001100001", "111111111111", "000000011100"])
    asked = np.array([[step == "1" for step in row] for row in asked])
    batch = {"tokens": rng.integers(0, 13, asked.shape), "key": jax.random.split(jax.random.key(2), 4)}

    @functools.partial(jax.jit, static_argnums=3)
    @functools.partial(jax.vmap, in_axes=(None, 0, 0, None))
    def run(params, tokens, key, train):
        return model.apply(params, tokens, train=train, rngs={"dropout": key})[0]

    def logits(params, batch, train):
        return np.asarray(run(params, batch["tokens"], batch["key"], train))

    params = random_params(prepared, {"tokens": batch["tokens"][0]})
    best = logits(params, batch, True).argmax(-1)
    target = np.where(rng.random(asked.shape) < 0.3, best, rng.integers(0, 13, asked.shape))  # some answers are right
    batch["target"] = np.where(asked, target, objectives.NOTHING)
    return Made(prepared, params, batch, logits, objectives.tokens, ("target",))


@functools.cache
def bits():
    """Sequences of several lengths, at whose ends bits are asked for."""
    settings = {**BITS, "task.repeats": 2}
    prepared = prepare(from_mapping(mapping("repeat_copy", "algorithmic", settings)))
    model = nn.RNN(build_cell(prepared.config.model, prepared.task.shape))
    batch = prepared.task.examples("train", np.arange(8))
    assert len(set(batch["asked"].sum(1))) > 1
    run = jax.jit(jax.vmap(model.apply, (None, 0)))

    def logits(params, batch, train):
        return np.asarray(run(params, batch["inputs"]))

    params = random_params(prepared, {name: x[0] for name, x in batch.items()}, scale=0.125)
    batch["key"] = jax.random.split(jax.random.key(2), 8)
    found = logits(params, batch, True)[batch["asked"]]
    assert 0 < (found > 0.3).sum() < (found > 0).sum() < (found > -0.3).sum()  # it matters where a bit turns to 1
    return Made(prepared, params, batch, logits, objectives.bits, ("bits", "asked"))


FAMILIES = {"tokens": tokens, "bits": bits}


@functools.cache
def ran(family):
    made = FAMILIES[family]()
    run = jax.jit(jax.value_and_grad(made.prepared.phases[-1].loss, has_aux=True))
    return jax.device_get(run(made.params, None, made.batch))


def expected(family, params):
    made = FAMILIES[family]()
    return objectives.means([objectives.mean_of_each(row) for row in made.found(params, made.batch, True)])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_is_the_mean_over_what_a_sequence_is_asked_then_over_the_sequences(family):
    (total, metrics), _ = ran(family)
    want = expected(family, FAMILIES[family]().params)
    assert set(metrics) == set(want)
    for found in (total, metrics["answer_loss"]):
        np.testing.assert_allclose(found, want["answer_loss"], rtol=1e-5)
    np.testing.assert_allclose(metrics["accuracy"], want["accuracy"], rtol=1e-5)
    assert 0.1 < want["accuracy"] < 0.9 and abs(want["accuracy"] - 0.5) > 0.01


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gradient_points_where_the_loss_falls(family):
    (_, _), gradient = ran(family)
    assert_slopes(gradient, lambda params: expected(family, params)["answer_loss"], FAMILIES[family]().params, depth=3)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_example_is_measured_by_the_sums_over_what_it_is_asked(family):
    made = FAMILIES[family]()
    measure = jax.jit(jax.vmap(made.prepared.phases[-1].measure, (None, 0)))
    example = {name: x for name, x in made.batch.items() if name != "key"}
    found = np.stack(jax.device_get(measure(made.params, example))[:4], axis=1)
    want = [objectives.measured(row) for row in made.found(made.params, made.batch, False)]
    np.testing.assert_allclose(found, want, rtol=1e-5)
    assert 0 < found[:, 2].sum() < found[:, 3].sum()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_split_is_measured_by_all_that_it_asks_and_so_is_each_tag(family):
    made = FAMILIES[family]()
    prepared = made.prepared
    task, size = prepared.task, prepared.task.size("test")
    metrics = make_evaluator(prepared.phases[-1].measure, task, prepared.recipe.layout, prepared.mesh, 8)(
        made.params, "test"
    )
    batch = task.examples("test", np.arange(size))
    rows = made.found(made.params, batch | {"key": jax.random.split(jax.random.key(0), size)}, False)
    tags = {tag: (names, batch[tag]) for tag, names in task.shape.tags.items()}
    want = objectives.tally([objectives.measured(row) for row in rows], tags)
    assert_tallied(metrics, want)
    if family == "tokens":
        assert set(want["tags"]["length x pairs"]) == {"12 x 1", "12 x 2", "24 x 1", "24 x 2"}
        return
    said = prepared.recipe.facts(made.params, metrics, "test")["metrics"]
    wrong = np.array([len(right) - sum(right) for _, right in rows])
    np.testing.assert_allclose(said["wrong_bits"], wrong.mean(), rtol=1e-6)
    for value, length in enumerate(task.shape.tags["length"]):
        of_length = wrong[batch["length"] == value].mean()
        np.testing.assert_allclose(said["wrong_bits_by_length"][length], of_length, rtol=1e-6)


def test_an_answer_of_several_tokens_is_right_when_all_of_them_are():
    """In blocks of 5 tokens, which do not divide 12."""
    made = tokens()
    batch, model = dict(made.batch), build_sequence(made.prepared.config.model, made.prepared.task.shape)
    best = made.logits(made.params, batch, False).argmax(-1)
    asked = batch["target"] != objectives.NOTHING
    wrong = np.zeros_like(asked)
    wrong[1, 6] = wrong[3, 9] = True
    batch["target"] = np.where(asked, (best + wrong) % 13, objectives.NOTHING)
    run = functools.partial(measure_sequence, model, 3, 5, None)
    example = {name: batch[name] for name in ("tokens", "target")}
    found = np.stack(jax.device_get(jax.jit(jax.vmap(run, (None, 0)))(made.params, example))[:4], axis=1)
    want = [objectives.measured(row, whole=True) for row in made.found(made.params, batch, False)]
    np.testing.assert_allclose(found, want, rtol=1e-5)
    assert found[:, 2].tolist() == [1, 0, 1, 0]


def test_perplexity_is_the_exponential_of_the_nats_of_a_token(tmp_path):
    (tmp_path / "text.txt").write_text("a line of a text\n" * 60)
    sizes = {"task.file": "text.txt", "task.length": 9, "task.test_length": 20, "task.data_dir": str(tmp_path)}
    prepared = prepare(from_mapping(mapping("ptb", "language", {**sizes, **LAYER, **TRAINING})))
    params = random_params(prepared, {"tokens": np.zeros(2, np.int32)})
    for nats in (0.5, 3.0):
        said = prepared.recipe.facts(params, {"answer_loss": nats, "accuracy": 0.25}, "test")["metrics"]
        np.testing.assert_allclose(said["perplexity"], math.exp(nats))
        assert said["answer_loss"] == nats and said["accuracy"] == 0.25
