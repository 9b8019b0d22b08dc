"""The Compressive Transformer as a memory against the equations, with the parameters taken out of the module.

Slips that were tried. test_the_whole_memory_is_the_equations failed for: the loss over the FIFO's newest segment in
place of the one that leaves (only with two recent segments are they different); ages in the values too; and no last
norm. test_the_auxiliary_loss_teaches_the_layers_compressors_and_nothing_else failed for a loss whose gradient goes to x
and to the attention's weights too.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import compressive as oracle
from oracles.checking import assert_close, assert_same, cast, float64

from memjax import memories, ops
from memjax.memories import memorize

T, N, WIDTH = 6, 3, 4
SIZES = {"slots": 5, "width": WIDTH, "segment": N, "layers": 2, "heads": 2, "rate": 2}
MEMORIES = {"one recent": SIZES, "two recent": {**SIZES, "layers": 1, "recent": 2}, "rate 5": {**SIZES, "rate": 5}}
MASK = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 0], [1, 1, 0], [1, 0, 0], [1, 1, 1]], bool)


@functools.cache
def made(label):
    """`(memory, params, items)` in float64; all parameters random, so that each of them counts."""
    memory = memories.create("compressive", **MEMORIES[label], dtype=jnp.float64)
    rng, init = np.random.default_rng(4), functools.partial(memory.init, method=memorize)
    with jax.enable_x64(True):
        shapes = jax.eval_shape(init, jax.random.key(0), jnp.zeros((T, N, WIDTH)))
    return memory, jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), shapes), rng.normal(size=(T, N, WIDTH))


@functools.cache
def compiled(label):
    def both(params, items, mask, state):
        state, aux_loss = made(label)[0].apply(params, items, mask, state=state, method=memorize)
        return state, made(label)[0].apply(params, state, method="slots"), aux_loss

    return jax.jit(both)


def memorized(label, items, mask, state=None):
    """`(state, slots, aux_loss)`, in float64; the stream is one segment at a time, to compile little."""
    aux_loss = 0.0
    with jax.enable_x64(True):
        params = cast(made(label)[1], jnp.float64)
        for t in range(len(items)):
            if state is None:
                state = made(label)[0].apply(params, method="initial_state")
            state, slots, lost = compiled(label)(params, *cast((items[t : t + 1], mask[t : t + 1], state), jnp.float64))
            aux_loss += float(lost)
    return float64(state), jax.tree.map(np.asarray, slots), aux_loss


def layers_of(params, count):
    """`(attentions, compressors)`, out of the module's flat names."""
    attentions = [
        ops.MemoryAttentionParams(
            *(params[f"attention_{i}_{leaf}"] for leaf in ("scale", "bias", "w_query", "w_key", "w_value"))
        )
        for i in range(count)
    ]
    compressors = [
        ops.CompressorParams(params[f"compressor_{i}_w"], params[f"compressor_{i}_b"]) for i in range(count + 1)
    ]
    return attentions, compressors


@pytest.mark.parametrize("label", MEMORIES)
def test_the_whole_memory_is_the_equations(label):
    _, params, items = made(label)
    sizes = MEMORIES[label]
    _, slots, aux_loss = memorized(label, items, MASK)
    expected = oracle.compressive(
        params["params"],
        *layers_of(params["params"], sizes["layers"]),
        items,
        MASK,
        slots=sizes["slots"],
        recent=sizes.get("recent", 1),
    )
    assert expected[0] > 0.01
    assert_close(aux_loss, expected[0], 1e-6)  # a loss is float32, always
    assert_close(slots.values, expected[1], 1e-10)
    assert_same(slots.mask, expected[2])


def test_the_auxiliary_loss_teaches_the_layers_compressors_and_nothing_else():
    """The last level has no attention over it, so that its compressor learns from the reader alone."""
    memory, params, items = made("one recent")

    @jax.jit
    def slope(params, items, mask):
        def loss(params, items):
            return memory.apply(params, items, mask, method=memorize)[1]

        return jax.grad(loss, argnums=(0, 1))(params, items)

    with jax.enable_x64(True):
        gradients, by_items = slope(*cast((params, items, MASK), jnp.float64))
    assert not np.any(by_items)
    taught = {name for name, leaf in gradients["params"].items() if any(np.any(x) for x in jax.tree.leaves(leaf))}
    assert taught == {"compressor_0_w", "compressor_0_b", "compressor_1_w", "compressor_1_b"}


@pytest.mark.parametrize("label", ["one recent", "two recent"])
def test_the_reader_sees_what_the_compressed_memory_will_hold(label):
    """When as many more segments have come as fit in the first FIFO, the compressed rows are what the slots were."""
    _, _, items = made(label)
    recent = MEMORIES[label].get("recent", 1)
    state, slots, _ = memorized(label, items[:4], MASK[:4])
    later, _, _ = memorized(label, items[:recent], np.ones((recent, N), bool), state=state)
    assert_close(later.compressed[-1], slots.values, 1e-10)
    assert_same(later.compressed_mask > 0, slots.mask)


def test_segments_stay_whole_for_as_long_as_recent_says_and_padding_takes_no_room():
    _, _, items = made("two recent")
    filled = []
    for t in range(T):
        state, _, _ = memorized("two recent", items[: t + 1], MASK[: t + 1])
        filled.append((state.recent_mask.sum(), state.compressed_mask.sum()))
    # Real items: 3, 2, none, 2, 1, 3. Compressed by 2: 2 rows, 2 rows (0 1 | 1 0), 1 row, 1 row.
    assert filled == [(3, 0), (5, 0), (5, 0), (4, 2), (3, 4), (4, 5)]


@pytest.mark.parametrize("label", MEMORIES)
def test_a_shorter_segment_is_one_padded_at_its_end(label):
    memory, params, items = made(label)
    with jax.enable_x64(True):
        arguments = cast((params, items[:3, :2]), jnp.float64)
        write = jax.jit(functools.partial(memory.apply, method=memorize))
        short = write(*arguments)
    state, _, aux_loss = memorized(label, items[:3], np.arange(N) < np.full((3, 1), 2))
    assert_close((float64(short[0]), float(short[1])), (state, aux_loss), 1e-5)


def test_a_wholly_padded_segment_leaves_the_state_to_the_bit_and_costs_nothing():
    _, _, items = made("one recent")
    state, _, _ = memorized("one recent", items, MASK)
    same, _, aux_loss = memorized("one recent", items[:1], np.zeros((1, N), bool), state=state)
    assert_same(same, state)
    assert aux_loss == 0


def test_a_perfect_compressor_loses_nothing(rng):
    """At rate 1, the identity: attention reads the same of both; and it does not of any other."""
    drawn = [rng.normal(size=size) for size in (*3 * ((4, 2, 2),), (3, 4), (5, 4))]
    *heads, x, rows = cast(drawn, jnp.float32)
    attention = ops.MemoryAttentionParams(jnp.ones(4), jnp.zeros(4), *heads)
    identity, turned = (ops.CompressorParams(w[None], jnp.zeros(4)) for w in (jnp.eye(4), jnp.eye(4)[::-1]))
    masks = jnp.ones(3, bool), jnp.arange(5) < 4
    exact, other = (
        float(ops.reconstruction_loss(attention, compressor, x, masks[0], rows, masks[1]))
        for compressor in (identity, turned)
    )
    assert exact < 1e-10 < 1e-2 < other
