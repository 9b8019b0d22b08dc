"""What is minimised where the answer is a span of what a buffer holds, against NumPy: values and slopes.

Rewards, advantages and returns are constants to the gradient, as are the vectors of words: the oracle takes them from
where it is wanted.

Slips tried, each of which fails a test here: no loss of what is held in the end; a policy without a slope.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import objectives
from oracles import spans as oracle
from training.slopes import assert_slopes
from training.test_spans_runs import made, prepared, tales

from memjax.experiments.spans import build_document_reader, fifo_blocks, rewards
from memjax.models.document_reader import Retained

KEYS = jax.random.split(jax.random.key(2), 3)  # of the three documents: one still holds its answer in the end
REWARDS = ("f1", "held")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tales(tmp_path_factory.mktemp("tales"))


def row(arrays, i):
    return {name: x[i] for name, x in arrays.items()}


@functools.cache
def ran(folder, rewarded):
    """`((loss, metrics), gradient)`."""
    _, params, batch = made(folder)
    loss = prepared(folder, f"fairytales,policy=st,reward={rewarded}", model__dropout=0.0).phases[-1].loss
    return jax.device_get(jax.jit(jax.value_and_grad(loss, has_aux=True))(params, None, batch | {"key": KEYS}))


@functools.cache
def retainer(folder):
    """`params -> ` what the policy did in each document, block by block."""
    trained, _, batch = made(folder)
    reader = build_document_reader(trained.config.model, trained.task.shape, "st")
    run = jax.jit(jax.vmap(functools.partial(reader.apply, method="retain"), (None, 0, 0)))
    draws = jnp.stack([jax.random.split(key, 3)[1] for key in KEYS])
    return lambda params: jax.device_get(run(params, batch["stream"], draws))


@functools.cache
def at_first(folder):
    """Of each document: what its policy did at the parameters of `made`, what FIFO holds, its rewards by `REWARDS`."""
    _, params, batch = made(folder)
    found = retainer(folder)(params)
    rows = []
    for i, key in enumerate(KEYS):
        example, did = row(batch, i), row(found._asdict(), i)
        fifo = fifo_blocks(example, 2, jax.random.split(jax.random.split(key, 3)[0])[0]).tolist()
        f1 = jnp.float32(answered(folder, params, i, did["held"][-1].tolist())["f1"])
        brought = {kind: np.float64(rewards[kind](Retained(**did), example, f1)) for kind in REWARDS}
        rows.append((did, fifo, brought))
    return rows


def answered(folder, params, i, held):
    """What is found of the i-th document in the blocks that are held, by the oracle."""
    trained, _, batch = made(folder)
    p = jax.tree.map(np.float64, params["params"]["base"])
    blocks, query, answers = (np.asarray(batch[name][i]) for name in ("stream", "query", "answers"))
    held = [n for n in held if n >= 0 and blocks[n].any()]
    words = [place for n in held for place in range(3 * n, 3 * n + 3) if blocks.reshape(-1)[place]]
    first, final = oracle.bidaf(p, [[word for word in blocks[n] if word] for n in held], query[query != 0])
    spans = [(first[a] + final[b], a, b) for a in range(len(words)) for b in range(a, min(a + 3, len(words)))]
    _, a, b = max(spans)
    texts = [" ".join(trained.task.vocabulary[word] for word in ids if word) for ids in answers if ids.any()]
    said = [trained.task.vocabulary[blocks.reshape(-1)[place]] for place in words[a : b + 1]]
    exact, f1 = oracle.squad(" ".join(said), texts)
    begin, end = int(batch["first"][i]), int(batch["last"][i])
    there = set(range(begin, end + 1)) <= set(words)
    ends = ((first, begin), (final, end)) if there else ()
    loss = sum(objectives.cross_entropy(logits, words.index(place)) for logits, place in ends)
    return {"answer_loss": loss, "accuracy": exact, "f1": f1, "held": float(there)}


def expected(folder, rewarded, params):
    """The means of the three documents at `params`."""
    trained, base, batch = made(folder)
    own = params["params"]
    params = {"params": own | {"base": own["base"] | {"embed": base["params"]["base"]["embed"]}}}
    now, rows = retainer(folder)(params)._asdict(), []
    for i, (then, fifo, brought) in enumerate(at_first(folder)):
        np.testing.assert_array_equal(now["held"][i], then["held"])  # the same blocks go
        count = int((np.asarray(batch["stream"][i]) != 0).any(1).sum())
        did = [{name: np.float64(x[:count]) for name, x in each.items()} for each in (row(now, i), then)]
        parts = objectives.actor_critic(*did, brought[rewarded][:count], trained.config.actor_critic)
        by_block = {name: part / count for name, part in parts.items()}
        found = answered(folder, params, i, then["held"][-1].tolist())
        fixed = answered(folder, params, i, fifo)
        assert fixed["held"]
        loss = fixed["answer_loss"] + found["answer_loss"] + by_block["loss"]
        rows.append(found | by_block | {"base_loss": fixed["answer_loss"], "loss": loss})
    return objectives.means(rows)


@pytest.mark.parametrize("rewarded", REWARDS)
def test_the_loss_is_the_spans_and_the_actor_critics(folder, rewarded):
    (loss, metrics), _ = ran(folder, rewarded)
    want = expected(folder, rewarded, made(folder)[1])
    np.testing.assert_allclose(loss, want.pop("loss"), rtol=1e-4)
    assert set(metrics) == set(want)
    for name, value in want.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert 0 < want["held"] < 1 and want["answer_loss"] > 0 and want["f1"] > 0


@pytest.mark.parametrize("rewarded", REWARDS)
def test_the_gradient_points_where_the_loss_falls(folder, rewarded):
    gradient, params = ran(folder, rewarded)[1], jax.device_get(made(folder)[1])
    assert_slopes(gradient, lambda params: expected(folder, rewarded, params)["loss"], params)
