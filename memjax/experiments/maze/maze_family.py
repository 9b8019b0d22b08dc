"""Agents in mazes: what they do and what they keep are learned together, from rewards alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from memjax import environments
from memjax.checks import check_widths
from memjax.config import MeshConfig, OptimizerConfig, TrainingConfig
from memjax.environments import Mazes
from memjax.experiments.family import Compared, Family, PolicyName, choices, require_whole_streams
from memjax.experiments.maze.maze_stream import live, replay
from memjax.experiments.maze.maze_walk import enter, outcome, watch
from memjax.models import Navigator
from memjax.reporting.description import Column, Report, WalkPicture, tag_panels
from memjax.tasks import MazeShape, MazeTask, check_batch
from memjax.training.actor_critic import ActorCritic, Rollout, actor_critic_loss
from memjax.training.data import Layout
from memjax.training.evaluate import MetricSums
from memjax.training.initial_params import initial_params
from memjax.training.objective import Example, Loss, Metrics, mean_objective
from memjax.training.phase import Phase, Recipe, state_bytes
from memjax.typing import Array, Key, Params, Split


@dataclass(frozen=True)
class NavigatorConfig:
    """An agent that acts on what it sees and on a few of its views (`memjax.models.Navigator`).

    Attributes:
        base: the network around the buffer.
        width: of all vectors.
        entries: how many views are held.
        policy: what is evicted.
        nop: whether the view itself may be evicted.
    """

    base: Literal["frmqn", "mqn"]
    width: int
    entries: int
    policy: PolicyName
    nop: bool

    def __post_init__(self):
        check_widths(self, "width", "entries")


@dataclass(frozen=True)
class MazeConfig:
    """A whole experiment with an agent in mazes.

    Attributes:
        system: what is trained, an agent.
        task: its spec.
        model: the agent.
        actor_critic: how it learns from rewards.
        optimizer: the learning rate and what goes with it.
        training: how long, and how often to look.
        mesh: the devices.
    """

    system: Literal["agent"]
    task: Any
    model: NavigatorConfig
    actor_critic: ActorCritic
    optimizer: OptimizerConfig
    training: TrainingConfig
    mesh: MeshConfig = field(default_factory=MeshConfig)


def build_navigator(model: NavigatorConfig, codes: int, actions: int) -> Navigator:
    """The agent that a config describes.

    Args:
        model: its part of the config.
        codes: what a cell of a view may be, in [0, codes).
        actions: how many there are.
    """
    return Navigator(codes, actions, model.base, model.width, model.entries, model.policy, model.nop)


def maze_recipe(config: MazeConfig, task: MazeTask) -> Recipe:
    """The recipe of a config: one phase."""
    model = config.model
    agent = build_navigator(model, task.shape.codes, len(environments.ACTIONS))
    loss = maze_objective(agent, task.mazes, task.learned, task.shape.steps, config.actor_critic)
    init, measure = partial(_init, agent, task.mazes), partial(measure_episode, agent, task.mazes)
    phase = Phase("train", config.training.steps, init, loss, measure)

    def facts(params: Params, metrics: dict[str, Any], split: Split) -> dict[str, Any]:
        state = state_bytes(lambda: agent.apply(params, method="initial_state"))
        # In the middle of the split; of I-mazes, neighbours have one indicator each.
        middle = task.size(split) // 2
        some = task.examples(split, np.arange(middle, min(middle + 2, task.size(split))))
        return {"state_bytes": state, "maze": watch(agent, task.mazes, params, some)}

    label = f"{model.base.upper()}, {model.policy.upper()}, {model.entries} entries"
    report = maze_report(task.shape.tags).to_json()
    return Recipe(label, (phase,), Layout(partial(check_batch, task.shape)), facts, report, model=agent)


def maze_objective(agent: Navigator, mazes: Mazes, learned: np.ndarray, steps: int, config: ActorCritic) -> Loss:
    """`actor_critic_loss` of what the agent did and of what its buffer gave up, the mean over the steps of streams of
    episodes: an example is the first of a stream, and others follow until it has that many steps.

    Logged besides: `accuracy`, of the episodes that ended, and `steps`, those of streams for each episode that ended.

    Args:
        agent: who learns.
        mazes: of all episodes.
        learned: numbers of those in which later episodes are.
        steps: of a stream; at least those of the longest episode, so that in each one ends.
        config: discount, trace and weights.
    """
    numbers = jnp.asarray(learned)

    def one(params: Params, frozen: Params, example: Example) -> Metrics:
        # A step more, for what is expected after the last.
        stream = live(agent, mazes, numbers, steps + 1, params, example, example["key"])
        *again, value = replay(agent, params, stream)
        rollout = Rollout(jnp.ones(steps, bool), *(x[:steps] for x in (*again, value, stream.reward, stream.ended)))
        loss, parts = actor_critic_loss(rollout, value[steps], config)
        won = (rollout.ended & (rollout.reward > 0)).sum()
        of_steps = {name: x / steps for name, x in {"loss": loss, **parts}.items()}
        return of_steps | {"won": won.astype(jnp.float32), "episodes": rollout.ended.sum().astype(jnp.float32)}

    def total(means: Metrics) -> tuple[Array, Metrics]:
        # Of the episodes that ended within their streams, of which there are more of the short ones.
        metrics = {"accuracy": means.pop("won") / means["episodes"], "steps": steps / means.pop("episodes")}
        return means.pop("loss"), metrics | means

    return mean_objective(one, total)


def measure_episode(agent: Navigator, mazes: Mazes, params: Params, example: Example) -> MetricSums:
    """One episode to its end, the likeliest taken everywhere: right if it ends at the right exit. Beside it the share
    that ends at the wrong exit, the share whose steps are over, and the success if all is drawn as in training.

    Args:
        agent: who acts.
        mazes: of all episodes.
        params: of the agent.
        example: `maze` and `seed`.
    """
    likeliest, drawn = (outcome(agent, mazes, params, example, drawn=drawn) for drawn in (False, True))
    won = likeliest.won.astype(jnp.float32)
    beside = {"wrong_exit": likeliest.lost, "out_of_time": ~(likeliest.won | likeliest.lost), "drawn": drawn.won}
    # No loss is measured; one that is not finite says that the agent diverged.
    loss, none = jnp.where(likeliest.finite, 0.0, jnp.nan), jnp.zeros(())
    means = {name: x.astype(jnp.float32) for name, x in beside.items()}
    return MetricSums(loss, none, won, jnp.ones(()), means=means)


def _init(agent: Navigator, mazes: Mazes, key: Key, example: Example) -> Params:
    return initial_params(agent, key, enter(mazes, example)[0])


def maze_report(tags: Mapping[str, Sequence[str]]) -> Report:
    """Agents in mazes. tags: of the task's shape."""
    success = Column("success %", ("accuracy",), "percent", "higher")
    walk = WalkPicture(
        "walk",
        "What the agent saw and held",
        "Of two episodes the one in which a view was held longest. Under the maze, at a few steps, what the agent "
        "saw (it stands below, looking up), and the views that it held: of which step, how much each was read, and "
        "with what probability it stayed.",
        ("maze",),
    )
    beside = (
        Column("wrong exit %", ("wrong_exit",), "percent", "lower"),
        Column("out of time %", ("out_of_time",), "percent", "lower"),
        Column("success % drawn", ("drawn",), "percent", "higher"),
    )
    meaning = (
        "Success: episodes that end at the right exit, the likeliest taken everywhere; drawn: with actions and "
        "evictions drawn as in training."
    )
    panels = *tag_panels(tags, "percent"), walk
    return Report(success.name, (success, *beside), panels, meaning, guessing={"accuracy": 0.5})


FAMILY = Family(
    "maze",
    MazeConfig,
    MazeShape,
    require_whole_streams,
    maze_recipe,
    Compared("policy", lambda: choices(NavigatorConfig, "policy")),
)
