"""Linear surprise memory that forgets each of its rows at its own pace, against the plain recurrence.

Gradients, meshes, shards, padding and the like: test_every_op.py.

Slips tried, each seen to fail: padding moves S into M; across a border S is not passed on into M, or M not kept, or S
not passed on; a key asks the memory as it has not decayed, in closed form or in the affine maps; a reset closes no row;
one channel's gate is all channels' or another's; sequential takes no other loss; a gate by row passes for one by token.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import surprise as oracle
from oracles.checking import assert_close, cast
from oracles.surprise import DK, DV, tokens

from memjax import MemjaxError, ops

IMPLS = ("closed_form", "associative", "sequential")
KINDS = [
    {"gradient_at": at, "decay_before_gradient": first}
    for at, first in itertools.product(("token", "chunk"), (False, True))
]


def start(rng, dk=DK, dv=DV):
    return ops.SurpriseState(*rng.normal(size=(2, dk, dv)))


def expected(arrays, state, mask, size, gradient_at="token", decay_before_gradient=False):
    options = {"chunk": size if gradient_at == "chunk" else None, "decay_first": decay_before_gradient, "mask": mask}
    out, (memory,), (momentum,) = oracle.surprise([state.memory], [state.momentum], *arrays, **options)
    return out, memory, momentum


@functools.cache
def compiled(gradient_at, first, size, impl):
    """Of q, .., lr, M, S and a mask: what is read, M and S; and the gradients of all their squares."""
    kind = {"gradient_at": gradient_at, "decay_before_gradient": first, "chunk_size": size, "impl": impl}

    def run(arrays, memory, momentum, mask):
        out, state = ops.surprise_linear(*arrays, ops.SurpriseState(memory, momentum), mask=mask, **kind)
        return out, state.memory, state.momentum

    def loss(*arguments):
        out = run(*arguments)
        return sum((x**2).sum() for x in out), out

    return jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
@pytest.mark.parametrize("size", [1, 4, 7, 16])
def test_values_and_states_are_those_of_the_plain_recurrence_and_all_ways_have_one_gradient(rng, kind, size):
    """Seven tokens: chunks that divide them, that do not, one that is larger; of powers of 2, and not."""
    at, first = kind.values()
    for gates in ("open", "no forgetting", "no momentum", "closing"):
        arrays, state = tokens(rng, 7, gates, by_channel=True), start(rng)
        mask = np.array([1, 1, 0, 1, 0, 1, 1], bool)
        wanted, slopes = expected(arrays, state, mask, size, at, first), []
        for impl in IMPLS:
            with jax.enable_x64(True):
                given_ = cast((arrays, state.memory, state.momentum, mask), jnp.float64)
                slope, got = compiled(at, first, size, impl)(*given_)
            assert_close(got, wanted, 1e-10)
            slopes.append(slope)
        assert_close(slopes[0], slopes[2], 1e-9)
        assert_close(slopes[1], slopes[2], 1e-9)


@settings(max_examples=16, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 12), max_size=3),
    size=st.sampled_from([3, 5, 64]),
    seed=st.integers(0, 99),
    gradient_at=st.sampled_from(["token", "chunk"]),
)
def test_a_stream_cut_anywhere_is_one_call(cuts, size, seed, gradient_at):
    arrays, state = tokens(np.random.default_rng(seed), 12, by_channel=True), start(np.random.default_rng(seed))
    wanted, outs, cuts = expected(arrays, state, np.ones(12), size, gradient_at), [], sorted(cuts)
    write = jax.jit(functools.partial(ops.surprise_linear, gradient_at=gradient_at, chunk_size=size))
    with jax.enable_x64(True):
        for begin, end in zip([0, *cuts], [*cuts, 12], strict=True):
            out, state = write(*(jnp.asarray(x[begin:end]) for x in arrays), state)
            outs.append(out)
    assert_close((np.concatenate(outs), state.memory, state.momentum), wanted, 1e-10)


@pytest.mark.parametrize("impl", IMPLS)
def test_a_gate_that_all_rows_share_is_that_of_the_token(rng, impl):
    q, k, v, keep, *others = cast(tokens(rng, 9), jnp.float32)
    alike = jnp.broadcast_to(keep[:, None], (9, DK))
    for kind in KINDS:
        one, other = (
            ops.surprise_linear(q, k, v, log, *others, chunk_size=4, impl=impl, **kind) for log in (keep, alike)
        )
        assert_close(one, other, 1e-5)


@pytest.mark.parametrize("impl", IMPLS)
def test_before_a_reset_all_is_forgotten(rng, impl):
    arrays, reset = tokens(rng, 9, by_channel=True), np.arange(9) == 5
    write = functools.partial(ops.surprise_linear, decay_before_gradient=True, chunk_size=4, impl=impl)
    with jax.enable_x64(True):
        arrays = cast(arrays, jnp.float64)
        whole, end = write(*arrays, reset=reset)
        alone, state = write(*(x[5:] for x in arrays))
    assert_close((whole[5:], end), (alone, state), 1e-12)


def test_without_momentum_and_with_decay_first_it_is_kimi_delta_attention(rng):
    """An independent recurrence: S <- (I - beta k k^T) diag(keep) S + beta k v^T."""
    q, k, v, keep, momentum, lr = tokens(rng, 9, "no momentum", by_channel=True)
    memory, out = np.zeros((DK, DV)), []
    for t in range(9):
        memory = (np.eye(DK) - lr[t] * np.outer(k[t], k[t])) @ np.diag(np.exp(keep[t])) @ memory
        memory = memory + lr[t] * np.outer(k[t], v[t])
        out.append(q[t] @ memory)
    with jax.enable_x64(True):
        arrays = cast((q, k, v, keep, momentum, lr), jnp.float64)
        got, state = ops.surprise_linear(*arrays, decay_before_gradient=True, chunk_size=4, impl="closed_form")
    assert_close((got, state.memory), (np.stack(out), memory), 1e-12)


@pytest.mark.parametrize("impl", IMPLS)
def test_another_loss_per_chunk(rng, impl):
    arrays, state = tokens(rng, 9, by_channel=True), start(rng)
    options = {"gradient_at": "chunk", "chunk_size": 4, "loss": "huber", "impl": impl}
    with jax.enable_x64(True):
        got, end = ops.surprise_linear(*cast(arrays, jnp.float64), state, **options)
    wanted = oracle.surprise([state.memory], [state.momentum], *arrays, mask=np.ones(9), chunk=4, loss="huber")
    assert_close((got, end.memory), (wanted[0], wanted[1][0]), 1e-10)


def test_gates_that_close_beside_open_ones_lose_nothing_in_float32(rng):
    """Half of the rows forget everything at every token, with e^-60; the other half hardly anything."""
    arrays = list(tokens(rng, 128, dk=8, dv=4))
    arrays[1] = arrays[1] / np.linalg.norm(arrays[1], axis=1, keepdims=True)
    arrays[3] = np.broadcast_to(np.where(np.arange(8) % 2, -60.0, -1e-4), (128, 8))
    got, state = ops.surprise_linear(*cast(tuple(arrays), jnp.float32), chunk_size=64, impl="closed_form")
    zeros = start(rng, 8, 4)
    zeros = ops.SurpriseState(0 * zeros.memory, 0 * zeros.momentum)
    out, memory, momentum = expected(arrays, zeros, np.ones(128), 64)
    assert_close((got, state.memory, state.momentum), (out, memory, momentum), 1e-5)


def test_no_weight_is_made_for_each_two_tokens_and_channel(rng):
    """64 x 64 x 64 of them would take 1 MB; and the gradient keeps no state per token, which would be 67 MB."""
    arrays = cast(tokens(rng, 2048, dk=64, dv=64, by_channel=True), jnp.float32)

    def read(arrays):
        return ops.surprise_linear(*arrays, chunk_size=64)[0].sum()

    temp = [jax.jit(run).lower(arrays).compile().memory_analysis().temp_size_in_bytes for run in (read, jax.grad(read))]
    assert temp[0] < 1.5e6 and temp[1] < 14e6


@pytest.mark.parametrize(
    ("log_keep", "words"),
    [
        (np.zeros((4, 2)), r"log_keep must be a float array .L, dk. with dk = 3 as in q"),
        (np.zeros((5, 3)), r"log_keep must be a float array .L, dk. with L = 4 as in q"),
        (np.zeros((4, 3, 1)), r"log_keep must be a float array .L., not float"),
        (np.full((4, 3), 0.5), r"log_keep must be the log of a gate in .0, 1.*0.5"),
        (np.zeros((4, 3), int), r"log_keep must be a float array .L, dk., not int"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(rng, unchecked, log_keep, words):
    q, k, v, _, *others = cast(tokens(rng, 4), jnp.float32)
    with pytest.raises(MemjaxError, match=words):
        ops.surprise_linear(q, k, v, jnp.asarray(log_keep), *others)


def test_a_recurrence_of_another_first_axis_is_one_line(unchecked):
    half, ones = jnp.full(3, -0.7), jnp.ones((3, 2, 4))
    with pytest.raises(MemjaxError, match=r"log_keep has the shape \[3, 4\], surprise \[3, 2, 4\]"):
        ops.momentum_recurrence(jnp.zeros((3, 4)), half, ones, (ones[0], ones[0]))
