"""A buffer through a whole stream: its entries are those that a list would have, with all that belongs to them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax import MemjaxError, ops

N, STEPS = 4, 30


def empty():
    return ops.Buffer({"name": jnp.zeros(N, jnp.int32), "twice": jnp.zeros((N, 2))}, jnp.array(0))


@pytest.mark.parametrize("seed", range(5))
def test_a_stream_of_evictions_leaves_what_a_list_would_have(seed):
    indices = np.random.default_rng(seed).integers(0, N + 1, STEPS)

    def step(buffer, inputs):
        name, index = inputs
        entry = {"name": name, "twice": jnp.full(2, 2.0) * name}
        buffer = ops.buffer_evict(buffer, index, entry)
        return buffer, buffer

    names = jnp.arange(1, STEPS + 1)
    _, states = jax.jit(lambda: jax.lax.scan(step, empty(), (names, indices)))()
    kept = []
    for step_number, index in enumerate(indices):
        if len(kept) == N and index < N:
            del kept[index]
        if len(kept) < N:
            kept.append(step_number + 1)
        found = states.entries["name"][step_number]
        assert states.filled[step_number] == len(kept)
        np.testing.assert_array_equal(found, kept + [0] * (N - len(kept)))
        np.testing.assert_array_equal(states.entries["twice"][step_number], 2.0 * np.stack([found, found], axis=1))


def test_a_full_buffer_appends_nothing():
    full = ops.Buffer(jnp.arange(3.0), jnp.array(3))
    after = ops.buffer_append(full, jnp.array(9.0))
    assert after.entries.tolist() == [0, 1, 2] and after.filled == 3


@pytest.mark.parametrize("index", [0, 2, N])
@pytest.mark.parametrize("filled", [N, N - 1])
def test_the_gradient_of_a_straight_through_eviction_is_that_of_the_mean_over_what_might_go(index, filled):
    rng = np.random.default_rng(index)
    entries, entry, weights = rng.normal(size=(N, 2)), rng.normal(size=2), rng.normal(size=(N, 2))
    probabilities = rng.dirichlet(np.ones(N + 1))

    def kept(probabilities):
        buffer = ops.Buffer((jnp.asarray(entries), jnp.arange(N)), jnp.array(filled))
        new = jnp.asarray(entry), jnp.array(9)
        return ops.straight_through_evict(buffer, jnp.array(index), new, probabilities).entries

    with jax.enable_x64(True):
        slope = jax.grad(lambda p: (kept(p)[0] * weights).sum())(jnp.asarray(probabilities))
        found = kept(jnp.asarray(probabilities))
    evicted = [np.delete(np.vstack([entries, entry]), i, axis=0) for i in range(N + 1)]
    expected = np.array([(after * weights).sum() for after in evicted]) * (filled == N)
    # Probabilities sum to 1, so that a constant is of no account.
    np.testing.assert_allclose(slope - slope[-1], expected - expected[-1], atol=1e-12)
    names = np.arange(N)
    names = np.delete(np.append(names, 9), index) if filled == N else np.append(names[:filled], 9)
    np.testing.assert_array_equal(found[1], names)


def test_what_does_not_belong_together_is_one_clear_line():
    with pytest.raises(
        MemjaxError, match=r"entries must be arrays .N, .... with N = 3 as in buffer.entries, not float32.2"
    ):
        ops.buffer_append(ops.Buffer((jnp.zeros(3), jnp.zeros(2)), jnp.array(0)), (jnp.array(0.0), jnp.array(0.0)))


@pytest.mark.parametrize("put", ["append", "evict"])
@pytest.mark.parametrize(
    ("entries", "entry"), [((3,), (3,)), ((3,), (1,)), ((3, 2), ()), ((3, 2), (1,)), ((3, 2), (3, 2)), ((), ())]
)
def test_an_entry_of_another_shape_is_refused(put, entries, entry):
    buffer, where = ops.Buffer(jnp.zeros(entries), jnp.array(1)), [jnp.array(0)] * (put == "evict")
    words = "an entry of a buffer" if entries else "entries must be arrays .N"
    with pytest.raises(MemjaxError, match=words):
        getattr(ops, f"buffer_{put}")(buffer, *where, jnp.ones(entry))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.int8])
def test_a_buffer_keeps_its_dtype_whatever_comes(dtype):
    def put(buffer, entry):
        return ops.buffer_evict(buffer, jnp.array(0), entry), None

    after, _ = jax.lax.scan(put, ops.Buffer(jnp.zeros(3, dtype), jnp.array(0)), jnp.arange(5.0))
    assert after.entries.dtype == dtype and after.entries.tolist() == [2, 3, 4]


def test_nothing_comes_from_behind_the_end_of_an_episode():
    rewards, values = jnp.array([0.0, 1.0, 5.0]), jnp.array([0.5, 0.25, 2.0])
    discounts = jnp.array([0.9, 0.0, 0.9])  # the second step is the last of its episode
    found = ops.generalized_advantages(rewards, values, discounts, jnp.array(7.0), trace=1.0)
    np.testing.assert_allclose(found[:2], [0.9 * 1.0 - 0.5, 1.0 - 0.25], rtol=1e-6)


def test_the_usage_changes_what_input_matching_evicts():
    params = ops.InputMatchingParams(jnp.zeros(2), jnp.array(3.0))
    logits, usage = jnp.array([1.0, 0.9]), jnp.array([2.0, 0.0])
    without, _ = ops.input_matching(params, logits, jnp.zeros(2), jnp.ones(2))
    scores, after = ops.input_matching(params, logits, usage, jnp.ones(2))
    assert without.argmax() == 0 and scores.argmax() == 1
    np.testing.assert_allclose(after, 0.1 * usage + 0.9 * logits, rtol=1e-6)


@pytest.mark.parametrize("entries", [[np.inf, 2.0], [1.0, np.nan]])
@pytest.mark.parametrize("index", range(3))
def test_a_straight_through_eviction_leaves_what_an_eviction_leaves_whatever_the_entries_hold(entries, index):
    full, index, new = ops.Buffer(jnp.array(entries), jnp.array(2)), jnp.array(index), jnp.array(5.0)
    learned = ops.straight_through_evict(full, index, new, jnp.array([0.5, 0.3, 0.2]))
    np.testing.assert_array_equal(learned.entries, ops.buffer_evict(full, index, new).entries)
