"""The kernel of a chunk: the gradient is the closed form's, and it is a program for a TPU and for a GPU.

Its values, beside all other ways: test_surprise.py. Neither machine is needed to make a program for it.
"""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close, cast
from oracles.surprise import DK, DV, tokens

from memjax import ops

KINDS = {
    "token": {},
    "decay first": {"decay_before_gradient": True},
    "chunk": {"gradient_at": "chunk"},
    "chunk, huber": {"gradient_at": "chunk", "loss": "huber"},
    "chunk, l3": {"gradient_at": "chunk", "loss": "l3"},
}


def machine(platform):
    """Where programs for a machine that is not here are made: JAX 0.12 has to know which GPU it is."""
    if platform != "cuda":
        return contextlib.nullcontext()
    gpu = jax.sharding.AbstractDevice(device_kind="NVIDIA H100 80GB HBM3", num_cores=None, platform="gpu")
    return jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=gpu))


def total(impl, options, arrays, state, mask, reset=None):
    """A number in which all that is read and both ends have a part."""
    out, end = ops.surprise_linear(*arrays, state, impl=impl, mask=mask, reset=reset, **options)
    return (jnp.sin(out)).sum() + (end.memory * jnp.arange(DV)).sum() + (jnp.cos(end.momentum)).sum()


@pytest.mark.parametrize("gates", ["open", "no forgetting", "no momentum", "closing"])
@pytest.mark.parametrize("kind", KINDS)
def test_its_gradient_is_that_of_the_closed_form(rng, kind, gates):
    arrays, mask = tokens(rng, 13, gates), np.arange(13) % 5 != 3
    state = ops.SurpriseState(*rng.normal(size=(2, DK, DV)))
    with jax.enable_x64(True):
        arrays, state = cast((arrays, state), jnp.float64)
        both = [
            jax.jit(jax.grad(functools.partial(total, impl, KINDS[kind] | {"chunk_size": 5}), (0, 1)))(
                arrays, state, mask
            )
            for impl in ("pallas", "closed_form")
        ]
    assert_close(*both, 1e-10)


def test_documents_in_a_row_and_examples_side_by_side(rng):
    arrays = [cast(tokens(rng, 9), jnp.float32) for _ in "abc"]
    arrays = jax.tree.map(lambda *x: jnp.stack(x), *arrays)
    state, reset = ops.SurpriseState(*jnp.zeros((2, DK, DV))), jnp.arange(9) == 4

    def batch(impl, arrays):
        return jax.vmap(lambda x: total(impl, {"chunk_size": 4}, x, state, None, reset))(arrays).sum()

    both = [jax.value_and_grad(functools.partial(batch, impl))(arrays) for impl in ("pallas", "closed_form")]
    assert_close(*both, 1e-5)


@pytest.mark.parametrize(("length", "width"), [(10, 32), (50, 12), (1, 24)])
def test_sizes_that_triton_does_not_know_are_filled_up(length, width):
    arrays = (*(jnp.zeros((length, width)) for _ in range(3)), *(jnp.zeros(length) for _ in range(3)))
    write = functools.partial(ops.surprise_linear, impl="pallas", chunk_size=16)
    slope = jax.jit(jax.grad(lambda q: write(q, *arrays[1:])[0].sum()))
    with machine("cuda"):
        assert "triton" in slope.trace(arrays[0]).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize("kind", KINDS)
def test_forward_and_backward_are_programs_for_an_accelerator(kind, platform):
    """One kernel for each: nothing of size C x C is left outside, where XLA's closed form has many."""
    size, width = 64, 32
    tokens = (*(jnp.zeros((2, 256, width)) for _ in range(3)), *(jnp.zeros((2, 256)) for _ in range(3)))

    def read(impl, arrays):
        write = functools.partial(ops.surprise_linear, impl=impl, chunk_size=size, **KINDS[kind])
        return jax.vmap(lambda *x: write(*x)[0])(*arrays).sum()

    def program(impl, transform):
        with machine(platform):
            traced = jax.jit(transform(functools.partial(read, impl))).trace(tokens)
            return traced.lower(lowering_platforms=(platform,)).as_text()

    called = {"tpu": "tpu_custom_call", "cuda": "triton"}[platform]
    for transform, kernels in ((lambda f: f, 1), (jax.grad, 2)):
        text = program("pallas", transform)
        assert text.count(f"@{called}") + text.count(f"@__gpu$xla.gpu.{called}") == kernels
        assert f"{size}x{size}xf32" not in text
        assert f"{size}x{size}xf32" in program("closed_form", transform)
