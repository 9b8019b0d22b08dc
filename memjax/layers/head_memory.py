"""A surprise memory for each head: what all layers with one write and read, linear or deep."""

import dataclasses
import math
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.layers.surprise_settings import SurpriseSettings
from memjax.memories.deep_surprise import deep_read, deep_start, deep_write, zero_momentum
from memjax.memories.surprise_memory import empty_memory, surprise_gates, unit
from memjax.typing import Array, Bool, Float, PyTree

LEAST_NEW = 1e-3  # 1 - momentum below which the cost of a write no longer grows: without it gradients were not finite
COSTS = "costs"  # the collection in which memories tell what their gates do, for those who apply it as mutable


class HeadMemory(nn.Module):
    """A surprise memory for each head, with gates that are functions of the token.

    `log_keep` and `log_momentum` are log-sigmoids and `lr` a sigmoid of x W + b, times the bound of the settings, and
    with bounded="token" times `1 - momentum`; with decay="channel" there is a `log_keep` for each channel of the keys.
    Keys and queries have length 1. One layer is `ops.surprise_linear`; more, or a norm, are `ops.surprise_mlp` with
    silu between the matrices, `M(k) = k + norm(MLP(k))`, so that it is told `v - k` and q is added to what it says; it
    starts in learned weights. What the settings do: see `SurpriseSettings`. What its gates do, the rates before their
    bound and what is forgotten, is in the collection `COSTS` of those who want it: see `gate_cost`.
    """

    settings: SurpriseSettings

    def setup(self):
        own = self.settings
        # In float32 whatever dtype the rest has: gates are near 1, and many are multiplied.
        self.gates = nn.Dense((2 if own.by_channel else 3) * own.heads)
        self.keep = nn.Dense(own.width) if own.by_channel else None
        if own.deep:
            size = own.width // own.heads
            self.start = deep_start(self, own.heads, size, own.memory_layers, own.expansion)
            self.scale = self.param("scale", nn.initializers.ones, (own.heads, size)) if own.memory_norm else None

    def initial_state(self) -> ops.SurpriseState:
        """Of memories that have read nothing; without momentum it holds none."""
        own = self.settings
        state = zero_momentum(self._start()) if own.deep else empty_memory(own.heads, own.width)
        state = state if own.momentum else dataclasses.replace(state, momentum=None)
        if own.gradient_at == "token":
            return state
        return ops.SurpriseState(state.memory, state.momentum, anchor=state.memory, within=0)

    def _start(self) -> PyTree:
        """A deep memory's weights at the start: float32 at least, as all that is written, whatever parameters are."""
        return jax.tree.map(lambda leaf: leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)), self.start)

    def __call__(
        self,
        q: Float[Array, "L H dh"],
        k: Float[Array, "L H dh"],
        v: Float[Array, "L H dh"],
        x: Float[Array, "L d"],
        state: ops.SurpriseState,
        mask: Bool[Array, "L"] | None = None,
        reset: Bool[Array, "L"] | None = None,
    ) -> tuple[Float[Array, "L H dh"], ops.SurpriseState]:
        """Writes every token and reads the memory after it; what is masked writes nothing; reset: empty before it."""
        own, within = self.settings, 0 if state.within is None else state.within
        log_keep, log_momentum, lr = self.read_gates(x.astype(jnp.float32))
        # With momentum a token goes on being written, its rates a geometric series.
        new = -jnp.expm1(log_momentum)  # 1 - momentum
        self._tell_cost(log_keep, lr if own.bounds_tokens else lr / jnp.maximum(new, LEAST_NEW), mask)
        lr = own.bound * (new * lr if own.bounds_tokens else lr)
        q, k = unit(q), unit(k)

        def one_head(memory, scale, *tokens):
            return self._write(ops.SurpriseState(*memory, within=within), scale, tokens, mask, reset)

        scale = self.scale if own.deep else None
        memory = (state.memory, state.momentum, state.anchor)
        tokens = (q, k, v, log_keep, log_momentum, lr)
        # Of all heads alike, and known to be so: how far into a chunk they are.
        read, memory = jax.vmap(one_head, (0, 0, *[1] * 6), (1, (0, 0, 0, None)))(memory, scale, *tokens)
        if own.gradient_at == "chunk" and reset is None:
            memory = (*memory[:3], (within + len(x)) % own.chunk)  # a number, where the state's is one
        return read, ops.SurpriseState(*memory)

    def read_gates(self, x: Float[Array, "L d"]) -> tuple[Array, Array, Array]:
        """`log_keep` with its horizon, `[L, H]`, or `[L, H, dh]` by channel; `log_momentum`; `lr` before its bound."""
        own, logits = self.settings, self.gates(x)
        of_logits = partial(
            surprise_gates, momentum=own.momentum, forgetting=own.forgetting, time_constant=own.time_constant
        )
        if own.by_channel:
            keep = self.keep(x).reshape(len(x), own.heads, own.width // own.heads)
            log_keep, log_momentum, lr = of_logits(keep, *jnp.split(logits, 2, axis=-1))
        else:
            log_keep, log_momentum, lr = of_logits(*jnp.split(logits, 3, axis=-1))
        if own.horizon:
            log_keep = log_keep + math.log1p(-1 / own.horizon)
        return log_keep, log_momentum, lr

    def _tell_cost(self, log_keep, lr, mask):
        """The sum over tokens of what their gates do, the mean of heads, and their number; kept by those who ask."""
        if self.is_initializing():
            return
        forgotten = -jnp.expm1(log_keep).reshape(*lr.shape, -1).mean(-1)  # a number of a head, or one of each channel
        cost = (lr + forgotten).mean(-1)
        written = jnp.ones_like(cost) if mask is None else mask.astype(cost.dtype)
        told = jnp.stack([jnp.where(written > 0, cost, 0).sum(), written.sum()])
        # What a scan has told before is a row for each of its steps.
        self.sow(COSTS, "gate", told, lambda old, new: old.reshape(-1, 2).sum(0) + new, lambda: jnp.zeros_like(told))

    def _write(self, state, scale, tokens, mask, reset):
        own = self.settings
        if not own.momentum:  # what past surprise is counts for nothing
            state = dataclasses.replace(state, momentum=jax.tree.map(jnp.zeros_like, state.memory))
        if own.deep:
            impl = "closed_form" if own.impl == "auto" else own.impl
            out, state = deep_write(state, scale, *tokens, mask=mask, chunk=own.chunk, loss=own.loss, impl=impl)
        else:
            out, state = ops.surprise_linear(
                *tokens, state, mask=mask, reset=reset, gradient_at=own.gradient_at, loss=own.loss,
                decay_before_gradient=own.decay_before_gradient, chunk_size=own.chunk, impl=own.impl,
            )  # fmt: skip
        return out, (state.memory, state.momentum if own.momentum else None, state.anchor, state.within)

    def ask(self, weights: PyTree, q: Float[Array, "L H dh"]) -> Float[Array, "L H dh"]:
        """What memories with these weights say to q, which is made as long as 1; nothing is written."""
        own, q = self.settings, unit(q)
        if not own.deep:
            return jnp.einsum("lhd,hde->lhe", q, weights)
        return jax.vmap(deep_read, (0, 0, 1), 1)(weights, self.scale, q)


def gate_cost(costs: PyTree) -> Float[Array, ""]:
    """The mean over layers and tokens of `rate / (1 - momentum) + 1 - keep`: what is written of a token, and forgotten.

    The rate is the one before its bound. With momentum, a token is written again with every token that follows
    (beyond a thousand times it costs no more); with bounded="token" rates are multiplied by `1 - momentum`, and it is
    the rate alone. Where a row has several documents, the persistent tokens before each are not among the tokens.

    Args:
        costs: the collection `COSTS` of a model that was applied with it as mutable; none: 0.
    """
    told = [leaf.reshape(-1, 2).sum(0) for leaf in jax.tree.leaves(costs)]
    return sum((cost / jnp.maximum(tokens, 1) for cost, tokens in told), jnp.zeros(())) / max(len(told), 1)
