"""Surprise memory against its equations in NumPy, linear and deep; what a deep one cannot be."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from oracles.checking import assert_close, float64
from oracles.sequence import log_sigmoid, normed, silu, unit
from oracles.surprise import apply, layer_norm, surprise

from memjax import memories
from memjax.errors import MemjaxError
from memjax.memories import memorize

T, N, WIDTH, SLOTS = 3, 4, 6, 2
SIZES = {"slots": SLOTS, "width": WIDTH, "segment": N, "layers": 1, "heads": 2}
KINDS = {
    "linear": {"memory_heads": 2},
    "linear, whole tokens bounded": {"memory_heads": 2, "bounded": "token"},
    "deep": {"memory_heads": 2, "memory_layers": 2},
    "deep, normed": {"memory_layers": 3, "memory_norm": True, "expansion": 1},
    "one layer, normed": {"memory_norm": True, "momentum": False, "forgetting": False},
}


@functools.cache
def made(kind):
    memory = memories.create("surprise", **SIZES, **KINDS[kind])
    params = jax.jit(functools.partial(memory.init, method=memorize))(jax.random.key(0), jnp.ones((1, N, WIDTH)))
    leaves, treedef = jax.tree.flatten(params)
    rng = np.random.default_rng(1)
    return memory, treedef.unflatten([leaf + jnp.asarray(rng.normal(size=leaf.shape) / 4) for leaf in leaves])


def stream():
    items = np.random.default_rng(0).normal(size=(T, N, WIDTH)).astype(np.float32)
    mask = np.ones((T, N), bool)
    mask[1, 1:] = mask[2, -1] = False
    return jnp.asarray(items), jnp.asarray(mask)


def expected(kind):
    """Item by item, from what the encoder gives: the state of each head, and the slots."""
    memory, params = made(kind)
    items, mask = stream()
    x = float64(memory.apply(params, items, mask, method=lambda memory, *given: memory.encode_segments(*given)))
    own, options = float64(params["params"]), KINDS[kind]
    heads, deep = options.get("memory_heads", 1), not kind.startswith("linear")
    x, mask = x.reshape(T * N, WIDTH), np.asarray(mask).ravel()
    keys, values = (silu(x @ own[name]["kernel"]).reshape(T * N, heads, -1) for name in ("key_of", "value_of"))
    keep, along, rate = np.split(x @ own["gates"]["kernel"] + own["gates"]["bias"], 3, axis=-1)
    log_keep = log_sigmoid(keep + np.log(1000)) if options.get("forgetting", True) else 0 * keep
    log_momentum = log_sigmoid(along) if options.get("momentum", True) else 0 * along - np.inf
    rate = np.exp(log_sigmoid(rate))
    if deep or options.get("bounded") == "token":
        rate = rate * (1 - np.exp(log_momentum))
    if deep:
        rate = rate * min(1, 2 / N)
    ends, read = [], []
    for h in range(heads):
        start = [np.zeros((WIDTH // heads, WIDTH // heads))]
        if deep:
            start = [own[name][h] for name in sorted(own) if name.startswith("start")]
        scale = own["scale"][h] if "scale" in own else None
        k, v = unit(keys[:, h]), values[:, h]
        _, end, momentum = surprise(
            start, [0 * w for w in start], k, k, v - k if deep else v, log_keep[:, h], log_momentum[:, h], rate[:, h],
            mask=mask, chunk=N if deep else None, activation="silu", scale=scale, normalize_lr=deep and scale is None,
        )  # fmt: skip
        ends.append((end, momentum))
        said = [apply(end, probe, "silu") for probe in own["probes"][:, h]]
        said = [x if scale is None else layer_norm(x, scale) for x in said]
        read.append(np.array(said) + (own["probes"][:, h] if deep else 0))
    slots = normed(np.stack(read, axis=1)).reshape(SLOTS, WIDTH) @ own["read_out"]
    return ends, slots


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_written_and_read_as_the_equations_say(kind):
    memory, params = made(kind)
    state, _ = jax.jit(functools.partial(memory.apply, method=memorize))(params, *stream())
    ends, slots = expected(kind)
    assert (state.momentum is None) == (KINDS[kind].get("momentum") is False)  # no bytes for what is always 0
    for h, pair in enumerate(ends):
        for found, wanted in zip((state.memory, state.momentum), pair, strict=True):
            if found is not None:
                assert_close([leaf[h] for leaf in jax.tree.leaves(found)], wanted, 2e-5)
    assert_close(memory.apply(params, state, method="slots").values, slots, 2e-5)


def largest_after_one_segment_again_and_again(kind):
    memory, params = made(kind)
    bias = jnp.repeat(jnp.array([9.0, 2.0, 9.0]), 2)  # keeps all, momentum .88, full rate
    gates = {"kernel": 0 * params["params"]["gates"]["kernel"], "bias": bias}
    fast = {"params": params["params"] | {"gates": gates}}
    state, _ = jax.jit(functools.partial(memory.apply, method=memorize))(fast, jnp.ones((200, N, WIDTH)))
    return max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(state))


@pytest.mark.parametrize("kind", ["deep", "linear, whole tokens bounded"])
def test_keys_that_come_again_and_again_do_not_make_it_diverge(kind):
    assert largest_after_one_segment_again_and_again(kind) < 20


def test_as_printed_keys_that_come_again_and_again_make_it_diverge():
    assert not largest_after_one_segment_again_and_again("linear") < 1e6


def test_a_deep_memory_reads_no_shards_of_a_stream_and_a_linear_one_does():
    mesh = jax.make_mesh((4,), ("sequence",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
    items = jnp.asarray(np.random.default_rng(2).normal(size=(4, N, WIDTH)), jnp.float32)
    for kind in ("linear", "deep"):
        memory, params = made(kind)
        with jax.set_mesh(mesh):
            run = jax.jit(functools.partial(memory.apply, method=memorize))
            if kind == "linear":
                sharded, _ = run(params, items)
                continue
            with pytest.raises(MemjaxError, match=r"reads no shards of a stream.*set config.mesh.sequence=1"):
                run(params, items)
    memory, params = made("linear")
    whole, _ = jax.jit(functools.partial(memory.apply, method=memorize))(params, items)
    assert_close(sharded, whole, 2e-5)


def test_what_is_bounded_has_two_values():
    with pytest.raises(MemjaxError, match="unknown bounded 'all'"):
        memories.create("surprise", **SIZES, bounded="all")


@pytest.mark.parametrize("sizes", [{"memory_layers": 0}, {"expansion": 0}, {"memory_layers": 101}])
def test_sizes_that_cannot_be_are_one_line(sizes):
    with pytest.raises(MemjaxError, match=f"{next(iter(sizes))} must be at (least 1|most 100), not "):
        memories.create("surprise", **SIZES, **sizes)
