"""MIMN against the equations, with the parameters taken out of the module.

Slips tried, each of which fails a test here: a read of the new memory; the channel that was written most in place of
the one that was read most; every channel induced; a row that the induction unit's gradient goes through; rows found
without their keys; the penalty of every item in place of the last; channels shown before rows.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from oracles import induction as oracle
from oracles.checking import (
    assert_close,
    assert_gradients_are_differences,
    cast,
    float64,
    matmuls_that_no_carry_reaches,
)

from memjax import memories, ops
from memjax.memories import memorize

T, N, WIDTH, ROWS, SIZE, HIDDEN = 4, 3, 4, 3, 3, 5
SIZES = {"slots": 2 * ROWS, "width": WIDTH, "memory_width": SIZE, "hidden": HIDDEN, "usage_penalty": 0.25}
MASK = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 0], [1, 1, 0]], bool)


@functools.cache
def made():
    """`(memory, params, items)` in float64; all parameters random, so that each of them counts."""
    memory = memories.create("mimn", **SIZES, dtype=jnp.float64)
    rng, init = np.random.default_rng(9), functools.partial(memory.init, method=memorize)
    with jax.enable_x64(True):
        shapes = jax.eval_shape(init, jax.random.key(0), jnp.zeros((T, N, WIDTH)))
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), shapes)
    return memory, params, rng.normal(size=(T, N, WIDTH))


def weights(params):
    """The parameters of `ops.mimn_step` by their names in the module."""
    p = params["params"]

    def part(kind, name):
        return kind(*(p[f"{name}_{leaf}"] for leaf in kind._fields))

    controller, interface = part(ops.LSTMParams, "controller"), part(ops.InterfaceParams, "interface")
    return ops.MIMNParams(controller, interface, p["keys"], p["channel_w_item"], part(ops.GRUParams, "channel"))


def start():
    zeros = {"hidden": HIDDEN, "cell": HIDDEN, "reads": SIZE, "channels": (ROWS, SIZE), "induced": ROWS, "usage": ROWS}
    return {name: np.zeros(shape) for name, shape in zeros.items()} | {"memory": np.full((ROWS, SIZE), 1e-6)}


def states(params, items, held=None):
    """After each real item. held: the memory before each of them, as the induction unit sees it."""
    own, found = weights(params), [start()]
    for t, x in enumerate(items[MASK]):
        found.append(oracle.mimn(own, found[-1], x, None if held is None else held[t]["memory"]))
    return found


def slots_of(params, state):
    p = params["params"]
    return np.concatenate([state["memory"] @ p["read_rows"], state["channels"] @ p["read_channels"]])


def test_the_state_after_every_write_and_the_auxiliary_loss_are_the_equations():
    memory, params, items = made()
    expected = states(params, items)
    with jax.enable_x64(True):
        run = jax.jit(functools.partial(memory.apply, method=memorize))
        state, paid = cast(memory.initial_state(), jnp.float64), 0.0
        for t in range(T):
            arguments = cast((params, items[t : t + 1], MASK[t : t + 1]), jnp.float64)
            state, aux = run(*arguments, state=state)
            paid += float(aux)
            told = expected[MASK[: t + 1].sum()]
            assert_close(float64(state._asdict()), told, 1e-10)
            np.testing.assert_allclose(paid, 0.25 * oracle.imbalance(told["usage"]), rtol=1e-9)
    assert 1 < state.induced.sum() < ROWS


def test_the_slots_are_the_rows_and_then_the_channels_that_were_written():
    memory, params, items = made()
    state = states(params, items)[-1]
    slots = memory.apply(*cast((params, ops.MIMNState(**state)), jnp.float32), method="slots")
    assert_close(slots.values, slots_of(params, state), 1e-5)
    assert slots.mask.tolist() == [True] * ROWS + (state["induced"] > 0).tolist()


def test_gradients_are_the_oracles_differences():
    """The induction unit's rows are constants there, those of the stream as it is."""
    memory, params, items = made()
    rng, held = np.random.default_rng(3), states(params, items)
    mixed = rng.normal(size=(2 * ROWS, WIDTH))

    def loss(params, items):
        state, aux = memory.apply(params, items, MASK, method=memorize)
        return (memory.apply(params, state, method="slots").values * mixed).sum() + aux

    def expected(params, items):
        state = states(params, items, held)[-1]
        return np.sum(slots_of(params, state) * mixed) + 0.25 * oracle.imbalance(state["usage"])

    with jax.enable_x64(True):
        gradients = float64(jax.jit(jax.grad(loss, argnums=(0, 1)))(*cast((params, items), jnp.float64)))
    assert_gradients_are_differences(gradients, expected, (params, items))


def test_at_the_start_of_training_items_find_rows_of_their_own():
    """Without keys all rows would be found alike, and written alike for ever."""
    memory = memories.create("mimn", slots=8, width=16)
    items = jnp.asarray(np.random.default_rng(7).normal(size=(20, 2, 16)), jnp.float32)
    params = memory.init(jax.random.key(0), items[:1], method=memorize)
    state, _ = jax.jit(functools.partial(memory.apply, method=memorize))(params, items)
    assert np.linalg.matrix_rank(state.memory, tol=1e-3) == 4 and state.induced.sum() > 1


def test_what_items_say_to_controller_and_channels_is_computed_before_the_scan():
    memory, params, items = made()
    jaxpr = jax.make_jaxpr(functools.partial(memory.apply, method=memorize))(*cast((params, items), jnp.float32), MASK)
    assert not matmuls_that_no_carry_reaches(jaxpr.jaxpr)
