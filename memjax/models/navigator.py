"""MQN and FRMQN: agents whose memory is a buffer of a few of the views that they have had, and a policy over it."""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.checks import at_least, one_of
from memjax.memories.eviction import BaseView, Choice
from memjax.memories.policies import policies
from memjax.memories.weights import glorot_gru_params, lstm_params
from memjax.ops.recurrence import separate
from memjax.typing import Any, Array, Bool, Float, Int, Key

BASES = ("mqn", "frmqn")


class Seen(NamedTuple):
    """What is kept of a view.

    Attributes:
        address: what it is found by.
        content: what it gives.
        kept: what the policy keeps with it.
        used: the step at which it was last attended to most.
        step: at which it came.
    """

    address: Float[Array, "d"]
    content: Float[Array, "d"]
    kept: Float[Array, "k"]
    used: Int[Array, ""]
    step: Int[Array, ""]


class NavigatorState(NamedTuple):
    """An agent on its way.

    Attributes:
        buffer: the views that it holds.
        nothing: what the policy keeps with a cell of its own.
        hidden: of the context, at which an MQN does not look back.
        cell: of the context, which an MQN has not.
        read: of the last step; an MQN does not look back at it.
        critic: the GRU's state.
        step: how many views it has had.
    """

    buffer: ops.Buffer
    nothing: Float[Array, "k"]
    hidden: Float[Array, "d"]
    cell: Float[Array, "d"]
    read: Float[Array, "d"]
    critic: Float[Array, "d"]
    step: Int[Array, ""]


class Sight(NamedTuple):
    """What is made of a view alone.

    Attributes:
        inputs: to the context: its own part of the LSTM's gates, or an MQN's whole context.
        address: what the view is found by.
        content: what it gives.
    """

    inputs: Float[Array, "i"]
    address: Float[Array, "d"]
    content: Float[Array, "d"]


class Recollection(NamedTuple):
    """What an agent looks for at a view, and what it finds among those that it holds.

    Attributes:
        hidden: of the context.
        cell: of the context.
        logits: of the attention.
        attention: on each entry.
        read: from them.
    """

    hidden: Float[Array, "d"]
    cell: Float[Array, "d"]
    logits: Float[Array, "N"]
    attention: Float[Array, "N"]
    read: Float[Array, "d"]


class Decision(NamedTuple):
    """What an agent did at a view.

    Attributes:
        action: the one taken.
        actions: the log-probability of each.
        evicts: whether something had to be evicted that a policy learns about.
        evicted: the number of the candidate that goes from a full buffer, N for the view itself.
        log_prob: of all that was drawn, the action and, if it evicts, the eviction.
        entropy: of the same.
        value: the critic's.
        entries: the step at which each entry came, -1 for none, before this view was written.
        attention: on each entry.
        eviction: each entry's probability to be evicted.
    """

    action: Int[Array, ""]
    actions: Float[Array, "A"]
    evicts: Bool[Array, ""]
    evicted: Int[Array, ""]
    log_prob: Float[Array, ""]
    entropy: Float[Array, ""]
    value: Float[Array, ""]
    entries: Int[Array, "N"]
    attention: Float[Array, "N"]
    eviction: Float[Array, "N"]


class Navigator(nn.Module):
    """Looks at a view, acts, and writes the view into its buffer; a policy says what leaves it.

    With `e = ReLU(W_e view + b)`, cells one-hot, and of the entries `k_i = W_k e_i`, `v_i = W_v e_i`::

        h = W_c e (mqn)    h, c = LSTM([e, o_before], h_before, c_before) (frmqn)
        o = sum_i softmax_i(h · k_i) v_i    g = f(W_h h + o), f a ReLU on half of the units    logits = W_a g + b

    The policy sees v as encodings, h as input and `h · k` as attention. Critic: linear of the sum of all v that are
    held, with the view's own, and of g, GRU over time, linear. Source: Control of Memory, Active Perception, and Action
    in Minecraft (Oh et al. 2016), 4, with logits in place of Q; LEMN, 3.1 and 4.1.

    ::

        agent = Navigator(codes, len(environments.ACTIONS), "mqn", 32, 4, "st")
        params = agent.init(key, view)
        decision, state = agent.apply(params, view)    # a new agent, the likeliest action and eviction
        decision, state = agent.apply(params, view, state, act_key, evict_key)    # both drawn

    Args:
        codes: what a cell of a view may be, in [0, codes).
        actions: how many there are.
        base: "mqn" or "frmqn".
        width: of all vectors.
        entries: N, how many views are held.
        policy: one of `memories.policies.policies`.
        nop: whether the view itself may be evicted.
    """

    codes: int
    actions: int
    base: str
    width: int
    entries: int
    policy: str
    nop: bool = True

    def setup(self):
        at_least(self, 1, "codes", "actions", "width", "entries")
        one_of(self, BASES, "base")
        one_of(self, policies, "policy")
        width = self.width
        # Some names in checkpoints are those of the first version.
        self.evictor = policies[self.policy](width, name="chooses")
        self.encode, self.acts = nn.Dense(width), nn.Dense(self.actions)
        self.address, self.content, self.join = (nn.Dense(width, use_bias=False) for _ in range(3))
        if self.base == "mqn":
            self.context = nn.Dense(width, use_bias=False)
        else:
            self.lstm = lstm_params(self, "context", width, 2 * width, width)
        self.critic_in, self.value_head = nn.Dense(width, name="expects"), nn.Dense(1, name="worth")
        self.critic = glorot_gru_params(self, "critic", width, width)
        self.own = self.evictor.own(lambda: self.param("nothing", nn.initializers.normal(0.1), (2, width)))

    def initial_state(self) -> NavigatorState:
        size, none, kept = self.entries, jnp.zeros(self.width), self.evictor.kept()
        rows = jnp.zeros((size, self.width))
        entries = Seen(rows, rows, jnp.tile(kept, (size, 1)), jnp.zeros(size, jnp.int32), jnp.full(size, -1))
        return separate(NavigatorState(ops.Buffer(entries, jnp.array(0)), kept, none, none, none, none, jnp.array(0)))

    def __call__(
        self,
        view: Int[Array, "D S"],
        state: NavigatorState | None = None,
        act_key: Key | None = None,
        evict_key: Key | None = None,
    ) -> tuple[Decision, NavigatorState]:
        """The decision at a view, and the state after it was written. No state: a new agent; no key: the likeliest."""
        state = self.initial_state() if state is None else state
        buffer, size = state.buffer, self.entries
        held, filled = buffer.entries, jnp.arange(size) < buffer.filled
        sight = self.see(view)
        recalled = self.recall(sight.inputs, (state.hidden, state.cell, state.read), held.address, held.content, filled)
        g, log_probs = self.act(recalled.hidden, recalled.read)
        action = log_probs.argmax() if act_key is None else jax.random.categorical(act_key, log_probs)

        new = Seen(sight.address, sight.content, self.evictor.kept(), state.step, state.step)
        seen = self._view(new, held, filled, recalled, state.nothing)
        eviction = self.evictor.evict(buffer, new, evict_key, seen)
        full = buffer.filled >= size
        evicts = self.evictor.acts(full)

        critic = ops.gru_step(self.critic, state.critic, self.expect(sight.content, held.content, filled, g))
        decision = Decision(
            action,
            log_probs,
            evicts,
            eviction.choice.evicted,
            log_probs[action] + jnp.where(evicts, eviction.choice.log_prob, 0),
            entropy_of(log_probs) + jnp.where(evicts, eviction.choice.entropy, 0),
            self.worth(critic),
            jnp.where(filled, held.step, -1),
            recalled.attention,
            jnp.where(full, eviction.choice.probabilities[:size], 0.0),
        )
        after, nothing = eviction.write()
        kept = recalled.hidden, recalled.cell, recalled.read
        return decision, NavigatorState(after, nothing, *kept, critic, state.step + 1)

    # The parts of a step. Those of many steps that are over may be computed side by side: see experiments/maze.

    def see(self, view: Int[Array, "D S"]) -> Sight:
        """What is made of a view alone."""
        e = nn.relu(self.encode(jax.nn.one_hot(view.ravel(), self.codes).ravel()))
        inputs = self.context(e) if self.base == "mqn" else ops.lstm_inputs(self.lstm, e)
        return Sight(inputs, self.address(e), self.content(e))

    def recall(self, inputs: Array, before: tuple, address: Array, content: Array, filled: Array) -> Recollection:
        """What is read. before: `hidden, cell, read` of the step before, at which an MQN does not look."""
        hidden, cell, read = before
        if self.base == "mqn":
            hidden = inputs
        else:
            hidden, cell = ops.lstm_step(self.lstm, hidden, cell, inputs, read)
        logits = address @ hidden
        attention = jnp.where(filled, jax.nn.softmax(jnp.where(filled, logits, -1e30)), 0)
        return Recollection(hidden, cell, logits, attention, attention @ content)

    def act(self, hidden: Float[Array, "d"], read: Float[Array, "d"]) -> tuple[Array, Array]:
        """g, and the log-probability of each action."""
        joined = self.join(hidden) + read
        g = jnp.where(jnp.arange(self.width) < self.width // 2, joined, nn.relu(joined))
        return g, jax.nn.log_softmax(self.acts(g))

    def expect(self, own: Array, content: Array, filled: Array, g: Array) -> Float[Array, "d"]:
        """The input to the critic's GRU. own: the view's own content."""
        summed = own + jnp.where(filled[:, None], content, 0).sum(0)
        return self.critic_in(jnp.concatenate([summed, g]))

    def critic_step(self, state: Float[Array, "d"], inputs: Float[Array, "d"]) -> Float[Array, "d"]:
        """The critic's GRU."""
        return ops.gru_step(self.critic, state, inputs)

    def worth(self, critic: Float[Array, "d"]) -> Float[Array, ""]:
        """The value."""
        return self.value_head(critic)[0]

    def features(
        self, sight: Sight, held: Seen, filled: Bool[Array, "N"], recalled: Recollection, key: Key | None
    ) -> Any:
        """What the policy scores, as far as it needs nothing that is kept."""
        nothing = self.evictor.kept()
        new = Seen(sight.address, sight.content, nothing, jnp.array(0), jnp.array(0))
        view = self._view(new, held, filled, recalled, nothing)
        candidates = self.evictor.candidates(held.used, self.evictor.last(new, view), new, view)
        return self.evictor.features(candidates, key)[0]

    def repeat(
        self, features: Any, filled: Bool[Array, "N"], buffer: ops.Buffer, nothing: Float[Array, "k"], evicted: Array
    ) -> tuple[Choice, ops.Buffer, Array]:
        """`Policy.repeat` of a step. buffer: of a `Seen` of nothing but what is kept, as `kept_alone` gives it."""
        new = jax.tree.map(lambda leaf: leaf[0], self.kept_alone().entries)
        none = jnp.zeros(0)
        unasked = Recollection(none, none, none, none, none)
        view = self._view(new, buffer.entries, filled, unasked, nothing)
        return self.evictor.repeat(buffer, new, features, evicted, view)

    def kept_alone(self) -> ops.Buffer:
        """The buffer of a new agent without its views."""
        buffer = self.initial_state().buffer
        none = jnp.zeros((self.entries, 0))
        return buffer._replace(entries=buffer.entries._replace(address=none, content=none))

    def _view(self, new: Seen, held: Seen, filled: Array, recalled: Recollection, nothing: Array) -> BaseView:
        hidden, attention = recalled.hidden, recalled.attention

        def candidates(last: Seen, ask: Callable) -> tuple[Float[Array, "M d"], Float[Array, "M"] | None]:
            contents = jnp.append(held.content, last.content[None], axis=0)
            return contents, ask(lambda: jnp.append(recalled.logits, last.address @ hidden))

        return BaseView(
            input=hidden,
            mask=jnp.append(filled, self.nop),
            nop=self.nop,
            nothing=nothing,
            own_cell=lambda: new._replace(address=self.own[0], content=self.own[1]),
            candidates=candidates,
            attended=lambda: filled & (attention == attention.max()),
        )


def entropy_of(log_probs: Float[Array, "A"]) -> Float[Array, ""]:
    """Of a choice with these log-probabilities, in nats."""
    return -(jnp.exp(log_probs) * log_probs).sum()
