"""What policies have in common: a step of a buffer, how a candidate is chosen, in what order learned ones see them.

Slips that were tried: the scores left in the other order; the mask left in its own; shuffled in tests too; the own cell
written into the buffer; what is kept with the last candidate given to an entry that was none; IM's own cell without
what is kept with it.
"""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close, assert_same

from memjax import ops
from memjax.memories.eviction import BaseView, Candidates
from memjax.memories.policies import policies

M, WIDTH = 4, 8
MASK = np.array([True, True, False, True])


@functools.cache
def made(name):
    """(what the policy chooses with, its parameters, candidates, what is kept); one candidate is masked."""
    policy = policies[name](WIDTH)
    rng = np.random.default_rng(0)
    kept = jnp.asarray(rng.normal(size=(M, len(policy.kept()))), jnp.float32)
    encodings = jnp.asarray(rng.normal(size=(M, WIDTH)), jnp.float32)
    candidates = Candidates(encodings, jnp.asarray(MASK), jnp.arange(M), encodings[0], jnp.zeros(M))
    shapes = jax.eval_shape(functools.partial(policy.init, method="choose"), jax.random.key(0), candidates, kept, None)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes)
    choose = jax.jit(functools.partial(policy.apply, method="choose"))
    return choose, params, candidates, kept


@pytest.mark.parametrize("name", ["s", "st"])
def test_a_shuffled_policy_is_the_plain_one_of_the_candidates_in_some_order(name):
    choose, params, candidates, kept = made(name)
    shuffled = made(f"shuffled_{name}")[0]
    expected = {}
    for order in itertools.permutations(range(M)):
        turn = np.array(order)
        turned = candidates._replace(encodings=candidates.encodings[turn], mask=candidates.mask[turn])
        choice, after = choose(params, turned, kept[turn], None)
        back = np.argsort(turn)
        expected[tuple(np.round(choice.probabilities[back], 4).tolist())] = after[back]
    seen = set()
    for n in range(12):
        choice, after = shuffled(params, candidates, kept, jax.random.key(n))
        known = min(expected, key=lambda p, c=choice: np.abs(np.array(p) - c.probabilities).sum())
        assert_close(choice.probabilities, np.array(known), 2e-4)
        assert_close(after[MASK], expected[known][MASK], 1e-5)
        assert choice.probabilities[2] == 0
        seen.add(known)
    assert len(seen) > 3
    assert_same(shuffled(params, candidates, kept, None), choose(params, candidates, kept, None))


@pytest.mark.parametrize("name", ["uniform", "st"])
def test_what_is_evicted_is_drawn_with_a_key_and_the_likeliest_without(name):
    choose, params, candidates, kept = made(name)
    likeliest, _ = choose(params, candidates, kept, None)
    assert likeliest.evicted == likeliest.probabilities.argmax()
    assert_close(likeliest.log_prob, np.log(likeliest.probabilities.max()), 1e-5)
    real = np.float64(likeliest.probabilities[MASK])
    assert_close(likeliest.entropy, -(real * np.log(real)).sum(), 1e-5)
    drawn = {int(choose(params, candidates, kept, jax.random.key(n))[0].evicted) for n in range(60)}
    assert drawn <= set(np.flatnonzero(MASK)) and len(drawn) > 1


@pytest.mark.parametrize("name", ["fifo", "lifo", "lru"])
def test_a_rule_is_certain_and_minds_no_key(name):
    choose, params, candidates, kept = made(name)
    choice, _ = choose(params, candidates, kept, None)
    assert choice.probabilities.tolist() == [float(i == choice.evicted) for i in range(M)]
    assert choice.entropy == 0 == choice.log_prob
    assert_same(choose(params, candidates, kept, jax.random.key(0)), choose(params, candidates, kept, None))


class Entry(NamedTuple):
    encoding: jax.Array
    kept: jax.Array
    used: jax.Array


@functools.cache
def stepped(name, key=None, nop=True):
    """One step of a buffer of three: `(eviction, the buffer before it, the new entry, what the policy asked for)`."""
    _, params, candidates, kept = made(name)
    policy, asked = policies[name](WIDTH), []

    def ask(what, answer):
        asked.append(what)
        return answer

    buffer = ops.Buffer(Entry(candidates.encodings[:3], kept[:3], jnp.arange(3)), jnp.array(3))
    new = Entry(candidates.encodings[3], policy.kept(), jnp.array(3))

    def with_last(last, logits):
        rows = jnp.append(buffer.entries.encoding, last.encoding[None], axis=0)
        return rows, logits(lambda: ask("attention", rows @ candidates.input))

    view = BaseView(
        input=candidates.input,
        mask=jnp.array([True, True, True, nop]),
        nop=nop,
        nothing=kept[3],
        own_cell=lambda: ask("own cell", new._replace(encoding=-new.encoding)),
        candidates=with_last,
        attended=lambda: ask("attended", jnp.arange(3) == 0),
    )
    key = None if key is None else jax.random.key(key)
    return policy.apply(params, buffer, new, key, view, method="evict"), buffer, new, asked


@pytest.mark.parametrize("name", policies)
def test_a_policy_asks_the_network_for_what_it_looks_at_and_no_more(name):
    assert stepped(name)[-1] == {"im": ["own cell", "attention"], "lru": ["attended"]}.get(name, [])


@pytest.mark.parametrize("nop", [True, False])
@pytest.mark.parametrize("name", policies)
def test_a_step_moves_what_is_kept_with_its_entry(name, nop):
    for number in range(8):
        eviction, buffer, new, _ = stepped(name, number, nop)
        choose, params, *_ = made(name)
        own = name == "im"
        last = made(name)[3][3] if own else new.kept
        encodings = jnp.append(buffer.entries.encoding, (-new.encoding if own else new.encoding)[None], axis=0)
        assert_same(eviction.candidates.encodings, encodings)
        assert eviction.candidates.mask.tolist() == [True, True, True, nop]
        used = [3, 1, 2, 3] if name == "lru" else [0, 1, 2, 3]
        assert eviction.candidates.used.tolist() == used
        before = jnp.append(buffer.entries.kept, last[None], axis=0)
        choice, kept = choose(params, eviction.candidates, before, jax.random.key(number))
        assert_close(tuple(eviction.choice), tuple(choice), 1e-6)
        # The new entry was a candidate already, unless a cell stood in its place or it could not be evicted.
        newest = kept[3] if nop and not own else new.kept
        stays = [i for i in range(3) if i != eviction.choice.evicted]
        straight_through = functools.partial(ops.straight_through_evict, probabilities=eviction.choice.probabilities)
        for after, nothing in (eviction.write(), eviction.write(straight_through)):
            assert_close(nothing, kept[3] if own else made(name)[3][3], 1e-6)
            if eviction.choice.evicted == 3:
                assert nop and after.filled == 3
                assert_close(after.entries.kept, kept[:3], 1e-6)
                assert_same(after.entries.encoding, buffer.entries.encoding)
            else:
                assert_close(after.entries.kept, jnp.stack([*(kept[i] for i in stays), newest]), 1e-6)
                assert after.entries.used.tolist() == [*(used[i] for i in stays), 3]
                assert_same(after.entries.encoding[2], new.encoding)


@pytest.mark.parametrize("name", policies)
def test_only_what_is_learned_acts_and_only_on_a_full_buffer(name):
    policy = policies[name](WIDTH)
    assert policy.acts(jnp.array(True)) == (name not in ("fifo", "lifo", "lru", "uniform"))
    assert not policy.acts(jnp.array(False))
    key = jax.random.key(3)
    assert policy.test_key(key) is (key if name == "uniform" else None)
