"""Learned retention: a stream of lines is read into a buffer of few entries, and asked on the way; a policy evicts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from memjax.checks import at_least, check_counts, check_widths
from memjax.config import MeshConfig, OptimizerConfig, TrainingConfig
from memjax.experiments.family import Compared, Family, PolicyName, choices, require_whole_streams
from memjax.experiments.retention.buffer_watch import read_greedily, read_stream, watch
from memjax.experiments.retention.eviction_rewards import Reward, rewards, rollout
from memjax.models import StreamReader, answer_rows
from memjax.reporting.description import ACCURACY, ERROR, BufferPicture, Report, tag_panels
from memjax.reporting.description import Phase as ShownPhase
from memjax.tasks import EpisodeShape, Episodic, check_batch
from memjax.training.actor_critic import ActorCritic, actor_critic_loss
from memjax.training.data import Layout
from memjax.training.evaluate import MetricSums
from memjax.training.initial_params import initial_params
from memjax.training.objective import Example, Loss, Metrics, answer_metrics, mean_objective
from memjax.training.phase import Phase, Recipe, with_learned
from memjax.typing import Array, Key, Params, Split


@dataclass(frozen=True)
class ReaderConfig:
    """A memory network on a buffer, and the policy over it (`memjax.models.StreamReader`).

    Attributes:
        width: of all vectors.
        hops: of the network.
        entries: how many lines are held.
        policy: what is evicted.
        nop: whether the line itself may be evicted.
    """

    width: int
    hops: int
    entries: int
    policy: PolicyName
    nop: bool

    def __post_init__(self):
        check_widths(self, "width", "entries")
        check_counts(self, 1, "hops")


@dataclass(frozen=True)
class RetentionTrainingConfig(TrainingConfig):
    """`TrainingConfig`, and what stands here.

    Attributes:
        base_steps: of a phase before, under FIFO; 0 for none.
        reward: what an eviction is rewarded for (`rewards`).
    """

    base_steps: int = 0
    reward: Literal["answers", "facts"] = "answers"

    def __post_init__(self):
        super().__post_init__()
        at_least(self, 0, "base_steps")


@dataclass(frozen=True)
class RetentionConfig:
    """A whole experiment with a policy over a buffer.

    Attributes:
        system: what is trained, a policy.
        task: its spec.
        model: the network and the policy.
        actor_critic: how the policy learns from rewards.
        optimizer: the learning rate and what goes with it.
        training: how long, and how often to look.
        mesh: the devices.
    """

    system: Literal["retention"]
    task: Any
    model: ReaderConfig
    actor_critic: ActorCritic
    optimizer: OptimizerConfig
    training: RetentionTrainingConfig
    mesh: MeshConfig = field(default_factory=MeshConfig)


def build_reader(model: ReaderConfig, task: Episodic, policy: str) -> StreamReader:
    """The reader that a config describes.

    Args:
        model: its part of the config, but for the policy.
        task: whose lines it reads.
        policy: what is evicted.
    """
    rows, shape = answer_rows(task.vocabulary, task.answers), task.shape
    sizes = model.width, model.hops, model.entries, policy, model.nop
    return StreamReader(shape.words, shape.line, shape.questions, rows, *sizes)


def retention_recipe(config: RetentionConfig, task: Episodic) -> Recipe:
    """The recipe of a config: first a phase "base" under FIFO, then with its own policy."""
    lines, reward = jnp.asarray(task.lines), rewards[config.training.reward]
    reader, fifo = (build_reader(config.model, task, policy) for policy in (config.model.policy, "fifo"))

    def phase(name: str, steps: int, reader: StreamReader) -> Phase:
        init, measure = partial(_init, reader, lines), partial(measure_reader, reader, lines)
        loss = retention_objective(reader, lines, config.actor_critic, reward)
        return Phase(name, steps, init, loss, measure, with_learned)

    first = [phase("base", config.training.base_steps, fifo)] if config.training.base_steps else []
    phases = (*first, phase("train", config.training.steps, reader))

    def facts(params: Params, metrics: dict[str, Any], split: Split) -> dict[str, Any]:
        watched = watch(reader, task, params, task.examples(split, np.zeros(1, int)))
        return {"buffer": watched}

    label = f"{config.model.policy.upper()}, {config.model.entries} entries"
    report = retention_report(task.shape.tags, task.shape.answers, base=bool(first))
    return Recipe(label, phases, Layout(partial(check_batch, task.shape)), facts, report.to_json(), model=reader)


def retention_objective(reader: StreamReader, lines: Array, config: ActorCritic, reward: Reward) -> Loss:
    """Answer loss, summed over a stream's questions, and `actor_critic_loss`, its mean over the lines; over a batch.

    Summed over the lines, the critic's error would be ten times the answers' loss, and shape the embeddings, which
    both share.

    Args:
        reader: the model.
        lines: of the task, as word ids.
        config: discount, trace and weights.
        reward: one of `rewards`, what evictions are rewarded for.
    """

    def one(params: Params, frozen: Params, example: Example) -> Metrics:
        line, label = example["line"], example["label"]
        asked = label >= 0
        read = read_stream(reader, lines, params, example, example["key"])
        metrics = answer_metrics(read.logits, jnp.where(asked, label, 0))
        answers = jnp.where(asked, metrics["answer_loss"], 0).sum()
        brought = reward(read.entries, asked, example["support"], metrics["accuracy"])
        loss, parts = actor_critic_loss(rollout(read, line, brought), jnp.zeros(()), config)
        count, lines_read = asked.sum(), (line != 0).sum()
        correct = jnp.where(asked, metrics["accuracy"], 0).sum()
        means = {name: part / lines_read for name, part in parts.items()}
        means |= {"answer_loss": answers / count, "accuracy": correct / count}
        return {"loss": answers + loss / lines_read, **means}

    return mean_objective(one, lambda means: (means.pop("loss"), means))


def measure_reader(reader: StreamReader, lines: Array, params: Params, example: Example) -> MetricSums:
    """One stream: every question is an answer.

    Args:
        reader: the model.
        lines: of the task, as word ids.
        params: of the reader.
        example: `line` and `label`.
    """
    label = example["label"]
    asked, read = label >= 0, read_greedily(reader, lines, params, example)
    known = label < read.logits.shape[1]
    metrics = answer_metrics(read.logits, jnp.where(asked & known, label, 0))
    count = asked.sum().astype(jnp.float32)
    correct = jnp.where(asked & known, metrics["accuracy"], 0).sum()
    unknown = (asked & ~known).sum().astype(jnp.float32)
    loss = jnp.where(asked & known, metrics["answer_loss"], 0).sum()
    return MetricSums(loss, count - unknown, correct, count, unknown=unknown)


def _init(reader: StreamReader, lines: Array, key: Key, example: Example) -> Params:
    return initial_params(reader, key, lines, example["line"], example["label"] >= 0)


def retention_report(tags: Mapping[str, Sequence[str]], answers: int, *, base: bool = False) -> Report:
    """What a report shows of a policy over a buffer.

    Args:
        tags: of the task's shape.
        answers: of the task's shape.
        base: whether the base network is trained first.
    """
    held = BufferPicture(
        "buffer",
        "What the buffer held",
        "Which lines of the first episode the buffer held at each step, before the step's own line.",
        ("buffer",),
    )
    phases = (ShownPhase("base", "base network"),) if base else ()
    guessing = {"accuracy": 1 / answers, "answer_loss": math.log(answers)}
    return Report(ERROR.name, (ERROR, ACCURACY), (*tag_panels(tags), held), guessing=guessing, phases=phases)


FAMILY = Family(
    "retention",
    RetentionConfig,
    EpisodeShape,
    require_whole_streams,
    retention_recipe,
    Compared("policy", lambda: choices(ReaderConfig, "policy")),
)
