"""Rehearsal and Continual Memory against the equations, with the parameters taken out of the modules."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import slots as oracle
from oracles.checking import assert_close, assert_finite, assert_same, cast, float64, matmuls_that_no_carry_reaches

from memjax import memories, ops
from memjax.memories import memorize

T, N, WIDTH = 4, 3, 4
SIZES = {"slots": 3, "width": WIDTH, "segment": N, "layers": 2, "heads": 2}
MEMORIES = {
    "rehearsal": SIZES,
    "rehearsal over items": {**SIZES, "normalize": "items"},
    "rehearsal by mass": {**SIZES, "normalize": "mass"},
    "continual by mass": {**SIZES, "update_heads": 2, "normalize": "mass"},
    "rehearsal with a gru encoder": {**SIZES, "encoder": "gru"},
    "rehearsal by dot products": {**SIZES, "scores": "dot"},
    "rehearsal by scores of both kinds": {**SIZES, "slots": 5, "scores": "both"},
    "rehearsal by two heads of both kinds": {**SIZES, "slots": 5, "scores": "both", "write_heads": 2},
    "continual by two heads": {**SIZES, "update_heads": 4, "write_heads": 2},
    "rehearsal in context": {**SIZES, "context": 2},
    "rehearsal in context with a gru encoder": {**SIZES, "context": 2, "encoder": "gru"},
    "rehearsal in context of more than a segment": {**SIZES, "context": N + 2},
    "continual": {**SIZES, "update_heads": 2},
    "continual in context by scores of both kinds": {
        **SIZES,
        "update_heads": 2,
        "context": 2,
        "slots": 5,
        "scores": "both",
    },
    "continual, single head": {**SIZES, "update_heads": 1},
}


@functools.cache
def made(label):
    """`(memory, params, items, mask)` in float64; all parameters random, so that each of them counts."""
    memory = memories.create(label.split()[0].strip(","), **MEMORIES[label], dtype=jnp.float64)
    rng, init = np.random.default_rng(4), functools.partial(memory.init, method=memorize)
    with jax.enable_x64(True):
        shapes = jax.eval_shape(init, jax.random.key(0), jnp.zeros((T, N, WIDTH)))
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), shapes)
    mask = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 0], [1, 1, 0]], bool)
    return memory, params, rng.normal(size=(T, N, WIDTH)), mask


def encoded_items(memory, items, mask):
    """What the encoder makes of the segments, before the write's own products."""
    if memory.context:
        start = memory.initial_state()
        seen, there = ops.preceding_rows(items, mask, start.items, start.items_mask > 0)
        widened = jnp.concatenate([seen[:-1], items], axis=1), jnp.concatenate([there[:-1], mask], axis=1)
        return memory.encode_segments(*widened)[:, memory.context :]
    return memory.encode_segments(items, mask)


@functools.cache
def memorized(label):
    """`(slots, encoded items)` as the memory has them, in float64."""
    memory, params, items, mask = made(label)

    def both(params, items, mask):
        state, _ = memory.apply(params, items, mask, method=memorize)
        slots = memory.apply(params, state, method="slots").values
        return slots, memory.apply(params, items, mask, method=encoded_items)

    with jax.enable_x64(True):
        return float64(jax.jit(both)(*cast((params, items, mask), jnp.float64)))


def init(memory, items):
    return jax.jit(functools.partial(memory.init, method=memorize))(jax.random.key(0), items)


def gru(params, name):
    return ops.GRUParams(*(params[f"{name}_{leaf}"] for leaf in ("w_x", "w_h", "b_x", "b_h")))


def write_params(params, prefix=""):
    kind = ops.AdditiveParams if f"{prefix}attention_v" in params else ops.DotParams
    attention = kind(*(params[f"{prefix}attention_{leaf}"] for leaf in kind._fields))
    if attention.b.ndim == 2:
        attention = ops.MultiHeadScoreParams(attention)
    update = f"{prefix}update"
    if f"{update}_w_out" not in params:
        return ops.SlotWriteParams(attention, gru(params, update))
    heads = (params[f"{update}_{leaf}"] for leaf in ("w_slot", "w_item"))
    return ops.SlotWriteParams(
        attention, ops.MultiHeadGRUParams(*heads, gru(params, f"{update}_gru"), params[f"{update}_w_out"])
    )


def initial_slots(params):
    (name,) = {name for name in params if "slots" in name}
    return params[name]


def oracle_encoded(label):
    """The encoder from its equations, a segment at a time."""
    _, params, items, mask = made(label)
    encoder, options = params["params"]["encode_segments"], MEMORIES[label]

    def encode(items, mask):
        if options.get("encoder") == "gru":
            return oracle.gru_segment(*(gru(encoder["gru"], way) for way in ("rightward", "leftward")), items, mask)
        return oracle.transformer_segment(encoder, items, mask, SIZES["layers"], SIZES["heads"])

    return oracle.in_context(encode, items, mask, options.get("context", 0))


@pytest.mark.parametrize("label", MEMORIES)
def test_writing_is_the_equations(label):
    _, params, _, mask = made(label)
    slots, encoded = memorized(label)
    params, normalize = params["params"], MEMORIES[label].get("normalize", "slots")
    start = initial_slots(params)
    halves = {"": start[:3], "dot_": start[3:]} if MEMORIES[label].get("scores") == "both" else {"": start}
    expected = [
        oracle.write_stream(write_params(params, prefix), part, encoded, mask, normalize)
        for prefix, part in halves.items()
    ]
    assert_close(slots, np.concatenate(expected), 1e-10)


@pytest.mark.parametrize("label", MEMORIES)
def test_encoding_is_the_equations(label):
    _, _, _, mask = made(label)
    # Flax takes the softmax in float32, whatever the rest is in.
    assert_close(memorized(label)[1][mask], oracle_encoded(label)[mask], 1e-5)


@pytest.mark.parametrize("label", ["rehearsal", "continual"])
def test_permuting_the_initial_slots_permutes_the_final_ones(label):
    memory, params, items, mask = made(label)
    order = np.array([2, 0, 1])
    (name,) = {name for name in params["params"] if "slots" in name}
    permuted = {"params": {**params["params"], name: params["params"][name][order]}}
    with jax.enable_x64(True):
        args = cast((permuted, items, mask), jnp.float64)
        state, _ = jax.jit(functools.partial(memory.apply, method=memorize))(*args)
    assert_close(state, memorized(label)[0][order], 1e-10)


@pytest.mark.parametrize("label", ["rehearsal", "continual"])
def test_the_initial_slots_are_distinct(label):
    """Attention and update are shared, so equal slots would stay equal for ever."""
    memory = memories.create(label, **MEMORIES[label])
    params = init(memory, jnp.ones((1, N, WIDTH)))
    start = np.asarray(memory.apply(params, method="initial_state"))
    distances = np.linalg.norm(start[:, None] - start[None], axis=-1)
    assert (distances[~np.eye(len(start), dtype=bool)] > 0.1).all()


@pytest.mark.parametrize("label", ["rehearsal", "rehearsal by dot products", "continual"])
def test_only_what_needs_the_slots_is_computed_inside_the_scan(label):
    memory, params, items, mask = made(label)
    with jax.enable_x64(True):
        args = cast((params, items, mask), jnp.float64)
        jaxpr = jax.make_jaxpr(functools.partial(memory.apply, method=memorize))(*args).jaxpr
    assert matmuls_that_no_carry_reaches(jaxpr) == []


def test_a_head_whose_gate_is_closed_gives_back_what_it_was_given():
    """At the start: `W^o concat_z(W_z^M m) = m`. Random matrices would turn every slot round with every write."""
    memory = memories.create("continual", slots=2, width=16, segment=2, layers=0, update_heads=4)
    params = init(memory, jnp.ones((1, 2, 16)))["params"]
    slots = np.random.default_rng(0).normal(size=(5, 16))
    heads = np.concatenate([slots @ head for head in params["update_w_slot"]], axis=1)
    assert_close(heads @ params["update_w_out"], slots, 1e-5)


@pytest.mark.parametrize("name", ["rehearsal", "continual"])
def test_context_shows_the_encoder_what_lies_across_the_border_and_no_more(name):
    """The slots after a stream depend on its first items through the second segment too, up to `context` of them."""
    memory = memories.create(name, slots=3, width=WIDTH, segment=N, layers=1, heads=2, context=2)
    items = jnp.asarray(np.random.default_rng(1).normal(size=(2, N, WIDTH)), jnp.float32)
    params = init(memory, items)

    def second(before):
        state = memory.apply(params, method="initial_state")._replace(items=before, items_mask=jnp.ones(2))
        return memory.apply(params, items[1:], state=state, method=memorize)[0]

    slope = jax.jacobian(lambda before: second(before).slots)(items[0, -2:])
    assert (jnp.abs(slope).sum((0, 1, 3)) > 1e-6).all()
    whole, _ = memory.apply(params, items, method=memorize)
    assert_same(whole.items, items[1, -2:])

    @jax.jit
    @jax.jacobian
    def seen(first):
        """Of the second segment's features by the items of the first."""
        stream, mask = jnp.stack([first, items[1]]), jnp.ones((2, N), bool)
        state = memory.apply(params, method="initial_state")
        features, *_ = memory.apply(params, state, stream, mask, method="encode_in_context")
        return jnp.concatenate([leaf[1].reshape(-1) for leaf in jax.tree.leaves(features)])

    by_item = jnp.abs(seen(items[0])).sum((0, 2))
    assert (by_item[-2:] > 1e-6).all() and (by_item[:-2] == 0).all()


def test_heads_each_start_as_one_small_gru_would():
    """The spread of a head's weights follows its own fan-in, not that of all heads together."""
    memory = memories.create("continual", slots=2, width=64, segment=2, layers=0, update_heads=8)
    params = init(memory, jnp.ones((1, 2, 64)))["params"]
    for name, fan_in in (("update_w_item", 64), ("update_gru_w_x", 8), ("update_gru_w_h", 8)):
        np.testing.assert_allclose(params[name].std(), fan_in**-0.5, rtol=0.1)
    assert_same(params["update_gru_b_x"], jnp.zeros((8, 24)))


@pytest.mark.parametrize("time_constant", [1.0, 20])
def test_what_is_not_overwritten_decays_as_the_time_constant_says(time_constant):
    """With the other weights at zero a write keeps r / (r + 1) of a slot: (1 + 1/r)^-r, about 1/e, after r of them."""
    memory = memories.create("rehearsal", **SIZES, time_constant=time_constant)
    items = jnp.ones((1, N, WIDTH))
    params = init(memory, items)["params"]
    kept = {name: leaf if name in ("update_b_x", "initial_slots") else 0 * leaf for name, leaf in params.items()
            if name != "encode_segments"}  # fmt: skip
    state, _ = memory.apply({"params": {**kept, "encode_segments": params["encode_segments"]}}, items, method=memorize)
    assert_close(state, params["initial_slots"] * time_constant / (time_constant + 1), 1e-6)


def test_in_continual_memory_every_head_decays_as_the_time_constant_says():
    memory = memories.create("continual", **MEMORIES["continual"], time_constant=20)
    biases = init(memory, jnp.ones((1, N, WIDTH)))["params"]["update_gru_b_x"]
    for reset, update, candidate in (np.split(np.asarray(head), 3) for head in biases):
        assert not reset.any() and not candidate.any()
        assert_close(update, np.full_like(update, np.log(20)), 1e-6)


@pytest.mark.parametrize(("name", "larger"), [("rehearsal", "update_w_x"), ("continual", "update_w_item")])
def test_write_gain_enlarges_the_weights_that_take_items_in_and_no_others(name, larger):
    sizes = {"slots": 2, "width": 64, "segment": 2, "layers": 0}
    plain, gained = (
        init(memories.create(name, **sizes, write_gain=gain), jnp.ones((1, 2, 64)))["params"] for gain in (1, 6)
    )
    ratios = {
        leaf: float(jnp.linalg.norm(gained[leaf]) / jnp.linalg.norm(plain[leaf])) for leaf in plain if "w_" in leaf
    }
    assert ratios.pop(larger) == pytest.approx(6, rel=1e-4)
    assert set(ratios.values()) == {1.0}


@pytest.mark.parametrize("name", ["rehearsal", "continual"])
def test_score_gain_enlarges_the_scores_at_the_start_and_nothing_else(name):
    sizes = {"slots": 4, "width": 64, "segment": 2, "layers": 0, "scores": "both"}
    plain, gained = (
        init(memories.create(name, **sizes, score_gain=gain), jnp.ones((1, 2, 64)))["params"] for gain in (1, 3)
    )
    ratios = jax.tree.map(lambda one, other: float(jnp.linalg.norm(one) / jnp.linalg.norm(other)), gained, plain)
    assert ratios["attention_v"] == pytest.approx(3, rel=1e-4)
    assert ratios["dot_attention_w_left"] * ratios["dot_attention_w_right"] == pytest.approx(3, rel=1e-4)
    others = [leaf for leaf in plain if leaf not in ("attention_v", "dot_attention_w_left", "dot_attention_w_right")]
    assert all(
        jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), gained[leaf], plain[leaf])) for leaf in others
    )


@pytest.mark.parametrize("name", ["rehearsal", "continual"])
def test_initial_std_is_how_far_the_slots_are_apart_at_the_start(name):
    memory = memories.create(name, slots=50, width=64, segment=2, layers=0, initial_std=0.2)
    slots = init(memory, jnp.ones((1, 2, 64)))["params"]["initial_slots"]
    assert float(slots.std()) == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize("label", ["rehearsal", "continual"])
def test_a_segment_of_padding_leaves_gradients_finite_in_float64(label):
    memory, params, items, mask = made(label)

    def loss(params, items):
        state, _ = memory.apply(params, items, mask, method=memorize)
        return jnp.square(memory.apply(params, state, method="slots").values).sum()

    with jax.enable_x64(True):
        gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))(params, items)
        assert_finite(gradients)
        assert all(leaf.dtype == jnp.float64 for leaf in jax.tree.leaves(gradients))
