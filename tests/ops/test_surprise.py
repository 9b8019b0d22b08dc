"""Linear surprise memory against the plain recurrence: any kind, any cut, any chunk size, any gate.

Gradients, meshes, padding and the like: test_every_op.py.
"""

import functools

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

DEEP = ("closed_form", "associative", "sequential")
LINEAR = ("auto", *DEEP, "pallas")
KINDS = {
    "token": {"gradient_at": "token"},
    "chunk": {"gradient_at": "chunk"},
    "decay first": {"gradient_at": "token", "decay_before_gradient": True},
    "chunk, decay first": {"gradient_at": "chunk", "decay_before_gradient": True},
}
every_impl = pytest.mark.parametrize("impl", LINEAR)
every_kind = pytest.mark.parametrize("kind", KINDS)


def start(rng, dk=DK, dv=DV):
    return ops.SurpriseState(*rng.normal(size=(2, dk, dv)))


def expected(arrays, state, mask, kind, size, **options):
    options |= {"chunk": size if "chunk" in kind else None, "decay_first": "decay" in kind, "mask": mask}
    out, (memory,), (momentum,) = oracle.surprise([state.memory], [state.momentum], *arrays, **options)
    return out, memory, momentum


def run(kind, size, impl, arrays, memory, momentum, mask):
    state = ops.SurpriseState(memory, momentum)
    options = KINDS[kind] | {"mask": jnp.asarray(mask), "chunk_size": size, "impl": impl}
    out, state = ops.surprise_linear(*arrays, state, **options)
    return out, state.memory, state.momentum


@functools.cache
def compiled(kind, size, impl):
    return jax.jit(functools.partial(run, kind, size, impl))


@pytest.mark.parametrize("gates", ["open", "no forgetting", "no momentum", "closing"])
@pytest.mark.parametrize("size", [1, 4, 7, 16])
@every_kind
@every_impl
def test_values_and_states_are_those_of_the_plain_recurrence(rng, kind, size, impl, gates):
    """Seven tokens: chunks that divide them, that do not, and one that is larger."""
    arrays, state, mask = tokens(rng, 7, gates), start(rng), np.array([1, 1, 0, 1, 0, 1, 1], bool)
    with jax.enable_x64(True):
        got = compiled(kind, size, impl)(*cast((arrays, state.memory, state.momentum, mask), jnp.float64))
    assert all(x.dtype == jnp.float64 for x in got)
    assert_close(got, expected(arrays, state, mask, kind, size), 1e-10)


def written_in_parts(write, arrays, cuts, state):
    """(out, memory, momentum) of a stream in several calls."""
    outs = []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(arrays[0])], strict=True):
        out, state = write(*(jnp.asarray(x[begin:end]) for x in arrays), state)
        outs.append(out)
    return np.concatenate(outs), *jax.tree.map(np.asarray, (state.memory, state.momentum))


@settings(max_examples=24, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 12), max_size=3),
    size=st.sampled_from([1, 3, 5, 64]),
    seed=st.integers(0, 99),
    gradient_at=st.sampled_from(["token", "chunk"]),
    known=st.booleans(),
    impl=st.sampled_from(["auto", "closed_form"]),
)
def test_a_stream_cut_anywhere_is_one_call(cuts, size, seed, gradient_at, known, impl):
    """Also under jit, where it is not known how much of a chunk a state has taken in."""
    arrays, state = tokens(np.random.default_rng(seed), 12), start(np.random.default_rng(seed))
    write = functools.partial(ops.surprise_linear, gradient_at=gradient_at, chunk_size=size, impl=impl)
    with jax.enable_x64(True):
        got = written_in_parts(write if known else jax.jit(write), arrays, cuts, state)
    assert_close(got, expected(arrays, state, np.ones(12), gradient_at, size), 1e-10)


@settings(max_examples=30, deadline=None)
@given(
    starts=st.sets(st.integers(0, 11), max_size=4),
    seed=st.integers(0, 99),
    kind=st.sampled_from([*KINDS]),
    impl=st.sampled_from(["auto", *DEEP]),
    cut=st.integers(0, 12),
)
def test_documents_in_one_call_are_those_of_calls_of_their_own(starts, seed, kind, impl, cut):
    """With padding, which begins none; the first goes on from a state that ends within a chunk."""
    rng = np.random.default_rng(seed)
    arrays, before, given = tokens(rng, 12), tokens(rng, 5), start(rng)
    mask, reset = rng.random(12) < 0.8, np.isin(np.arange(12), list(starts))
    options = KINDS[kind] | {"chunk_size": 4, "impl": impl}
    arrays = [np.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, np.nan) for x in arrays]
    with jax.enable_x64(True):
        state = ops.surprise_linear(*cast(before, jnp.float64), jax.tree.map(jnp.asarray, given), **options)[1]
        both, found = state, []
        for piece in (slice(0, cut), slice(cut, 12)):
            flags = {"mask": jnp.asarray(mask[piece]), "reset": jnp.asarray(reset[piece])}
            out, both = ops.surprise_linear(*(jnp.asarray(x[piece]) for x in arrays), both, **flags, **options)
            found.append(out)
        wanted = []
        for piece in np.split(np.arange(12), np.flatnonzero(reset & mask)):
            if len(piece):
                state = None if (reset & mask)[piece[0]] else state
                own = jnp.asarray(mask[piece])
                out, state = ops.surprise_linear(*(jnp.asarray(x[piece]) for x in arrays), state, mask=own, **options)
                wanted.append(out)
    assert_close(np.concatenate(found), np.concatenate(wanted), 1e-9)
    assert_close((both.memory, both.momentum), (state.memory, state.momentum), 1e-9)
    assert int(both.within or 0) == int(state.within or 0)


@pytest.mark.parametrize("impl", DEEP)
@pytest.mark.parametrize("cuts", [(1, 2), (3, 8), range(1, 12)])
def test_a_deep_memory_cut_anywhere_is_one_call(rng, cuts, impl):
    arrays, mask = tokens(rng, 12), np.arange(12) % 5 != 3
    weights, momenta = (tuple(rng.normal(size=shape) for shape in ((DK, 4), (4, DV))) for _ in "ab")
    write = functools.partial(ops.surprise_mlp, weights, activation=jax.nn.silu, chunk_size=5, impl=impl)
    masked = jax.jit(lambda *a: write(*a[:6], a[7], mask=a[6]))
    with jax.enable_x64(True):
        state = jax.tree.map(jnp.asarray, ops.SurpriseState(weights, momenta))
        got = written_in_parts(masked, (*arrays, mask), cuts, state)
    out, *end = oracle.surprise(weights, momenta, *arrays, mask=mask, chunk=5, activation="silu")
    out[~mask] = 0
    assert_close(got, (out, *map(tuple, end)), 1e-10)


def test_in_chunk_mode_a_token_alone_costs_no_chunk(rng):
    arrays = cast(tokens(rng, 1, dk=64, dv=64), jnp.float32)
    state = jax.tree.map(jnp.asarray, ops.SurpriseState(*np.zeros((2, 64, 64), np.float32), np.zeros((64, 64)), 3))
    cost = [
        jax.jit(functools.partial(ops.surprise_linear, gradient_at="chunk", chunk_size=size)).lower(*arrays, state)
        for size in (8, 512)
    ]
    assert len({lowered.compile().cost_analysis()["flops"] for lowered in cost}) == 1


@pytest.mark.parametrize("impl", LINEAR)
@pytest.mark.parametrize("loss", ["huber", "l3"])
def test_a_memory_may_be_surprised_by_another_loss(rng, loss, impl):
    arrays, state, mask = tokens(rng, 9), start(rng), np.arange(9) != 4
    options = {"gradient_at": "chunk", "chunk_size": 4, "loss": loss, "impl": impl, "mask": mask}
    with jax.enable_x64(True):
        got = ops.surprise_linear(
            *cast(arrays, jnp.float64), ops.SurpriseState(state.memory, state.momentum), **options
        )
    wanted = oracle.surprise([state.memory], [state.momentum], *arrays, mask=mask, chunk=4, loss=loss)
    assert_close((got[0], got[1].memory), (np.where(mask[:, None], wanted[0], 0), wanted[1][0]), 1e-10)
    each = {"gradient_at": "token", "loss": loss, "impl": "sequential"}
    with jax.enable_x64(True):
        got = ops.surprise_linear(*cast(arrays, jnp.float64), state, **each)
    assert_close(
        got[0],
        oracle.surprise([state.memory], [state.momentum], *arrays, mask=np.ones(9), chunk=None, loss=loss)[0],
        1e-10,
    )


@pytest.mark.parametrize("impl", DEEP)
@pytest.mark.parametrize("normalize_lr", [False, True])
@pytest.mark.parametrize("loss", ["l2", "huber", "l3"])
def test_a_deep_memory_has_any_loss_and_a_norm_behind_it(rng, loss, normalize_lr, impl):
    arrays = tokens(rng, 9)
    weights = [rng.normal(size=shape) for shape in ((DK, 4), (4, DV))]
    zeros = [np.zeros_like(w) for w in weights]
    options = {"loss": loss, "normalize_lr": normalize_lr}
    wanted = oracle.surprise(weights, zeros, *arrays, mask=np.ones(9), chunk=4, activation="silu", scale=1.5, **options)
    with jax.enable_x64(True):
        out, state = ops.surprise_mlp(
            *cast((weights, *arrays), jnp.float64),
            activation=jax.nn.silu, output=lambda x: 1.5 * (x - x.mean()) / jnp.sqrt(x.var() + 1e-6),
            chunk_size=4, impl=impl, **options,
        )  # fmt: skip
    assert_close((out, list(state.memory)), (wanted[0], wanted[1]), 1e-9)


@pytest.mark.parametrize("values", [10, 30])
def test_normalised_rates_keep_deep_memories_finite_where_their_start_alone_bounds_them(rng, values):
    """Keys in one direction, the highest rate of a linear memory in chunks of 16: 2 / 16, times 1 - momentum."""
    length, size = 256, 16
    k = rng.normal(size=(length, size)) + 3 * rng.normal(size=size)
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    v, weights = values * rng.normal(size=(length, size)), rng.normal(size=(2, size, size)) / 4
    gates = np.zeros(length), np.full(length, np.log(0.5)), np.full(length, 2 / 16 * 0.5)
    write = functools.partial(ops.surprise_mlp, tuple(cast(weights, jnp.float32)), activation=jax.nn.silu)
    ends = [
        write(*cast((k, k, v, *gates), jnp.float32), chunk_size=16, normalize_lr=normalize_lr)[1].memory
        for normalize_lr in (False, True)
    ]
    plain, normalised = (np.abs(np.stack(end)).max() for end in ends)
    assert normalised < 4 * values
    assert not plain < 1000  # nan is no less


@pytest.mark.parametrize("impl", DEEP)
def test_a_token_that_surprises_nobody_has_a_finite_gradient_through_a_normalised_rate(rng, impl):
    q, k, v, *gates = tokens(rng, 6)
    k[2], v[2] = k[2] * 1e-11, v[2] * 1e-11
    weights = tuple(rng.normal(size=shape) for shape in ((DK, 4), (4, DV)))

    def read(weights, k, v):
        options = {"activation": jax.nn.silu, "normalize_lr": True, "chunk_size": 3, "impl": impl}
        return ops.surprise_mlp(weights, *cast((q, k, v, *gates), jnp.float32), **options)[0].sum()

    slopes = jax.grad(read, (0, 1, 2))(cast(weights, jnp.float32), *cast((k, v), jnp.float32))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


@pytest.mark.parametrize("loss", ["l2", "huber", "l3"])
def test_whatever_surprises_all_ways_have_one_gradient(rng, loss):
    arrays = tokens(rng, 7)
    weights = tuple(rng.normal(size=shape) for shape in ((DK, 4), (4, DV)))

    def read(impl, weights, arrays):
        out, state = ops.surprise_mlp(weights, *arrays, activation=jax.nn.silu, loss=loss, chunk_size=3, impl=impl)
        return (out**2).sum() + sum((w**2).sum() for w in state.memory)

    with jax.enable_x64(True):
        slopes = [jax.jit(jax.grad(functools.partial(read, impl), (0, 1)))(weights, arrays) for impl in DEEP]
    for other in slopes[1:]:
        assert_close(other, slopes[0], 1e-9)


def test_without_momentum_and_with_decay_first_it_is_gated_deltanet(rng):
    """An independent recurrence: S <- keep (I - beta k k^T) S + beta k v^T; with all kept, DeltaNet."""
    for gates in ("no momentum", "neither"):
        q, k, v, keep, momentum, lr = tokens(rng, 9, "no momentum")
        keep = np.zeros(9) if gates == "neither" else keep
        memory, out = np.zeros((DK, DV)), []
        for t in range(9):
            memory = np.exp(keep[t]) * (np.eye(DK) - lr[t] * np.outer(k[t], k[t])) @ memory + lr[t] * np.outer(
                k[t], v[t]
            )
            out.append(q[t] @ memory)
        with jax.enable_x64(True):
            arrays = cast((q, k, v, keep, momentum, lr), jnp.float64)
            got, state = ops.surprise_linear(*arrays, decay_before_gradient=True, chunk_size=4, impl="closed_form")
        assert_close((got, state.memory), (np.stack(out), memory), 1e-12)


def test_bfloat16_inputs_have_a_float32_state_and_are_near_float64(rng):
    arrays = tokens(rng, 64)
    rounded = cast(arrays, jnp.bfloat16)
    out, state = ops.surprise_linear(*rounded, chunk_size=16, impl="closed_form")
    assert out.dtype == jnp.bfloat16 and state.memory.dtype == jnp.float32
    exact = cast(jax.tree.map(lambda x: np.asarray(x, np.float64), rounded), jnp.float32)
    wanted = ops.surprise_linear(*exact, chunk_size=16, impl="closed_form")
    assert_close(state, wanted[1], 1e-6)
    assert_close(out, wanted[0], 0.01)


def test_correlated_keys_stay_finite_in_token_mode_whatever_the_chunk(rng):
    """The case of the spec: correlation .5, no momentum, lr .5, 2,048 tokens; chunk mode grows without bound."""
    length, dk = 2048, 64
    common, own = rng.normal(size=dk), rng.normal(size=(length, dk))
    k = np.sqrt(0.5) * common + np.sqrt(0.5) * own
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    arrays = (k, k, rng.normal(size=(length, 4)), np.zeros(length), np.full(length, -np.inf), np.full(length, 0.5))
    arrays = cast(arrays, jnp.float32)
    outs = [ops.surprise_linear(*arrays, chunk_size=size)[0] for size in (16, 64)]
    assert_close(*outs, 1e-4)
    assert jnp.abs(outs[0]).max() < 10
    assert not jnp.abs(ops.surprise_linear(*arrays, chunk_size=64, gradient_at="chunk")[0]).max() < 1e3


@pytest.mark.parametrize("dk", [32, 64])
def test_the_gradient_keeps_no_state_per_token(rng, dk):
    """Only those between chunks: else 2,048 tokens of two 64 x 64 matrices would take 67 MB."""
    arrays = cast(tokens(rng, 2048, dk=dk, dv=64), jnp.float32)

    def loss(arrays):
        return ops.surprise_linear(*arrays, chunk_size=64)[0].sum()

    temp = jax.jit(jax.grad(loss)).lower(arrays).compile().memory_analysis().temp_size_in_bytes
    assert temp < 12e6


@pytest.mark.parametrize(("dk", "by_chunks"), [(32, (False, True)), (33, (True, True))])
def test_small_keys_are_written_token_by_token_unless_a_derivative_is_asked_for(dk, by_chunks):
    """That of chunks has matrices of C x C."""
    arrays = (*(jnp.zeros((12, dk)) for _ in range(3)), *(jnp.zeros(12) for _ in range(3)))

    def read(arrays):
        return ops.surprise_linear(*arrays, chunk_size=6)[0].sum()

    programs = [jax.jit(f).lower(arrays).as_text() for f in (read, jax.grad(read))]
    assert tuple("tensor<6x6xf32>" in program for program in programs) == by_chunks


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("impl", ["auto", "closed_form"])
def test_all_derivatives_are_those_of_the_plain_recurrence(rng, impl, by_channel):
    """Forward, backward, and backward of forward; the gradient alone against float64: test_every_op.py."""
    arrays = [jnp.asarray(x) for x in cast(tokens(rng, 7), jnp.float32)]
    if by_channel:
        arrays[3] = -jnp.abs(jnp.asarray(rng.normal(size=(7, DK)), jnp.float32))
    ways = [jnp.asarray(rng.normal(size=x.shape), jnp.float32) for x in arrays]

    def read(impl, arrays):
        out, state = ops.surprise_linear(*arrays, chunk_size=4, impl=impl)
        return jnp.sin(out).sum() + jnp.cos(state.memory).sum()

    def derivatives(impl):
        along = lambda arrays: jax.jvp(functools.partial(read, impl), (arrays,), (ways,))  # noqa: E731
        return along(arrays), jax.grad(lambda arrays: along(arrays)[1])(arrays)

    run = jax.jit(derivatives, static_argnums=0)
    assert_close(run(impl), run("sequential"), 1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"chunk_size": 0}, "chunk_size must be a whole number of at least 1, not 0"),
        ({"chunk_size": 2.5}, "chunk_size must be a whole number"),
        ({"gradient_at": "tokens"}, "unknown gradient_at 'tokens'; did you mean 'token'"),
        ({"impl": "fast"}, "unknown impl 'fast'; known: associative, auto, closed_form"),
        ({"log_keep": np.full(4, 0.5)}, "log_keep must be the log of a gate in .0, 1.*0.5"),
        ({"log_keep": np.full(4, np.nan)}, "log_keep must be the log of a gate"),
        ({"lr": np.full(4, -0.5)}, "lr must be finite and at least 0.*-0.5"),
        ({"lr": np.full(4, np.inf)}, "lr must be finite"),
        ({"mask": np.full(4, 0.5)}, "mask must be a bool array .L., not float32"),
        ({"q": np.zeros(()), "k": np.zeros(())}, "must be a float array .L, dk., not float32"),
        ({"lr": np.zeros(5)}, "lr must be a float array .L. with L = 4 as in [qk], not float32.5"),
        ({"v": np.zeros((5, 2))}, "v must be a float array .L, dv. with L = 4"),
        ({"k": np.zeros((4, 3), int)}, "k must be a float array .L, dk., not int32.*; write k.astype"),
        ({"state": ops.SurpriseState(np.zeros((3, 3)), np.zeros((3, 3)))}, "another memory's.*3, 3.*3, 2"),
        ({"state": (np.zeros((3, 2)), np.zeros((3, 2)))}, "state must be of class SurpriseState, not a tuple"),
        ({"loss": "l1"}, "unknown loss 'l1'"),
        ({"impl": "pallas", "log_keep": np.zeros((4, 3))}, "impl='pallas' has no log_keep for each channel"),
        ({"loss": "l3"}, "loss=l3 has no closed form with gradient_at='token'"),
        (
            {"state": ops.SurpriseState(*np.zeros((3, 3, 2)), 4), "gradient_at": "chunk", "chunk_size": 4},
            "it ends 4 tokens into a chunk, of which chunk_size is 4",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(rng, unchecked, change, words):
    arrays = cast(
        dict(zip(("q", "k", "v", "log_keep", "log_momentum", "lr"), tokens(rng, 4), strict=True)), jnp.float32
    )
    change = {
        key: x if key in ("chunk_size", "gradient_at", "impl", "loss", "state") else jnp.asarray(x)
        for key, x in change.items()
    }
    with pytest.raises(MemjaxError, match=words):
        ops.surprise_linear(**{**arrays, **change})


def test_gates_known_inside_a_jitted_function_are_checked_there(rng):
    q, k, v, *gates = cast(tokens(rng, 4), jnp.float32)
    out = jax.jit(lambda k: ops.surprise_linear(q, k, v, *gates)[0])(k)
    assert_close(out, ops.surprise_linear(q, k, v, *gates)[0], 1e-6)
    bad = -gates[0]
    with pytest.raises(MemjaxError, match="log_keep must be the log of a gate"):
        jax.jit(lambda k: ops.surprise_linear(q, k, v, bad, *gates[1:])[0])(k)


@pytest.mark.parametrize("impl", ["auto", "closed_form"])
def test_gates_of_padding_may_be_anything(rng, impl):
    q, k, v, *gates = cast(tokens(rng, 4), jnp.float32)
    mask = jnp.array([True, False, True, True])
    bad = [gate.at[1].set(jnp.nan) for gate in gates]
    write = functools.partial(ops.surprise_linear, q, k, v, mask=mask, impl=impl)
    assert_close(write(*bad), write(*gates), 0)


@pytest.mark.parametrize("options", [{}, {"read": "token"}, {"impl": "sequential"}])
def test_a_loss_without_a_gradient_at_zero_is_finite_beside_padding(rng, options):
    q, k, v, *gates = cast(tokens(rng, 4, dv=DK), jnp.float32)
    weights, mask = jnp.eye(DK), jnp.array([True, False, True, True])

    def write(weights, size, mask):
        loss = lambda out, v: jnp.linalg.norm(out - v)  # noqa: E731
        apply = lambda w, x: x @ w  # noqa: E731
        out, state = ops.surprise_memory(apply, loss, weights, q, k, v, *gates, mask=mask, chunk_size=size, **options)
        return out.sum() + state.memory.sum()

    slope_of = jax.jit(jax.value_and_grad(write), static_argnums=1)
    for size in (3, 4):
        for real in (mask, jnp.ones(4, bool)):
            value, slope = slope_of(weights, size, real)
            assert np.isfinite(value) and np.isfinite(slope).all()


def test_padding_reads_nothing_from_any_memory(rng):
    q, k, v, *gates = cast(tokens(rng, 4, dv=DK), jnp.float32)
    mask = jnp.array([True, False, True, True])
    out, _ = ops.surprise_memory(
        lambda w, x: x * w + 5, lambda out, v: ((out - v) ** 2).sum(), jnp.ones(DK), q, k, v, *gates, mask=mask
    )
    assert not out[1].any() and (jnp.abs(out[0]) > 0).all()


def test_an_empty_call_writes_nothing_even_inside_a_chunk(rng):
    arrays = cast(tokens(rng, 3), jnp.float32)
    _, state = ops.surprise_linear(*arrays, gradient_at="chunk", chunk_size=4)
    _, after = ops.surprise_linear(*(x[:0] for x in arrays), state, gradient_at="chunk", chunk_size=4)
    assert_close(after, state, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": (np.eye(3), np.ones(3))}, "weights.1. must be a float array ._, _., not float64"),
        ({"weights": (np.eye(3), np.eye(4))}, "weights must be matrices that fit each other"),
        ({"weights": ()}, "weights must be matrices"),
        ({"weights": (np.eye(4), np.eye(4))}, "weights go from 4 to 4"),
        ({"impl": "fast"}, "unknown impl 'fast'"),
        ({"k": np.zeros(4)}, "k must be a float array .L, dk., not float64"),
    ],
)
def test_what_does_not_fit_a_deep_memory_is_one_line(rng, unchecked, change, words):
    names = ("q", "k", "v", "log_keep", "log_momentum", "lr")
    arrays = cast(dict(zip(names, tokens(rng, 4), strict=True)), jnp.float32)
    weights = (jnp.ones((DK, 4)), jnp.ones((4, DV)))
    with pytest.raises(MemjaxError, match=words):
        ops.surprise_mlp(**{"weights": weights, "activation": jax.nn.silu, **arrays, **change})


def test_weights_of_a_deep_memory_may_be_a_list(rng, unchecked):
    arrays = cast(tokens(rng, 4), jnp.float32)
    weights = [jnp.ones((DK, 4)), jnp.ones((4, DV))]
    runs = [ops.surprise_mlp(w, *arrays, activation=jax.nn.silu)[0] for w in (weights, tuple(weights))]
    assert_close(*runs, 0)


def test_the_recurrence_of_momentum_is_in_float32_and_checks_its_gates():
    half, ones = jnp.full(3, -0.7, jnp.bfloat16), jnp.ones((3, 2), jnp.bfloat16)
    states = ops.momentum_recurrence(half, half.astype(jnp.float32), ones, (ones[0], ones[0]))
    assert all(leaf.dtype == jnp.float32 for leaf in states)
    with pytest.raises(MemjaxError, match="log_momentum must be the log of a gate"):
        ops.momentum_recurrence(half, -half, ones, (ones[0], ones[0]))


@pytest.mark.parametrize("reset", [False, True])
def test_a_compiled_call_that_cannot_refuse_a_state_of_longer_chunks_reads_nan(rng, reset):
    """Silently wrong it would be the state of some other place in a chunk."""
    arrays = cast(tokens(rng, 3), jnp.float32)
    given = {"reset": jnp.array([False, True, False])} if reset else {}

    def write(within):
        zeros = jnp.zeros((DK, DV))
        state = ops.SurpriseState(zeros, zeros, zeros + 1, within)
        return ops.surprise_linear(*arrays, state, gradient_at="chunk", chunk_size=2, **given)[0]

    with pytest.raises(MemjaxError, match="it ends 3 tokens into a chunk, of which chunk_size is 2"):
        write(jnp.array(3))
    assert np.isnan(jax.jit(write)(jnp.array(3))[0]).all()
    assert_close(jax.jit(write)(jnp.array(1)), write(jnp.array(1)), 1e-6)


@every_impl
def test_a_state_in_float64_stays_so_whatever_the_tokens_are_in(rng, impl):
    arrays, state = cast(tokens(rng, 5), jnp.float32), start(rng)
    with jax.enable_x64(True):
        state = jax.tree.map(jnp.asarray, state)
        out, end = ops.surprise_linear(*arrays, state, impl=impl)
        assert (out.dtype, end.memory.dtype, end.momentum.dtype) == (jnp.float32, jnp.float64, jnp.float64)
        each = [x[:, None] for x in arrays]
        jax.lax.scan(lambda state, token: (ops.surprise_linear(*token, state, impl=impl)[1], None), state, tuple(each))


@pytest.mark.parametrize(
    ("momentum", "rate", "times", "stable"),
    [
        (0.5, 0.5, 5, True),
        (0.9, 0.1, 5, False),  # all that is written of a token comes to 1, to which layers hold it
        (0.9, (1 - 0.9**0.5) ** 2, 5, True),
        (0.8, 0.1, 6, True),
        (0.9, 0.05, 10, False),
    ],
)
def test_under_much_momentum_a_key_in_runs_with_pauses_diverges_at_rates_that_one_key_alone_does_not(
    momentum, rate, times, stable
):
    """As docs/memories/surprise.md says: a key so many times, then another while its momentum runs out; 20 times."""
    turns = np.tile(np.repeat([0, 1], [times, 100]), 20)
    for which, keeps in ((turns, stable), (np.zeros_like(turns), True)):
        keys, gates = np.eye(2)[which], np.zeros(len(which))
        _, state = ops.surprise_linear(
            keys, keys, np.ones((len(which), 1)), gates, gates + np.log(momentum), gates + rate
        )
        assert (float(jnp.abs(state.memory).max()) < 2) == keeps
