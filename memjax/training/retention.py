"""Experiments with a policy over a buffer: answers and evictions learned together, the base network first by itself."""

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from memjax import tasks
from memjax.config import RetentionConfig
from memjax.memories.policies import policies
from memjax.models import StreamReader, build_reader
from memjax.models.stream_reader import Read
from memjax.tasks.contract import Batch
from memjax.tasks.episodic import Episodic
from memjax.training.actor_critic import ActorCritic, actor_critic_loss
from memjax.training.evaluate import Measured
from memjax.training.objective import Example, Loss, answer_metrics
from memjax.training.phase import Experiment, Phase
from memjax.training.rewards import Reward, rewards, rollout
from memjax.training.sharding import make_mesh
from memjax.typing import Array, Key, Params


def retention_experiment(config: RetentionConfig) -> Experiment:
    """The experiment that a config describes: first a phase "base" under FIFO, then with its own policy."""
    task = tasks.create(config.task)
    lines = jnp.asarray(task.lines)
    how, reward = ActorCritic(**vars(config.actor_critic)), rewards[config.training.reward]
    reader, fifo = (build_reader(config.model, task, policy) for policy in (config.model.policy, "fifo"))

    def phase(name: str, steps: int, reader: StreamReader) -> Phase:
        init, measure = partial(_init, reader, lines), partial(_measure, reader, lines)
        return Phase(name, steps, init, retention_objective(reader, lines, how, reward), measure, _begin)

    first = [phase("base", config.training.base_steps, fifo)] if config.training.base_steps else []
    phases = (*first, phase("train", config.training.steps, reader))
    label = f"{config.model.policy.upper()}, {config.model.entries} entries"
    mesh = make_mesh(config.mesh, config.training.batch_size)
    return Experiment(config, label, task, mesh, phases, partial(_facts, reader, task))


def retention_objective(reader: StreamReader, lines: Array, how: ActorCritic, reward: Reward) -> Loss:
    """Answer loss, summed over a stream's questions, and `actor_critic_loss`, its mean over the lines; over a batch.

    Summed over the lines, the critic's error would be ten times the answers' loss, and shape the embeddings, which
    both share. reward: one of `rewards`, what evictions are rewarded for.
    """

    def one(params: Params, example: Example) -> dict[str, Array]:
        line, label = example["line"], example["label"]
        asked = label >= 0
        read = _read(reader, lines, params, example, example["key"])
        metrics = answer_metrics(read.logits, jnp.where(asked, label, 0))
        answers = jnp.where(asked, metrics["answer_loss"], 0).sum()
        brought = reward(read.entries, asked, example["support"], metrics["accuracy"])
        loss, parts = actor_critic_loss(rollout(read, line, brought), jnp.zeros(()), how)
        count, lines_read = asked.sum(), (line != 0).sum()
        right = jnp.where(asked, metrics["accuracy"], 0).sum()
        means = {name: part / lines_read for name, part in parts.items()}
        return {"loss": answers + loss / lines_read, "answer_loss": answers / count, "accuracy": right / count, **means}

    def loss(params: Params, frozen: Params, batch: Example) -> tuple[Array, dict[str, Array]]:
        del frozen
        means = jax.tree.map(jnp.mean, jax.vmap(one, (None, 0))(params, batch))
        return means.pop("loss"), means

    return loss


def _measure(reader: StreamReader, lines: Array, params: Params, example: Example) -> Measured:
    """One stream: every question is an answer."""
    label = example["label"]
    asked, read = label >= 0, _read_still(reader, lines, params, example)
    known = label < read.logits.shape[1]
    metrics = answer_metrics(read.logits, jnp.where(asked & known, label, 0))
    count = asked.sum().astype(jnp.float32)
    right = jnp.where(asked & known, metrics["accuracy"], 0).sum()
    return Measured(jnp.where(asked & known, metrics["answer_loss"], 0).sum(), count, right, count)


def _read_still(reader: StreamReader, lines: Array, params: Params, example: Example) -> Read:
    """As it is tested: the likeliest entry goes, or under a rule that draws, the one drawn."""
    line = example["line"]
    # By the stream, so that every test is the same.
    key = jax.random.fold_in(jax.random.key(0), (line * jnp.arange(len(line))).sum())
    return _read(reader, lines, params, example, key if policies[reader.policy].drawn else None)


def _read(reader: StreamReader, lines: Array, params: Params, example: Example, key: Key | None = None) -> Read:
    return cast(Read, reader.apply(params, lines, example["line"], example["label"] >= 0, key))


def _init(reader: StreamReader, lines: Array, key: Key, example: Example) -> Params:
    return jax.jit(reader.init)(key, lines, example["line"], example["label"] >= 0)


def _begin(own: Params, learned: Params | None) -> Params:
    """A phase's own first parameters, but those that the phase before has trained."""
    return own if learned is None else {"params": {**own["params"], **learned["params"]}}


def _facts(reader: StreamReader, task: Episodic, params: Params, metrics: dict[str, Any]) -> dict[str, Any]:
    del metrics
    watched = watch(reader, task, params, task.examples("test", np.zeros(1, int)))
    return {"classes": task.shape.answers, "chance": 1 / task.shape.answers, "buffer": watched}


def watch(reader: StreamReader, task: Episodic, params: Params, batch: Batch) -> dict[str, Any]:
    """What the buffer held, step by step, in the first episode of a batch, read as in a test.

    lines: their texts. held, eviction: for each step the steps at which its entries came, before its own line was
    written, and how likely each of them was to go. questions: the steps that ask, with what is right, what was answered
    and the lines that it follows from.
    """
    line, label, support = (np.asarray(batch[name][0]) for name in ("line", "label", "support"))
    example = {"line": jnp.asarray(line), "label": jnp.asarray(label)}
    read = jax.tree.map(np.asarray, jax.jit(partial(_read_still, reader))(jnp.asarray(task.lines), params, example))
    steps = range(int((line != 0).sum()))
    held = [[int(came) for came in read.entries[t] if came >= 0] for t in steps]
    names = [*task.answers, "(no answer of train)"]
    questions = [
        {
            "step": t,
            "answer": names[label[t]],
            "given": task.answers[int(read.logits[t].argmax())],
            "support": [int(fact) for fact in support[t] if fact >= 0],
        }
        for t in steps
        if label[t] >= 0
    ]
    return {
        "lines": [" ".join(task.vocabulary[word] for word in task.lines[line[t]] if word) for t in steps],
        "held": held,
        "eviction": [[round(float(x), 4) for x in read.eviction[t][: len(held[t])]] for t in steps],
        "questions": questions,
    }
