"""What is minimised and measured where a policy acts, in streams of lines and in mazes, against NumPy; and its slopes.

Advantages and returns are constants to the gradient: the oracle takes them from where it is wanted.

Slips tried, each of which fails a test here: answers averaged over a stream's questions; the policy's part summed over
the lines, or padding among them; rewards reversed, of the line before, or those of the other kind; entropy sought with
the other sign; the value's weight, trace or discount forgotten; a slope through advantages; a policy without a slope;
entropy where nothing had to go; sums over the batch; a stream measured as one answer, or lines that ask nothing among
the right ones; a stream's loss not by the step; what is expected after its last step forgotten; an episode
that goes on into the next; success at any exit, or at none.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import objectives
from training.slopes import assert_slopes
from training.step_by_step import stepped
from training.tallied import assert_tallied
from training.tiny import mapping

from memjax.experiments.maze import build_navigator, walk
from memjax.experiments.maze.maze_stream import live
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.experiments.retention import build_reader
from memjax.training.evaluate import make_evaluator

HOW = {"actor_critic__discount": 0.9, "actor_critic__trace": 0.8, "actor_critic__entropy": 0.07}
HOW |= {"actor_critic__value": 0.3}
TRAINING = {"training.batch_size": 8, "training.steps": 2}
LINES = {"task.train": 16, "task.valid": 8, "task.test": 3, "model.width": 4, "model.hops": 1, **TRAINING}
MAZES = {
    "task.train": 16, "task.valid": 8, "task.test": 12, "task.train_lengths": "3", "task.test_lengths": "3,5",
    "model.width": 4, "model.entries": 3, **TRAINING,
}  # fmt: skip


def random_params(prepared, example, seed=1, scale=0.5):
    """Drawn without compiling an initialization."""
    shapes = jax.eval_shape(lambda: prepared.phases[-1].init(jax.random.key(0), example))
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: scale * rng.normal(size=leaf.shape).astype(np.float32), shapes)


def float64(read):
    return {name: np.asarray(x, np.float64) for name, x in read._asdict().items()}


def row(arrays, i):
    return {name: x[i] for name, x in arrays.items()}


# Streams of lines: what is answered, and which line goes.


@functools.cache
def reading(reward="answers"):
    """`(experiment, parameters, three streams, of which one ends early, the lines in each)`."""
    arg = f"noisy,policy=st,entries=3,reward={reward}"
    prepared = prepare(from_mapping(mapping(arg, "retention", LINES, **HOW)))
    batch = prepared.task.examples("train", np.arange(3))
    batch["line"][1, 30:], batch["label"][1, 30:], batch["support"][1, 30:] = 0, -1, -1
    lines = (batch["line"] != 0).sum(1).tolist()
    assert lines[1] == 30 < lines[0]
    batch["key"] = jax.random.split(jax.random.key(3), 3)
    batch = {name: jnp.asarray(x) for name, x in batch.items()}
    return prepared, random_params(prepared, row(batch, 0)), batch, lines


@functools.cache
def reader(policy):
    """`(params, batch, whether what goes is drawn) -> Read` of each stream as arrays, float64."""
    prepared = reading()[0]
    model, texts = build_reader(prepared.config.model, prepared.task, policy), jnp.asarray(prepared.task.lines)

    @functools.partial(jax.jit, static_argnums=4)
    @functools.partial(jax.vmap, in_axes=(None, 0, 0, 0, None))
    def read(params, line, label, key, drawn):
        return model.apply(params, texts, line, label >= 0, key if drawn else None)

    return lambda params, batch, drawn: float64(read(params, batch["line"], batch["label"], batch["key"], drawn))


PHASES = {"base": ("answers", 0, "fifo"), "answers": ("answers", 1, "st"), "facts": ("facts", 1, "st")}


@functools.cache
def read_loss(phase):
    """`((loss, metrics), gradient)`."""
    reward, number, _ = PHASES[phase]
    prepared, params, batch, _ = reading(reward)
    return jax.device_get(jax.jit(jax.value_and_grad(prepared.phases[number].loss, has_aux=True))(params, None, batch))


def expected_of_streams(phase, params):
    """Means of the rows at `params`; what is constant to the gradient, at the parameters of `reading`."""
    reward, _, policy = PHASES[phase]
    prepared, base, batch, lines = reading(reward)
    how, batch = prepared.config.actor_critic, jax.device_get(batch)
    now, then = (reader(policy)(at, batch, True) for at in (params, base))
    np.testing.assert_array_equal(now["entries"], then["entries"])  # the same lines go
    rows = []
    for i, length in enumerate(lines):
        given = batch["label"][i], batch["support"][i], length, reward, how
        rows.append(objectives.stream(row(now, i), row(then, i), *given))
    return objectives.means(rows)


@pytest.mark.parametrize("phase", PHASES)
def test_a_stream_costs_its_answers_and_by_the_line_what_its_policy_did(phase):
    (loss, metrics), _ = read_loss(phase)
    want = expected_of_streams(phase, reading()[1])
    np.testing.assert_allclose(loss, want.pop("loss"), rtol=1e-4)
    assert set(metrics) == set(want)
    for name, value in want.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert 0 < want["accuracy"] < 1 and abs(want["accuracy"] - 0.5) > 0.01
    assert (want["policy_loss"] == want["entropy"] == 0) == (phase == "base")


@pytest.mark.parametrize("phase", PHASES)
def test_the_gradient_of_a_stream_points_where_its_loss_falls(phase):
    assert_slopes(read_loss(phase)[1], lambda params: expected_of_streams(phase, params)["loss"], reading()[1])


def read_measures(params, batch):
    """The four sums of each stream, tested."""
    read = reader("st")(params, {**batch, "key": jax.random.split(jax.random.key(0), len(batch["line"]))}, False)
    return [
        objectives.measured(objectives.tokens(logits, np.where(label < logits.shape[1], label, -2)))
        for logits, label in zip(read["logits"], np.asarray(batch["label"]), strict=True)
    ]


def test_every_question_of_a_stream_is_measured():
    prepared, params, batch, _ = reading()
    measure = jax.jit(jax.vmap(prepared.phases[-1].measure, (None, 0)))
    example = {name: x for name, x in batch.items() if name != "key"}
    found = np.stack(jax.device_get(measure(params, example))[:4], axis=1)
    np.testing.assert_allclose(found, read_measures(params, example), rtol=1e-5)
    assert found[:, 3].tolist() == [5, 3, 5] and 0 < found[:, 2].sum() < 13


def test_an_answer_that_no_model_can_give_is_an_error_and_has_no_part_in_the_loss():
    prepared, params, batch, _ = reading()
    example = {name: x for name, x in batch.items() if name != "key"}
    label = np.array(example["label"])
    label[0, np.flatnonzero(label[0] >= 0)[0]] = prepared.task.shape.answers
    measure = jax.jit(jax.vmap(prepared.phases[-1].measure, (None, 0)))
    found = np.stack(jax.device_get(measure(params, {**example, "label": jnp.asarray(label)}))[:4], axis=1)
    want = read_measures(params, example)
    logits = reader("st")(params, batch, False)["logits"]
    known = [objectives.tokens(x, np.where(y < x.shape[1], y, objectives.NOTHING)) for x, y in zip(logits, label)]
    want = [[*objectives.measured(row)[:3], asked] for row, asked in zip(known, (label >= 0).sum(1), strict=True)]
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_a_split_of_streams_is_measured_by_all_its_questions():
    prepared, params, _, _ = reading()
    metrics = make_evaluator(prepared.phases[-1].measure, prepared.task, prepared.recipe.layout, prepared.mesh, 8)(
        params, "test"
    )
    batch = prepared.task.examples("test", np.arange(prepared.task.size("test")))
    assert_tallied(metrics, objectives.tally(read_measures(params, batch), {}))


# Mazes: where an agent goes, and which view.


@functools.cache
def walking():
    """`(experiment, parameters, twelve episodes, (params, batch) -> what becomes of them, the likeliest taken)`."""
    prepared = prepare(from_mapping(mapping("imaze,policy=st", "maze", MAZES, **HOW)))
    task = prepared.task
    agent = build_navigator(prepared.config.model, task.shape.codes, 3)
    batch = {name: jnp.asarray(x) for name, x in task.examples("train", np.arange(12)).items()}
    batch["key"] = jax.random.split(jax.random.key(1), 12)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(None, 0))
    def run(params, episode):
        moments = walk(agent, task.mazes, 50, params, episode, None)
        return {"reward": moments.reward, "over": moments.before}

    def walked(params, batch):
        return jax.tree.map(np.float64, run(params, {name: batch[name] for name in ("maze", "seed")}))

    return prepared, random_params(prepared, row(batch, 0)), batch, walked


STEPS = 50  # of a stream


@functools.cache
def lived():
    """`(twelve streams, params -> log_prob, entropy and value of each step, one by one)`."""
    prepared, params, batch, _ = walking()
    task = prepared.task
    agent = build_navigator(prepared.config.model, task.shape.codes, 3)
    begin = functools.partial(live, agent, task.mazes, jnp.asarray(task.learned), STEPS + 1, params)
    streams = jax.jit(jax.vmap(begin))(batch, batch["key"])

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(None, 0))
    def one_by_one(params, stream):
        return stepped(agent, params, stream)

    return jax.tree.map(np.asarray, streams._replace(key=None)), lambda params: jax.tree.map(
        np.float64, one_by_one(params, streams)
    )


@functools.cache
def walk_loss():
    """`((loss, metrics), gradient)`."""
    prepared, params, batch, _ = walking()
    return jax.device_get(jax.jit(jax.value_and_grad(prepared.phases[-1].loss, has_aux=True))(params, None, batch))


def expected_of_mazes(params):
    """(loss, means) at `params`; what is constant to the gradient, at the parameters of `walking`."""
    streams, read = lived()
    now, then = read(params), read(walking()[1])
    rows, won = [], []
    for i in range(12):
        reward, ended = streams.reward[i, :STEPS], streams.ended[i, :STEPS]
        acted = row(now, i) | {"acted": np.ones(STEPS)}
        rows.append(objectives.actor_critic(acted, row(then, i), reward, walking()[0].config.actor_critic, ended))
        won.append(((reward > 0) & ended).sum())
    return objectives.episodes(rows, STEPS, streams.ended[:, :STEPS].sum(1), won)


def test_a_stream_of_episodes_costs_by_the_step_what_the_agent_did_in_it():
    (loss, metrics), _ = walk_loss()
    want, means = expected_of_mazes(walking()[1])
    np.testing.assert_allclose(loss, want, rtol=1e-4)
    assert set(metrics) == set(means)
    for name, value in means.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert 0 < means["accuracy"] < 1 and abs(means["accuracy"] - 0.5) > 0.01 and 1 < means["steps"] < 50


def test_the_gradient_of_a_stream_of_episodes_points_where_its_loss_falls():
    assert_slopes(walk_loss()[1], lambda params: expected_of_mazes(params)[0], walking()[1], move=0.003)


def test_a_split_of_episodes_is_measured_by_those_that_end_at_the_right_exit():
    prepared, _, episodes, walked = walking()
    params = random_params(prepared, row(episodes, 0), seed=75, scale=1.0)  # seldom does chance find an exit
    task, size = prepared.task, prepared.task.size("test")
    metrics = make_evaluator(prepared.phases[-1].measure, task, prepared.recipe.layout, prepared.mesh, 8)(
        params, "test"
    )
    batch = task.examples("test", np.arange(size))
    found = walked(params, batch)
    steps = (found["over"] == 0).sum(1)
    last = found["reward"][np.arange(size), steps - 1]
    assert 0 < (last > 0).sum() < (steps < 50).sum() < size  # some end at the wrong exit, some at none
    beside = {name: metrics.pop(name) for name in ("wrong_exit", "out_of_time", "drawn")}
    assert beside["wrong_exit"] == pytest.approx((last < -0.5).mean()) and 0 <= beside["drawn"] <= 1
    assert beside["out_of_time"] == pytest.approx((abs(last) < 0.5).mean())
    for values in metrics["tags"].values():
        for told in values.values():
            assert {name: told.pop(name) for name in beside}["wrong_exit"] >= 0
    tags = {tag: (names, batch[tag]) for tag, names in task.shape.tags.items()}
    assert_tallied(metrics, objectives.tally([[0.0, 0, float(reward > 0), 1] for reward in last], tags))
