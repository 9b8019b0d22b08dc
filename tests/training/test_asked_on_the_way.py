"""Streams that are asked on the way: what is minimised and measured, each question from its prefix alone."""

import functools
from dataclasses import dataclass
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import sklearn.metrics
from oracles import objectives
from rich.console import Console

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.experiments.stream_qa.answer_measures import measure_answer, shown_question
from memjax.experiments.stream_qa.rehearsal_objective import _rehearsed, answer_objective, init_params, of_other_rows
from memjax.experiments.stream_qa.shown_examples import shown_examples
from memjax.experiments.stream_qa.stream_qa_models import build, build_sampler
from memjax.files import read_entries
from memjax.memories import Slots
from memjax.tasks import TaskShape
from memjax.training import experiment
from memjax.training.evaluate import make_evaluator
from memjax.training.phase import initial_state
from memjax.training.ranking_metrics import auc_interval
from memjax.training.sharding import place_batch
from memjax.training.step import init_state, make_step

ITEMS, T, N, A, M = 9, 4, 2, 5, 3
# One that reads segments by a network of its own, and one whose state is more than its slots.
MEMORIES = {
    "rehearsal": {"name": "rehearsal", "slots": 3, "layers": 1, "heads": 2},
    "dnc": {"name": "dnc", "slots": 3, "memory_width": 4, "read_heads": 1, "hidden": 4},
}


@dataclass(frozen=True)
class SeenSpec:
    train: int = 16


class Seen:
    """Was this item in the stream so far? Asked after any segment, before the first one too."""

    notes = ()
    shape = TaskShape(ITEMS, T, N, ITEMS, None, "click", 2, {"odd": ("no", "yes")}, (A, M), query_is_item=True)
    changed = staticmethod(lambda batch: batch)

    def __init__(self, spec):
        self.spec = spec

    def size(self, split):
        return self.spec.train

    def examples(self, split, indices):
        random = np.random.default_rng(indices[0])
        rows = len(indices)
        stream, query = random.integers(0, ITEMS, (rows, T, N)), random.integers(0, ITEMS, (rows, A, M))
        mask = np.ones((rows, T, N), bool)
        mask[:, 1, 1], mask[0, -1] = False, False
        after = random.permuted(np.tile(np.arange(A), (rows, 1)), axis=1) % (T + 1)
        read = mask[:, None] & (np.arange(T) < after[..., None])[..., None]
        label = ((stream[:, None, None] == query[..., None, None]) & read[:, :, None]).any((3, 4)).astype(int)
        asked = np.arange(A)[:, None] + np.arange(M) < 3 + np.arange(rows)[:, None, None] % 3
        return self.changed(
            {"stream": stream, "mask": mask, "query": query, "label": label, "after": after, "asked": asked}
            | {"odd": query % 2}
        )


@pytest.fixture
def settings(monkeypatch):
    """Settings of the task, registered for one test."""

    def register(task=Seen, memory=None, **sections):
        monkeypatch.setitem(tasks.registry, "seen", tasks.registry["evidence"]._replace(spec=SeenSpec, make=task))
        memory = memory or {"name": "memn2n", "slots": 3}
        training = {"steps": 2, "batch_size": 8, "sampler_steps": 1}
        rehearsal = {"fragments": 2, "sampler": "history", "layers": 1, "heads": 2}
        sections = {"model": {"width": 8}, "training": training, "rehearsal": rehearsal} | sections
        return {"system": "memory", "memory": memory, "task": {"name": "seen"}} | sections

    return register


def by_prefix(model, params, batch):
    """The logits of every question, each from a pass over what it has read."""

    def one(stream, mask, after, query):
        read = mask & (jnp.arange(T) < after)[:, None]
        slots, _ = model.apply(params, stream, read, method="memorize")
        return model.apply(params, slots, query, method="answer")

    of_stream = jax.vmap(jax.vmap(one, (None, None, None, 0)), (None, None, 0, 0))
    return np.asarray(
        jax.jit(jax.vmap(of_stream))(batch["stream"], batch["mask"], batch["after"], batch["query"]), np.float64
    )


def test_every_question_counts_the_same_however_the_batch_is_cut(settings):
    """Where a part of a batch has few questions and another many; on a device each, and one after another."""
    made = prepare(from_mapping(settings() | {"system": "directly"}))
    (phase,), found = made.phases, []
    params = jax.device_get(initial_state(made, phase).params)
    batch = Seen(SeenSpec()).examples("train", np.arange(8))
    few = np.arange(8)[:, None, None] % 2 == 0
    batch["asked"] = np.where(few, np.eye(A, M, dtype=bool) & (np.arange(A) == 0)[:, None], batch["asked"])
    for devices, microbatches in ((1, 1), (1, 4), (8, 1)):
        axes = (jax.sharding.AxisType.Auto,) * 4
        names = ("data", "fsdp", "sequence", "model")
        mesh = jax.make_mesh((devices, 1, 1, 1), names, axis_types=axes, devices=jax.devices()[:devices])
        optimizer = optax.sgd(0.1)
        state = jax.device_put(init_state(params, optimizer), jax.NamedSharding(mesh, jax.P()))
        step = make_step(phase.loss, optimizer, mesh, 8, microbatches, 0, made.recipe.layout.extend)
        _, metrics = step(state, None, place_batch(mesh, batch, 8, made.recipe.layout.segmented))
        found.append([float(metrics[name]) for name in ("answer_loss", "accuracy", "grad_norm")])
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-5)


@pytest.mark.parametrize("system", ["memory", *MEMORIES, "directly", "multi_hop", "sampler"])
def test_the_loss_and_the_measures_are_those_of_the_questions_one_by_one(settings, system):
    of_memory = system in ("sampler", *MEMORIES)
    config = from_mapping(settings(memory=MEMORIES.get(system)) | {"system": "memory" if of_memory else system})
    model = (build_sampler if system == "sampler" else build)(config, Seen.shape)
    batch = jax.tree.map(jnp.asarray, Seen(SeenSpec()).examples("train", np.arange(4)))
    example = {name: x[0] for name, x in batch.items()}
    params = init_params(model, jax.random.key(0), example)
    params = jax.tree.map(lambda x: 3 * x + 0.1, params)  # away from zero biases and small logits
    logits = by_prefix(model, params, batch)
    asked = np.argwhere(np.asarray(batch["asked"]))
    rows = [objectives.answer(logits[*place], batch["label"][*place]) for place in asked]
    want = objectives.means(rows)

    given = of_other_rows(batch | {"key": jax.random.split(jax.random.key(1), 4)})
    loss, metrics = jax.jit(answer_objective(model))(params, None, given)
    np.testing.assert_allclose(loss, want["answer_loss"], rtol=1e-5)
    np.testing.assert_allclose(metrics["accuracy"], want["accuracy"], rtol=1e-6)
    assert set(metrics) == {"answer_loss", "accuracy", "aux_loss"}

    sums = jax.jit(jax.vmap(measure_answer, (None, None, 0)), static_argnums=0)(model, params, batch)
    np.testing.assert_allclose(sums.loss_sum.sum(), sum(row["answer_loss"] for row in rows), rtol=1e-5)
    assert sums.total.tolist() == sums.loss_count.tolist() == batch["asked"].sum((1, 2)).tolist()
    assert sums.correct.sum() == sum(row["accuracy"] for row in rows)
    assert (sums.clicks.label == np.where(batch["asked"], batch["label"], -1)).all()
    np.testing.assert_allclose(sums.clicks.score, logits[..., 1] - logits[..., 0], atol=1e-4)


def test_what_is_rehearsed_was_asked_after_something_was_read():
    """Questions before the first item, and behind segments of padding, have slots that hold nothing."""
    mask = jnp.arange(4)[:, None] > jnp.zeros((1, 2))  # the first of four segments is padding
    example = {"stream": jnp.zeros((4, 2), int), "mask": mask, "query": jnp.zeros((4, 3), int)}
    example |= {"after": jnp.arange(4), "asked": jnp.ones((4, 3), bool)}
    states = Slots(jnp.arange(4.0)[:, None, None], jnp.ones((4, 1), bool))
    drawn = jax.vmap(lambda key: _rehearsed(states, example | {"key": key}))(jax.random.split(jax.random.key(0), 99))
    assert set(np.unique(drawn[0].values)) == {2, 3}
    assert (np.asarray(drawn[2]).any((1, 2))).all()


def test_the_same_stream_is_no_other_stream():
    stream = jnp.array([[[1, 2]], [[1, 2]], [[1, 3]]])
    batch = of_other_rows({"stream": stream, "mask": jnp.ones((3, 1, 2), bool)})
    assert batch["other_stream"].tolist() == [[[1, 3]], [[1, 2]], [[1, 2]]]
    assert batch["other_mask"].any((1, 2)).tolist() == [True, False, True]


@pytest.mark.parametrize("width", [(), (4,)])
def test_more_or_less_of_the_same_stream_is_no_other_stream(width):
    items = jnp.arange(1, 7).reshape(3, 2, *[1] * len(width)) * jnp.ones(width, int)
    mask = jnp.array([[[1, 1], [1, 0], [0, 0]], [[1, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1]]], bool)
    stream = jnp.where(mask.reshape(3, 3, 2, *[1] * len(width)), jnp.stack([items, items, items + 1]), 0)
    batch = of_other_rows({"stream": stream, "mask": mask})
    assert batch["other_mask"].any((1, 2)).tolist() == [True, False, True]


def test_a_split_is_measured_by_tags_of_its_questions(settings):
    prepared = prepare(from_mapping(settings()))
    model, task = build(prepared.config, Seen.shape), prepared.task
    parts = [task.examples("test", np.arange(start, start + 8)) for start in (0, 8)]
    batch = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    params = init_params(model, jax.random.key(0), {name: jnp.asarray(x[0]) for name, x in batch.items()})
    params = jax.tree.map(lambda x: 3 * x + 0.1, params)
    measure = functools.partial(measure_answer, model)
    evaluate = make_evaluator(measure, task, prepared.recipe.layout, prepared.mesh, 8)
    found = evaluate(params, "test", intervals=True)
    logits = by_prefix(model, params, batch)
    for number, name in enumerate(("no", "yes")):
        rows = batch["asked"] & (batch["odd"] == number)
        label, score = batch["label"][rows], (logits[..., 1] - logits[..., 0])[rows]
        assert found["tags"]["odd"][name] == {
            "accuracy": pytest.approx(((score > 0) == label).mean()),
            "answers": len(label),
            "examples": rows.any((1, 2)).sum(),
            "auc": pytest.approx(sklearn.metrics.roc_auc_score(label, score)),
        }
    assert found["auc"] not in {value["auc"] for value in found["tags"]["odd"].values()}
    # By streams, each drawn with all of its questions: those of one are not independent.
    rows = np.argwhere(batch["asked"])
    label, score = (x[batch["asked"]] for x in (batch["label"], logits[..., 1] - logits[..., 0]))
    np.testing.assert_allclose(found["auc_interval"], auc_interval(score, label, rows[:, 0]), atol=0.02)
    assert "auc_interval" not in evaluate(params, "test")


class SeenOrNot(Seen):
    """As `Seen`, but the answers are the classes no, yes and perhaps; and of the second half no model can give some."""

    shape = TaskShape(ITEMS, T, N, ITEMS, None, "classes", 3, {"odd": ("no", "yes")}, (A, M), query_is_item=True)

    def examples(self, split, indices):
        batch = super().examples(split, indices)
        unknown = (indices[:, None, None] >= 8) & (batch["query"] == 1)
        return batch | {"label": np.where(unknown, -1, batch["label"])}


def test_classes_are_measured_by_tags_of_questions_and_what_diverged_is_wrong(settings):
    prepared = prepare(from_mapping(settings(SeenOrNot)))
    model, task = build(prepared.config, SeenOrNot.shape), prepared.task
    batch = [task.examples("test", np.arange(start, start + 8)) for start in (0, 8)]
    batch = {name: np.concatenate([part[name] for part in batch]) for name in batch[0]}
    params = init_params(model, jax.random.key(0), {name: jnp.asarray(x[0]) for name, x in batch.items()})
    params = jax.tree.map(lambda x: 3 * x + 0.1, params)
    answered = by_prefix(model, params, batch).argmax(-1)
    spoiled = 5

    def measure(params, example):
        sums = measure_answer(model, params, example)
        bad = (example["stream"] == batch["stream"][spoiled]).all()
        return sums._replace(loss_sum=jnp.where(bad, jnp.nan, sums.loss_sum))

    predictions = []
    evaluate = make_evaluator(measure, task, prepared.recipe.layout, prepared.mesh, 8)
    found = evaluate(params, "test", None, predictions)
    right = (answered == batch["label"]) & (np.arange(16) != spoiled)[:, None, None]
    assert found["accuracy"] == pytest.approx(right[batch["asked"]].mean()) and found["diverged"] == 1
    for number, name in enumerate(("no", "yes")):
        rows = batch["asked"] & (batch["odd"] == number)
        assert found["tags"]["odd"][name] == {
            "accuracy": pytest.approx(right[rows].mean()),
            "answers": rows.sum(),
            "examples": rows.any((1, 2)).sum(),
        }
    shown = [int(shown_question(*one)) for one in zip(batch["asked"], batch["query"], strict=True)]
    assert predictions[0].tolist() == [answered[row].ravel()[place] for row, place in enumerate(shown)]
    assert all(batch["asked"][row].ravel()[place] for row, place in enumerate(shown)) and len(set(shown)) > 5
    again = SimpleNamespace(
        shape=task.shape, notes=(), size=task.size,
        examples=lambda split, indices: {name: x[indices] for name, x in batch.items()},
    )  # fmt: skip
    told = shown_examples(again, "test", predictions[0])["examples_shown"]
    assert [one["question"] for one in told] == [str(batch["query"][row].ravel()[n]) for row, n in enumerate(shown)]
    assert [one["prediction"] for one in told] == [str(answer) for answer in predictions[0]]


class Likened(Seen):
    """As `Seen`, but items are vectors, and a query asks for the one that is likest to the item of its number."""

    shape = TaskShape(0, T, N, ITEMS, None, "click", 2, {"odd": ("no", "yes")}, (A, M), item_width=ITEMS)

    def examples(self, split, indices):
        batch = super().examples(split, indices)
        return batch | {"stream": np.eye(ITEMS, dtype=np.float32)[batch["stream"]]}


def test_a_stream_of_vectors_trains_rehearsed_among_its_own_items(settings, tmp_path):
    rehearsal = {"fragments": 2, "sampler": "history", "layers": 1, "heads": 2}
    for wrong in ({}, {"among": "stream"}):
        with pytest.raises(MemjaxError, match=r"config\.rehearsal\.negatives") as caught:
            prepare(from_mapping(settings(Likened, rehearsal=rehearsal | wrong)))
        assert "\n" not in str(caught.value)
    given = settings(Likened, rehearsal=rehearsal | {"among": "stream", "negatives": 3})
    prepared = prepare(from_mapping(given))
    experiment.train(prepared, tmp_path / "run", Console(quiet=True))
    found = experiment.evaluate(prepared, tmp_path / "run")
    assert 0 <= found["metrics"]["auc"] <= 1 and all(0 <= v["accuracy"] <= 1 for v in found["recollected"].values())
    losses = [e for e in read_entries(tmp_path / "run" / "metrics.jsonl") if "recollection_loss" in e]
    assert losses and np.isfinite([e["recollection_loss"] for e in losses]).all()


def test_it_trains_rehearsed_and_its_questions_are_ranked(settings, tmp_path):
    prepared = prepare(from_mapping(settings()))
    experiment.train(prepared, tmp_path / "run", Console(quiet=True))
    found = experiment.evaluate(prepared, tmp_path / "run")
    batches = Seen(SeenSpec()).examples("test", np.arange(8))["asked"].sum() * 2
    assert 0 <= found["metrics"]["auc"] <= 1 and found["metrics"]["answers"] == batches
    assert "examples_shown" not in found  # of one question each


def test_padding_of_the_questions_changes_nothing(settings):
    model = build(from_mapping(settings()), Seen.shape)
    batch = jax.tree.map(jnp.asarray, Seen(SeenSpec()).examples("train", np.arange(4)))
    params = init_params(model, jax.random.key(0), {name: x[0] for name, x in batch.items()})
    loss = jax.jit(lambda params, frozen, batch: answer_objective(model)(params, frozen, of_other_rows(batch)))
    key = {"key": jax.random.split(jax.random.key(1), 4)}
    hidden = ~batch["asked"]
    other = {name: jnp.where(hidden, 1 - (batch[name] > 0), batch[name]) for name in ("query", "label")}
    other["after"] = jnp.where(hidden.all(2), 1 - (batch["after"] > 0), batch["after"])
    assert (other["after"] != batch["after"]).any()
    assert (other["label"] != batch["label"]).any()
    assert loss(params, None, batch | key)[0] == loss(params, None, batch | other | key)[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: {k: x for k, x in b.items() if k != "after"}, "a batch lacks after"),
        (lambda b: b | {"after": b["after"] + 1}, "questions come after segments from 1 to 5; they must be in [0, 5)"),
        (lambda b: b | {"query": b["query"][:, 0]}, "query must be [B, A, M], not [8, 3]"),
        (lambda b: b | {"after": b["asked"].astype(int)}, "after must be [B, A], not [8, 5, 3]"),
        (lambda b: b | {"odd": b["odd"][:, 0]}, "odd must be [B, A, M], not [8, 3]"),
        (lambda b: b | {"odd": b["odd"] + 1}, "the tag odd is from 1 to 2; they must be in [0, 2)"),
        (lambda b: b | {"asked": b["asked"].astype(int)}, "asked must be of true and false, not int64"),
        (lambda b: b | {"asked": b["asked"] & False}, "a stream is not asked: every example needs at least one"),
        (
            lambda b: b | {n: np.repeat(b[n], 2, 1) for n in ("query", "label", "after", "asked", "odd")},
            "a stream has 10 times; the task's shape says at most 5",
        ),
        (
            lambda b: b | {n: np.repeat(b[n], 2, 2) for n in ("query", "label", "asked", "odd")},
            "6 questions each time; the task's shape says at most 3",
        ),
    ],
)
def test_questions_that_cannot_be_are_one_line(settings, change, words):
    spoiled = type("Spoiled", (Seen,), {"changed": staticmethod(change)})
    with pytest.raises(MemjaxError) as caught:
        prepare(from_mapping(settings(spoiled)))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_shape_that_contradicts_itself_is_one_line():
    with pytest.raises(MemjaxError, match="queries must be items"):
        TaskShape(9, 3, 2, 8, None, "click", 2, query_is_item=True)
