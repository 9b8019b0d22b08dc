"""Episodes that follow each other in a stream of a fixed number of steps: what an agent learns from.

An episode ends after some steps of the most that it may have; a stream goes on with the next, so that every step of a
batch is lived. It is walked without gradients; what is learned from is computed again from its views and choices, all
steps side by side but for what is passed on: what the policy keeps, the critic's GRU, and FRMQN's LSTM.
"""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from memjax.environments import Mazes
from memjax.experiments.maze.maze_walk import begin, move
from memjax.memories.policies import Learned, policies
from memjax.models import Navigator
from memjax.models.navigator import Seen, entropy_of
from memjax.ops.recurrence import tree_where
from memjax.training.objective import Example
from memjax.typing import Array, Bool, Float, Int, Key, Params


class Stream(NamedTuple):
    """What happened at each of T steps.

    Attributes:
        began: whether an episode began.
        view: what was seen.
        entries: the steps of the stream at which the views came that were held, -1 for none.
        action: what was done.
        evicted: the candidate that went, or would have gone from a full buffer.
        key: what was evicted was drawn with it.
        reward: what the step brought.
        ended: whether the episode was over then.
    """

    began: Bool[Array, "T"]
    view: Int[Array, "T D S"]
    entries: Int[Array, "T N"]
    action: Int[Array, "T"]
    evicted: Int[Array, "T"]
    key: Key
    reward: Float[Array, "T"]
    ended: Bool[Array, "T"]


class Replayed(NamedTuple):
    """Of each step that is learned from.

    Attributes:
        log_prob: of all that was drawn, the action and, if it evicts, the eviction.
        entropy: of the same.
        value: the critic's.
    """

    log_prob: Float[Array, "T"]
    entropy: Float[Array, "T"]
    value: Float[Array, "T"]


def live(
    agent: Navigator, mazes: Mazes, learned: Int[Array, "M"], steps: int, params: Params, example: Example, key: Key
) -> Stream:
    """A stream whose first episode is the example; each that follows is in a maze to learn from, all equally likely.

    Args:
        agent: who acts; all is drawn.
        mazes: of all episodes.
        learned: numbers of those to learn from.
        steps: T.
        params: of the agent.
        example: `maze` and `seed`.
        key: to draw with.
    """

    def step(way, inputs):
        now, key = inputs
        move_key, next_key = jax.random.split(key)
        began, passed = way.agent.step == 0, now - way.agent.step  # steps of the stream before the episode
        after, moment = move(agent, mazes, params, way, move_key)
        which, seed = jax.random.split(next_key)
        following = {"maze": jax.random.choice(which, learned), "seed": jax.random.randint(seed, (), 0, 2**31 - 1)}
        fresh = begin(agent, mazes, params, following)
        ended, decision = after.maze.ended, moment.decision
        entries = jnp.where(decision.entries >= 0, decision.entries + passed, -1)
        did = decision.action, decision.evicted, jax.random.split(move_key)[1]
        happened = Stream(began, moment.view, entries, *did, moment.reward, ended)
        return tree_where(ended, fresh, after), happened

    params = jax.lax.stop_gradient(params)
    first = begin(agent, mazes, params, example)
    return jax.lax.scan(step, first, (jnp.arange(steps), jax.random.split(key, steps)))[1]


def replay(agent: Navigator, params: Params, stream: Stream) -> Replayed:
    """What an agent with these parameters makes of what happened; its gradient is that of walking there.

    Args:
        agent: who acted.
        params: with which it is looked at again.
        stream: what happened.
    """
    steps = len(stream.began)
    filled = stream.entries >= 0

    def each(method: str, *inputs: Any) -> Any:
        return jax.vmap(lambda *inputs: agent.apply(params, *inputs, method=method))(*inputs)

    sight = each("see", stream.view)
    # By a matrix, not by indices: on an Explicit mesh these have no gradient.
    came = jax.nn.one_hot(stream.entries, steps)
    address, content = (jnp.matmul(came, rows, precision="highest") for rows in (sight.address, sight.content))

    nothing = jnp.zeros(agent.width)

    def recall(before, now):
        began, inputs, *rest = now
        before = jax.tree.map(lambda leaf: jnp.where(began, 0, leaf), before)
        found = cast(Any, agent.apply(params, inputs, before, *rest, method="recall"))
        return (found.hidden, found.cell, found.read), found

    start, looked = (nothing, nothing, nothing), (stream.began, sight.inputs, address, content, filled)
    if agent.base == "mqn":  # it does not look back
        recalled = jax.vmap(lambda *now: recall(start, now)[1])(*looked)
    else:
        recalled = jax.lax.scan(recall, start, looked)[1]

    g, log_probs = each("act", recalled.hidden, recalled.read)
    done = jnp.arange(log_probs.shape[1]) == stream.action[:, None]
    log_prob, entropy = jnp.where(done, log_probs, 0).sum(1), jax.vmap(entropy_of)(log_probs)
    if issubclass(policies[agent.policy], Learned):
        chosen, unsure = _evictions(agent, params, stream, each, (sight, address, content, filled, recalled))
        full = filled.all(1)
        log_prob += jnp.where(full, chosen, 0)
        entropy += jnp.where(full, unsure, 0)

    def judge(before, now):
        began, inputs = now
        after = agent.apply(params, jnp.where(began, 0, before), inputs, method="critic_step")
        return after, after

    expected = each("expect", sight.content, content, filled, g)
    critic = jax.lax.scan(judge, nothing, (stream.began, expected))[1]
    return Replayed(log_prob, entropy, each("worth", critic))


def _evictions(agent: Navigator, params: Params, stream: Stream, each: Any, seen: tuple) -> tuple[Array, Array]:
    """Log-probability and entropy of what was evicted at each step."""
    sight, address, content, filled, recalled = seen
    start: Any = agent.apply(params, method="initial_state")
    alone: Any = agent.apply(params, method="kept_alone")
    idle = jnp.zeros((*filled.shape, 1))  # in place of what is kept, which features do not look at
    held = Seen(address, content, idle, stream.entries, stream.entries)
    features = each("features", sight, held, filled, recalled, stream.key)

    begun = alone, start.nothing

    def repeat(before, now):
        began, *rest, evicted = now
        buffer, nothing = tree_where(began, begun, before)
        choice, *after = cast(Any, agent.apply(params, *rest, buffer, nothing, evicted, method="repeat"))
        return tuple(after), (choice.log_prob, choice.entropy)

    return jax.lax.scan(repeat, begun, (stream.began, features, filled, stream.evicted))[1]
