"""What holds for every op, over the table in `oracles/cases.py`; what holds for one op is in that op's own file."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.cases import CASES
from oracles.checking import assert_close, assert_finite, assert_same, cast, float64

from memjax import ops

BATCH = 8
PADDED = [name for name, case in CASES.items() if case.padding(case.aux(np.random.default_rng(0)))]
SCANNING = ("write_stream", "gru_scan", "linear_recurrence", "momentum", "surprise")
# The sharded op is for inside shard_map, and has its own tests there; JAX gathers over no axis of `vmap` in it.
SCANS = [name for name in CASES if name.startswith(SCANNING) and "sharded" not in name]
# By their scope the tests of one op come one after another: what one of them traced, the next one finds.
every_op = pytest.mark.parametrize("name", CASES, scope="module")
every_padded_op = pytest.mark.parametrize("name", PADDED, scope="module")


def oracle(name, params, data, aux):
    examples = ({key: value[i] for key, value in {**data, **aux}.items()} for i in range(BATCH))
    outs = [CASES[name].oracle(params, **example) for example in examples]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *outs)


@functools.cache
def arguments(name):
    """`(params, batched data, batched aux, cotangent of the batched output)`, in float64."""
    case, rng = CASES[name], np.random.default_rng(1)
    params = case.params(rng)
    data, aux = jax.tree.map(lambda *leaves: np.stack(leaves), *(case.example(rng) for _ in range(BATCH)))
    return params, data, aux, jax.tree.map(lambda out: rng.normal(size=out.shape), oracle(name, params, data, aux))


@functools.cache
def compiled(name):
    """One jitted function for all tests of an op: batched outputs, and the gradients that a cotangent gives."""

    def run(params, data, aux, cotangent):
        def loss(params, data):
            out = jax.vmap(lambda data, aux: CASES[name].op(params, **data, **aux))(data, aux)
            return sum(jax.tree.leaves(jax.tree.map(lambda x, c: (x * c).sum(), out, cotangent))), out

        gradients, out = jax.grad(loss, argnums=(0, 1), has_aux=True)(params, data)
        return out, gradients

    return jax.jit(run)


def in_float64(name, params, data, aux, cotangent):
    with jax.enable_x64(True):
        return compiled(name)(*cast((params, data, aux, cotangent), jnp.float64))


def test_every_public_op_has_an_oracle():
    functions = {name for name in ops.__all__ if inspect.isfunction(getattr(ops, name))}
    functions -= {name for name in functions if inspect.signature(getattr(ops, name)).return_annotation is int}
    assert functions - {name.split()[0] for name in CASES} == set()


@every_op
def test_values_are_the_oracles(name):
    out, _ = in_float64(name, *arguments(name))
    assert all(leaf.dtype == jnp.float64 for leaf in jax.tree.leaves(out))
    assert_close(out, oracle(name, *arguments(name)[:3]), 1e-12)


@every_op
def test_gradients_are_the_oracles_differences(name):
    params, data, aux, cotangent = arguments(name)
    _, gradients = in_float64(name, params, data, aux, cotangent)

    def loss(point):
        out = oracle(name, *point, aux)
        return sum(np.sum(o * c) for o, c in zip(jax.tree.leaves(out), jax.tree.leaves(cotangent), strict=True))

    leaves, treedef = jax.tree.flatten((params, data))
    rng, step = np.random.default_rng(2), 1e-5
    # One direction for each argument: none can hide behind another.
    for i, (leaf, gradient) in enumerate(zip(leaves, jax.tree.leaves(gradients), strict=True)):
        direction = rng.normal(size=leaf.shape)
        ahead, behind = (
            loss(treedef.unflatten([*leaves[:i], leaf + sign * step * direction, *leaves[i + 1 :]])) for sign in (1, -1)
        )
        slope = np.sum(np.asarray(gradient) * direction)
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)


@every_op
def test_float32_on_a_mesh_is_float64_on_one_device(name, mesh):
    """Batch split over 8 devices, parameters on all of them; values and gradients."""
    whole, split = (jax.NamedSharding(mesh, jax.P(*axes)) for axes in ((), ("data",)))
    with jax.set_mesh(mesh):
        arrays = jax.device_put(cast(arguments(name), jnp.float32), (whole, split, split, split))
        out, gradients = compiled(name)(*arrays)
    for leaf in jax.tree.leaves(out):
        assert leaf.dtype == jnp.float32
        assert leaf.sharding.is_equivalent_to(split, leaf.ndim)
    assert_close((out, gradients), in_float64(name, *arguments(name)), 2e-5)


@pytest.mark.parametrize("name", SCANS, scope="module")
def test_inside_shard_map_as_outside(name):
    """The first state on every device, what is scanned over split between them, as a memory with learned slots does."""
    params, data, aux, cotangent = cast(arguments(name), jnp.float32)
    start = {key: data.pop(key)[0] for key in CASES[name].state}

    def batched(start, data, aux):
        return jax.vmap(lambda data, aux: CASES[name].op(params, **start, **data, **aux))(data, aux)

    def slope(function):
        def loss(start):
            return sum(jax.tree.leaves(jax.tree.map(lambda x, c: (x * c).sum(), function(start, data, aux), cotangent)))

        return jax.jit(jax.value_and_grad(loss))(start)

    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.P("data")
    mapped = jax.shard_map(batched, mesh=mesh, in_specs=(jax.P(), split, split), out_specs=split)
    assert_close(slope(mapped), slope(batched), 1e-5)


@every_op
def test_bfloat16_is_near_float64_and_the_state_stays_float32(name):
    params, data, aux, cotangent = cast(arguments(name), jnp.float32)
    data = {key: cast(value, value.dtype if key in CASES[name].state else jnp.bfloat16) for key, value in data.items()}
    out, gradients = compiled(name)(params, data, aux, cotangent)
    expected = in_float64(name, *float64((params, data)), arguments(name)[2], arguments(name)[3])
    assert_close(out, expected[0], 0.03)
    assert_close(gradients, expected[1], 0.1)
    if name.startswith(("write_", "update_slots", "gru_", "recollection", "familiarity")):
        assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(out))


@every_op
def test_no_dtype_and_no_rank_is_promoted_that_was_not_said(name):
    """A caller may forbid both, in gradients too."""
    arrays = cast(arguments(name), jnp.float32)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        compiled(name).eval_shape(*arrays)


@every_op
def test_zeros_give_finite_values_and_gradients(name):
    params, data, aux, cotangent = arguments(name)
    no_params, no_data = jax.tree.map(np.zeros_like, (params, data))
    assert_finite(in_float64(name, params, no_data, aux, cotangent))
    assert_finite(in_float64(name, no_params, no_data, aux, cotangent))


@every_padded_op
def test_nothing_but_padding_gives_the_oracles_values_and_finite_gradients(name):
    params, data, aux, cotangent = arguments(name)
    padding = {key: np.zeros_like(value) if value.dtype == bool else value for key, value in aux.items()}
    out, gradients = in_float64(name, params, data, padding, cotangent)
    assert_close(out, oracle(name, params, data, padding), 1e-12)
    assert_finite(gradients)


@every_padded_op
@pytest.mark.parametrize("garbage", [np.nan, np.inf, -1e300])
def test_what_padding_holds_never_matters(name, garbage):
    params, data, aux, cotangent = arguments(name)
    dirty = dict(data)
    for key, padding in CASES[name].padding(aux).items():
        dirty[key] = np.where(np.expand_dims(padding, tuple(range(padding.ndim, data[key].ndim))), garbage, data[key])
    assert_same(in_float64(name, params, dirty, aux, cotangent), in_float64(name, params, data, aux, cotangent))
