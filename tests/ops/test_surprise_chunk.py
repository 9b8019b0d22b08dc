"""The coefficients of a chunk of surprise memory, against the products over windows that define them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close, cast
from oracles.surprise import tokens

from memjax.ops import surprise_chunk as chunk


def definition(log_keep, log_momentum, lr, mask):
    """beta, f, G, m_C and the last row of E diag(lr) of the module, with a loop over windows, in float64."""
    length = len(lr)
    keep, momentum = (np.where(mask, np.exp(log), 1) for log in (log_keep, log_momentum))
    within = [[slice(j + 1, t + 1) for j in range(length)] for t in range(length)]
    kept, along = (np.tril([[gate[window].prod() for window in row] for row in within]) for gate in (keep, momentum))
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


@pytest.mark.parametrize("length", [5, 33])
def test_coefficients_change_with_the_gates_as_their_definition_does(rng, length):
    *gates, mask = gates_of(rng, length, "open")
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
