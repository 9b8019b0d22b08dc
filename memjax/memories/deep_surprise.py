"""Deep surprise memories side by side, one for each head: a learned start, what is written and what is read."""

import itertools
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.ops.surprise_deep import mlp
from memjax.typing import Any, Array, Bool, Float

EPSILON = 1e-6


def deep_start(module: nn.Module, heads: int, size: int, layers: int, expansion: int) -> tuple[Array, ...]:
    """The matrices that memories begin with, parameters of a module: `[heads, inputs, outputs]` each.

    Args:
        module: whose parameters they are.
        heads: how many memories.
        size: of keys and values.
        layers: of each memory.
        expansion: hidden width, in `size`.
    """
    sizes = [size, *[size * expansion] * (layers - 1), size]
    made = nn.initializers.lecun_normal(batch_axis=(0,))
    return tuple(module.param(f"start_{i}", made, (heads, *pair)) for i, pair in enumerate(itertools.pairwise(sizes)))


def deep_write(
    state: ops.SurpriseState,
    scale: Float[Array, "d"] | None,
    q: Float[Array, "L d"],
    k: Float[Array, "L d"],
    v: Float[Array, "L d"],
    log_keep: Float[Array, "L"],
    log_momentum: Float[Array, "L"],
    lr: Float[Array, "L"],
    *,
    mask: Bool[Array, "L"] | None,
    chunk: int,
    **options: Any,
) -> tuple[Float[Array, "L d"], ops.SurpriseState]:
    """What one memory, `M(k) = k + norm(MLP(k))`, reads and becomes; told `v - k`, and q added to what it says.

    Without the layer norm its rates are normalised: see `normalize_lr` of `ops.surprise_mlp`. With it the gradient
    falls as the weights grow, and rates stay as they are.

    Args:
        state: of one head.
        scale: of the layer norm, if there is one.
        q: what each token reads with.
        k: what it is asked.
        v: what it should say.
        log_keep: the log of what is kept, as of `ops.surprise_mlp`, and so are the next two.
        log_momentum: the log of momentum.
        lr: the rate.
        mask: which tokens are no padding.
        chunk: of tokens whose gradients are taken at the same weights.
        options: of `ops.surprise_mlp`.
    """
    norm = None if scale is None else partial(layer_norm, scale)
    tokens = (q, k, v - k, log_keep, log_momentum, lr)
    out, state = ops.surprise_mlp(
        state.memory, *tokens, state, mask=mask, activation=nn.silu, output=norm, normalize_lr=norm is None,
        chunk_size=chunk, **options,
    )  # fmt: skip
    return out + q, state


def deep_read(weights: tuple[Array, ...], scale: Float[Array, "d"] | None, q: Float[Array, "L d"]) -> Array:
    """What one memory with these weights says to q."""
    said = mlp(nn.silu, weights, q)
    return q + (said if scale is None else layer_norm(scale, said))


def layer_norm(scale: Float[Array, "d"], x: Float[Array, "*L d"]) -> Float[Array, "*L d"]:
    """Of mean 0 and variance 1, times a scale."""
    # Its own variance is a difference of squares, which loses digits.
    x = jax.nn.standardize(x, variance=x.var(-1, keepdims=True), epsilon=EPSILON)
    return jnp.expand_dims(scale, range(x.ndim - 1)) * x  # a caller may forbid that ranks are promoted


def zero_momentum(memory: Any) -> ops.SurpriseState:
    """The state of memories with these weights that have seen nothing."""
    return ops.SurpriseState(memory, jax.tree.map(jnp.zeros_like, memory))
