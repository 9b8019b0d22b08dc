"""Items as sums of their parts, in every system; queries of the same parts; recollection among such items.

Slips that were tried, each of which fails a test here: -1 read as the last part; the query embedded as the item of its
number; queries without `item_scale`; the mean in place of the sum.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close
from training.tiny import random_params

from memjax import memories
from memjax.models import DIEN, RUM, Caser, DirectlyReason, GRU4Rec, MemoryModel, MultiHopReason, SASRec
from memjax.models.embeddings import PartEmbed, item_embedding
from memjax.models.fragments import build_fragments
from memjax.tasks import Parts, TaskShape

WIDTH, T, N = 8, 3, 4
# Problems 0 to 3, skills 4 and 5, outcomes 6 and 7; the last problem has no skill.
QUERIES = np.array([[0, 4], [1, 4], [2, 5], [3, -1]])
TABLE = np.column_stack([np.repeat(QUERIES, 2, axis=0), np.tile([6, 7], 4)])
SHAPE = TaskShape(
    8, T, N, 4, None, "click", 2, questions=(T, N), item_parts=Parts(TABLE, 8), query_parts=Parts(QUERIES, 8)
)
PLAIN = TaskShape(8, T, N, 8, None, "click", 2, query_is_item=True)
MEMORY = memories.create("rehearsal", slots=3, width=WIDTH, segment=N, layers=1, heads=2)


def model_of(shape):
    return MemoryModel(shape, MEMORY, WIDTH, 1, 1, 1, 2, item_scale=3.0)


SYSTEMS = {
    "memory": model_of(SHAPE),
    "directly": DirectlyReason(SHAPE, WIDTH, 1, jnp.float32),
    "multi_hop": MultiHopReason(SHAPE, WIDTH, 1, jnp.float32, 1),
    **{system.__name__: system(SHAPE, WIDTH) for system in (GRU4Rec, Caser, RUM, DIEN, SASRec)},
}
STREAM = np.arange(T * N).reshape(T, N) * 5 % 8
MASK = np.arange(T * N).reshape(T, N) < 10


def by_hand(rows, table, ids):
    """The sums of the vectors of the parts, one id after another."""
    flat = [sum(rows[part] for part in table[i] if part >= 0) for i in np.ravel(ids)]
    return np.stack(flat).reshape(*np.shape(ids), -1)


def test_an_item_is_the_sum_of_its_parts_and_a_query_that_of_its_own():
    embed = PartEmbed(SHAPE.item_parts, WIDTH)
    params = embed.init(jax.random.key(0), jnp.array(0))
    rows = np.float64(params["params"]["rows"]["embedding"])
    assert rows.shape == (8, WIDTH)
    assert_close(embed.apply(params, jnp.asarray(STREAM)), by_hand(rows, TABLE, STREAM), 1e-6)
    assert_close(embed.apply(params, method=lambda e: e.embedding), by_hand(rows, TABLE, np.arange(8)), 1e-6)
    asked = embed.apply(params, jnp.arange(4), SHAPE.query_parts, method="of")
    assert_close(asked, by_hand(rows, QUERIES, np.arange(4)), 1e-6)
    assert embed.num_embeddings == 8


def test_items_with_parts_and_vectors_start_as_large_as_items_without():
    table = Parts(np.arange(3 * 4000).reshape(4000, 3), 3 * 4000)
    shape = TaskShape(4000, T, N, 4000, None, "click", 2, item_parts=table)
    vectors = jax.random.normal(jax.random.key(1), (4000, 30))
    for given, items in (
        (shape, jnp.arange(4000)),
        (TaskShape(4000, T, N, 4000, None, "click", 2), jnp.arange(4000)),
        (TaskShape(0, T, N, 4000, None, "click", 2, item_width=30), vectors),
    ):
        embed = item_embedding(given, 64, jnp.float32)
        items = embed.apply(embed.init(jax.random.key(0), items[0]), items)
        assert abs(jnp.linalg.norm(items, axis=1).mean() - 1) < 0.05


@functools.cache
def params_of(name):
    return random_params(SYSTEMS[name], {"stream": STREAM, "mask": MASK, "query": np.array(1)})


def logits(model, params, queries=4):
    def run(model):
        slots, _ = model.memorize(jnp.asarray(STREAM), jnp.asarray(MASK))
        return jax.vmap(model.answer, (None, 0))(slots, jnp.arange(queries))

    return model.apply(params, method=run)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_sees_items_and_queries_through_their_parts_alone(name):
    """What a skill and its problems share can be moved from one to the other, and nothing is changed by it."""
    params = params_of(name)
    found = logits(SYSTEMS[name], params)
    rows = params["params"]["embed"]["rows"]["embedding"]
    assert rows.shape == (8, WIDTH) and np.isfinite(found).all()
    other = rows.at[0].add(rows[4] - rows[5]).at[1].add(rows[4] - rows[5]).at[4].set(rows[5])
    moved = {"params": params["params"] | {"embed": {"rows": {"embedding": other}}}}
    assert_close(logits(SYSTEMS[name], moved), found, 1e-5)
    changed = {"params": params["params"] | {"embed": {"rows": {"embedding": rows.at[7].multiply(-1.0)}}}}
    assert (jnp.abs(logits(SYSTEMS[name], changed) - found) > 1e-4).any()  # the outcomes in the stream matter


def test_a_query_is_as_large_as_the_items_are():
    """A query of the same parts as an item is that item: also in the memory's own units."""
    params, model = params_of("memory"), SYSTEMS["memory"]
    rows = params["params"]["embed"]["rows"]["embedding"].at[6:].set(0)
    params = {"params": params["params"] | {"embed": {"rows": {"embedding": rows}}}}
    query = model.apply(params, jnp.array(2), method="encode_query")
    assert_close(query, model.apply(params, jnp.array(5), jnp.array(True), method="embed_items"), 1e-6)


def test_recollection_is_among_all_items_as_sums_of_their_parts():
    params, key = params_of("memory"), jax.random.key(3)
    stream, mask = jnp.asarray(STREAM), jnp.asarray(MASK)
    chosen, drawn = jnp.arange(T), jnp.ones(T, bool)
    fragments = build_fragments(key, stream, mask, stream[::-1], mask[::-1], chosen, drawn, mask_ratio=0.5)

    def losses(model):
        slots, _ = model.memorize(stream, mask)
        return model.rehearse(slots, fragments, negatives=0, key=key), model.recollect(slots, fragments)

    found = SYSTEMS["memory"].apply(params, method=losses)
    # The same model without parts, whose items are the sums.
    rows = np.asarray(params["params"]["embed"]["rows"]["embedding"])
    plain = {name: p for name, p in params["params"].items() if name != "embed"}
    plain["embed"] = {"embedding": jnp.asarray(by_hand(rows, TABLE, np.arange(8)), jnp.float32)}
    assert_close(found[0], model_of(PLAIN).apply({"params": plain}, method=losses)[0], 1e-5)
    assert (found[1] == model_of(PLAIN).apply({"params": plain}, method=losses)[1]).all()
