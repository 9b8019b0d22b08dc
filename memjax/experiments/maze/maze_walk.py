"""What an agent does in a maze: an episode, step by step, and the one of a batch that is told in full."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from memjax import environments
from memjax.environments import Mazes, MazeState
from memjax.memories.policies import policies
from memjax.models import Navigator
from memjax.models.navigator import Decision, NavigatorState
from memjax.training.objective import Example
from memjax.typing import Array, Batch, Bool, Float, Int, Key, Params


class Moment(NamedTuple):
    """A step of an episode.

    Attributes:
        state: of the maze, where the agent was.
        view: what it saw there, as codes.
        decision: what it decided.
        reward: what that brought.
        before: whether the episode was over already; then nothing of this step counts.
    """

    state: MazeState
    view: Int[Array, "D S"]
    decision: Decision
    reward: Float[Array, ""]
    before: Bool[Array, ""]


class Way(NamedTuple):
    """An agent on its way through an episode.

    Attributes:
        key: of the episode.
        view: what it sees.
        maze: where it is.
        agent: what it holds.
        won: whether it has left by the right exit.
    """

    key: Key
    view: Int[Array, "D S"]
    maze: MazeState
    agent: NavigatorState
    won: Bool[Array, ""]


def enter(mazes: Mazes, example: Example) -> tuple[Array, MazeState]:
    """The view and the maze at the start of an episode."""
    return environments.enter(jax.random.key(example["seed"]), example["maze"], mazes)


def begin(agent: Navigator, mazes: Mazes, params: Params, example: Example) -> Way:
    """A new agent at the start of an episode."""
    view, maze = enter(mazes, example)
    key = jax.random.fold_in(jax.random.key(example["seed"]), 2)  # 0 and 1 of it were drawn with in `enter`
    memory = cast(NavigatorState, agent.apply(params, method="initial_state"))
    return Way(key, view, maze, memory, jnp.array(False))


def move(agent: Navigator, mazes: Mazes, params: Params, way: Way, key: Key | None) -> tuple[Way, Moment]:
    """A step of an episode. key: to draw with; without one the likeliest is taken."""
    act_key, evict_key = (None, None) if key is None else jax.random.split(key)
    if key is None:  # by the episode, so that every test is the same
        evict_key = policies[agent.policy].test_key(jax.random.fold_in(way.key, way.maze.step))
    found = agent.apply(params, way.view, way.agent, act_key, evict_key)
    decision, memory = cast(tuple[Decision, NavigatorState], found)
    nothing = jax.random.key(0)  # a maze draws nothing
    view, maze, reward, ended = environments.step(nothing, way.maze, decision.action, mazes)
    after = Way(way.key, view, maze, memory, way.won | (ended & (reward > 0)))
    return after, Moment(way.maze, way.view, decision, reward, way.maze.ended)


def walk(agent: Navigator, mazes: Mazes, steps: int, params: Params, example: Example, key: Key | None) -> Moment:
    """An episode, step by step.

    Args:
        agent: who acts.
        mazes: of all episodes.
        steps: how many; those after its end do not count.
        params: of the agent.
        example: `maze` and `seed`.
        key: to draw with; without one the likeliest is taken.

    Returns:
        The steps, each leaf `[steps, ...]`.
    """

    def step(way, key):
        return move(agent, mazes, params, way, key)

    keys = None if key is None else jax.random.split(key, steps)
    return jax.lax.scan(step, begin(agent, mazes, params, example), keys, length=steps)[1]


class Outcome(NamedTuple):
    """How an episode ended.

    Attributes:
        won: at the right exit.
        lost: at the wrong one; otherwise its steps were over.
        finite: whether the agent's numbers were finite then.
    """

    won: Bool[Array, ""]
    lost: Bool[Array, ""]
    finite: Bool[Array, ""]


def outcome(agent: Navigator, mazes: Mazes, params: Params, example: Example, *, drawn: bool) -> Outcome:
    """How an episode ends. As long as the episode, no longer.

    Args:
        agent: who acts.
        mazes: of all episodes.
        params: of the agent.
        example: `maze` and `seed`, from which all is drawn that is.
        drawn: whether what is done and evicted is drawn, as in training, or the likeliest.
    """

    def step(way: Way) -> Way:
        key = jax.random.fold_in(way.key, way.maze.step) if drawn else None
        return move(agent, mazes, params, way, key)[0]

    way = jax.lax.while_loop(lambda way: ~way.maze.ended, step, begin(agent, mazes, params, example))
    exited = mazes.ends[mazes.objects[way.maze.maze, way.maze.row, way.maze.column]]
    return Outcome(way.won, exited & ~way.won, jnp.isfinite(way.agent.critic).all())


def watch(agent: Navigator, mazes: Mazes, params: Params, batch: Batch) -> dict[str, Any]:
    """Of the episodes of a batch the one in which a view was held longest, step by step, the likeliest always taken.

    Args:
        agent: who acts.
        mazes: of all episodes.
        params: of the agent.
        batch: of the episodes.

    Returns:
        As plain data, `grid`: the codes of the maze's cells. `place`: row, column and direction (0 north, 1 east, ..)
        at each step, and at the end. `end`: in words. At each step `view`, `action`, `actions` (how likely each was)
        and `reward`; `held`, `attention`, `eviction`: the steps at which the entries came, how much each was attended
        to, how likely each was to be evicted.
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
        "grid": np.asarray(jax.jit(environments.cells)(mazes, int(batch["maze"][chosen]))).tolist(),
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
