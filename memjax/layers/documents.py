"""Documents in one row, for layers that can read one alone at a time: token by token, each in a state of its own."""

from collections.abc import Callable
from typing import TypeVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.memories.memory import scan_module
from memjax.ops.recurrence import tree_where
from memjax.typing import Array, Bool, Float, State

L = TypeVar("L", bound=nn.Module)


def by_token(
    layer: L,
    read: Callable[[L, Float[Array, "1 d"], State], tuple[Float[Array, "1 d"], State]],
    x: Float[Array, "L d"],
    state: State,
    reset: Bool[Array, "L"],
    fresh: State,
) -> tuple[Float[Array, "L d"], State]:
    """What `read(layer, token, state)` says of every token, where each document begins in a fresh state.

    A scan over the tokens, whose gradient keeps a state for each.

    Args:
        layer: whose parameters `read` uses.
        read: of one token.
        x: the tokens.
        state: to go on from.
        reset: the first tokens of documents.
        fresh: in which they begin.
    """

    def step(layer: L, carry: tuple[State, State], inputs: tuple[Array, Array]) -> tuple:
        (state, fresh), (token, begins) = carry, inputs
        state = tree_where(begins, fresh, state)
        out, state = read(layer, token[None], state)
        return (state, fresh), out[0]

    carry = jax.tree.map(jnp.asarray, (state, fresh))
    # All that a token reads, as the attention of its whole segment, is computed again for the gradient.
    (state, _), out = scan_module(nn.remat(step, prevent_cse=False), layer)(layer, carry, (x, reset))
    return out, state
