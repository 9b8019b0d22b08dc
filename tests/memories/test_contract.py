"""What every memory of the registry keeps to. A new memory needs a line in `VARIANTS`, and must pass all of this."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from flax import nnx, serialization
from jax import export
from oracles.checking import assert_close, assert_finite, assert_same, cast

from memjax import functional, memories
from memjax.errors import MemjaxError
from memjax.memories import memorize, memorize_at

T, N, WIDTH, BATCH = 4, 3, 4, 8
CONTROLLED = {"slots": 4, "width": WIDTH, "memory_width": 3, "read_heads": 2, "hidden": 5}
TRANSFORMER = {"slots": 3, "width": WIDTH, "segment": N, "layers": 1, "heads": 2}
VARIANTS = {
    "compressive": ("compressive", {**TRANSFORMER, "layers": 2, "rate": 2}),
    "compressive, two recent segments": ("compressive", {**TRANSFORMER, "recent": 2}),
    "continual": ("continual", {**TRANSFORMER, "update_heads": 2}),
    "continual, in context": ("continual", {**TRANSFORMER, "update_heads": 2, "context": 2}),
    "dmsdnc": ("dmsdnc", {**CONTROLLED, "blocks": 2}),
    "dnc": ("dnc", CONTROLLED),
    "hpmn": ("hpmn", {"slots": 3, "width": WIDTH}),
    "hpmn, of every item": ("hpmn", {"slots": 2, "width": WIDTH, "period": 1}),
    "mimn": ("mimn", {"slots": 4, "width": WIDTH, "memory_width": 3, "hidden": 5}),
    "ntm": ("ntm", CONTROLLED),
    "ntm, reads first": ("ntm", {**CONTROLLED, "read_first": True}),
    "nutm": ("nutm", {**CONTROLLED, "programs": 2, "program_width": 3}),
    "memn2n": ("memn2n", {"slots": 3, "width": WIDTH}),
    "rehearsal": ("rehearsal", TRANSFORMER),
    "rehearsal, other options": ("rehearsal", {**TRANSFORMER, "encoder": "gru", "normalize": "items"}),
    "rehearsal, in context, by both scores": ("rehearsal", {**TRANSFORMER, "slots": 4, "context": 2, "scores": "both"}),
    # Policy s has a bias whose gradient is nothing but rounding: it is in test_retention.py.
    "retention, fifo": ("retention", {"slots": 3, "width": WIDTH, "policy": "fifo"}),
    "retention, im": ("retention", {"slots": 2, "width": WIDTH, "policy": "im"}),
    "retention, lru": ("retention", {"slots": 3, "width": WIDTH, "policy": "lru"}),
    "retention, st": ("retention", {"slots": 2, "width": WIDTH, "policy": "st"}),
    "stm": ("stm", {"slots": 3, "width": WIDTH, "memory_width": 5}),
    "surprise": ("surprise", {**TRANSFORMER, "memory_heads": 2}),
    "surprise, deep": ("surprise", {**TRANSFORMER, "memory_heads": 2, "memory_layers": 2}),
    "surprise, deep and normed": ("surprise", {**TRANSFORMER, "memory_layers": 2, "memory_norm": True}),
    "surprise, ablated": ("surprise", {**TRANSFORMER, "momentum": False, "forgetting": False}),
}
# By its scope all tests of one memory come one after another: what one of them traced, the next one finds.
every_memory = pytest.mark.parametrize("variant", VARIANTS, scope="module")


@functools.cache
def made(variant, **options):
    """`(memory, params)`; the parameters are moved, so that no bias of zero hides a mistake."""
    name, sizes = VARIANTS[variant]
    memory = memories.create(name, **sizes, **options)
    init = jax.jit(functools.partial(memory.init, method=memorize))
    leaves, treedef = jax.tree.flatten(init(jax.random.key(0), jnp.ones((1, N, WIDTH))))
    rng = np.random.default_rng(5)
    moved = [np.asarray(leaf) + rng.normal(size=leaf.shape).astype(leaf.dtype) / 4 for leaf in leaves]
    return memory, jax.device_put(treedef.unflatten(moved))


@functools.cache
def run(variant, method, **options):
    """A jitted method of a memory: one compilation for all tests that call it with the same shapes."""
    memory, _ = made(variant, **options)
    return jax.jit(functools.partial(memory.apply, method=method))


@functools.cache
def slope(variant):
    """Jitted `(params, streams, masks, weights) -> (gradients, (slots, aux losses, states))`, over a batch."""
    memory, _ = made(variant)

    def one(params, items, mask):
        state, aux = memory.apply(params, items, mask, method=memorize)
        return memory.apply(params, state, method="slots").values, aux, state

    def loss(params, items, mask, weights):
        values, aux, states = jax.vmap(one, (None, 0, 0))(params, items, mask)
        return (values * weights).sum() + aux.sum(), (values, aux, states)

    return jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))


def stream(seed=0):
    """`(items [T, N, d], mask [T, N])`; segment 1 is padding throughout, and segment 2 at its end."""
    items = np.random.default_rng(seed).normal(size=(T, N, WIDTH)).astype(np.float32)
    mask = np.ones((T, N), bool)
    mask[1], mask[2, -1] = False, False
    return jnp.asarray(items), jnp.asarray(mask)


def batch():
    """Eight streams; the last one holds nothing but padding."""
    items, masks = zip(*(stream(seed) for seed in range(BATCH)), strict=True)
    weights = np.random.default_rng(9).normal(size=(BATCH, 1, 1)).astype(np.float32)
    items, masks = np.stack(items), np.stack(masks)
    masks[-1] = False
    return jnp.asarray(items), jnp.asarray(masks), jnp.asarray(weights)


def differ(tree, other):
    """Whether any number of one tree is another in the other."""
    return any((np.asarray(a) != b).any() for a, b in zip(*map(jax.tree.leaves, (tree, other)), strict=True))


def test_every_memory_of_the_registry_is_here():
    assert {name for name, _ in VARIANTS.values()} == set(memories.registry)


@every_memory
def test_the_state_does_not_grow_with_the_stream(variant):
    """Traced as other tests call it: none of it twice."""
    _, params = made(variant)
    start = run(variant, "initial_state").eval_shape(params)
    for segments, given in ((0, {"state": start}), (1, {"state": start}), (1000, {})):
        items = jax.ShapeDtypeStruct((segments, N, WIDTH), jnp.float32)
        mask = jax.ShapeDtypeStruct((segments, N), bool)
        state, aux = run(variant, memorize).eval_shape(params, items, mask, **given)
        assert state == start
        assert aux.shape == () and aux.dtype == jnp.float32


@every_memory
def test_a_state_of_nothing_read_may_be_donated(variant):
    """None of its arrays is a parameter, which would be gone with it, or is there twice."""
    memory, params = made(variant)
    state = memory.apply(params, method="initial_state")
    held = [leaf.unsafe_buffer_pointer() for leaf in (*jax.tree.leaves(params), *jax.tree.leaves(state))]
    assert len(set(held)) == len(held)


@every_memory
def test_slots_are_k_vectors_and_say_which_of_them_hold_something(variant):
    _, params = made(variant)
    state, _ = run(variant, memorize)(params, *stream())
    slots = run(variant, "slots")(params, state)
    assert slots.values.shape[:1] == slots.mask.shape == (VARIANTS[variant][1]["slots"],)
    assert slots.mask.dtype == bool and slots.mask.any()


@every_memory
def test_padding_writes_nothing(variant):
    _, params = made(variant)
    items, mask = stream()
    state, _ = run(variant, memorize)(params, items, mask)
    features = jax.tree.map(lambda leaf: leaf[0], run(variant, "encode")(params, items, mask))
    same, aux = run(variant, "write")(params, state, features, jnp.zeros(N, bool))
    assert_same(same, state)
    assert aux == 0
    other, _ = run(variant, "write")(params, state, features, mask[0])
    assert differ(other, state)


@every_memory
@pytest.mark.parametrize("garbage", [np.nan, np.inf, -1e30])
def test_what_padding_holds_never_matters(variant, garbage):
    _, params = made(variant)
    items, masks, weights = batch()
    dirty = jnp.asarray(np.where(np.asarray(masks)[..., None], items, np.float32(garbage)))
    assert_same(slope(variant)(params, dirty, masks, weights), slope(variant)(params, items, masks, weights))


@every_memory
def test_padding_at_the_end_changes_nothing(variant):
    _, params = made(variant)
    items, mask = stream()
    items, mask = np.asarray(items)[:2, : N - 1], np.ones((2, N - 1), bool)
    padding = ((0, T - 2), (0, 1))
    longer = np.pad(items, (*padding, (0, 0)), constant_values=7), np.pad(mask, padding)
    assert_close(run(variant, memorize)(params, *longer), run(variant, memorize)(params, items, mask), 1e-5)


@every_memory
def test_a_stream_may_be_written_in_any_number_of_calls(variant):
    _, params = made(variant)
    items, mask = map(np.asarray, stream())
    write = run(variant, memorize)
    whole, whole_aux = write(params, items, mask)
    start = run(variant, "initial_state")(params)
    for cut in range(T + 1):
        state, head = write(params, items[:cut], mask[:cut], state=start)  # as the tail: compiled once
        state, tail = write(params, items[cut:], mask[cut:], state=state)
        assert_close((state, head + tail), (whole, whole_aux), 1e-5)


@every_memory
def test_a_batch_is_its_streams_and_every_parameter_learns(variant):
    _, params = made(variant)
    items, masks, weights = batch()
    (gradients, by_items), (values, aux, _) = slope(variant)(params, items, masks, weights)
    assert_finite((gradients, by_items, values, aux))
    for i in (0, BATCH - 1):
        state, alone_aux = run(variant, memorize)(params, items[i], masks[i])
        assert_close((values[i], aux[i]), (run(variant, "slots")(params, state).values, alone_aux), 1e-5)
    for path, gradient in jax.tree.leaves_with_path(gradients):
        where = jax.tree_util.keystr(path)
        # A softmax does not see what is added to all of its logits: the bias of attention's keys learns nothing, nor
        # that of a policy's scores.
        assert np.any(gradient) or where.endswith(("['key']['bias']", "['score_b']")), where
    reached = (np.asarray(by_items) != 0).any(-1)
    np.testing.assert_array_equal(reached, masks)


@every_memory
def test_on_a_mesh_as_on_one_device(variant, mesh):
    arrays = (made(variant)[1], *batch())
    whole, split = (jax.NamedSharding(mesh, jax.P(*axes)) for axes in ((), ("data",)))
    alone = slope(variant)(*arrays)
    with jax.set_mesh(mesh):
        gradients, (values, *rest) = slope(variant)(*jax.device_put(arrays, (whole, split, split, split)))
    assert values.sharding.is_equivalent_to(split, values.ndim)
    assert_close((gradients, (values, *rest)), alone, 1e-5)


@every_memory
def test_inside_shard_map_as_outside(variant):
    memory, params = made(variant)
    items, masks, weights = batch()

    def write(params, items, masks):
        one = functools.partial(memory.apply, params, method=memorize)
        return jax.vmap(one)(items, masks), jax.vmap(one)(items)

    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.P("data")
    mapped = jax.shard_map(write, mesh=mesh, in_specs=(jax.P(), split, split), out_specs=split)
    inside = jax.jit(mapped)(params, items, masks)
    for (state, aux), written in zip(inside, (masks, np.ones_like(masks)), strict=True):
        _, (_, aux_outside, outside) = slope(variant)(params, items, written, weights)
        assert_close((state, aux), (outside, aux_outside), 1e-5)


@every_memory
def test_in_bfloat16_the_state_stays_float32_and_near(variant):
    name, _ = VARIANTS[variant]
    if "dtype" not in memories.registry[name].__dataclass_fields__:
        pytest.skip("computes in the items' dtype alone")
    _, params = made(variant)
    low = run(variant, memorize, dtype=jnp.bfloat16)
    exact, _ = run(variant, memorize)(params, *stream())
    for items in (stream()[0], stream()[0].astype(jnp.bfloat16)):
        state, _ = low(params, items, stream()[1])
        assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(state))
        assert_close(state, exact, 0.05)
    assert differ(state, exact)


@every_memory
def test_with_parameters_in_bfloat16_the_state_stays_float32(variant):
    """What is small beside a slot would be lost at every write."""
    _, params = made(variant)
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    for items in (stream()[0], stream()[0].astype(jnp.bfloat16)):
        state = jax.eval_shape(run(variant, memorize), low, items, stream()[1])[0]
        assert {leaf.dtype for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)} == {
            jnp.dtype(jnp.float32)
        }


def not_expanding(params):
    """Continual Memory with closed gates is `m <- W^o W^M m` (Eq. 2 and 3): finite where that does not expand."""
    own = params["params"]
    if "update_w_slot" not in own:
        return params
    grows = np.linalg.norm(np.concatenate(list(own["update_w_slot"]), axis=1) @ own["update_w_out"], 2)
    return {"params": own | {"update_w_out": own["update_w_out"] / max(1, grows)}}


@every_memory
def test_a_thousand_random_writes_leave_no_nan(variant):
    params = not_expanding(made(variant)[1])
    rng = np.random.default_rng(7)
    items = rng.normal(size=(1000, N, WIDTH)) * 10.0 ** rng.integers(-3, 4, (1000, 1, 1))
    state, aux = run(variant, memorize)(
        params, jnp.asarray(items, jnp.float32), jnp.asarray(rng.random((1000, N)) < 0.7)
    )
    assert_finite((state, aux, run(variant, "slots")(params, state).values))


@every_memory
def test_no_segment_sees_another_while_it_is_encoded(variant):
    memory, params = made(variant)
    items, _ = stream()
    mask = jnp.ones((T, N), bool)

    @jax.jit
    def reached(t):
        features, back = jax.vjp(lambda items: memory.apply(params, items, mask, method="encode"), items)
        rng = np.random.default_rng(8)
        weights = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), features)
        return back(jax.tree.map(lambda w: w * (jnp.arange(T) == t).reshape(T, *[1] * (w.ndim - 1)), weights))[0]

    for t in range(T):
        gradient = np.asarray(reached(t))
        assert (gradient[t] != 0).any()
        assert (gradient[np.arange(T) != t] == 0).all()


@functools.cache
def five(variant, slopes=True, **options):
    """Slots of a stream of five segments, so that blocks of 3 and 4 do not divide them, and gradients before them.

    In float64: behind a layer norm float32 rounds by more than a memory's faults would be.
    """
    memory, params = made(variant, dtype=jnp.float64)
    items, mask = map(np.asarray, stream())
    items, mask = np.concatenate([items, items[:1] + 1]), np.concatenate([mask, mask[:1]])
    params, items = cast((params, items), jnp.float64)

    def loss(params, items):
        state, aux = memory.apply(params, items, mask, method=memorize, **options)
        values = memory.apply(params, state, method="slots").values
        return (values**2).sum() + aux, values

    return jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True) if slopes else loss)(params, items)


@every_memory
@pytest.mark.parametrize(
    ("block", "remat", "slopes"),
    [(1, False, True), (3, True, True), (T - 1, False, False), (T, False, False), (T + 2, False, True)],
)
def test_a_stream_may_be_written_in_blocks_of_any_size(variant, block, remat, slopes):
    """Gradients too where blocks are one segment, do not divide the stream, or are longer than it."""
    with jax.enable_x64(True):
        (_, values), found = five(variant, block=T + 1), five(variant, slopes, block=block, remat=remat)
        assert_close(found[1], values, 1e-8)
        if slopes:
            assert_close(found[0], five(variant, block=T + 1)[0], 1e-8)


@every_memory
def test_the_order_of_the_segments_matters(variant):
    """Or else the tests of cuts and blocks could not fail."""
    _, params = made(variant)
    items, _ = stream()
    state, _ = run(variant, memorize)(params, items, np.ones((T, N), bool))
    turned, _ = run(variant, memorize)(params, np.asarray(items)[::-1], np.ones((T, N), bool))
    assert any(
        np.abs(np.asarray(a) - b).max() > 1e-3
        for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(turned), strict=True)
    )


@every_memory
@pytest.mark.parametrize(
    ("items", "mask", "options", "words"),
    [
        ((2, T, N, WIDTH), None, {}, "batch it with jax.vmap"),
        ((T, 0, WIDTH), None, {}, "items must be a float array .T, N, d. of at least one entry, not float32.4, 0, 4"),
        ((T, N, WIDTH), (T, 1), {}, "mask must be a bool array .T, N. with N = 3 as in items, not bool.4, 1."),
        ((T, N, WIDTH), None, {"block": 0}, "block must be a whole number of at least 1, not 0"),
        ((T, N, WIDTH), None, {"state": jnp.zeros((7, WIDTH))}, "the state is of another memory"),
    ],
    ids=["a batch", "no items", "mask", "block", "state"],
)
def test_what_does_not_fit_is_one_clear_line(unchecked, variant, items, mask, options, words):
    memory, params = made(variant)
    mask = None if mask is None else jnp.ones(mask, bool)
    with pytest.raises(MemjaxError, match=words) as caught:
        memory.apply(params, jnp.zeros(items), mask, method=memorize, **options)
    assert "\n" not in str(caught.value)


@every_memory
def test_a_memory_without_parameters_says_how_it_is_called(variant):
    memory, _ = made(variant)
    for call, more in ((memorize, ()), (memorize_at, (jnp.array([1]),))):
        with pytest.raises(MemjaxError, match=r"has no parameters yet: .*memory\.apply\(params, items, method="):
            call(memory, jnp.ones((T, N, WIDTH)), *more)


@every_memory
def test_a_block_is_encoded_at_once_and_outside_the_scan_that_writes_it(variant, monkeypatch):
    memory, params = made(variant)
    cls, seen = type(memory), []
    encode = cls.encode
    monkeypatch.setattr(
        cls, "encode", lambda self, items, mask: (seen.append(items.shape), encode(self, items, mask))[1]
    )
    jax.eval_shape(functools.partial(memory.apply, params, method=memorize, block=T), *stream())
    assert seen == [(T, N, WIDTH)]


@every_memory
def test_the_functional_form_is_the_module(variant):
    memory, params = made(variant)
    pure = functional(memory)
    assert jax.tree.structure(jax.eval_shape(pure.init, jax.random.key(0), stream()[0])) == jax.tree.structure(params)

    @jax.jit
    def step_by_step(params, items, mask):
        state, features = pure.initial_state(params), pure.encode(params, items, mask)
        for t in range(2):
            state, _ = pure.write(params, state, jax.tree.map(lambda leaf, t=t: leaf[t], features), mask[t])
        state, _ = pure.memorize(params, items[2:], mask[2:], state=state)
        return state, pure.slots(params, state)

    state, _ = run(variant, memorize)(params, *stream())
    expected = state, run(variant, "slots")(params, state)
    assert_close(step_by_step(params, *stream()), expected, 1e-5)


@every_memory
def test_as_an_nnx_module(variant):
    memory, _ = made(variant)
    items, mask = stream()

    @nnx.jit  # op by op, it takes longer
    def make(items, mask):
        return nnx.bridge.ToNNX(memory, rngs=nnx.Rngs(0)).lazy_init(items, mask, method=memorize)

    bridged = make(items, mask)
    state, _ = nnx.jit(lambda bridged, items, mask: bridged(items, mask, method=memorize))(bridged, items, mask)
    params = {"params": nnx.to_pure_dict(nnx.state(bridged, nnx.Param))}
    assert_close(state, run(variant, memorize)(params, items, mask)[0], 1e-5)
    # By its name, as nnx modules are used; no parameter may be called as a method is.
    assert_same(bridged.slots(state), memory.apply(params, state, method="slots"))


@every_memory
def test_parameters_and_state_survive_a_checkpoint(variant, tmp_path):
    _, params = made(variant)
    items, mask = map(np.asarray, stream())
    write, start = run(variant, memorize), run(variant, "initial_state")(params)
    state, _ = write(params, items[:2], mask[:2], state=start)
    kept = {"params": params, "state": state}
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "kept", kept)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "kept", jax.tree.map(ocp.utils.to_shape_dtype_struct, kept))
    assert_same(restored, kept)
    went_on = write(restored["params"], items[2:], mask[2:], state=restored["state"])
    assert_close(went_on[0], write(params, items, mask)[0], 1e-5)


@functools.cache
def kept(variant):
    """What writes on any number of streams and shows their slots, as `jax.export` writes it down."""
    memory, params = made(variant)

    def one(params, state, items, mask):
        state, _ = memory.apply(params, items, mask, state=state, method=memorize)
        return state, memory.apply(params, state, method="slots")

    (streams,) = export.symbolic_shape("streams")
    arguments = (run(variant, "initial_state").eval_shape(params), *map(np.asarray, stream()))
    many = jax.tree.map(lambda x: jax.ShapeDtypeStruct((streams, *x.shape), x.dtype), arguments)
    return export.export(jax.jit(jax.vmap(one, (None, 0, 0, 0))))(params, *many).serialize()


@every_memory
def test_what_writes_and_shows_any_number_of_streams_can_be_kept_as_bytes(variant):
    assert str(export.deserialize(kept(variant)).in_avals[-1].shape[0]) == "streams"


@pytest.mark.parametrize("variant", ["rehearsal, in context, by both scores", "surprise, deep", "dnc"])
def test_what_was_kept_as_bytes_writes_as_the_memory_does(variant):
    _, params = made(variant)
    start = run(variant, "initial_state")(params)
    items, masks, _ = batch()
    starts = jax.tree.map(lambda x: jnp.broadcast_to(x, (2, *x.shape)), start)
    state, slots = export.deserialize(kept(variant)).call(params, starts, items[:2], masks[:2])
    for i in range(2):
        expected, _ = run(variant, memorize)(params, items[i], masks[i])
        assert_close(jax.tree.map(lambda x, i=i: x[i], state), expected, 1e-5)
        assert_close(slots.values[i], run(variant, "slots")(params, expected).values, 1e-5)


@every_memory
def test_a_state_survives_being_written_as_bytes_by_flax(variant):
    _, params = made(variant)
    state, _ = run(variant, memorize)(params, *stream())
    other, _ = run(variant, memorize)(params, *stream(1))
    assert_same(serialization.from_bytes(other, serialization.to_bytes(state)), state)


@every_memory
def test_no_dtype_and_no_rank_is_promoted_that_was_not_said(variant):
    """As a strict caller wants it: no int32 count with a float, no bool; and no vector with a matrix."""
    _, params = made(variant)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        state, _ = run(variant, memorize).eval_shape(params, *stream())
        run(variant, "slots").eval_shape(params, state)


@every_memory
def test_it_can_be_part_of_another_module(variant):
    name, sizes = VARIANTS[variant]

    class Model(nn.Module):
        def setup(self):
            self.memory = memories.create(name, **sizes)

        def __call__(self, items, mask):
            return memorize(self.memory, items, mask)

    _, params = made(variant)
    whole = jax.jit(Model().apply)({"params": {"memory": params["params"]}}, *stream())
    assert_close(whole, run(variant, memorize)(params, *stream()), 1e-5)
