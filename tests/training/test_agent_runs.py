"""Experiments with agents in mazes: an episode is agent and maze in turn, and the loss is the actor-critic's of it.

Slips that were tried: the reward of the step before; the end not seen; any end counted as success; in a stream, the
critic's state of the episode before, later episodes in mazes of the test.
"""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training.step_by_step import stepped
from training.tiny import CONFIGS, config_file, flags, mapping

from memjax import cli, environments
from memjax.errors import MemjaxError
from memjax.experiments.maze import build_navigator, walk, watch
from memjax.experiments.maze.maze_family import maze_objective
from memjax.experiments.maze.maze_stream import live, replay
from memjax.experiments.prepare import prepare, trained_model
from memjax.experiments.reading import from_mapping, to_mapping
from memjax.models import Navigator

SIZES = {
    "task.train": 16, "task.valid": 8, "task.test": 2, "task.train_lengths": "3", "task.test_lengths": "3,5",
    "model.width": 4, "model.entries": 3, "training.steps": 2, "training.batch_size": 8, "training.log_every": 1,
    "training.validate_every": 2, "training.validate_examples": 8, "training.checkpoint_every": 2,
}  # fmt: skip


def prepared(arg="imaze", **changes):
    return prepare(from_mapping(mapping(arg, "maze", SIZES, **changes)))


@functools.cache
def made():
    """(experiment, its phase, the agent, parameters, an episode that is won among others, their keys)."""
    trained = prepared()
    agent = build_navigator(trained.config.model, trained.task.shape.codes, 3)
    phase = trained.phases[-1]
    shapes = jax.eval_shape(agent.init, jax.random.key(0), jnp.zeros((environments.DEPTH, 5), jnp.int32))
    rng = np.random.default_rng(1)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) / 2, leaf.dtype), shapes)
    batch = {name: jnp.asarray(value) for name, value in trained.task.examples("train", np.arange(12)).items()}
    return trained, phase, agent, params, batch, jax.random.split(jax.random.key(0), 12)


@functools.cache
def walked():
    """Twelve episodes of 50 steps whose actions are drawn, as NumPy arrays."""
    trained, _, agent, params, batch, keys = made()
    run = jax.jit(jax.vmap(functools.partial(walk, agent, trained.task.mazes, 50, params)))
    return jax.tree.map(np.asarray, run(batch, keys))


@pytest.mark.slow
@pytest.mark.parametrize("arg", ["imaze,base=frmqn,policy=st", "imaze,base=mqn,policy=lru"])
def test_it_is_trained_tested_and_reported_by_one_command(arg, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["train", f"--config={CONFIGS / 'maze'}.py:{arg}", f"--run={run}", *flags(SIZES)]
    assert cli.main(arguments) == 0, capsys.readouterr().err
    found = json.loads((run / "evaluation.json").read_text())
    assert found["metrics"]["answers"] == 4 and found["report"]["guessing"]["accuracy"] == 0.5 and found["step"] == 2
    assert set(found["metrics"]["tags"]["length"]) == {"3", "5"} and "answer_loss" not in found["metrics"]
    assert (run / "report.html").exists() and (run / "plots" / "walk.png").exists()
    agent, params = trained_model(run)
    decision, _ = jax.jit(agent.apply)(params, jnp.zeros((environments.DEPTH, 5), jnp.int32))
    assert isinstance(agent, Navigator) and jnp.isfinite(decision.actions).all()
    first = found["metrics"]
    again = ["train", f"--config={CONFIGS / 'maze'}.py:{arg}", f"--run={tmp_path / 'again'}", *flags(SIZES)]
    assert cli.main(again) == 0
    assert json.loads((tmp_path / "again" / "evaluation.json").read_text())["metrics"] == first


def test_an_episode_is_agent_and_maze_in_turn():
    trained, _, agent, params, batch, keys = made()
    mazes, found = trained.task.mazes, walked()
    enter, step = jax.jit(environments.enter), jax.jit(environments.step)
    decide = jax.jit(agent.apply)
    for i in (0, 5):
        view, place = enter(jax.random.key(int(batch["seed"][i])), batch["maze"][i], mazes)
        state, ended = agent.apply(params, method="initial_state"), False
        for t, key in enumerate(jax.random.split(keys[i], 50)):
            assert found.before[i, t] == ended
            assert (found.view[i, t] == view).all() and found.state.row[i, t] == place.row
            decision, state = decide(params, view, state, *jax.random.split(key))
            assert found.decision.action[i, t] == decision.action
            view, place, reward, ended = step(key, place, decision.action, mazes)
            assert found.reward[i, t] == reward
            if ended:
                break


@functools.cache
def lived(arg, **changes):
    """(experiment, its mazes but of 17 steps at most, the agent, parameters, an episode, six streams of 80 steps)."""
    trained = prepared(arg, **changes)
    mazes = trained.task.mazes._replace(limit=jnp.full_like(trained.task.mazes.limit, 17))
    agent = build_navigator(trained.config.model, trained.task.shape.codes, 3)
    example = {name: jnp.asarray(x) for name, x in trained.task.examples("train", np.arange(6)).items()}
    shapes = jax.eval_shape(agent.init, jax.random.key(0), jnp.zeros((environments.DEPTH, 5), jnp.int32))
    rng = np.random.default_rng(3)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) / 2, leaf.dtype), shapes)
    run = functools.partial(live, agent, mazes, jnp.asarray(trained.task.learned), 80, params)
    streams = jax.jit(jax.vmap(run))(example, jax.random.split(jax.random.key(0), 6))
    return trained, mazes, agent, params, example, streams


def test_a_stream_is_episodes_one_after_the_other_in_mazes_to_learn_from():
    trained, mazes, agent, params, example, streams = lived("imaze,policy=st", **{"task.train_lengths": "3,4"})
    own, found = trained.task.learned, jax.tree.map(np.asarray, streams._replace(key=None))
    step, view_of, decide = jax.jit(environments.step), jax.jit(environments.view), jax.jit(agent.apply)
    entered = [environments.enter(jax.random.key(0), jnp.asarray(maze), mazes)[1] for maze in own]
    anywhere = [place._replace(facing=jnp.asarray(facing)) for place in entered for facing in range(4)]
    first = [environments.enter(jax.random.key(int(s)), m, mazes)[1] for s, m in zip(example["seed"], example["maze"])]
    assert found.ended.sum() > 12
    for i in range(6):
        places, begin = [first[i]], 0
        for t in range(80):
            assert found.began[i, t] == (t == begin)
            if t == begin:
                state = agent.apply(params, method="initial_state")
                places = anywhere if t else places  # where it may be is known by what it sees from then on
            places = [place for place in places if (np.asarray(view_of(place, mazes)) == found.view[i, t]).all()]
            held = [begin + int(came) for came in state.buffer.entries.step if came >= 0]
            assert [came for came in found.entries[i, t] if came >= 0] == held
            decision, state = decide(params, jnp.asarray(found.view[i, t]), state, None, streams.key[i, t])
            assert found.evicted[i, t] == decision.evicted
            after = [step(jax.random.key(0), place, found.action[i, t], mazes)[1:] for place in places]
            told = found.reward[i, t], found.ended[i, t]
            places = [place for place, reward, ended in after if (reward, ended) == told]
            assert places
            begin = t + 1 if found.ended[i, t] else begin


@pytest.mark.parametrize(
    ("arg", "changes"),
    [
        ("imaze,policy=st", {}),
        ("imaze,policy=im,base=frmqn", {}),
        ("imaze,policy=shuffled_s", {"model.nop": False}),
        ("imaze,policy=fifo,base=frmqn", {}),
    ],
)
def test_what_is_learned_from_has_the_values_and_the_gradient_of_walking_there(arg, changes):
    _, _, agent, params, _, streams = lived(arg, **changes)
    weights = dict(zip(("log_prob", "entropy", "value"), np.random.default_rng(3).normal(size=(3, 6, 80))))

    def weighed(read):
        def total(params):
            found = jax.vmap(lambda stream: read(params, stream))(streams)
            return sum((weight * found[name]).sum() for name, weight in weights.items()), found

        return jax.jit(jax.value_and_grad(total, has_aux=True))(params)

    (_, walking), expected = weighed(functools.partial(stepped, agent))
    (_, again), found = weighed(lambda params, stream: replay(agent, params, stream)._asdict())
    for name in weights:
        np.testing.assert_allclose(again[name], walking[name], atol=3e-5)
    np.testing.assert_array_equal(walking["evicted"], streams.evicted)
    assert (streams.entries >= 0).all(-1).any() and streams.ended.sum() > 6
    largest = max(float(abs(leaf).max()) for leaf in jax.tree.leaves(expected))
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5 * largest), found, expected
    )


def test_an_agent_is_tested_by_its_likeliest_actions_until_the_end():
    trained, phase, agent, params, batch, _ = made()
    run = jax.vmap(lambda example: walk(agent, trained.task.mazes, 50, params, example, None))
    moments = jax.jit(run)(batch)
    expected = [bool((r[~b] == 1).any()) for r, b in zip(moments.reward, moments.before, strict=True)]
    measured = jax.jit(jax.vmap(phase.measure, (None, 0)))(params, batch)
    rewards = [float(r[~b][-1]) for r, b in zip(moments.reward, moments.before, strict=True)]
    assert measured.means["wrong_exit"].tolist() == [reward == -1 for reward in rewards]
    assert measured.means["out_of_time"].tolist() == [abs(reward) < 1 for reward in rewards]
    assert measured.correct.tolist() == expected and measured.total.tolist() == [1] * 12
    best = np.asarray(moments.decision.actions).argmax(-1)
    assert (np.asarray(moments.decision.action) == best).all()


def test_what_is_watched_is_the_way_and_what_was_held_on_it():
    trained, _, agent, params, _, _ = made()
    mazes = trained.task.mazes._replace(limit=jnp.array([6, 20, 9, 12]))
    batch = {"maze": np.array([0, 2, 1, 3]), "seed": np.arange(4)}
    run = jax.vmap(lambda example: walk(agent, mazes, 20, params, example, None))
    moments = jax.tree.map(np.asarray, jax.jit(run)(jax.tree.map(jnp.asarray, batch)))
    oldest = [
        max((t - came for t in np.flatnonzero(~before) for came in entries[t] if came >= 0), default=0)
        for entries, before in zip(moments.decision.entries, moments.before, strict=True)
    ]
    i = int(np.argmax(oldest))
    assert i > 0 and oldest.count(max(oldest)) == 1
    watched = watch(agent, mazes, params, batch)
    steps = len(watched["view"])
    assert steps == (~moments.before[i]).sum() == len(watched["place"]) - 1
    assert watched["view"] == moments.view[i, :steps].tolist()
    np.testing.assert_allclose(watched["reward"], moments.reward[i, :steps], atol=1e-4)
    assert watched["action"] == [environments.ACTIONS[a] for a in moments.decision.action[i, :steps]]
    for name in ("attention", "eviction"):
        expected = getattr(moments.decision, name)[i]
        for t, held in enumerate(watched["held"]):
            np.testing.assert_allclose(watched[name][t], expected[t, : len(held)], atol=1e-4)
    last, exits = watched["reward"][-1], {1.0: "the right exit", -1.0: "the wrong exit"}
    assert watched["end"] == exits.get(last, "out of time")
    assert {len(watched[name]) for name in ("view", "action", "actions", "reward", "held")} == {steps}
    grid = np.array(watched["grid"])
    for (row, column, facing), view in zip(watched["place"], watched["view"], strict=False):
        assert grid[row][column] != 2 and view[0][2] == grid[row][column] and facing in range(4)
    for t, held in enumerate(watched["held"]):
        assert len(held) == min(t, 3) and all(came < t for came in held)
        np.testing.assert_allclose(sum(watched["attention"][t]), 1 if t else 0, atol=1e-3)
    np.testing.assert_allclose(np.sum(watched["actions"], 1), 1, atol=1e-3)


def test_a_config_is_the_same_after_a_round_trip():
    config = from_mapping(config_file("maze")("single_indicator,base=frmqn,policy=im,entries=5").to_dict())
    assert from_mapping(to_mapping(config)) == config


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model__base": "mqm"}, "did you mean 'mqn'"),
        ({"model__entries": 0}, r"config\.model\.entries must be at least 1"),
        ({"actor_critic__discount": 1.5}, r"config\.actor_critic\.discount must be in"),
        ({"training__batch_size": 32}, "fewer than one batch"),
        ({"task__generated": 5}, "generated is for random mazes"),
        ({"task__kind": "single_indicator", "task__data_dir": "nowhere"}, "there is no file nowhere"),
    ],
)
def test_what_cannot_be_is_one_clear_line_before_anything_compiles(changes, words):
    with pytest.raises(MemjaxError, match=words) as caught:
        prepared(**changes)
    assert "\n" not in str(caught.value)


def test_no_maze_of_the_test_alone_is_learned_from():
    trained = prepared("imaze,policy=fifo")
    mazes, learned = trained.task.mazes, trained.task.learned
    agent = build_navigator(trained.config.model, trained.task.shape.codes, 3)
    example = trained.task.examples("train", np.arange(8))
    batch = {name: jnp.asarray(x) for name, x in example.items()} | {"key": jax.random.split(jax.random.key(0), 8)}
    params = trained.phases[-1].init(jax.random.key(0), {name: x[0] for name, x in batch.items()})
    short = jnp.where(jnp.isin(jnp.arange(len(mazes.limit)), learned), 7, 1)  # others end at the first step
    loss = maze_objective(agent, mazes._replace(limit=short), learned, 40, trained.config.actor_critic)
    _, metrics = jax.jit(loss)(params, None, batch)
    assert len(learned) < len(mazes.limit) and metrics["steps"] > 5, metrics  # 7 but for those that were won sooner
