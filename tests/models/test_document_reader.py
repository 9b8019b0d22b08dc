"""BiDAF and LEMN's reader of documents against loops over their equations; padding; what is cut; what is refused."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import spans as oracle
from oracles.checking import assert_close, assert_same

from memjax.errors import MemjaxError
from memjax.memories.policies import Learned, Shuffled
from memjax.memories.policies import policies as known
from memjax.models import BiDAF, DocumentReader, SpanLogits, best_span
from memjax.models.bidaf import NOWHERE

policies = {name: policy for name, policy in known.items() if not issubclass(policy, Shuffled)}
WORDS, WIDTH, N, T, W = 12, 8, 3, 7, 4
BLOCKS = np.random.default_rng(0).integers(2, WORDS + 3, (T, W)).astype(np.int32)  # three of them no words of train
BLOCKS[-1, 2:] = 0
QUERY = np.array([5, 3, 13, 0, 0], np.int32)
every_policy = pytest.mark.parametrize("policy", policies)


def reader(policy="st", **changes):
    sizes = {"words": WORDS, "width": WIDTH, "layers": 2, "dropout": 0.3, "entries": N, "policy": policy}
    return DocumentReader(**(sizes | changes))


@functools.cache
def made(policy="st"):
    """Parameters without compiling an initialization, far enough from 0 for every part to matter."""
    net = reader(policy)
    shapes = jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.asarray(BLOCKS), jnp.asarray(QUERY)))
    rng = np.random.default_rng(3)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) / 2, leaf.dtype), shapes)
    answer = jax.jit(functools.partial(net.apply, method="answer"))
    return params, jax.jit(functools.partial(net.apply, method="retain")), answer


def real(blocks):
    return [[int(word) for word in block if word] for block in blocks if block.any()]


@pytest.mark.parametrize("held", [[0, 2, 6], [1, 5, -1]])
def test_an_answer_is_bidafs_of_the_words_that_are_held(held):
    params, _, answer = made()
    found = answer(params, BLOCKS, jnp.array(held), QUERY)
    blocks = [BLOCKS[n] for n in held if n >= 0]
    want = oracle.bidaf(jax.tree.map(np.float64, params["params"]["base"]), real(blocks), QUERY[QUERY != 0])
    words = np.concatenate([BLOCKS[n] if n >= 0 else np.zeros(W) for n in held]) != 0
    for got, logits in zip(found, want, strict=True):
        assert_close(got[words], logits, 2e-5)
        assert (np.asarray(got)[~words] == NOWHERE).all()


@every_policy
def test_every_step_is_the_equations(policy):
    params, retain, _ = made(policy)
    key = jax.random.key(0) if policy == "uniform" else None  # which draws: compared where nothing was drawn yet
    found = retain(params, BLOCKS, key)
    expected = oracle.retain(jax.tree.map(np.float64, params["params"]), real(BLOCKS), size=N, policy=policy)
    for t, step in enumerate(expected[: N if key is not None else T]):
        assert_close(found.value[t], step["value"], 5e-5)
        assert found.held[t].tolist() == step["held"] + [-1] * (N - len(step["held"]))
        assert found.acted[t] == (step["full"] and issubclass(policies[policy], Learned))
        if step["full"]:
            shares = step["shares"]
            assert_close(found.log_prob[t], np.log(shares[step["goes"]]), 5e-5)
            assert_close(found.entropy[t], -(shares * np.log(np.maximum(shares, 1e-300))).sum(), 5e-5)


def test_fifo_holds_the_last_blocks_and_lifo_the_first_and_the_newest():
    for policy, held in (("fifo", [4, 5, 6]), ("lifo", [0, 1, 6])):
        params, retain, _ = made(policy)
        assert retain(params, BLOCKS).held[-1].tolist() == held


@every_policy
def test_padding_changes_nothing(policy):
    params, retain, answer = made(policy)
    key = jax.random.key(1) if policy == "uniform" else None
    padded = np.pad(BLOCKS, ((0, 2), (0, 0)))
    if key is None:
        plain, longer = retain(params, BLOCKS), retain(params, padded)
        assert_close(jax.tree.map(lambda leaf: leaf[:T], longer), plain, 1e-5)
    longer = retain(params, padded, key)
    assert not longer.acted[T:].any() and (longer.held[T - 1 :] == longer.held[T - 1]).all()
    held = longer.held[-1]
    wider = answer(params, padded, jnp.append(held, -1), np.pad(QUERY, (0, 2)))
    assert_close(jax.tree.map(lambda leaf: leaf[:-W], wider), answer(params, BLOCKS, held, QUERY), 1e-5)


@pytest.mark.parametrize("end", [1, 2, 4])
def test_what_is_held_at_a_block_is_what_a_document_that_ends_there_leaves(end):
    params, retain, _ = made()
    cut = np.where(np.arange(T)[:, None] < end, BLOCKS, 0)
    assert_same(retain(params, cut).held[-1], retain(params, BLOCKS).held[end - 1])


def test_with_a_key_inputs_are_dropped_and_evictions_drawn():
    params, retain, answer = made()
    keys = jax.random.split(jax.random.key(0), 200)
    held = jax.vmap(lambda key: retain(params, BLOCKS, key).held)(keys)
    assert len(np.unique(held[:, -1], axis=0)) > 3
    plain, args = answer(params, BLOCKS, held[0, -1], QUERY), (params, BLOCKS, held[0, -1], QUERY)
    assert_same(answer(*args, keys[0]), answer(*args, keys[0]))
    assert np.abs(answer(*args, keys[0]).first - plain.first).max() > 1e-3


@pytest.mark.parametrize("policy", ["im", "s", "st"])
def test_a_policy_learns_from_the_probability_of_what_it_did(policy):
    params, _, _ = made(policy)
    retain = functools.partial(reader(policy).apply, method="retain")
    loss = lambda params: (retain(params, jnp.asarray(BLOCKS), jax.random.key(0)).log_prob * jnp.arange(T)).sum()  # noqa: E731
    gradient = jax.jit(jax.grad(loss))(params)["params"]
    assert all((np.abs(leaf) > 0).any() for leaf in jax.tree.leaves(gradient["evictor"]))


def test_of_a_whole_document_bidaf_answers_as_a_buffer_that_holds_it_all():
    params, _, answer = made()
    base = BiDAF(WORDS, WIDTH, 2, 0.3)
    own = {"params": params["params"]["base"]}
    whole = base.apply(own, jnp.asarray(BLOCKS), jnp.asarray(QUERY))
    assert_close(answer(params, BLOCKS, jnp.arange(T), QUERY), whole, 1e-6)


def test_vectors_of_words_are_not_trained():
    params, _, answer = made()
    loss = lambda params: answer(params, BLOCKS, jnp.arange(N), QUERY).first[0]  # noqa: E731
    gradient = jax.jit(jax.grad(loss))(params)["params"]["base"]
    assert not np.asarray(gradient["embed"]["embedding"]).any() and np.asarray(gradient["of_text"]).any()


numbers = st.floats(-5, 5, width=32)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_the_best_span_is_that_of_a_plain_search(rows, longest):
    first, last = np.array(rows, np.float32).T
    begin, end = map(int, best_span(SpanLogits(jnp.asarray(first), jnp.asarray(last)), longest))
    sums = [first[i] + last[j] for i in range(len(rows)) for j in range(i, min(i + longest, len(rows)))]
    assert 0 <= end - begin < longest and first[begin] + last[end] == max(sums)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policy": "fifa"}, "did you mean 'fifo'"),
        ({"entries": 0}, "entries must be"),
        ({"layers": 0}, "layers must be"),
        ({"width": 7}, "width must be even, not 7"),
        ({"dropout": 1.0}, "dropout must be in"),
    ],
)
def test_what_cannot_be_is_one_clear_line(change, words):
    with pytest.raises(MemjaxError, match=words):
        net = reader(**change)
        jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.asarray(BLOCKS), jnp.asarray(QUERY)))
