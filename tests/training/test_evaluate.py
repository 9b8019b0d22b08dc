"""Evaluation against a plain loop over the examples."""

import functools
from importlib import metadata
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from training.tiny import Unequal, layout_of, random_params, tiny

import memjax
from memjax.config import MeshConfig
from memjax.experiments.prepare import prepare
from memjax.experiments.stream_qa import (
    build,
    changes_by_segment,
    cut_to,
    measure_answer,
    memorized,
    read_examples,
    recollected_by_age,
    slot_changes,
    slot_cosines,
)
from memjax.memories import memorize
from memjax.training.data import spread
from memjax.training.effective_size import effective_size
from memjax.training.evaluate import MetricSums, make_evaluator
from memjax.training.experiment import _without_nan, versions
from memjax.training.objective import answer_metrics
from memjax.training.ranking_metrics import by_user_interval
from memjax.training.sharding import make_mesh


@functools.cache
def made(system="memory"):
    prepared = prepare(tiny(system=system, model__item_scale=2.0))
    example = {name: value[0] for name, value in prepared.task.examples("train", np.arange(1)).items()}
    model = build(prepared.config, prepared.task.shape)
    params = random_params(model, example)
    measure = functools.partial(measure_answer, model)
    evaluate = make_evaluator(measure, prepared.task, prepared.recipe.layout, prepared.mesh, 8)
    return prepared.task, model, params, evaluate


@functools.cache
def one_by_one(system, split):
    """(accuracy, loss) of every example of a split, alone."""
    task, model, params, _ = made(system)

    def one(stream, mask, query, label):
        slots, _ = model.apply(params, stream, mask, method="memorize")
        return answer_metrics(model.apply(params, slots, query, method="answer"), label)

    one = jax.jit(one)
    batch = task.examples(split, np.arange(task.size(split)))
    rows = []
    for i in range(len(batch["label"])):
        metrics = one(*(batch[name][i] for name in ("stream", "mask", "query", "label")))
        rows.append([float(metrics["accuracy"]), float(metrics["answer_loss"])])
    return batch, np.array(rows)


@pytest.mark.parametrize("system", ["memory", "directly"])
def test_a_split_that_batches_do_not_divide_is_evaluated_like_a_plain_loop(system):
    task, _, params, evaluate = made(system)
    batch, rows = one_by_one(system, "test")
    assert len(rows) == 36
    metrics = evaluate(params, "test")
    assert metrics["examples"] == 36
    np.testing.assert_allclose([metrics["accuracy"], metrics["answer_loss"]], rows.mean(0), rtol=1e-5)
    assert set(metrics["tags"]) == {"half", "quarter", "border"}
    for tag, names in task.shape.tags.items():
        assert sum(value["examples"] for value in metrics["tags"][tag].values()) == 36
        for value, name in enumerate(names):
            mine = rows[batch[tag] == value]
            assert len(mine) == metrics["tags"][tag].get(name, {"examples": 0})["examples"]
            if len(mine):
                np.testing.assert_allclose(metrics["tags"][tag][name]["accuracy"], mine[:, 0].mean(), rtol=1e-5)


class Shared:
    """A task whose neighbours share a stream, three by three; what shares one is spread over batches."""

    notes = ()

    def __init__(self, task):
        self.shape, self.size, self.examples = task.shape, task.size, task.examples

    def groups(self, split):
        return np.arange(self.size(split)) // 3


def test_of_examples_that_share_a_stream_it_says_for_how_many_they_count():
    task, model, params, evaluate = made("memory")
    shared, prepared = Shared(task), prepare(tiny(model__item_scale=2.0))
    measure = functools.partial(measure_answer, model)
    metrics = make_evaluator(measure, shared, prepared.recipe.layout, prepared.mesh, 8)(params, "test", intervals=True)
    batch, rows = one_by_one("memory", "test")
    right, groups = rows[:, 0], shared.groups("test")
    assert metrics["independent"] == pytest.approx(effective_size(right, np.ones(36), groups), abs=0.06)
    for value, name in enumerate(task.shape.tags["half"]):
        mine = batch["half"] == value
        expected = effective_size(right[mine], np.ones(mine.sum()), groups[mine])
        assert metrics["tags"]["half"][name]["independent"] == pytest.approx(expected, abs=0.06)
    assert "independent" not in evaluate(params, "test", intervals=True)  # of a task that does not say


def test_of_what_is_measured_beside_answers_the_interval_is_by_streams():
    task, model, params, _ = made("memory")
    shared, prepared = Shared(task), prepare(tiny(model__item_scale=2.0))

    def measure(params, example):
        sums = measure_answer(model, params, example)
        return sums._replace(means={"sure": 2 * sums.correct})

    evaluate = make_evaluator(measure, shared, prepared.recipe.layout, prepared.mesh, 8)
    metrics = evaluate(params, "test", intervals=True)
    _, rows = one_by_one("memory", "test")
    assert metrics["sure"] == pytest.approx(2 * rows[:, 0].mean())
    expected = by_user_interval(np.mean, 2 * rows[:, 0], shared.groups("test"))
    assert metrics["sure_interval"] == pytest.approx(expected) and expected[0] < expected[1]
    assert "sure_interval" not in evaluate(params, "test")
    some, taken = evaluate(params, "test", 20, intervals=True), spread(20, 36)
    expected = by_user_interval(np.mean, 2 * rows[taken, 0], shared.groups("test")[taken])
    assert some["sure_interval"] == pytest.approx(expected)


def test_a_limited_evaluation_is_that_of_the_examples_it_takes():
    _, _, params, evaluate = made("directly")
    _, rows = one_by_one("directly", "test")
    metrics = evaluate(params, "test", 9)
    assert metrics["examples"] == 9
    np.testing.assert_allclose([metrics["accuracy"], metrics["answer_loss"]], rows[spread(9, 36)].mean(0), rtol=1e-5)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (5, 36), (36, 36), (9, 36), (1000, 6000)])
def test_of_each_stretch_of_a_split_one_example_is_taken(count, size):
    taken = spread(count, size)
    assert (np.searchsorted(np.arange(1, count + 1) * size // count, taken, side="right") == np.arange(count)).all()


def test_a_split_whose_answers_take_turns_is_not_asked_for_a_few_of_them_alone():
    answers = np.bincount(spread(1000, 6000) % 30, minlength=30)
    assert answers.min() > 10 and answers.max() < 60  # 33 each in the mean


def changes_of(model, params, task, examples):
    batch, _ = read_examples(task, layout_of(task), "test", examples)
    return slot_changes(changes_by_segment(model, params, batch), batch["mask"])


def test_slot_changes_are_the_distances_between_the_slots_before_and_after_each_segment():
    task, model, params, _ = made()
    changes = changes_of(model, params, task, 5)
    assert np.shape(changes) == (task.shape.segments, 3)
    indices = spread(5, task.size("test"))
    batch = task.examples("test", indices)
    table = params["params"]["embed"]["embedding"]
    own = {"params": params["params"]["memory"]}
    write = jax.jit(
        jax.vmap(lambda stream, mask: model.memory.apply(own, 2 * table[stream], mask, method=memorize)[0].slots)
    )
    before = model.memory.apply(own, method="initial_state").slots[None]
    for t in range(task.shape.segments):
        mask = np.where(np.arange(task.shape.segments)[:, None] <= t, batch["mask"], False)
        after = write(batch["stream"], mask)
        expected = np.linalg.norm(np.asarray(after - before, np.float64), axis=-1).mean(0)
        np.testing.assert_allclose(changes[t], expected, atol=2e-4)
        before = after


def test_slot_changes_leave_padding_out():
    """The mean is over the examples that have the segment; one that none has is a gap; behind the longest, nothing."""
    task, model, params, _ = made()
    lengths, gap = np.array([1, 4, 4, 1, 5]), 2
    assert task.shape.segments >= 6
    at = np.arange(task.shape.segments)
    real = (at < lengths[:, None]) & (at != gap)

    def examples(split, indices):
        batch = task.examples(split, indices)
        return batch | {"mask": batch["mask"] & real[np.arange(5), :, None]}

    padded = SimpleNamespace(shape=task.shape, notes=(), size=task.size, examples=examples)
    changes = changes_of(model, params, padded, 5)
    assert len(changes) == 5 and changes[gap] == [None] * 3
    indices = spread(5, task.size("test"))
    for t in (0, 1, 3, 4):
        alone = []
        for i in np.flatnonzero(real[:, t]):
            batch = {name: x[i : i + 1] for name, x in examples("test", indices).items()}
            one = SimpleNamespace(size=lambda split: 1, examples=lambda *_, batch=batch: batch)
            one.shape, one.notes = task.shape, ()
            alone.append(changes_of(model, params, one, 1)[t])
        np.testing.assert_allclose(changes[t], np.mean(alone, 0), atol=2e-5)


def slots_of(model, params, task, examples):
    batch = task.examples("test", spread(examples, task.size("test")))
    memorize = jax.vmap(lambda stream, mask: model.apply(params, stream, mask, method="memorize")[0].values)
    return batch, np.asarray(jax.jit(memorize)(batch["stream"], batch["mask"]), np.float64)


def test_slot_cosines_are_those_of_what_depends_on_the_stream():
    task, model, params, _ = made()
    _, slots = slots_of(model, params, task, 5)
    expected = np.zeros((3, 3))
    own = slots - slots.mean(0)
    for k, j in np.ndindex(3, 3):
        cosines = [
            abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(own[:, k], own[:, j], strict=True)
        ]
        expected[k, j] = np.mean(cosines)
    batch, indices = read_examples(task, layout_of(task), "test", 5)
    assert indices.tolist() == spread(5, task.size("test")).tolist()
    np.testing.assert_allclose(slot_cosines(memorized(model, params, batch)), expected, atol=1e-3)


def test_what_is_recollected_is_counted_by_how_many_segments_came_after_it():
    """A rehearser that always names item 3, by the bias of its last layer, recollects exactly the hidden threes."""
    task, model, params, _ = made()
    old = params["params"]["rehearser"]["recall"]
    rest = {name: leaf for name, leaf in params["params"].items() if name not in ("rehearser", "embed")}
    table = np.zeros_like(params["params"]["embed"]["embedding"])
    table[3] = 1
    recall = {"recall": {"bias": np.ones_like(old["bias"]), "kernel": np.zeros_like(old["kernel"])}}
    always = {"params": rest | {"embed": {"embedding": table}, "rehearser": params["params"]["rehearser"] | recall}}
    lengths = np.array([2, 4, 4, 3, 4])

    def examples(split, indices):
        batch = task.examples(split, indices)
        real = np.arange(task.shape.segments) < lengths[:, None]
        stream = np.where(np.arange(task.shape.segments)[:, None] == lengths[:, None, None] - 2, 3, 4)
        return batch | {
            "mask": batch["mask"] & real[:, :, None],
            "stream": np.broadcast_to(stream, batch["stream"].shape),
        }

    threes = SimpleNamespace(shape=task.shape, notes=(), size=task.size, examples=examples)
    batch, _ = read_examples(threes, layout_of(task), "test", 5)
    found = recollected_by_age(model, always, batch, memorized(model, always, batch), mask_ratio=0.5)
    assert {age: point["accuracy"] for age, point in found.items()} == {"0": 0, "1": 1, "2": 0, "3": 0}
    per_segment = task.shape.segment // 2
    assert [found[age]["examples"] for age in "0123"] == [n * per_segment for n in (5, 5, 4, 3)]


def test_nothing_in_an_evaluation_is_nan_however_deep():
    tags = {"half": {"early": {"accuracy": 0.5, "auc": float("nan")}, "later": {"auc": 0.75, "answers": 3}}}
    found = _without_nan({"auc": float("inf"), "auc_interval": (0.5, 0.75), "tags": tags})
    assert found["auc"] is None and found["tags"]["half"]["early"] == {"accuracy": 0.5, "auc": None}
    assert found["tags"]["half"]["later"] == tags["half"]["later"] and found["auc_interval"] == (0.5, 0.75)


def test_what_diverged_counts_as_an_error_and_leaves_no_mean_loss():
    task, *_ = made()
    bad = 7  # of the 36

    def measure(params, example):
        number = example["stream"].sum() == task.examples("test", np.arange(bad, bad + 1))["stream"].sum()
        return MetricSums(jax.numpy.where(number, jax.numpy.nan, 2.0), *np.ones(3, np.float32))

    same = task.examples("test", np.arange(36))["stream"].sum((1, 2))
    diverged = (same == same[bad]).sum()
    metrics = make_evaluator(measure, task, layout_of(task), make_mesh(MeshConfig(-1, 1, 1, 1), 8), 8)(
        np.zeros(1), "test"
    )
    assert metrics["diverged"] == diverged > 0
    np.testing.assert_allclose(metrics["accuracy"], 1 - diverged / 36)
    assert np.isnan(metrics["answer_loss"])


@pytest.mark.parametrize("limit", [None, 21])
def test_buckets_change_no_metric_and_no_prediction(limit):
    task, model, params, _ = made()
    task, layout = Unequal(task), layout_of(task)
    measure, mesh = functools.partial(measure_answer, model), make_mesh(MeshConfig(-1, 1, 1, 1), 8)
    found = []
    for each in (layout, layout._replace(buckets=3, cut=cut_to)):
        predictions = []
        metrics = make_evaluator(measure, task, each, mesh, 8)(params, "test", limit, predictions)
        found.append((metrics, np.concatenate(predictions)))
    (whole, told), (cut, told_in_buckets) = found
    np.testing.assert_array_equal(told_in_buckets, told)
    np.testing.assert_allclose(cut.pop("answer_loss"), whole.pop("answer_loss"), rtol=1e-6)
    assert cut == whole and len(set(told.tolist())) > 1


def test_versions_are_told_where_memjax_is_not_installed(monkeypatch):
    """A clone on PYTHONPATH: after hours of training its evaluation ended in a traceback."""

    def version(name, known=metadata.version):
        if name == "memjax":
            raise metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(metadata, "version", version)
    assert versions()["memjax"] == memjax.__version__ and versions()["jax"] == jax.__version__
