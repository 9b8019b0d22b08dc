"""Streams all of whose questions are answered by one of some texts: loss, ranks, tags of questions, padding."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import objectives
from rich.console import Console

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.experiments.stream_qa.answer_measures import candidate_ranks, measure_answer
from memjax.experiments.stream_qa.rehearsal_objective import answer_objective, init_params, of_other_rows
from memjax.experiments.stream_qa.stream_qa_models import build
from memjax.tasks import TaskShape
from memjax.training import experiment
from memjax.training.evaluate import make_evaluator
from memjax.training.ranking_metrics import by_user_interval

ITEMS, T, N, M, C, W = 9, 4, 2, 5, 6, 3
SECTIONS = {
    "model": {"width": 8},
    "training": {"steps": 2, "batch_size": 8, "sampler_steps": 1},
    "rehearsal": {"fragments": 2, "sampler": "history", "layers": 1, "heads": 2},
    "memory": {"name": "memn2n", "slots": 3},
    "task": {"name": "chosen"},
    "system": "memory",
}


@dataclass(frozen=True)
class ChosenSpec:
    train: int = 16


class Chosen:
    """Which of 3 to 6 texts is it? Asked up to five times, all at the end."""

    notes = ()
    shape = TaskShape(ITEMS, T, N, ITEMS, 2, "candidates", C, {"odd": ("no", "yes")}, (1, M))

    def __init__(self, spec):
        self.spec = spec

    def size(self, split):
        return self.spec.train

    def examples(self, split, indices):
        rows = [np.random.default_rng(index) for index in indices]
        real = [3 + index % (C - 2) for index in indices]
        candidates = [random.integers(1, ITEMS, (C, W)) * (np.arange(C) < n)[:, None] for random, n in zip(rows, real)]
        label = np.stack([random.integers(0, n, (1, M)) for random, n in zip(rows, real)])
        query = np.stack([random.integers(1, ITEMS, (1, M, 2)) for random in rows])
        return {
            "stream": np.stack([random.integers(0, ITEMS, (T, N)) for random in rows]),
            "mask": np.ones((len(rows), T, N), bool),
            "query": query,
            "label": label,
            "candidates": np.stack(candidates),
            "after": np.full((len(rows), 1), T),
            "asked": np.stack([np.arange(M)[None] < 1 + index % M for index in indices]),
            "odd": query[..., 0] % 2,
        }


@pytest.fixture
def prepared(monkeypatch):
    entry = tasks.registry["evidence"]._replace(spec=ChosenSpec, make=Chosen)
    monkeypatch.setitem(tasks.registry, "chosen", entry)
    return prepare(from_mapping(SECTIONS))


@pytest.fixture
def trained(prepared):
    """The model, its parameters away from zero, all examples, and the logits of their questions one by one."""
    model, batch = build(prepared.config, Chosen.shape), Chosen(ChosenSpec()).examples("test", np.arange(16))
    params = init_params(model, jax.random.key(0), {name: jnp.asarray(x[0]) for name, x in batch.items()})
    params = jax.tree.map(lambda x: 3 * x + 0.1, params)

    def one(stream, mask, query, candidates):
        slots, _ = model.apply(params, stream, mask, method="memorize")
        return model.apply(params, slots, query, candidates, method="answer")

    every = jax.jit(jax.vmap(jax.vmap(one, (None, None, 0, None))))
    logits = every(batch["stream"], batch["mask"], batch["query"][:, 0], batch["candidates"])
    return model, params, batch, np.asarray(logits, np.float64)


def reciprocal_ranks(logits, batch):
    """The oracle: of each question, 1 / the place of the right candidate when they are sorted, equal ones before it."""
    found = np.zeros(batch["asked"][:, 0].shape)
    for row, question in np.ndindex(*found.shape):
        real = (batch["candidates"][row] != 0).any(1)
        own = logits[row, question, batch["label"][row, 0, question]]
        found[row, question] = 1 / sum(real & ~(logits[row, question] < own))
    return found


def test_the_loss_and_its_gradient_are_those_of_the_questions_one_by_one(trained):
    model, params, batch, logits = trained
    asked = np.argwhere(batch["asked"][:, 0])
    rows = []
    for row, question in asked:
        own = logits[row, question][: (batch["candidates"][row] != 0).any(1).sum()]
        rows.append(objectives.answer(own, batch["label"][row, 0, question]))
    want = objectives.means(rows)
    given = of_other_rows(jax.tree.map(jnp.asarray, batch) | {"key": jax.random.split(jax.random.key(1), 16)})
    both = jax.jit(jax.value_and_grad(answer_objective(model), has_aux=True))
    (loss, metrics), slope = both(params, None, given)
    np.testing.assert_allclose(loss, want["answer_loss"], rtol=1e-5)
    np.testing.assert_allclose(metrics["accuracy"], want["accuracy"], rtol=1e-6)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(slope))
    more = given | {"candidates": jnp.pad(given["candidates"], ((0, 0), (0, 2), (0, 1)))}
    (padded, _), padded_slope = both(params, None, more)
    np.testing.assert_allclose(padded, loss, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), padded_slope, slope)


def test_ranks_are_measured_of_all_questions_and_by_their_tags(prepared, trained):
    model, params, batch, logits = trained
    measure = functools.partial(measure_answer, model)
    evaluate = make_evaluator(measure, prepared.task, prepared.recipe.layout, prepared.mesh, 8)
    found = evaluate(params, "test", intervals=True)
    ranks, asked = reciprocal_ranks(logits, batch), batch["asked"][:, 0]
    assert found["mrr"] == pytest.approx(ranks[asked].mean()) and found["answers"] == asked.sum()
    chances = [np.mean([1 / place for place in range(1, n + 1)]) for n in (batch["candidates"][..., 0] != 0).sum(1)]
    assert found["mrr_chance"] == pytest.approx(np.repeat(chances, asked.sum(1)).mean())
    # By streams, each drawn with all of its questions.
    expected = by_user_interval(np.mean, ranks[asked], np.nonzero(asked)[0])
    assert found["mrr_interval"] == pytest.approx(expected) and "mrr_interval" not in evaluate(params, "test")
    for number, name in enumerate(("no", "yes")):
        rows = asked & (batch["odd"][:, 0] == number)
        assert found["tags"]["odd"][name] == {
            "accuracy": pytest.approx((ranks[rows] == 1).mean()),
            "mrr": pytest.approx(ranks[rows].mean()),
            "mrr_chance": pytest.approx(np.mean([chances[row] for row in np.nonzero(rows)[0]])),
            "answers": rows.sum(),
            "examples": rows.any(1).sum(),
        }


def test_a_model_that_tells_nothing_apart_has_the_last_rank():
    real = jnp.array([True, True, False, True])
    for value in (0.0, jnp.nan):
        found = candidate_ranks(jnp.full(4, value), jnp.array(1), jnp.array(True), real)
        assert found.rank == 3


def test_of_equal_candidates_a_wrong_one_is_shown_as_the_prediction(trained):
    model, params, batch, _ = trained
    example = {name: jnp.asarray(x[3]) for name, x in batch.items()}  # asked four times
    silent = jax.tree.map(jnp.zeros_like, params)
    measure = jax.jit(functools.partial(measure_answer, model))
    for right in range(int((batch["candidates"][3] != 0).any(1).sum())):
        found = measure(silent, example | {"label": jnp.full((1, M), right)})
        assert found.correct == 0 and found.prediction != right


def test_it_trains_rehearsed_and_its_report_shows_ranks_and_examples(prepared, tmp_path):
    experiment.train(prepared, tmp_path / "run", Console(quiet=True))
    found = experiment.evaluate(prepared, tmp_path / "run")
    assert 0 < found["metrics"]["mrr"] <= 1
    assert len(found["examples_shown"]) == 16 and found["examples_shown"][0].keys() >= {"question", "answer"}
    assert [column["name"] for column in prepared.recipe.report["columns"]] == ["MRR", "MRR of a guess", "accuracy %"]


def test_a_label_that_is_no_candidate_is_one_line():
    batch = Chosen(ChosenSpec()).examples("train", np.arange(4))
    spoiled = batch | {"candidates": batch["candidates"] * 0}
    with pytest.raises(MemjaxError, match="a label is the place of an empty candidate"):
        tasks.check_batch(Chosen.shape, spoiled)
    with pytest.raises(MemjaxError, match=r"candidates have ids from . to 9; they must be in \[0, 9\)"):
        tasks.check_batch(Chosen.shape, batch | {"candidates": batch["candidates"] + 1})
