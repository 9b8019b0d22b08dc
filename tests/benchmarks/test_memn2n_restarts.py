"""Training MemN2N: the pool against the model alone, one step by hand, restarts side by side, resuming, learning."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import memn2n_restarts as restarts
import numpy as np
import pytest
from memn2n_pool import NOBODY, batches, load, pool, pool_size, pooled_logits
from memn2n_restarts import Progress, Recipe, Trainer, lowest_training_error
from oracles import memory_network as oracle
from oracles.checking import assert_close, assert_same

from memjax.errors import MemjaxError
from memjax.models.memory_network import MemN2N
from memjax.tasks.stream_task import TaskShape

PEOPLE, PLACES, T = 3, 3, 6
RECIPE = Recipe(
    batch_size=8, epochs=3, learning_rate=0.05, halve_every=1, linear_epochs=2, linear_rate=0.02, patience=1,
    clip_norm=40.0, noise=True,
)  # fmt: skip
SIZES = {"train": 43, "valid": 11, "test": 10}


class Where:
    """Someone went somewhere, up to six times; where did one of them go last? Words: 0 padding, people, places."""

    shape = TaskShape(1 + PEOPLE + PLACES, T, 2, 1 + PEOPLE + PLACES, 1, "classes", PLACES)
    notes = ()

    def __init__(self, sizes=SIZES):
        self.sizes = sizes

    def size(self, split):
        return self.sizes[split]

    def examples(self, split, indices):
        parts = [self._one(np.random.default_rng([list(self.sizes).index(split), i])) for i in indices]
        return {key: np.stack([part[key] for part in parts]) for key in parts[0]}

    def _one(self, rng):
        length = rng.integers(2, T + 1)
        stream = np.zeros((T, 2), np.int32)
        stream[:length, 0] = rng.integers(1, PEOPLE + 1, length)
        stream[:length, 1] = rng.integers(PEOPLE + 1, PEOPLE + PLACES + 1, length)
        asked = rng.choice(stream[:length, 0])
        label = stream[:length][stream[:length, 0] == asked][-1, 1] - PEOPLE - 1
        return {
            "stream": stream, "mask": stream != 0, "query": np.array([asked], np.int32), "label": np.int32(label)
        }  # fmt: skip


def model(**options):
    answers = tuple(range(PEOPLE + 1, PEOPLE + PLACES + 1))
    return MemN2N(**{"shape": Where.shape, "answers": answers, "width": 6, "hops": 2, "memory": 5} | options)


@functools.cache
def trainer(seeds=(0, 1, 2), **changes):
    return Trainer(Where(), model(), dataclasses.replace(RECIPE, **changes), seeds)


@functools.cache
def trained(seeds=(0, 1, 2), epochs=None, **changes):
    one = trainer(seeds, **changes)
    progress = one.start()
    while not one.finished(progress) and (epochs is None or len(progress.history) < epochs):
        progress = one.step(progress)
    return progress


def params_of(net, scale=5.0):
    example = Where().examples("train", [0])
    arguments = [jnp.asarray(example[key][0]) for key in ("stream", "mask", "query")]
    return jax.tree.map(lambda x: scale * x, jax.jit(net.init)(jax.random.key(0), *arguments))


@pytest.mark.parametrize("tying", ["adjacent", "layer_wise"])
def test_a_pool_gives_what_each_story_alone_gives(tying):
    net, task = model(tying=tying), Where()
    params = params_of(net)
    texts, stories = load(task, net, ("train", "valid", "test"))
    numbers = np.array([5, 0, NOBODY, 7, 3], np.int32)
    valid = stories["valid"]
    ask = jax.jit(lambda: pooled_logits(net, params, texts, valid, jnp.asarray(numbers), 32))
    logits = ask()
    for row, number in zip(logits, numbers, strict=True):
        if number == NOBODY:
            assert np.isfinite(row).all()
            continue
        (one,) = ({key: value[0] for key, value in task.examples("valid", [number]).items()},)
        story = [line[mask].tolist() for line, mask in zip(one["stream"], one["mask"]) if mask.any()]
        expected = oracle.answer(params["params"], story, one["query"].tolist(), tying, "position", 2, 5)
        np.testing.assert_allclose(row[1:], expected[1:], rtol=1e-4, atol=1e-5)


def test_a_pool_holds_each_sentence_of_each_story_once():
    net, task = model(), Where()
    _, stories = load(task, net, ("train",))
    order = batches(np.arange(43), 8)
    assert sorted(order[order != NOBODY]) == list(range(43)) and order.shape == (6, 8)
    size = pool_size(stories["train"], order)
    lengths = np.minimum(task.examples("train", range(43))["mask"].any(2).sum(1), 5)
    assert size == 64 and (stories["train"].length == lengths).all()  # 8 stories of at most 5
    for numbers in order:
        rows = pool(stories["train"], jnp.asarray(numbers), size)
        for place, number in enumerate(numbers):
            ages = np.asarray(rows.age)[np.asarray(rows.owner) == place]
            assert ages.tolist() == list(range(lengths[number] if number != NOBODY else 0, 0, -1))
        assert (rows.age >= 1).all() and (np.asarray(rows.owner) == 8).sum() == size - rows.lengths.sum()


def test_a_step_is_the_summed_loss_clipped_for_each_matrix():
    """By the differences of the oracle's loss along random directions, and by hand for the clipping."""
    one = trainer((0,), noise=False, linear_epochs=0, clip_norm=0.2)
    task, net, recipe = one.task, one.model, one.recipe
    texts, stories = load(task, net, ("train",))
    params = params_of(net, 2.0)
    numbers = np.arange(8, dtype=np.int32)
    after, loss, error = jax.jit(functools.partial(restarts._epoch, net, recipe, 64))(
        texts, stories["train"], params, numbers[None], jnp.float32(0.1), jnp.array(False), jax.random.key(0)
    )
    batch = task.examples("train", numbers)

    def total(params):
        result, wrong = 0.0, 0
        for stream, query, label in zip(batch["stream"], batch["query"], batch["label"], strict=True):
            story = [line.tolist() for line in stream if line.any()]
            logits = oracle.answer(params, story, query.tolist(), "adjacent", "position", 2, 5)[1:]
            target = net.answers[label] - 1
            result += np.log(np.exp(logits).sum()) - logits[target]
            wrong += logits.argmax() != target
        return result, wrong

    before = jax.tree.map(lambda x: np.asarray(x, np.float64), params["params"])
    value, wrong = total(before)
    np.testing.assert_allclose([loss * 8, error * 8], [value, wrong], rtol=1e-5)
    clipped = 0
    for name, values in before.items():
        for table in range(len(values)):
            gradient = np.zeros(values.shape[1:])
            for place in np.ndindex(gradient.shape):
                moved = {k: v.copy() for k, v in before.items()}
                moved[name][(table, *place)] += 1e-5
                gradient[place] = (total(moved)[0] - value) / 1e-5
            norm = np.linalg.norm(gradient)
            clipped += norm > 0.2
            expected = values[table] - 0.1 * gradient * min(1, 0.2 / norm)
            np.testing.assert_allclose(after["params"][name][table], expected, atol=2e-4)
    assert 0 < clipped < 6


def test_restarts_side_by_side_are_the_restarts_one_by_one():
    together = trained()
    for place, seed in enumerate((0, 1, 2)):
        alone = trained((seed,))
        assert_close(
            jax.tree.map(lambda x, place=place: x[place], together.params),
            jax.tree.map(lambda x: x[0], alone.params), 1e-4,
        )  # fmt: skip
        np.testing.assert_allclose(together.history[: len(alone.history), place], alone.history[:, 0], atol=1e-4)
    words = together.params["params"]["words"]
    assert (words[0] != words[1]).any() and (words[1] != words[2]).any()


def test_the_row_of_padding_stays_zero_and_finished_restarts_stay_as_they_were():
    end = trained()
    assert (end.params["params"]["words"][:, :, 0] == 0).all()
    one = trainer()
    assert one.finished(end) and not one.finished(one.start())
    more = one.step(end)
    assert_same(more.params, end.params)
    assert_same(more.history[-1], end.history[-1])


def test_each_restart_ends_its_linear_start_by_its_own_validation_loss():
    one = trainer(seeds=(0, 1), patience=2, linear_epochs=9)
    progress = one.start()
    losses = iter([[5.0, 5.0], [4.0, 6.0], [3.0, 7.0], [4.0, 1.0], [5.0, 1.0], [6.0, 1.0], [7.0, 1.0]])
    with pytest.MonkeyPatch.context() as patch:
        wrong = np.zeros((2, 11), bool)
        patch.setattr(one, "evaluate", lambda *args: restarts.Evaluation(np.array(next(losses)), wrong))
        patch.setattr(one, "_epoch", lambda texts, stories, params, *args: (params, np.zeros(2), np.zeros(2)))
        linear, rates = [], []
        for _ in range(7):
            linear.append(progress.linear.tolist())
            rates.append(one._rate(progress).tolist())
            progress = one.step(progress)
    # The second finds nothing lower twice after its first epoch; the first after its third.
    assert linear == [[True, True]] * 3 + [[True, False]] * 2 + [[False, False]] * 2
    first, second = zip(*rates, strict=True)
    np.testing.assert_allclose(first, [0.02] * 5 + [0.05, 0.025])
    np.testing.assert_allclose(second, [0.02] * 3 + [0.05, 0.025, 0.0125, 0])


def test_linear_start_is_at_most_so_long_and_0_is_none():
    assert trainer(linear_epochs=0).start().linear.tolist() == [False] * 3
    assert len(trained(patience=9).history) == 2 + 3
    assert trained(epochs=1, patience=9).linear.all() and not trained(epochs=2, patience=9).linear.any()
    same_rate = trained(epochs=1, linear_rate=0.05).history[0], trained(epochs=1, linear_epochs=0).history[0]
    assert (same_rate[0][:, 0] != same_rate[1][:, 0]).all()


def test_a_run_that_was_stopped_goes_on_to_the_same_end(tmp_path):
    class Stopped(Exception):
        pass

    def stop(progress):
        if len(progress.history) == 1:
            raise Stopped

    with pytest.raises(Stopped):
        trainer().train(tmp_path, stop)
    seen = []
    end = trainer().train(tmp_path, lambda progress: seen.append(len(progress.history)))
    assert seen[0] == 2
    assert_same(end._replace(seconds=0), trained()._replace(seconds=0))
    again = trainer().train(tmp_path, seen.append)
    assert_same(again, end)


def test_noise_is_in_training_and_not_in_evaluation():
    with_noise, without = trained(epochs=1), trained(epochs=1, noise=False)
    assert (with_noise.history[0, :, 0] != without.history[0, :, 0]).all()
    one = trainer()
    assert_same(one.evaluate(with_noise.params, "test"), one.evaluate(with_noise.params, "test"))


def test_evaluation_says_for_each_example_whether_it_was_wrong():
    one, end = trainer(), trained()
    found = one.evaluate(end.params, "test")
    batch = one.task.examples("test", np.arange(10))
    for place in range(3):
        params = jax.tree.map(lambda x, place=place: x[place], end.params)
        logits = jax.vmap(functools.partial(one.model.apply, params))(batch["stream"], batch["mask"], batch["query"])
        assert found.wrong[place].tolist() == (logits.argmax(1) != batch["label"]).tolist()


def test_the_reported_restart_is_that_of_the_lowest_training_error():
    before = np.zeros((4, 4))
    last = np.array([[0.1, 0.9, 0, 0], [0.3, 0.5, 0, 0], [0.2, 0.5, 1, 1], [np.nan, 0, 0, 0]])
    progress = Progress(None, *[None] * 4, np.stack([before, last]), None)
    assert lowest_training_error(progress) == 2


@pytest.mark.parametrize("tying", ["adjacent", "layer_wise"])
def test_a_small_task_is_learned(tying):
    recipe = Recipe(16, 25, 0.02, 10, 4, 0.01, 2, 40.0, True)
    one = Trainer(Where({"train": 800, "valid": 60, "test": 200}), model(width=12, tying=tying), recipe, range(3))
    progress = one.start()
    while not one.finished(progress):
        progress = one.step(progress)
    best = lowest_training_error(progress)
    assert one.evaluate(progress.params, "test").wrong[best].mean() < 0.05  # by chance 0.67


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"recipe": {"batch_size": 99}}, "43 training examples are fewer than one batch of 99"),
        ({"recipe": {"learning_rate": 0.0}}, "learning_rate of a recipe must be above 0"),
        ({"recipe": {"epochs": 0}}, "epochs of a recipe must be at least 1"),
        ({"seeds": (1, 1)}, "two restarts have the same seed"),
        ({"seeds": ()}, "there must be at least one restart"),
    ],
)
def test_what_does_not_fit_is_one_line(arguments, message):
    with pytest.raises(MemjaxError, match=message):
        recipe = dataclasses.replace(RECIPE, **arguments.get("recipe", {}))
        Trainer(Where(), model(), recipe, arguments.get("seeds", (0,)))


def test_a_folder_of_another_run_and_a_damaged_file_are_refused(tmp_path):
    one = trainer((0,))
    one.save(tmp_path / "progress.npz", trained((0,), epochs=1))
    with pytest.raises(MemjaxError, match="another recipe, model or seeds"):
        trainer((1,)).train(tmp_path)
    (tmp_path / "progress.npz").write_bytes(b"PK no archive")
    with pytest.raises(MemjaxError, match="is damaged"):
        one.train(tmp_path)
