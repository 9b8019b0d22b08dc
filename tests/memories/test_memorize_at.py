"""Asked on the way: one pass shows the slots that each prefix of the stream would have given."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close, assert_same
from test_contract import VARIANTS, T, every_memory, made, run, stream

from memjax.errors import MemjaxError
from memjax.memories import memorize, memorize_at, registry

AFTER = np.array([2, 0, 4, 3, 2])


def prefix(memory, params, items, mask, after):
    """The slots after so many segments: what comes behind them is padding, which writes nothing."""
    state, aux = memory.apply(params, items, mask & (jnp.arange(T) < after)[:, None], method=memorize)
    return memory.apply(params, state, method="slots"), aux


@every_memory
def test_the_slots_at_each_question_are_those_of_the_prefix(variant):
    memory, params = made(variant)
    items, mask = stream()

    @jax.jit
    def both(params, items, mask, after):
        way = [memory.apply(params, items, after, mask, block=block, method=memorize_at) for block in (None, 3)]
        return way, jax.vmap(lambda after: prefix(memory, params, items, mask, after))(after)

    way, (wanted, aux_losses) = both(params, items, mask, AFTER)
    # A stream that is asked once is read in another way than one that is asked at most of its segments.
    once = [memory.apply(params, items, AFTER[:1], mask, block=3, method=memorize_at)]
    state, _ = run(variant, memorize)(params, items, mask)
    for slots, after_all, aux in (*way, *once):
        assert_close(slots.values, wanted.values[: len(slots.values)], 1e-5)
        assert_same(slots.mask, wanted.mask[: len(slots.values)])
        jax.tree.map(lambda a, b: assert_close(a, b, 1e-5), after_all, state)
        assert_close(aux, aux_losses[2], 1e-5)  # the question after the whole stream


IN_BLOCKS = ["rehearsal, in context, by both scores", "ntm", "surprise"]


@pytest.mark.parametrize("variant", IN_BLOCKS)
def test_the_gradient_is_that_of_the_prefixes_recomputed_in_blocks_or_not(variant):
    memory, params = made(variant)
    items, mask = stream()
    weights = np.random.default_rng(3).normal(size=(len(AFTER), 1, 1)).astype(np.float32)

    def on_the_way(params, items, remat, questions):
        after = AFTER[:questions]
        slots, _, _ = memory.apply(params, items, after, mask, block=3, remat=remat, method=memorize_at)
        return (slots.values * weights[:questions]).sum()

    def by_prefix(params, items, questions):
        slots, _ = jax.vmap(lambda after: prefix(memory, params, items, mask, after))(AFTER)
        return (slots.values * weights)[:questions].sum()

    for questions in (len(AFTER), 1):
        wanted = jax.jit(jax.grad(by_prefix, (0, 1)), static_argnums=2)(params, items, questions)
        for remat in (False, True):
            found = jax.jit(jax.grad(on_the_way, (0, 1)), static_argnums=(2, 3))(params, items, remat, questions)
            jax.tree.map(lambda a, b: assert_close(a, b, 1e-4), found, wanted)


# One variant of each memory that the test above leaves out: all variants would take minutes.
@pytest.mark.parametrize(
    "variant", [*sorted((set(registry) & set(VARIANTS)) - {"rehearsal", *IN_BLOCKS}), "retention, st"]
)
def test_the_gradient_of_every_memory_on_the_way_is_that_of_the_prefixes(variant):
    memory, params = made(variant)
    items, mask = stream()
    weights = np.random.default_rng(3).normal(size=(2, 1, 1)).astype(np.float32)

    @jax.jit
    def both(params, items):
        def on_the_way(params, items):
            slots, *_ = memory.apply(params, items, AFTER[2:4], mask, block=3, remat=True, method=memorize_at)
            return (slots.values * weights).sum()

        def by_prefix(params, items):
            slots = [prefix(memory, params, items, mask, after)[0].values for after in AFTER[2:4].tolist()]
            return (jnp.stack(slots) * weights).sum()

        return [jax.grad(which, (0, 1))(params, items) for which in (on_the_way, by_prefix)]

    found, wanted = both(params, items)
    jax.tree.map(lambda a, b: assert_close(a, b, 1e-4), found, wanted)


def test_what_comes_after_a_question_cannot_reach_it():
    memory, params = made("rehearsal")
    items, mask = stream()

    def first(items):
        return memory.apply(params, items, jnp.array([2]), mask, method=memorize_at)[0].values.sum()

    gradient = jax.jit(jax.grad(first))(items)
    assert (gradient[2:] == 0).all() and (gradient[0] != 0).any()


def test_a_stream_may_go_on_or_be_empty():
    memory, params = made("rehearsal")
    items, mask = stream()
    state, _ = run("rehearsal", memorize)(params, items[:2], mask[:2])
    slots, end, _ = memory.apply(params, items[2:], np.array([0, 2]), mask[2:], state=state, method=memorize_at)
    wanted, whole, _ = memory.apply(params, items, np.array([2, 4]), mask, method=memorize_at)
    assert_close(slots.values, wanted.values, 1e-5)
    jax.tree.map(lambda a, b: assert_close(a, b, 1e-5), end, whole)
    nothing, same, _ = memory.apply(params, items[:0], np.array([0]), mask[:0], state=state, method=memorize_at)
    assert_same(nothing.values[0], memory.apply(params, state, method="slots").values)
    assert_same(same, state)


def test_what_is_asked_before_the_stream_sees_nothing_of_it():
    memory, params = made("rehearsal")
    ask = jax.jit(lambda after: memory.apply(params, *stream()[:1], after, stream()[1], method=memorize_at)[0].values)
    for others in ([], [1, 2, 3, 4]):  # few questions are answered in another way than many
        assert_same(ask(jnp.array([-1, *others]))[0], ask(jnp.array([0, *others]))[0])


def test_questions_are_whole_numbers_on_one_axis():
    memory, params = made("rehearsal")
    with pytest.raises(MemjaxError, match="after must be an int array"):
        memory.apply(params, stream()[0], jnp.array([1.0]), method=memorize_at)
