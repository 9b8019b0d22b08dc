"""What an evaluation says of a split, against a tally: sums, weights, tags; and how one question is measured.

The oracle sees every example once; it knows no batches, and nothing of what fills up the last one.

Slips tried, each of which fails a test here: weights ignored, or given to what fills up a batch; a tag's values
shifted, or those of another tag; accuracy by the example, of all or of a tag; the loss by the example; right answers of
what diverged kept, or a mean loss beside them; a limit that takes the first examples; an answer that no model can give
with a loss, or counted among the losses, or counted again in what fills up a batch; predictions of what fills it up.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.asking import example, system
from oracles import objectives
from training.tallied import assert_tallied

from memjax.config import MeshConfig
from memjax.experiments.stream_qa import measure_answer
from memjax.tasks.sequence import SequenceShape
from memjax.training.data import Layout, same, spread
from memjax.training.evaluate import MetricSums, make_evaluator
from memjax.training.sharding import make_mesh

LENGTHS, COLOURS = ("8", "16"), ("red", "green", "blue", "never")
PAIRS = tuple(f"{length} x {colour}" for length in LENGTHS for colour in COLOURS)
BATCH = 8


class Told:
    """A task whose examples say themselves what is to be measured of them."""

    notes = ()
    shape = SequenceShape(1, 1, tags={"length": LENGTHS, "colour": COLOURS, "length x colour": PAIRS})

    def __init__(self, size, most=5, **given):
        rng = np.random.default_rng(size)
        losses, answers = rng.integers(1, most + 1, (2, size))
        self.rows = {"loss": rng.exponential(size=size), "losses": losses, "right": rng.integers(0, answers + 1)}
        self.rows = {name: x.astype(np.float32) for name, x in {**self.rows, "answers": answers}.items()}
        length, colour = rng.integers(0, 2, size), rng.integers(0, 3, size)
        self.rows |= {"length": length, "colour": colour, "length x colour": length * len(COLOURS) + colour}
        for name, changed in given.items():
            for place, value in changed.items():
                self.rows[name][place] = value

    def size(self, split):
        return len(self.rows["loss"]) if split == "test" else 0

    def examples(self, split, indices):
        return {name: x[indices] for name, x in self.rows.items()}

    def tally(self, indices):
        names = "loss", "losses", "right", "answers"
        rows = [[float(self.rows[name][i]) for name in names] for i in indices]
        return objectives.tally(rows, {tag: (of, self.rows[tag][indices]) for tag, of in self.shape.tags.items()})


def told(params, example):
    return MetricSums(params * example["loss"], *(example[name] for name in ("losses", "right", "answers")))


def evaluated(task, limit=None):
    return make_evaluator(told, task, Layout(same), make_mesh(MeshConfig(-1, 1, 1, 1), BATCH), BATCH)(
        jnp.ones(()), "test", limit
    )


TOLD = {
    "batches divide it": Told(16),
    "one batch is not full": Told(5),
    "the last batch is not full": Told(21),
    "one answer each": Told(19, most=1),
    # Of the last five, which are written once more to fill a batch, the first one is NaN.
    "some diverged": Told(21, loss={3: np.inf, 16: np.nan}),
    "all diverged": Told(3, loss={0: np.nan, 1: np.nan, 2: -np.inf}),
    "there is no loss": Told(11, loss=dict.fromkeys(range(11), 0.0), losses=dict.fromkeys(range(11), 0)),
    "one example": Told(1),
}


@pytest.mark.parametrize("what", TOLD)
def test_every_example_of_a_split_counts_once_with_all_its_answers(what):
    task = TOLD[what]
    metrics, want = evaluated(task), task.tally(np.arange(task.size("test")))
    assert_tallied(metrics, want)
    for found in (metrics, *(figures for values in metrics["tags"].values() for figures in values.values())):
        assert type(found["answers"]) is int and type(found["examples"]) is int


@pytest.mark.parametrize("limit", [4, 8, 10, 21, 50])
def test_a_limit_takes_examples_from_the_whole_split(limit):
    task = TOLD["the last batch is not full"]
    count = min(limit, 21)
    assert_tallied(evaluated(task, limit), task.tally(spread(count, 21)))


def test_a_pair_of_tags_is_counted_apart():
    task = TOLD["the last batch is not full"]
    tags, rows = evaluated(task)["tags"], task.rows
    assert set(tags["colour"]) == {"red", "green", "blue"}
    for name, figures in tags["length x colour"].items():
        length, colour = name.split(" x ")
        both = (rows["length"] == LENGTHS.index(length)) & (rows["colour"] == COLOURS.index(colour))
        assert figures["examples"] == both.sum() > 0


def test_predictions_come_in_order_and_answers_that_no_model_can_give_are_counted_once():
    task = Told(21)
    place, unknown = np.arange(21, dtype=np.int32), (np.arange(21) % 5 == 1).astype(np.float32)
    task.rows |= {"place": place, "unknown": unknown}  # of those that fill up the last batch one is unknown

    def measure(params, example):
        return told(params, example)._replace(prediction=example["place"], unknown=example["unknown"])

    evaluate = make_evaluator(measure, task, Layout(same), make_mesh(MeshConfig(-1, 1, 1, 1), BATCH), BATCH)
    for limit, expected in ((None, np.arange(21)), (10, spread(10, 21))):
        predictions = []
        metrics = evaluate(jnp.ones(()), "test", limit, predictions)
        assert np.concatenate(predictions).tolist() == expected.tolist()
        assert_tallied(metrics, task.tally(expected), unknown=unknown[expected].sum())


ASKED = {"memory": ("classes", False), "sampler": ("classes", False), "directly": ("candidates", True)}
ASKED |= {"multi_hop": ("click", False)}


@pytest.mark.parametrize("name", ASKED)
def test_a_question_is_measured_by_its_answer_and_by_its_loss_if_a_model_can_give_that(name):
    answer, text = ASKED[name]
    model, params = system(name, answer, text)
    rows = [example(answer, text, seed) for seed in range(6)]
    batch = {name: jnp.stack([row[name] for row in rows]) for name in rows[0]}

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(None, 0))
    def logits(params, row):
        slots, _ = model.apply(params, row["stream"], row["mask"], method="memorize")
        return model.apply(params, slots, row["query"], row.get("candidates"), method="answer")

    of_all = np.asarray(logits(params, batch))
    label = np.array(batch["label"])
    label[:3] = of_all[:3].argmax(1)  # some are right
    if answer == "classes":
        label[4] = objectives.NOTHING
    measure = jax.jit(jax.vmap(functools.partial(measure_answer, model), (None, 0)))
    found = np.stack(jax.device_get(measure(params, batch | {"label": jnp.asarray(label)}))[:4], axis=1)
    want = []
    for x, y in zip(of_all, label, strict=True):
        known = [objectives.cross_entropy(x, y)] if y != objectives.NOTHING else []
        want.append([sum(known), len(known), objectives.is_right(x, y), 1])
        if answer == "click":
            want[-1][0] = objectives.click_loss(x[1], y == 1)
    np.testing.assert_allclose(found, want, rtol=1e-5)
    assert 3 <= found[:, 2].sum() < 6
    sums = measure(params, batch | {"label": jnp.asarray(label)})
    np.testing.assert_array_equal(sums.prediction, of_all.argmax(1))
    np.testing.assert_array_equal(sums.unknown, label == objectives.NOTHING)
