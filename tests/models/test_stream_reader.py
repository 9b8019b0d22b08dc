"""LEMN's reader against a loop over its equations, for every policy; what a seed decides; what it refuses."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import stream_reader as oracle
from oracles.checking import assert_close, assert_same

from memjax.errors import MemjaxError
from memjax.memories.policies import Learned, Shuffled
from memjax.memories.policies import policies as known
from memjax.models import StreamReader

policies = {name: policy for name, policy in known.items() if not issubclass(policy, Shuffled)}  # see test_policies.py
WORDS, WIDTH, HOPS, N, T = 9, 8, 2, 3, 12
ANSWERS = (3, 5, 10)
LINES = np.array([[0, 0, 0], [2, 3, 0], [4, 5, 6], [7, 0, 0], [3, 3, 8], [6, 2, 4]], np.int32)
STREAM = np.array([1, 2, 3, 4, 5, 1, 4, 2, 2, 5, 3, 1], np.int32)
ASKED = np.array([0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1], bool)
every_policy = pytest.mark.parametrize("policy", policies)


def reader(policy, **changes):
    sizes = {"words": WORDS, "line": 3, "questions": 4, "answers": ANSWERS, "width": WIDTH, "hops": HOPS, "entries": N}
    return StreamReader(**{**sizes, "policy": policy, **changes})


@functools.cache
def made(policy, nop=True):
    """Parameters without compiling an initialization, far enough from 0 for every part to matter."""
    net = reader(policy, nop=nop)
    shapes = jax.eval_shape(
        lambda: net.init(jax.random.key(0), jnp.asarray(LINES), jnp.asarray(STREAM), jnp.asarray(ASKED))
    )
    rng = np.random.default_rng(2)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) / 2, leaf.dtype), shapes)
    words = params["params"]["base"]["words"]
    params["params"]["base"]["words"] = words.at[:, 0].set(0)
    return params, jax.jit(net.apply)


def run(policy, stream=STREAM, asked=ASKED, key=None, nop=True):
    params, apply = made(policy, nop)
    return apply(params, jnp.asarray(LINES), jnp.asarray(stream), jnp.asarray(asked), key)


@pytest.mark.parametrize("nop", [True, False])
@every_policy
def test_every_step_is_the_equations(policy, nop):
    params, _ = made(policy, nop)
    p = jax.tree.map(np.float64, params["params"])
    texts = [[word for word in LINES[row] if word] for row in STREAM]
    found, key = run(policy, nop=nop), None
    if policy == "uniform":  # which draws: compared where nothing was drawn yet
        key, found = jax.random.key(0), run(policy, nop=nop, key=jax.random.key(0))
    expected = oracle.read(p, texts, ASKED, answers=ANSWERS, hops=HOPS, size=N, policy=policy, nop=nop)
    for t, step in enumerate(expected[: N + 1 if key is not None else T]):
        assert_close(found.logits[t], step["logits"] if ASKED[t] else np.zeros(3), 2e-5)
        assert_close(found.value[t], step["value"], 2e-5)
        assert found.entries[t].tolist() == step["entries"] + [-1] * (N - len(step["entries"]))
        assert found.acted[t] == (step["full"] and issubclass(policies[policy], Learned))
        if step["full"]:
            assert_close(found.eviction[t], step["shares"][:N], 2e-5)
            entropy = -(step["shares"] * np.log(np.maximum(step["shares"], 1e-300))).sum()
            assert_close(found.entropy[t], entropy, 2e-5)
            if key is None:
                assert_close(found.log_prob[t], np.log(step["shares"][step["goes"]]), 2e-5)


@every_policy
def test_padding_behind_a_stream_changes_nothing(policy):
    padded = np.append(STREAM, [0, 0, 0]).astype(np.int32)
    found = run(policy, padded, np.append(ASKED, [False] * 3), jax.random.key(1) if policy == "uniform" else None)
    if policy != "uniform":
        plain = run(policy)
        assert_close(jax.tree.map(lambda leaf: leaf[:T], found), plain, 1e-6)
    assert not found.acted[T:].any()


@pytest.mark.parametrize("policy", ["im", "s", "st"])
def test_with_a_key_evictions_are_drawn_as_their_probabilities_say(policy):
    params, _ = made(policy)
    net = reader(policy)
    one = lambda key: net.apply(params, jnp.asarray(LINES), jnp.asarray(STREAM[:5]), jnp.asarray(ASKED[:5]), key)  # noqa: E731
    reads = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 2000))
    shares = np.append(reads.eviction[0, N], 1 - reads.eviction[0, N].sum())  # the first line that needs room
    after = np.asarray(reads.entries[:, N + 1])
    gone = [next((i for i in range(N) if i not in row), N) for row in after.tolist()]
    np.testing.assert_allclose(np.bincount(gone, minlength=N + 1) / 2000, shares, atol=0.04)
    assert_same(run(policy, key=jax.random.key(3)), run(policy, key=jax.random.key(3)))


@pytest.mark.parametrize("policy", ["im", "s", "st"])
def test_a_policy_learns_from_the_probability_of_what_it_did(policy):
    params, _ = made(policy)
    net = reader(policy)

    def loss(params):
        read = net.apply(params, jnp.asarray(LINES), jnp.asarray(STREAM), jnp.asarray(ASKED), jax.random.key(0))
        return (read.log_prob * jnp.arange(T)).sum()

    gradient = jax.jit(jax.grad(loss))(params)["params"]
    assert all((np.abs(leaf) > 0).any() for leaf in jax.tree.leaves(gradient["chooses"]))


def test_a_rule_has_no_parameters_of_its_own():
    for policy in ("fifo", "lifo", "lru", "uniform"):
        assert set(made(policy)[0]["params"]) == set(made("fifo")[0]["params"])


@pytest.mark.parametrize(
    ("change", "words"),
    [({"policy": "fifa"}, "did you mean 'fifo'"), ({"entries": 0}, "entries must be"), ({"hops": 0}, "hops")],
)
def test_what_cannot_be_is_one_clear_line(change, words):
    with pytest.raises(MemjaxError, match=words):
        net = reader(**{"policy": "st", **change})
        jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.asarray(LINES), jnp.asarray(STREAM), jnp.asarray(ASKED)))
