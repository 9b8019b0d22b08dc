"""Recommendation from a file of clicks to a tested run: all items are ranked, from what is kept of each stream."""

import gzip

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import compiled_programs
from rich.console import Console
from training.tiny import random_params

from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.experiments.stream_qa.item_ranking import rank_items
from memjax.experiments.stream_qa.stream_qa_models import build
from memjax.reporting import load_run
from memjax.training import experiment
from memjax.training.data import Layout
from memjax.training.phase import load_phase
from memjax.training.ranking_metrics import auc_interval

ITEMS, USERS = 9, 11


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    random = np.random.default_rng(0)
    lines = [
        f"{user} {1 + item}" for user in range(USERS) for item in random.permutation(ITEMS)[: random.integers(4, 9)]
    ]
    folder = tmp_path_factory.mktemp("clicks")
    (folder / "log.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return folder


def prepared(folder, system):
    task = {"name": "clicks", "file": "log.txt.gz", "length": 6, "segment": 2, "views": 3, "least": 4, "seed": 0}
    memory = {"name": "rehearsal", "slots": 3, "layers": 1, "heads": 2}
    rehearsal = {"fragments": 2, "sampler": "random", "layers": 1, "heads": 2, "negatives": 4}
    training = {"steps": 3, "batch_size": 8, "buckets": 2}
    sections = {"memory": memory, "rehearsal": rehearsal, "training": training, "model": {"width": 8, "hops": 1}}
    return prepare(from_mapping({"system": system, "task": task | {"data_dir": str(folder)}, **sections}))


def one_by_one(model, params, task):
    """(rank of the target, score of target and popular item) of each test user, each item asked by itself."""
    found = []
    ask = jax.jit(lambda slots, item: model.apply(params, slots, item, method="answer"))
    for user in range(task.size("test")):
        batch = jax.tree.map(jnp.asarray, task.examples("test", np.array([user])))
        slots, _ = model.apply(params, batch["stream"][0], batch["mask"][0], method="memorize")
        scores = [float(np.diff(ask(slots, jnp.asarray(item)))[0]) for item in range(ITEMS)]
        asked = task.ranked("test", np.array([user]))
        target, popular = int(asked["target"][0]), int(asked["popular"][0])
        left = [item for item in range(ITEMS) if item == target or not asked["left_out"][0, item]]
        rank = 1 + sum(scores[item] >= scores[target] for item in left if item != target)
        found.append((rank, scores[target], scores[popular]))
    return map(np.array, zip(*found, strict=True))


@pytest.mark.parametrize("system", ["memory", "dien"])
def test_a_run_tells_how_high_the_next_item_stands(folder, system, tmp_path):
    made = prepared(folder, system)
    run = tmp_path / "run"
    with compiled_programs() as compiled:
        experiment.train(made, run, Console(quiet=True))
        metrics = experiment.evaluate(made, run)["metrics"]
    if system == "dien":
        of_train = experiment.evaluate(made, run, "train", "evaluation-train.json")["metrics"]
        assert of_train["answers"] and "auc_popular" not in of_train  # nothing is ranked there
    # Of both phases the start, the step and what is measured, once for each shape; and what is told of slots and items.
    assert len(compiled) <= 24, len(compiled)
    model = build(made.config, made.task.shape)
    rank, target, popular = one_by_one(model, load_phase(made, run, made.phases[-1])[1], made.task)
    above = np.mean([(t > p) + (t == p) / 2 for t in target for p in popular])
    np.testing.assert_allclose(metrics["auc_popular"], above, atol=1e-6)
    low, high = metrics["auc_popular_interval"]
    assert low <= above <= high
    columns = {column["name"] for column in load_run(run).evaluation["report"]["columns"]}
    assert {"AUC %", "popular AUC %", "HR@10 %"} <= columns
    if system == "dien":  # every item would cost a pass over the stream
        assert not {"hr_10", "mrr"} & metrics.keys()
        return
    np.testing.assert_allclose(metrics["mrr"], np.mean(1 / rank), rtol=1e-6)
    np.testing.assert_allclose(metrics["ndcg_10"], np.mean(np.where(rank <= 10, 1 / np.log2(1 + rank), 0)), rtol=1e-6)
    assert metrics["hr_10"] == np.mean(rank <= 10)
    low, high = metrics["mrr_interval"]
    assert low <= metrics["mrr"] <= high


def test_what_diverged_is_ranked_last_and_has_no_area(folder):
    made = prepared(folder, "memory")
    model, layout = build(made.config, made.task.shape), made.recipe.layout
    example = {name: jnp.asarray(x[0]) for name, x in made.task.examples("train", np.zeros(1, int)).items()}
    shapes = jax.eval_shape(made.phases[-1].init, jax.random.key(0), example)
    params = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), shapes)
    found = rank_items(model, params, made.task, layout, "test", 8)
    assert np.isnan(found["auc_popular"]) and "auc_popular_interval" not in found
    assert found["hr_10"] <= 1 and found["mrr"] < 0.5


def test_what_is_ranked_depends_on_no_batch(folder):
    made = prepared(folder, "memory")
    model, layout = build(made.config, made.task.shape), made.recipe.layout
    example = {name: jnp.asarray(x[0]) for name, x in made.task.examples("train", np.zeros(1, int)).items()}
    params = made.phases[-1].init(jax.random.key(0), example)
    small, whole = (
        rank_items(model, params, made.task, each, "valid", size)
        for each, size in ((layout, 8), (Layout(layout.check, layout.trim), USERS))
    )
    assert small.keys() == whole.keys()
    for name, value in small.items():
        if value is None:  # the interval of a rate of 1
            assert whole[name] is None
        else:
            np.testing.assert_allclose(value, whole[name], rtol=1e-5)


def test_the_interval_of_the_popular_auc_is_by_users(folder):
    made = prepared(folder, "dien")
    model = build(made.config, made.task.shape)
    example = {name: x[0] for name, x in made.task.examples("train", np.zeros(1, int)).items()}
    params = random_params(model, example)
    _, target, popular = one_by_one(model, params, made.task)
    users = np.arange(len(target))
    expected = auc_interval(
        np.concatenate([target, popular]), np.repeat([1, 0], len(users)), np.concatenate([users, users])
    )
    found = rank_items(model, params, made.task, made.recipe.layout, "test", 8)
    np.testing.assert_allclose(found["auc_popular_interval"], expected, atol=1e-6)
