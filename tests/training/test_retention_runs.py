"""Experiments with a policy over a buffer: one command, the base handed on, rewards where they belong, repeatable."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import retention
from oracles.checking import assert_close, assert_same
from rich.console import Console
from training.tiny import CONFIGS, config_file, flags, mapping

from memjax import cli
from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare, trained_model
from memjax.experiments.reading import from_mapping, to_mapping
from memjax.experiments.retention import build_reader, rewards, rollout, watch
from memjax.models import StreamReader
from memjax.models.stream_reader import Read
from memjax.training import experiment

SIZES = {
    "task.train": 16, "task.valid": 8, "task.test": 4, "model.width": 4, "model.hops": 1, "training.base_steps": 2,
    "training.steps": 2, "training.batch_size": 8, "training.log_every": 1, "training.validate_every": 2,
    "training.validate_examples": 8, "training.checkpoint_every": 2,
}  # fmt: skip


def prepared(arg="noisy", **changes):
    return prepare(from_mapping(mapping(arg, "retention", SIZES, **changes)))


@functools.cache
def made():
    """(experiment, its last phase, parameters, a batch of two episodes)."""
    trained = prepared("noisy,policy=st,entries=3")
    batch = {name: jnp.asarray(value) for name, value in trained.task.examples("train", np.arange(2)).items()}
    first = {name: value[0] for name, value in batch.items()}
    params = trained.phases[-1].init(jax.random.key(0), first)
    return trained, trained.phases[-1], params, batch


@pytest.mark.slow
@pytest.mark.parametrize("arg", ["noisy,policy=st,entries=3", "large,policy=lru,entries=3"])
def test_it_is_trained_tested_and_reported_by_one_command(arg, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["train", f"--config={CONFIGS / 'retention'}.py:{arg}", f"--run={run}", *flags(SIZES)]
    assert cli.main(arguments) == 0, capsys.readouterr().err
    found = json.loads((run / "evaluation.json").read_text())
    assert found["metrics"]["answers"] == 4 * 5 and found["report"]["guessing"]["accuracy"] == 1 / 4
    assert (run / "base").exists() and found["step"] == 2
    assert (run / "report.html").exists() and (run / "plots" / "buffer.png").exists()
    assert isinstance(trained_model(run)[0], StreamReader)
    assert cli.main(arguments) == 0  # a finished run is evaluated again
    assert json.loads((run / "evaluation.json").read_text())["metrics"] == found["metrics"]


def test_the_policy_begins_with_what_the_base_has_learned():
    trained, last, params, batch = made()
    first = trained.phases[0]
    base = first.init(jax.random.key(7), {name: value[0] for name, value in batch.items()})
    begun = last.begin(params, base)["params"]
    assert_same(begun["base"], base["params"]["base"])
    assert_same(begun["chooses"], params["params"]["chooses"])
    assert set(begun) == set(params["params"])
    assert last.begin(params, None) is params


def test_the_reward_of_an_eviction_is_what_the_next_line_brings():
    batch = made()[3]
    line, asked = batch["line"][0], batch["label"][0] >= 0
    line, asked = jnp.append(line, jnp.zeros(2, line.dtype)), jnp.append(asked, jnp.zeros(2, bool))
    right = jnp.asarray(np.random.default_rng(0).integers(0, 2, len(line)).astype(np.float32))
    steps = len(line)
    nobody = jnp.zeros((steps, 3))
    read = Read(nobody, line != 0, right, right, right + 1, nobody.astype(int), nobody)
    brought = rewards["answers"](read.entries, asked, jnp.full((steps, 2), -1), right)
    found = rollout(read, line, brought)
    for t in range(steps):
        expected = 0 if t + 1 == steps or not asked[t + 1] else (1 if right[t + 1] else -1)
        assert found.reward[t] == expected
        assert found.ended[t] == (t + 1 == steps or line[t + 1] == 0)
        assert found.value[t] == (right[t] + 1 if line[t] else 0)


def test_facts_are_rewarded_at_every_line_while_the_next_question_waits_for_them():
    asked = np.array([0, 0, 0, 1, 0, 1, 0], bool)
    support = np.full((7, 2), -1)
    support[3], support[5] = (0, 2), (4, -1)  # one fact alone in the second; the first question at 3
    entries = np.array([[-1, -1], [0, -1], [0, 1], [1, 2], [2, 3], [3, 4], [4, 5]])
    brought = rewards["facts"](*map(jnp.asarray, (entries, asked, support, np.ones(7, np.float32))))
    assert_same(brought, jnp.array([0.0, 1, 1, -1, 0, 1, 0]))


def test_rewards_for_facts_are_the_loops_for_any_buffer():
    _, _, _, batch = made()
    random = np.random.default_rng(0)
    compiled = jax.jit(rewards["facts"])
    for asked, support in zip(np.asarray(batch["label"]) >= 0, np.asarray(batch["support"]), strict=True):
        steps = len(asked)
        entries = np.stack([random.choice(np.arange(-1, t), 3) if t else np.full(3, -1) for t in range(steps)])
        brought = compiled(*map(jnp.asarray, (entries, asked, support, np.zeros(steps, np.float32))))
        assert_same(brought, jnp.asarray(retention.facts_held(entries, asked, support), jnp.float32))


@pytest.mark.parametrize("rewarded", ["answers", "facts"])
def test_the_loss_is_the_answers_and_the_actor_critics(rewarded):
    trained, _, params, batch = made()
    last = prepared(f"noisy,policy=st,entries=3,reward={rewarded}").phases[-1]
    keys = jax.random.split(jax.random.key(0), 2)
    loss, metrics = jax.jit(last.loss)(params, None, batch | {"key": keys})
    reader = build_reader(trained.config.model, trained.task, "st")
    total, right, answers = 0.0, [], []
    for i in range(2):
        line, label = batch["line"][i], np.asarray(batch["label"][i])
        read = jax.jit(reader.apply)(params, jnp.asarray(trained.task.lines), line, jnp.asarray(label >= 0), keys[i])
        logits = np.asarray(read.logits, np.float64)
        log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        asked = np.flatnonzero(label >= 0)
        answers.append(-log_probs[asked, label[asked]])
        correct = logits[asked].argmax(1) == label[asked]
        right.append(correct)
        reward = np.zeros(len(label))
        reward[asked - 1] = np.where(correct, 1, -1)
        if rewarded == "facts":
            support = np.asarray(batch["support"][i])
            reward = np.append(retention.facts_held(np.asarray(read.entries), label >= 0, support)[1:], 0)
        value, acted = np.asarray(read.value, np.float64), np.asarray(read.acted)
        discounts = np.append(np.full(len(label) - 1, 0.99), 0)
        advantages = retention.generalized_advantages(reward, value, discounts, 0.0, 1.0)
        policy = -(np.asarray(read.log_prob) * advantages)[acted].sum()
        entropy = np.asarray(read.entropy)[acted].sum()
        lines = (np.asarray(line) != 0).sum()
        total += answers[-1].sum() + (policy + 0.25 * (advantages**2).sum() - 0.01 * entropy) / lines
    np.testing.assert_allclose(loss, total / 2, rtol=1e-4)
    np.testing.assert_allclose(metrics["answer_loss"], np.mean(answers), rtol=1e-4)
    np.testing.assert_allclose(metrics["accuracy"], np.mean(right), rtol=1e-5)


def test_what_is_watched_is_the_episode_and_what_was_held_of_it():
    trained, _, params, batch = made()
    task = trained.task
    one = {name: np.asarray(value[:1]) for name, value in batch.items()}
    watched = watch(build_reader(trained.config.model, task, "fifo"), task, params, one)
    label, steps = one["label"][0], len(watched["lines"])
    assert steps == (one["line"][0] != 0).sum()
    words = [task.vocabulary[word] for word in task.lines[one["line"][0][4]] if word]
    assert watched["lines"][4] == " ".join(words)
    assert watched["held"] == [list(range(max(0, t - 3), t)) for t in range(steps)]  # FIFO, 3 entries
    assert all(len(held) == len(goes) for held, goes in zip(watched["held"], watched["eviction"], strict=True))
    assert [question["step"] for question in watched["questions"]] == np.flatnonzero(label >= 0).tolist()
    for question in watched["questions"]:
        assert question["answer"] == task.answers[label[question["step"]]]
        assert question["support"] == one["support"][0, question["step"]].tolist()
        assert question["given"] in task.answers


def test_the_same_seed_gives_the_same_parameters_to_the_bit(tmp_path):
    def learned(name, seed):
        trained = prepared("noisy,policy=st,entries=3", training__seed=seed)
        return experiment.train(trained, tmp_path / name, Console(quiet=True))

    first = learned("first", 0)
    assert_same(learned("again", 0), first)
    other = learned("other", 1)
    assert any((a != b).any() for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True))


def test_an_answer_that_train_lacks_counts_as_wrong():
    trained, last, params, batch = made()
    example = {name: value[0] for name, value in batch.items()}
    unseen = example | {"label": jnp.where(example["label"] >= 0, trained.task.shape.answers, -1)}
    measured = jax.jit(last.measure)(params, unseen)
    assert_close(np.array([measured.correct, measured.total]), np.array([0.0, 5.0]), 0)


def test_a_rule_that_draws_is_tested_by_the_same_draws_every_time():
    _, _, _, batch = made()
    example = {name: value[0] for name, value in batch.items()}
    uniform, fifo = (prepared(f"noisy,policy={policy},entries=3").phases[-1] for policy in ("uniform", "fifo"))
    params = uniform.init(jax.random.key(0), example)
    params = jax.tree.map(lambda leaf: 10 * leaf, params)  # so that who is in the buffer matters
    measures = [jax.jit(phase.measure) for phase in (uniform, fifo)]
    drawn, again, oldest = (measure(params, example).loss_sum for measure in (measures[0], *measures))
    assert drawn == again != oldest


def test_the_picture_of_a_rule_that_draws_is_that_of_its_test():
    trained = prepared("noisy,policy=uniform,entries=3")
    batch = trained.task.examples("test", np.zeros(1, int))
    example = {name: jnp.asarray(value[0]) for name, value in batch.items()}
    params = jax.tree.map(lambda leaf: 10 * leaf, trained.phases[-1].init(jax.random.key(0), example))
    watched = trained.recipe.facts(params, {}, "test")["buffer"]
    assert any(held[0] < t - 3 for t, held in enumerate(watched["held"]) if t > 3)  # not the oldest went each time
    measured = jax.jit(trained.phases[-1].measure)(params, example)
    assert measured.correct == sum(question["given"] == question["answer"] for question in watched["questions"])


def test_a_config_is_the_same_after_a_round_trip():
    config = from_mapping(config_file("retention")("large,policy=im,entries=10").to_dict())
    assert from_mapping(to_mapping(config)) == config


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model__policy": "sst"}, "did you mean 'st'"),
        ({"model__entries": 0}, "entries must be at least 1"),
        ({"actor_critic__discount": 1.5}, r"config\.actor_critic\.discount must be in"),
        ({"actor_critic__value": -1.0}, "value must be at least 0"),
        ({"training__base_steps": -1}, "base_steps"),
        ({"training__reward": "fact"}, "did you mean 'facts'"),
        ({"task__kind": "noise"}, "did you mean 'noisy'"),
        ({"training__batch_size": 32}, "fewer than one batch"),
    ],
)
def test_what_cannot_be_is_one_clear_line_before_anything_compiles(changes, words):
    with pytest.raises(MemjaxError, match=words) as caught:
        prepared("noisy", **changes)
    assert "\n" not in str(caught.value)
