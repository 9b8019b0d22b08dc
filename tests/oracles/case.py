"""One op beside its oracle, with random arguments for both, and what makes such arguments."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from memjax import ops


class Case(NamedTuple):
    """`op(params, *data, **aux)`; every example has data and aux of its own, params are shared.

    state: the data that stays float32 where the rest is bfloat16. padding(aux): for each data argument that can be
    padded, by position, which of its leading entries are padding.
    """

    op: Callable
    oracle: Callable
    params: Callable[[np.random.Generator], Any]
    data: dict[str, tuple[int, ...]]
    aux: Callable[[np.random.Generator], dict[str, np.ndarray]] = lambda rng: {}
    state: tuple[str, ...] = ()
    padding: Callable[[dict], dict[str, np.ndarray]] = lambda aux: {}

    def example(self, rng):
        return {name: rng.normal(size=shape) for name, shape in self.data.items()}, self.aux(rng)


def without_params(function):
    return lambda params, **arguments: function(**arguments)


def nothing(rng):
    return ()


def gru(rng, inputs, hidden):
    sizes = ((inputs, 3 * hidden), (hidden, 3 * hidden), (3 * hidden,), (3 * hidden,))
    return ops.GRUParams(*(rng.normal(size=size) for size in sizes))


def mask_of(*shape, name="mask"):
    """Never all padding, so that no example is trivial; `test_every_op` sets all of it to padding where it wants to."""

    def draw(rng):
        mask = rng.random(shape) < 0.6
        mask[..., 0] = True
        return {name: mask}

    return draw


def padded(argument, mask="mask"):
    return lambda aux: {argument: ~aux[mask]}


def simplex(raw, xp):
    """Weights that sum to less than 1."""
    parts = xp.exp(raw)
    return parts / (1 + parts.sum(-1, keepdims=True))


def share(raw, xp):
    return 1 / (1 + xp.exp(-raw))


def above(least):
    return lambda raw, xp: least + xp.exp(raw)


def ranged_case(op, oracle, params, data, state=(), aux=lambda rng: {}, **ranges):
    """ranges: for an argument, the function that takes any number to where that argument may lie."""

    def ranged(function, xp):
        def call(params, **raw):
            return function(params, **{k: ranges[k](x, xp) if k in ranges else x for k, x in raw.items()})

        return call

    return Case(ranged(op, jnp), ranged(oracle, np), params, data, aux, state)
