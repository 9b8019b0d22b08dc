"""Experiments with agents in mazes: what they do and what they keep are learned together, from rewards alone."""

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from memjax import environments, tasks
from memjax.config import AgentConfig
from memjax.environments import Mazes, MazeState
from memjax.memories.policies import policies
from memjax.models import Navigator, build_navigator
from memjax.models.navigator import Decision, NavigatorState
from memjax.tasks.contract import Batch
from memjax.training.actor_critic import ActorCritic, Rollout, actor_critic_loss
from memjax.training.evaluate import Measured
from memjax.training.objective import Example, Loss
from memjax.training.phase import Experiment, Phase, state_bytes
from memjax.training.sharding import make_mesh
from memjax.typing import Array, Bool, Float, Int, Key, Params


def agent_experiment(config: AgentConfig) -> Experiment:
    """The experiment that a config describes."""
    task, model = tasks.create(config.task), config.model
    agent = build_navigator(model, task.shape.codes, len(environments.ACTIONS))
    how = ActorCritic(**vars(config.actor_critic))
    loss = agent_objective(agent, task.mazes, task.shape.steps, how)
    init, measure = partial(_init, agent, task.mazes), partial(_measure, agent, task.mazes)
    phase = Phase("train", config.training.steps, init, loss, measure)

    def facts(params: Params, metrics: dict[str, Any]) -> dict[str, Any]:
        del metrics
        state = state_bytes(lambda: agent.apply(params, method="initial_state"))
        # In the middle of the test; of I-mazes, neighbours have one indicator each.
        middle = task.size("test") // 2
        some = task.examples("test", np.arange(middle, min(middle + 2, task.size("test"))))
        return {"chance": 0.5, "state_bytes": state, "maze": watch(agent, task.mazes, params, some)}

    label = f"{model.base.upper()}, {model.policy.upper()}, {model.entries} entries"
    mesh = make_mesh(config.mesh, config.training.batch_size)
    return Experiment(config, label, task, mesh, (phase,), facts)


class Moment(NamedTuple):
    """A step of an episode: where the agent was, what it saw and decided there, and what came of it.

    before: whether the episode was over already; then nothing of this step counts.
    """

    state: MazeState
    view: Int[Array, "D S"]
    decision: Decision
    reward: Float[Array, ""]
    before: Bool[Array, ""]


class _Way(NamedTuple):
    key: Key
    view: Int[Array, "D S"]
    maze: MazeState
    agent: NavigatorState
    won: Bool[Array, ""]


def _begin_maze(mazes: Mazes, example: Example) -> tuple[Array, MazeState]:
    return environments.enter(jax.random.key(example["seed"]), example["maze"], mazes)


def _begin(agent: Navigator, mazes: Mazes, params: Params, example: Example) -> _Way:
    view, maze = _begin_maze(mazes, example)
    key = jax.random.key(example["seed"])
    memory = cast(NavigatorState, agent.apply(params, method="initial_state"))
    return _Way(key, view, maze, memory, jnp.array(False))


def _move(agent: Navigator, mazes: Mazes, params: Params, way: _Way, key: Key | None) -> tuple[_Way, Moment]:
    act_key, evict_key = (None, None) if key is None else jax.random.split(key)
    if key is None and policies[agent.policy].drawn:
        evict_key = jax.random.fold_in(way.key, way.maze.step)  # by the episode, so that every test is the same
    found = agent.apply(params, way.view, way.agent, act_key, evict_key)
    decision, memory = cast(tuple[Decision, NavigatorState], found)
    nothing = jax.random.key(0)  # a maze draws nothing
    view, maze, reward, ended = environments.step(nothing, way.maze, decision.action, mazes)
    after = _Way(way.key, view, maze, memory, way.won | (ended & (reward > 0)))
    return after, Moment(way.maze, way.view, decision, reward, way.maze.ended)


def walk(agent: Navigator, mazes: Mazes, steps: int, params: Params, example: Example, key: Key | None) -> Moment:
    """An episode of `steps` steps, `[steps]` each; those after its end do not count. With a key, all is drawn."""

    def step(way, key):
        return _move(agent, mazes, params, way, key)

    keys = None if key is None else jax.random.split(key, steps)
    return jax.lax.scan(step, _begin(agent, mazes, params, example), keys, length=steps)[1]


def agent_objective(agent: Navigator, mazes: Mazes, steps: int, how: ActorCritic) -> Loss:
    """`actor_critic_loss` of what the agent did and of what its buffer gave up, the mean over the steps of a device's
    microbatch.
    """

    def one(params: Params, example: Example) -> tuple[dict[str, Array], dict[str, Array]]:
        moments = walk(agent, mazes, steps, params, example, example["key"])
        real, decision = ~moments.before, moments.decision
        value = jnp.where(real, decision.value, 0)
        ended = jnp.append(moments.before[1:], True)
        rollout = Rollout(real, decision.log_prob, decision.entropy, value, moments.reward, ended)
        loss, parts = actor_critic_loss(rollout, jnp.zeros(()), how)
        won = (real & ended & (moments.reward > 0)).any()
        sums = {"loss": loss, **parts}
        return sums, {"accuracy": won.astype(jnp.float32), "steps": real.sum().astype(jnp.float32)}

    def loss(params: Params, frozen: Params, batch: Example) -> tuple[Array, dict[str, Array]]:
        del frozen
        sums, metrics = jax.tree.map(jnp.mean, jax.vmap(one, (None, 0))(params, batch))
        means = {name: value / metrics["steps"] for name, value in sums.items()}
        return means.pop("loss"), metrics | means

    return loss


def _measure(agent: Navigator, mazes: Mazes, params: Params, example: Example) -> Measured:
    """One episode to its end, the likeliest taken everywhere: right if it ends at the right exit."""
    begun = _begin(agent, mazes, params, example)
    way = jax.lax.while_loop(lambda way: ~way.maze.ended, lambda way: _move(agent, mazes, params, way, None)[0], begun)
    return Measured(jnp.zeros(()), jnp.zeros(()), way.won.astype(jnp.float32), jnp.ones(()))


def _init(agent: Navigator, mazes: Mazes, key: Key, example: Example) -> Params:
    return jax.jit(agent.init)(key, _begin_maze(mazes, example)[0])


def watch(agent: Navigator, mazes: Mazes, params: Params, batch: Batch) -> dict[str, Any]:
    """Of the episodes of a batch the one in which a view was held longest, step by step, the likeliest always taken.

    grid: the codes of the maze's cells. place: row, column and direction (0 north, 1 east, ..) at each step, and at the
    end; end: in words. view, action, actions (how likely each was), reward at each step. held, attention, eviction: the
    steps at which the entries came, how much each was attended to, how likely each was to go.
    """
    examples = {name: jnp.asarray(batch[name]) for name in ("maze", "seed")}
    steps = int(np.asarray(mazes.limit)[batch["maze"]].max())
    # One step more, to see where it ended.
    run = jax.jit(jax.vmap(lambda params, example: walk(agent, mazes, steps + 1, params, example, None), (None, 0)))
    episodes = jax.tree.map(np.asarray, run(params, examples))
    came = episodes.decision.entries
    ages = np.where((came >= 0) & ~episodes.before[..., None], np.arange(steps + 1)[:, None] - came, 0)
    chosen = int(ages.max((1, 2)).argmax())
    moments = jax.tree.map(lambda leaf: leaf[chosen], episodes)
    real = range(int((~moments.before).sum()))
    place = np.stack([moments.state.row, moments.state.column, moments.state.facing], 1)[: len(real) + 1].tolist()
    object = int(np.asarray(mazes.objects)[int(batch["maze"][chosen]), place[-1][0], place[-1][1]])
    exited = bool(np.asarray(mazes.ends)[object])
    right = moments.reward[len(real) - 1] > 0
    decision = moments.decision
    held = [[int(came) for came in decision.entries[t] if came >= 0] for t in real]

    def of_entries(values: np.ndarray) -> list[list[float]]:
        return [[round(float(x), 4) for x in values[t][: len(held[t])]] for t in real]

    return {
        "grid": np.asarray(environments.cells(mazes, int(batch["maze"][chosen]))).tolist(),
        "place": place,
        "end": ("the right exit" if right else "the wrong exit") if exited else "out of time",
        "view": moments.view[: len(real)].tolist(),
        "action": [environments.ACTIONS[action] for action in decision.action[: len(real)]],
        "actions": np.exp(decision.actions[: len(real)]).round(4).tolist(),
        "reward": [round(float(x), 4) for x in moments.reward[: len(real)]],
        "held": held,
        "attention": of_entries(decision.attention),
        "eviction": of_entries(decision.eviction),
    }
