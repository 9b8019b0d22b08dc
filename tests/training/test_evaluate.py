"""Evaluation against a plain loop over the examples."""

import functools

import jax
import numpy as np
import pytest
from training.tiny import random_params, tiny

from memjax.memories import memorize
from memjax.training import experiment
from memjax.training.evaluate import make_evaluator, slot_changes
from memjax.training.objective import answer_metrics


@functools.cache
def made(system="memory"):
    prepared = experiment.prepare(tiny(system=system))
    example = {name: value[0] for name, value in prepared.task.examples("train", np.arange(1)).items()}
    params = random_params(prepared.model, example)
    return prepared, params, make_evaluator(prepared.model, prepared.task, prepared.mesh, 8)


@functools.cache
def one_by_one(system, split):
    """(accuracy, loss) of every example of a split, alone."""
    prepared, params, _ = made(system)

    def one(stream, mask, query, label):
        slots, _ = prepared.model.apply(params, stream, mask, method="memorize")
        return answer_metrics(prepared.model.apply(params, slots, query, method="answer"), label)

    one = jax.jit(one)
    batch = prepared.task.examples(split, np.arange(prepared.task.size(split)))
    rows = []
    for i in range(len(batch["label"])):
        metrics = one(*(batch[name][i] for name in ("stream", "mask", "query", "label")))
        rows.append([float(metrics["accuracy"]), float(metrics["answer_loss"])])
    return batch, np.array(rows)


@pytest.mark.parametrize("system", ["memory", "directly"])
def test_a_split_that_batches_do_not_divide_is_evaluated_like_a_plain_loop(system):
    prepared, params, evaluate = made(system)
    batch, rows = one_by_one(system, "test")
    assert len(rows) == 36
    metrics = evaluate(params, "test")
    assert metrics["examples"] == 36
    np.testing.assert_allclose([metrics["accuracy"], metrics["answer_loss"]], rows.mean(0), rtol=1e-5)
    assert set(metrics["tags"]) == {"half", "quarter"}
    for tag, names in prepared.task.shape.tags.items():
        assert sum(value["examples"] for value in metrics["tags"][tag].values()) == 36
        for value, name in enumerate(names):
            mine = rows[batch[tag] == value]
            assert len(mine) == metrics["tags"][tag].get(name, {"examples": 0})["examples"]
            if len(mine):
                np.testing.assert_allclose(metrics["tags"][tag][name]["accuracy"], mine[:, 0].mean(), rtol=1e-5)


def test_a_limited_evaluation_is_that_of_the_examples_it_takes():
    _, params, evaluate = made("directly")
    _, rows = one_by_one("directly", "test")
    metrics = evaluate(params, "test", 9)
    assert metrics["examples"] == 9
    np.testing.assert_allclose([metrics["accuracy"], metrics["answer_loss"]], rows[::4].mean(0), rtol=1e-5)


def test_slot_changes_are_the_distances_between_the_slots_before_and_after_each_segment():
    prepared, params, _ = made()
    model, task = prepared.model, prepared.task
    changes = slot_changes(model, params, task, 5)
    assert np.shape(changes) == (task.shape.segments, 3)
    indices = np.arange(5) * task.size("test") // 5
    batch = task.examples("test", indices)
    table = params["params"]["embed"]["embedding"]
    own = {"params": params["params"]["memory"]}
    write = jax.jit(jax.vmap(lambda stream, mask: model.memory.apply(own, table[stream], mask, method=memorize)[0]))
    before = model.memory.apply(own, method="initial_state")[None]
    for t in range(task.shape.segments):
        mask = np.where(np.arange(task.shape.segments)[:, None] <= t, batch["mask"], False)
        after = write(batch["stream"], mask)
        expected = np.linalg.norm(np.asarray(after - before, np.float64), axis=-1).mean(0)
        np.testing.assert_allclose(changes[t], expected, atol=2e-4)
        before = after
