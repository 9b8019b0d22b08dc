"""What LEMN's readers do with each line or block: the policy chooses what leaves the buffer, the critic judges."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from memjax import ops
from memjax.memories.eviction import BaseView
from memjax.ops.recurrence import tree_where
from memjax.typing import Any, Array, Bool, Float, Int, Key


class Entry(NamedTuple):
    """What is kept of a line or a block.

    Attributes:
        seen: what the policy sees of it.
        kept: what the policy keeps with it.
        used: the step at which a question, or a block, last attended to it most, or else at which it came.
        step: at which it came.
    """

    seen: Float[Array, "..."]
    kept: Float[Array, "*N k"]
    used: Int[Array, "*N"]
    step: Int[Array, "*N"]


class Carry(NamedTuple):
    """What goes from step to step."""

    buffer: ops.Buffer  # of `Entry`
    nothing: Float[Array, "k"]  # what the policy keeps with a cell of its own
    critic: Float[Array, "d"]
    step: Int[Array, ""]


class Did(NamedTuple):
    """Of one step what `Read` and `Retained` say of all."""

    acted: Bool[Array, ""]
    log_prob: Float[Array, ""]
    entropy: Float[Array, ""]
    value: Float[Array, ""]


def empty_carry(reader: Any, seen: Float[Array, "..."], critic: Float[Array, "d"]) -> Carry:
    """Before the first step; seen: what the policy sees of any line, for its shape. critic: how the critic begins."""
    size, kept = reader.entries, reader.evictor.kept()
    rows = jnp.zeros((size, *seen.shape)), jnp.tile(kept, (size, 1))
    entries = Entry(*rows, jnp.zeros(size, jnp.int32), jnp.full(size, -1))
    return Carry(ops.Buffer(entries, jnp.array(0)), kept, critic, jnp.array(0))


def buffer_step(
    reader: Any,
    carry: Carry,
    seen: Float[Array, "..."],
    real: Bool[Array, ""],
    key: Key | None,
    view: Callable[[Entry], BaseView],
) -> tuple[Carry, Did, Float[Array, "N"]]:
    """Writes one line or block, unless it is padding.

    Args:
        reader: with `entries`, how many, `evictor`, a policy, and `critic`, `critic_in` and `value_head`.
        carry: of the step before.
        seen: what the policy sees of it.
        real: whether it is no padding.
        key: to draw with what is evicted; without one it is the likeliest.
        view: of the new entry, what the policy may ask.

    Returns:
        What goes to the next step, what was done, and the probability of each entry to be evicted.
    """
    buffer, size = carry.buffer, reader.entries
    new = Entry(seen, reader.evictor.kept(), carry.step, carry.step)
    eviction = reader.evictor.evict(buffer, new, key, view(new))
    candidates, choice = eviction.candidates, eviction.choice
    summed = jnp.where(candidates.mask[:, None], candidates.encodings, 0).sum(0)
    critic = ops.gru_step(reader.critic, carry.critic, reader.critic_in(summed))
    full = real & (buffer.filled >= size)
    did = Did(reader.evictor.acts(full), choice.log_prob, choice.entropy, reader.value_head(critic)[0])
    written, nothing = eviction.write()
    after = Carry(written, nothing, critic, carry.step + 1)
    after = tree_where(real, after, carry)
    return after, did, jnp.where(full, choice.probabilities[:size], 0.0)
