"""A stream of linear surprise memory split over devices is the stream in one piece.

Padding, zeros, bfloat16, gradients by differences, with `vmap` for the axis: test_every_op.py.

Slips tried, each seen to fail: a shard starts from the state after it; the final state is the first shard's, or the sum
of all; the identity's columns for S are those for M; mask, state, decay_before_gradient or gradient_at are lost; values
stay bfloat16; a shard may end inside a chunk; the values of the whole stream are gathered.
"""

import functools
import itertools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import surprise as oracle
from oracles.checking import assert_close, cast
from oracles.surprise import DK, DV, tokens

from memjax import MemjaxError, ops

LENGTH = 48
KINDS = {  # by which name, at what chunk size: for tokens one that divides no shard
    "token": ({"gradient_at": "token"}, 5),
    "token, decay first": ({"gradient_at": "token", "decay_before_gradient": True}, 5),
    "chunk": ({"gradient_at": "chunk"}, 3),
    "chunk, decay first": ({"gradient_at": "chunk", "decay_before_gradient": True}, 3),
}
SEQ, ALL = jax.P("seq"), jax.P()
AUTO = jax.sharding.AxisType.Auto
COLLECTIVE = r"= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-\w+)(?:-start)?\("


def split_over(shards, check_vma=True, **options):
    """`(arrays, memory, momentum, mask) -> (out, memory, momentum)` of a whole stream, on that many devices."""
    mesh = jax.make_mesh((shards,), ("seq",), axis_types=(AUTO,))
    op = functools.partial(ops.surprise_linear_sharded, axis_name="seq", **options)
    specs, ends = (SEQ, ALL, ALL, SEQ), (SEQ, ALL, ALL)
    return jax.shard_map(applied(op), mesh=mesh, in_specs=specs, out_specs=ends, check_vma=check_vma)


def applied(op):
    def run(arrays, memory, momentum, mask):
        out, state = op(*arrays, ops.SurpriseState(memory, momentum), mask=mask)
        return out, state.memory, state.momentum

    return run


def slopes(run, cotangent):
    """`run`, and the gradients of its results' products with a cotangent."""

    def loss(*arguments):
        out = run(*arguments[:3], arguments[3])
        return sum((x * c).sum() for x, c in zip(out, cotangent, strict=True)), out

    return jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))


def stream(rng, gates="open"):
    """Tokens, a state that is not zero, a mask that leaves nothing of one of eight shards."""
    mask = rng.random(LENGTH) < 0.8
    mask[6:12] = False
    return tokens(rng, LENGTH, gates), *rng.normal(size=(2, DK, DV)), mask


def cotangent_of(rng):
    return tuple(rng.normal(size=size) for size in ((LENGTH, DV), (DK, DV), (DK, DV)))


@functools.cache
def in_one_piece(kind):
    """The stream, what a plain call makes of it, and its gradients."""
    rng = np.random.default_rng(0)
    arguments, cotangent = stream(rng), cotangent_of(rng)
    options, size = KINDS[kind]
    whole = applied(functools.partial(ops.surprise_linear, chunk_size=size, **options))
    with jax.enable_x64(True):
        gradients, _ = slopes(whole, cotangent)(*cast(arguments, jnp.float64))
    return arguments, cotangent, gradients


SPLITS = [*itertools.product(("token", "chunk"), (1, 2, 4, 8)), ("token, decay first", 4), ("chunk, decay first", 4)]


@pytest.mark.parametrize(("kind", "shards"), SPLITS)
def test_any_number_of_shards_gives_the_plain_recurrence_and_the_gradients_of_one_piece(kind, shards):
    (arrays, memory, momentum, mask), cotangent, wanted = in_one_piece(kind)
    options, size = KINDS[kind]
    run = slopes(split_over(shards, chunk_size=size, **options), cotangent)
    with jax.enable_x64(True):
        gradients, got = run(*cast((arrays, memory, momentum, mask), jnp.float64))
    how = {"chunk": size if "chunk" in kind else None, "decay_first": "decay" in kind, "mask": mask}
    out, (memory,), (momentum,) = oracle.surprise([memory], [momentum], *arrays, **how)
    assert_close(got, (out, memory, momentum), 1e-10)
    assert_close(gradients, wanted, 1e-9)


@pytest.mark.parametrize(
    ("gates", "impl"), [("closing", "closed_form"), ("open", "associative"), ("open", "sequential"), ("open", "auto")]
)
def test_gates_may_close_and_a_shard_may_be_computed_in_any_way(rng, gates, impl):
    arrays, memory, momentum, mask = stream(rng, gates)
    run = jax.jit(split_over(4, chunk_size=5, impl=impl))
    with jax.enable_x64(True):
        got = run(*cast((arrays, memory, momentum, mask), jnp.float64))
    out, (memory,), (momentum,) = oracle.surprise([memory], [momentum], *arrays, mask=mask, chunk=None)
    assert_close(got, (out, memory, momentum), 1e-10)


def test_gradients_are_the_same_where_shard_map_does_not_track_what_varies(rng):
    arguments, cotangent = cast((stream(rng), cotangent_of(rng)), jnp.float32)
    runs = [slopes(split_over(2, tracked, chunk_size=5), cotangent)(*arguments) for tracked in (True, False)]
    assert_close(*runs, 1e-5)


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_heads_in_vmap_examples_on_one_axis_and_shards_on_another(rng, kind):
    """From no state at all, in float32."""
    arrays = cast(jax.tree.map(lambda *x: np.stack(x), *(tokens(rng, 8) for _ in range(8))), jnp.float32)
    arrays = jax.tree.map(lambda x: x.reshape(4, 2, *x.shape[1:]), arrays)  # examples, heads
    spec, ends = jax.P("data", None, "seq"), (jax.P("data", None, "seq"), jax.P("data"))
    op = functools.partial(ops.surprise_linear_sharded, axis_name="seq", chunk_size=3)
    mesh = jax.make_mesh((2, 4), ("data", "seq"), axis_types=2 * (jax.sharding.AxisType[kind],))
    with jax.set_mesh(mesh):
        run = jax.shard_map(jax.vmap(jax.vmap(lambda *x: op(*x))), in_specs=(spec,) * 6, out_specs=ends)
        got = jax.jit(run)(*jax.device_put(arrays, jax.NamedSharding(mesh, spec)))
    plain = jax.vmap(jax.vmap(lambda *x: ops.surprise_linear(*x)))
    assert_close(got, jax.jit(plain)(*arrays), 2e-5)


def test_only_maps_travel_and_none_grows_with_the_stream(rng):
    def collectives(run, length):
        arguments = cast((tokens(rng, length), *rng.normal(size=(2, DK, DV)), np.ones(length, bool)), jnp.float32)
        text = jax.jit(run).lower(*arguments).compile().as_text()
        return sorted((kind, shape.split("{")[0]) for shape, kind in re.findall(COLLECTIVE, text))

    def slope(*arguments):
        return jax.grad(lambda *moved: sum((x**2).sum() for x in run(*moved, arguments[3])), (0, 1, 2))(*arguments[:3])

    run, maps = split_over(8, chunk_size=4), f"f32[8,{2 * DK},{2 * DK + DV}]"
    for length in (64, 128):
        assert collectives(run, length) == [("all-gather", maps), ("all-reduce", f"f32[{2 * DK},{DV}]")]
    short, long = (collectives(slope, length) for length in (64, 128))
    assert short == long and {kind for kind, _ in short} == {"all-gather", "all-reduce", "reduce-scatter"}
    assert all(math.prod(map(int, re.findall(r"\d+", shape.split("[")[1]))) <= 8 * 6 * 8 for _, shape in short)


def test_bfloat16_tokens_are_read_in_float32(rng):
    """Rounded once, at the end: else few of the outputs would be those of one piece."""
    arrays = cast(tokens(rng, LENGTH), jnp.bfloat16)
    op = functools.partial(ops.surprise_linear_sharded, axis_name="seq")
    mesh, start = jax.make_mesh((4,), ("seq",), axis_types=(AUTO,)), ops.SurpriseState(*2 * [jnp.ones((DK, DV))])
    run = jax.shard_map(lambda x: op(*x, start), mesh=mesh, in_specs=SEQ, out_specs=(SEQ, ALL))
    (out, state), (whole, end) = jax.jit(run)(arrays), ops.surprise_linear(*arrays, start)
    assert out.dtype == jnp.bfloat16 and state.memory.dtype == jnp.float32
    assert (out == whole).mean() > 0.95
    assert_close(state, end, 1e-5)


def test_an_empty_stream_writes_nothing(rng):
    arrays, memory, momentum, _ = cast(stream(rng), jnp.float32)
    empty = tuple(x[:0] for x in arrays)
    got = split_over(2)(empty, memory, momentum, jnp.ones(0, bool))
    assert_close(got, (jnp.zeros((0, DV)), memory, momentum), 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gradient_at": "chunk", "chunk_size": 5}, "a shard of 24 tokens ends inside a chunk of 5.*masked tokens"),
        ({"gradient_at": "tokens"}, "unknown gradient_at 'tokens'"),
        ({"chunk_size": 0}, "chunk_size must be a whole number"),
        (
            {"v": np.zeros((LENGTH, 2, 2))},
            r"v must be a float array .L, dv., not a traced float32.24, 2, 2.*batch it with jax.vmap",
        ),
        ({"memory": np.zeros((3, 3))}, "another memory's.*3, 3.*3, 2"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line_about_what_was_given(rng, unchecked, change, words):
    (q, k, v, *gates), memory, momentum, mask = cast(stream(rng), jnp.float32)
    change = dict(change)
    v, memory = (jnp.asarray(change.pop(name, x), jnp.float32) for name, x in (("v", v), ("memory", memory)))
    with pytest.raises(MemjaxError, match=words):
        split_over(2, **change)((q, k, v, *gates), memory, momentum, mask)


def test_a_state_inside_a_chunk_is_refused(rng):
    arrays, memory, momentum, _ = cast(stream(rng), jnp.float32)
    state, options = ops.SurpriseState(memory, momentum, memory, 2), {"gradient_at": "chunk", "chunk_size": 3}
    with pytest.raises(MemjaxError, match="ends 2 tokens into a chunk"):
        jax.vmap(lambda *x: ops.surprise_linear_sharded(*x, state, axis_name="seq", **options), axis_name="seq")(
            *(x.reshape(2, 24, *x.shape[1:]) for x in arrays)
        )

    @jax.jit
    def compiled(within):
        told = state.__class__(memory, momentum, memory, within)
        one = lambda *x: ops.surprise_linear_sharded(*x, told, axis_name="seq", **options)[0]  # noqa: E731
        return jax.vmap(one, axis_name="seq")(*(x.reshape(2, 24, *x.shape[1:]) for x in arrays))

    assert np.isnan(compiled(2)).all() and np.isfinite(compiled(0)).all()


def test_kernels_are_for_one_device():
    gates = jnp.zeros(1)
    with pytest.raises(MemjaxError, match="impl='pallas' is for one device"):
        ops.surprise_linear_sharded(*jnp.ones((3, 1, 2)), gates, gates, gates, axis_name="sequence", impl="pallas")
