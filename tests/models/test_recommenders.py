"""GRU4REC, Caser, RUM, DIEN and SASRec against loops over their equations; prefixes; what they may not see."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import recommenders as oracle
from oracles.checking import assert_close, assert_finite, assert_same
from training.tiny import random_params

from memjax.errors import MemjaxError
from memjax.models import DIEN, RUM, Caser, GRU4Rec, RUMFeatures, SASRec
from memjax.tasks.stream_task import TaskShape

T, N, WIDTH, ITEMS, LAST, WINDOW, LAYERS = 6, 3, 8, 20, 3, 6, 2
SHAPE = TaskShape(ITEMS, T, N, ITEMS, None, "click", 2, questions=(T + 1, 1), query_is_item=True)
KEY = jax.random.key(7)
SYSTEMS = {
    "gru4rec": GRU4Rec(SHAPE, WIDTH),
    "caser": Caser(SHAPE, WIDTH, last=LAST, horizontal=4, vertical=2),
    "rum": RUM(SHAPE, WIDTH, last=LAST),
    "rum_features": RUMFeatures(SHAPE, WIDTH, features=3),
    "dien": DIEN(SHAPE, WIDTH, hidden=(6, 5)),
    "sasrec": SASRec(SHAPE, WIDTH, window=WINDOW, layers=LAYERS),
}
DROPS, DRAWS = ("caser", "sasrec"), ("dien", "sasrec")
every_system = pytest.mark.parametrize("name", SYSTEMS)

# What the oracle keeps of some clicks, and the logit of a target.
KEPT = {
    "gru4rec": oracle.gru4rec,
    "caser": functools.partial(oracle.caser, size=LAST),
    "rum": functools.partial(oracle.rum, size=LAST),
    "rum_features": oracle.rum_features,
    "dien": oracle.dien,
    "sasrec": functools.partial(oracle.sasrec, window=WINDOW, layers=LAYERS),
}
LOGIT = {
    "gru4rec": oracle.item_logit,
    "caser": oracle.item_logit,
    "rum": oracle.rum_logit,
    "rum_features": oracle.rum_features_logit,
    "dien": oracle.dien_logit,
    "sasrec": oracle.sasrec_logit,
}
# Padding before, between and behind items, and a segment of nothing else.
MASK = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0], [0, 1, 1]], bool)
STREAM = np.where(MASK, np.arange(T * N).reshape(T, N), 0)  # no item twice, so that each has a gradient of its own
UNSEEN = ITEMS - 1


@functools.cache
def params_of(name):
    return random_params(SYSTEMS[name], {"stream": STREAM, "mask": MASK, "query": np.array(1)})


@functools.cache
def asked(name):
    """`(params, stream, mask, key) -> slots and logits of all items after 0 to T segments, the auxiliary loss`."""
    model = SYSTEMS[name]

    def ask(params, stream, mask, key=None):
        def run(model):
            slots, aux_loss = model.memorize_at(stream, mask, jnp.arange(T + 1), key=key)
            ranked = jax.vmap(jax.vmap(model.answer, (None, 0)), (0, None))(slots, jnp.arange(ITEMS))
            return slots, ranked, aux_loss

        return model.apply(params, method=run)

    return jax.jit(ask)


def ask(name, stream=STREAM, mask=MASK, key=None):
    return asked(name)(params_of(name), jnp.asarray(stream), jnp.asarray(mask), key)


def prefix(segments):
    return STREAM[:segments][MASK[:segments]].tolist()


@every_system
def test_what_is_kept_of_each_prefix_and_each_logit_are_the_equations(name):
    p = jax.tree.map(np.float64, params_of(name)["params"])
    slots, logits, _ = ask(name)
    for after in range(T + 1):
        clicks = prefix(after)
        values, logit = slots.values[after][slots.mask[after]], logits[after]
        kept = KEPT[name](p, clicks)
        want = [LOGIT[name](p, kept, item) for item in range(ITEMS)]
        assert_close(values, kept.reshape(-1, WIDTH), 1e-5)
        assert_close(logit, np.stack([np.zeros(ITEMS), want], axis=1), 1e-5)


@every_system
def test_a_whole_stream_is_its_longest_prefix(name):
    model = SYSTEMS[name]
    slots, _, _ = ask(name)
    whole, aux_loss = jax.jit(functools.partial(model.apply, method="memorize"))(params_of(name), STREAM, MASK)
    assert_close(whole, jax.tree.map(lambda leaf: leaf[-1], slots), 1e-6)
    assert aux_loss == 0 and aux_loss.dtype == jnp.float32


@every_system
def test_what_the_padding_holds_and_where_it_stands_never_matters(name):
    clean = ask(name)
    for garbage in (3, -7, 10**6):
        assert_same(ask(name, np.where(MASK, STREAM, garbage)), clean)
    together = np.zeros(T * N, int)
    together[: MASK.sum()] = prefix(T)
    packed = ask(name, together.reshape(T, N), np.arange(T * N).reshape(T, N) < MASK.sum())
    assert_close(packed[1][-1], clean[1][-1], 1e-5)
    assert np.abs(ask(name, (STREAM + 1) % ITEMS)[1][-1] - clean[1][-1]).max() > 1e-3


def remembered(name, clicks):
    """The clicks that a system can know of."""
    if name in ("caser", "rum"):
        return clicks[max(0, len(clicks) - LAST) :]
    half = WINDOW // 2
    return clicks[max(0, (len(clicks) - 1) // half - 1) * half :] if name == "sasrec" else clicks


@every_system
def test_an_answer_depends_on_the_clicks_before_it_and_on_none_behind(name):
    """By the gradient of every item's vector, each of which the stream has once."""

    @jax.jit
    @jax.jacrev
    def by_item(table):
        params = params_of(name)
        changed = {"params": params["params"] | {"embed": {"embedding": table}}}
        return asked(name)(changed, jnp.asarray(STREAM), jnp.asarray(MASK))[1][:, UNSEEN, 1]

    found = by_item(params_of(name)["params"]["embed"]["embedding"])
    assert_finite(found)
    for after in range(T + 1):
        clicks = remembered(name, prefix(after))
        moved = np.flatnonzero((found[after] != 0).any(-1)).tolist()
        if clicks or name in ("caser", "dien"):
            assert moved == sorted([*clicks, UNSEEN])
        else:  # nothing is known, whatever is asked
            assert moved == []


@every_system
def test_memorizing_sees_no_query_and_answering_no_stream(name):
    model = type(SYSTEMS[name])
    assert list(inspect.signature(model.memorize).parameters) == ["self", "stream", "mask", "key"]
    assert list(inspect.signature(model.memorize_at).parameters) == ["self", "stream", "mask", "after", "key"]
    assert list(inspect.signature(model.answer).parameters) == ["self", "slots", "query", "candidates"]


@every_system
def test_a_key_is_for_dropout_and_drawn_negatives_alone(name):
    plain, keyed, again, other = ask(name), *(ask(name, key=key) for key in (KEY, KEY, jax.random.key(8)))
    assert_same(keyed, again)
    assert_same(ask(name), plain)
    same = jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), keyed[:2], plain[:2]))
    assert all(same) == (name not in DROPS)
    if name in DROPS:
        assert (keyed[1][-1] != other[1][-1]).any()
    assert (keyed[2] > 0) == (name in DRAWS)
    assert (keyed[2] != other[2]) == (name in DRAWS)


@pytest.mark.parametrize("name", DROPS)
def test_of_items_and_of_every_part_that_works_on_them_dropout_leaves_its_share_out(name):
    """Of nearly all only the last bias is left."""
    model, params = SYSTEMS[name].clone(dropout=1 - 1e-6), params_of(name)
    own = params["params"]
    left = {"caser": lambda: np.maximum(own["dense"]["bias"], 0), "sasrec": lambda: own["norm"]["bias"]}[name]()
    read = functools.partial(model.apply, method="memorize")
    slots, _ = jax.jit(read)(params, jnp.asarray(STREAM), jnp.asarray(MASK), key=KEY)
    assert_close(slots.values[0], left, 1e-6)


@functools.cache
def slope(name):
    """`(params, mask) -> gradient` of something that all answers and the auxiliary loss have a part in."""

    def total(params, mask):
        _, logits, aux_loss = asked(name)(params, jnp.asarray(STREAM), mask, KEY)
        return (logits[..., 1] ** 2).sum() + aux_loss

    return jax.jit(jax.grad(total))


@every_system
def test_every_parameter_learns(name):
    gradients = slope(name)(params_of(name), jnp.asarray(MASK))
    assert_finite(gradients)
    for path, gradient in jax.tree.leaves_with_path(gradients):
        assert (gradient != 0).any(), jax.tree_util.keystr(path)


@every_system
def test_a_stream_of_nothing_is_no_accident(name):
    assert_finite(slope(name)(params_of(name), jnp.zeros((T, N), bool)))
    _, logits, aux_loss = ask(name, mask=np.zeros((T, N), bool), key=KEY)
    assert aux_loss == 0
    assert_finite(logits)


@every_system
def test_products_are_taken_in_bfloat16_where_that_is_wanted(name):
    model = SYSTEMS[name].clone(dtype=jnp.bfloat16)
    params = params_of(name)

    def ask(params):
        slots, aux_loss = model.apply(params, jnp.asarray(STREAM), jnp.asarray(MASK), key=KEY, method="memorize")
        return model.apply(params, slots, jnp.array(1), method="answer"), aux_loss

    jaxpr = jax.make_jaxpr(ask)(params)
    assert [out.aval.dtype for out in jaxpr.jaxpr.outvars] == [jnp.float32, jnp.float32]
    assert "dot_general" in str(jaxpr) and "bf16" in str(jaxpr)


# The auxiliary loss.


@functools.cache
def loss_of(name, items):
    """A system without dropout on so many items, its parameters, and `(params, key) -> auxiliary loss`."""
    shape = TaskShape(items, T, N, items, None, "click", 2, query_is_item=True)
    model = SYSTEMS[name].clone(shape=shape, auxiliary=0.5, **({"dropout": 0.0} if name == "sasrec" else {}))
    stream = np.where(MASK, np.arange(T * N).reshape(T, N) ** 2 // 3 % items, 0)
    params = random_params(model, {"stream": stream, "mask": MASK, "query": np.array(1)})

    def loss(params, key):
        return model.apply(params, jnp.asarray(stream), jnp.asarray(MASK), key=key, method="memorize")[1]

    return params, stream[MASK].tolist(), loss


def states_of(name, p, clicks):
    if name == "dien":
        return oracle.dien(p, clicks)
    return [oracle.sasrec(p, clicks[:count], WINDOW, LAYERS) for count in range(1, len(clicks) + 1)]


@pytest.mark.parametrize("name", DRAWS)
def test_the_auxiliary_loss_is_the_equation(name):
    """Of two items the one that is not clicked is always drawn."""
    params, clicks, loss = loss_of(name, 2)
    assert 0 < sum(clicks) < len(clicks)
    p = jax.tree.map(np.float64, params["params"])
    want = oracle.next_click_loss(p, states_of(name, p, clicks), clicks, [1 - item for item in clicks[1:]])
    np.testing.assert_allclose(jax.jit(loss)(params, KEY), 0.5 * want, rtol=1e-5)


@pytest.mark.parametrize("name", DRAWS)
def test_each_other_item_is_drawn_as_often(name):
    params, clicks, loss = loss_of(name, 4)
    p = jax.tree.map(np.float64, params["params"])
    states = states_of(name, p, clicks)
    every = [[(item + i) % 4 for item in clicks[1:]] for i in (1, 2, 3)]
    want = 0.5 * np.mean([oracle.next_click_loss(p, states, clicks, negatives) for negatives in every])
    found = jax.jit(jax.vmap(loss, (None, 0)))(params, jax.random.split(KEY, 1000))
    assert abs(found.mean() - want) < 4 * found.std() / 1000**0.5
    assert found.std() > 0.01


# What cannot be.


@every_system
@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (TaskShape(ITEMS, T, N, ITEMS, None, "classes", 3, query_is_item=True), "answers are clicks"),
        (TaskShape(ITEMS, T, N, 9, None, "click", 2), "queries are items"),
        (TaskShape(1, T, N, 1, None, "click", 2, query_is_item=True), "at least 2 items"),
    ],
    ids=["classes", "other queries", "one item"],
)
def test_another_task_is_one_clear_line(name, shape, words):
    refused(name, words, shape=shape)


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        ("gru4rec", {"width": 0}, "width must be at least 1"),
        ("caser", {"last": 0}, "last must be"),
        ("caser", {"vertical": 0}, "vertical must be at least 1"),
        ("caser", {"dropout": 1.0}, r"dropout must be in \[0, 1\)"),
        ("rum", {"last": 0}, "last must be at least 1"),
        ("rum_features", {"features": 0}, "features must be at least 1"),
        ("dien", {"hidden": (6, 0)}, "hidden must be a whole number of at least 1"),
        ("dien", {"auxiliary": -1.0}, "auxiliary must be at least 0"),
        ("sasrec", {"window": 7}, "window must be even"),
        ("sasrec", {"window": 0}, "window must be at least 1"),
        ("sasrec", {"auxiliary": -1.0}, "auxiliary must be at least 0"),
        ("sasrec", {"layers": 0}, "layers must be"),
        ("sasrec", {"dropout": -0.1}, r"dropout must be in \[0, 1\)"),
    ],
    ids=str,
)
def test_sizes_that_cannot_be_are_one_clear_line(name, sizes, words):
    refused(name, words, **sizes)


def refused(name, words, **changes):
    with pytest.raises(MemjaxError, match=words) as caught:
        SYSTEMS[name].clone(**changes)
    assert "\n" not in str(caught.value)
