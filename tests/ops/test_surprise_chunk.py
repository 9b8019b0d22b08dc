"""The coefficients of a chunk of surprise memory, against the products over windows that define them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close, cast
from oracles.surprise import tokens

from memjax import ops
from memjax.ops import surprise_chunk as chunk


def definition(log_keep, log_momentum, lr, mask):
    """beta, f, G, m_C and the last row of E diag(lr) of the module, with a loop over windows, in float64."""
    length = len(lr)
    keep, momentum = (np.where(mask, np.exp(log), 1) for log in (log_keep, log_momentum))

    def windows(gate):
        return np.tril([[gate[j + 1 : t + 1].prod() for j in range(length)] for t in range(length)])

    kept, along = windows(keep), windows(momentum)
    from_start, lr = np.cumprod(momentum), np.where(mask, lr, 0)
    return chunk.Coefficients(
        np.cumprod(keep), kept @ (mask * from_start), (kept * mask) @ along * lr, from_start[-1], along[-1] * lr
    )


def gates_of(rng, length, kind):
    return (*tokens(rng, length, kind)[3:], rng.random(length) < 0.8)


@pytest.mark.parametrize("kind", ["open", "no forgetting", "no momentum", "closing"])
@pytest.mark.parametrize("length", [1, 2, 3, 16, 17, 33, 64, 100])
def test_each_coefficient_has_the_precision_of_float32_however_small_it_is(rng, length, kind):
    """Sums of products of what is not negative lose no digits; differences of logs would, behind a closed gate."""
    gates = gates_of(rng, length, kind)
    got = jax.jit(chunk.coefficients)(*cast(gates, jnp.float32))
    for name, mine, wanted in zip(chunk.Coefficients._fields, got, definition(*gates), strict=True):
        np.testing.assert_allclose(np.asarray(mine, np.float64), wanted, rtol=3e-5, atol=1e-36, err_msg=name)


def test_what_is_forgotten_slowly_is_forgotten():
    """A millionth a token: as a product of gates in float32 it would be 5% less, in every chunk."""
    log_keep, nothing = jnp.full(64, -1e-6), jnp.zeros(64)
    beta = chunk.coefficients(log_keep, nothing, nothing, jnp.ones(64, bool)).beta
    np.testing.assert_allclose(1 - beta[-1], 64e-6, rtol=2e-3)


@pytest.mark.parametrize("kind", ["open", "closing"])
@pytest.mark.parametrize("length", [5, 33])
def test_coefficients_change_with_the_gates_as_their_definition_does(rng, length, kind):
    *gates, mask = gates_of(rng, length, kind)
    direction, step = [rng.normal(size=length) for _ in gates], 1e-6
    ahead, behind = (
        definition(*(gate + side * step * way for gate, way in zip(gates, direction, strict=True)), mask)
        for side in (1, -1)
    )
    wanted = jax.tree.map(lambda a, b: (a - b) / (2 * step), ahead, behind)
    _, got = jax.jvp(
        lambda *gates: chunk.coefficients(*gates, jnp.asarray(mask)), *cast((gates, direction), jnp.float32)
    )
    assert_close(got, wanted, 1e-5)


@pytest.mark.parametrize("impl", ["auto", "closed_form"])
def test_on_a_mesh_gates_may_be_one_for_all_streams(rng, mesh, impl):
    """A stream on each device, whose rates are its own; all else is one for all."""
    *shared, lr = cast(tokens(rng, 5), jnp.float32)
    rates = jnp.linspace(0.1, 1, 8)[:, None] * lr
    write = functools.partial(ops.surprise_linear, impl=impl)
    wanted = np.stack([write(*shared, rate)[0] for rate in rates])
    with jax.set_mesh(mesh):
        write = jax.jit(jax.vmap(write, (None, None, None, None, None, 0)))
        out, _ = write(*shared, jax.device_put(rates, jax.P("data")))
    assert_close(out, wanted, 1e-6)
