"""What is minimised in stream QA, against NumPy: the answers, rehearsal and a memory's own loss; values and slopes.

The model itself shows what was rehearsed, so that nothing here knows which key draws what.

Slips tried, each of which fails a test here: the weights of two terms swapped, either way; a term left out; the
memory's own loss left out, or without a slope; the answer's weight forgotten; sums over the batch, the microbatches or
the devices in place of means; accuracy the other way; slots without a slope; fragments drawn anywhere though there is
a sampler, or drawn though the best were wanted; negatives from the stream itself; sampled candidates, or the share of
hidden items, not as the config says.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from models.asking import ITEMS, WIDTH, N, T, example, shape, system
from oracles import objectives
from training.slopes import assert_slopes
from training.tiny import random_params, tiny

from memjax.experiments.prepare import prepare
from memjax.experiments.stream_qa import RehearsalConfig, answer_objective, build, build_sampler, rehearsal_objective
from memjax.experiments.stream_qa.gradient_balance import balanced
from memjax.memories import Memory, Slots
from memjax.models import MemoryModel
from memjax.models.fragments import Fragments
from memjax.training.step import init_state, make_step

WEIGHTS = {"recollection": 1.3, "familiarity": 0.4, "answer": 0.7}
ROWS = 3


class Summing(Memory):
    """Slots that are sums of what was read, and a loss of its own with a slope everywhere."""

    width: int = WIDTH

    def setup(self):
        self.into = self.param("into", jax.nn.initializers.normal(1.0), (self.width, self.num_slots, self.width))

    def initial_state(self):
        return jnp.zeros((self.num_slots, self.width))

    def write(self, state, features, mask, *, key=None):
        read = jnp.where(mask[:, None], features, 0).sum(0)
        state = jnp.where(mask.any(), jnp.tanh(0.5 * state + jnp.einsum("d,dke->ke", read, self.into)), state)
        return state, jnp.where(mask.any(), (state**2).mean(), 0)

    def slots(self, state):
        return Slots(state, jnp.ones(self.num_slots, bool))


class Shown(MemoryModel):
    """Shows what it is to rehearse, row after row of a batch."""

    def rehearse(self, slots, fragments, *, negatives, key, **told):
        assert not any(value is not None for value in told.values())  # neither vectors nor among
        jax.debug.callback(lambda *seen: SHOWN.append(jax.tree.map(np.asarray, seen)), slots, fragments, key)
        return super().rehearse(slots, fragments, negatives=negatives, key=key)


SHOWN = []  # (slots, fragments, key) of each row


def rehearsed(**changes):
    drawn = {"fragments": 2, "mask_ratio": 0.5, "sampler": "random", "deterministic": True, "negatives": 0}
    return RehearsalConfig(**{**WEIGHTS, **drawn, "layers": 1, "heads": 2, "norm_slots": False, **changes})


# By name: the answers, whether they are asked for in words, what is rehearsed, and whether a sampler chooses it.
CASES = {
    "history": ("classes", False, rehearsed(), True),
    "random": ("candidates", True, rehearsed(fragments=3, negatives=6, mask_ratio=0.4), False),
    "none": ("click", False, rehearsed(fragments=0), False),
}


def batch(answer, text, rows=ROWS):
    """As a training step makes it. Padding: a segment and a half of one row, none of the next, the end of the third."""
    each = [example(answer, text, seed) for seed in range(rows)]
    made = {name: np.stack([row[name] for row in each]) for name in each[0]}
    made["mask"][1], made["mask"][2] = True, np.arange(T)[:, None] < T - 1
    made["stream"] = np.random.default_rng(3).integers(0, ITEMS, (rows, T, N))  # padding may hold anything
    made |= {f"other_{name}": np.roll(made[name], 1, axis=0) for name in ("stream", "mask")}
    made = {name: jnp.asarray(value) for name, value in made.items()}
    return made | {"key": jax.random.split(jax.random.key(5), rows)}


@functools.cache
def made(case):
    """`(model, its parameters, the sampler's, the objective)`."""
    answer, text, weights, history = CASES[case]
    hidden = 0 if answer == "click" else 1  # three logits are so few that a kink of their hidden layer is seen
    model = Shown(shape(answer, text), Summing(3), WIDTH, 2, hidden, 1, 2)
    sampler, frozen = system("sampler", answer, text) if history else (None, None)
    loss = rehearsal_objective(model, weights, weights.fragments > 0, sampler)
    return model, jax.device_get(random_params(model, example(answer, text))), frozen, loss


@functools.cache
def ran(case):
    """`(loss, metrics, gradient, what was shown of each row)`."""
    _, params, frozen, loss = made(case)
    SHOWN.clear()
    found = jax.jit(jax.value_and_grad(loss, has_aux=True))(params, frozen, batch(*CASES[case][:2]))
    jax.effects_barrier()
    (total, metrics), gradient = jax.device_get(found)
    return total, metrics, gradient, sorted(SHOWN, key=lambda seen: row_of(seen[1], batch(*CASES[case][:2])))


def places(fragments, given, row):
    """For each drawn fragment the segments of the row's stream that it may be."""
    segments = np.where(given["mask"][row], given["stream"][row], 0)
    return [np.flatnonzero((segments == items).all(1)) for items in fragments.items[fragments.drawn]]


def row_of(fragments, given):
    """The one row of a batch from whose stream all fragments are. They are shown in any order."""
    (row,) = [row for row in range(ROWS) if all(map(len, places(fragments, given, row)))]
    return row


@functools.cache
def outputs(case):
    """`(params, batch, fragments of each row or None) -> ` what the model puts out for each row, jitted."""
    model = made(case)[0]

    def recalled(model, slots, items, real, hidden):
        return model.rehearser(slots, model.embed(items), real, hidden)

    def one(params, row, fragments):
        slots, aux_loss = model.apply(params, row["stream"], row["mask"], method="memorize")
        logits = model.apply(params, slots, row["query"], row.get("candidates"), method="answer")
        found = {"slots": slots.values, "logits": logits, "aux_loss": aux_loss}
        if fragments is None:
            return found
        items, parts = jnp.stack([fragments.items, fragments.negative]), (fragments.real, fragments.hidden)
        vectors, judged = jax.vmap(lambda items: model.apply(params, slots, items, *parts, method=recalled))(items)
        return found | {"recalled": vectors[0], "positive": judged[0], "negative": judged[1]}

    return jax.jit(jax.vmap(one, (None, 0, 0)))


@functools.cache
def slots_of(case):
    """The slots of each row, memorized alone."""
    model, params, *_ = made(case)
    memorize = jax.jit(jax.vmap(functools.partial(model.apply, params, method="memorize")))
    given = batch(*CASES[case][:2])
    return np.asarray(memorize(given["stream"], given["mask"])[0].values)


def expected(case, params):
    """`(loss, means)` by the oracle, with what was shown."""
    answer, text, weights, _ = CASES[case]
    given, shown = batch(answer, text), ran(case)[3]
    fragments = Fragments(*map(np.stack, zip(*(row[1] for row in shown), strict=True))) if shown else None
    found, rows = jax.device_get(outputs(case)(params, given, fragments)), []
    table = params["params"]["embed"]["embedding"]
    for i in range(ROWS):
        now = {name: value[i] for name, value in found.items()}
        label = int(given["label"][i])
        row = objectives.answer(now["logits"], label) | {"aux_loss": now["aux_loss"]}
        if answer == "click":
            row["answer_loss"] = objectives.click_loss(now["logits"][1], label)
        if shown:
            _, parts, key = shown[i]
            sampled = jax.random.randint(key, (weights.negatives,), 0, ITEMS).tolist() if weights.negatives else None
            row["recollection_loss"] = objectives.recollection(
                now["recalled"], table, parts.items, parts.hidden, parts.drawn, sampled
            )
            row["familiarity_loss"] = objectives.familiarity(now["positive"], now["negative"], parts.contrast)
        rows.append(row)
    return objectives.rehearsal(rows, WEIGHTS)


@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_weighted_terms_and_the_memorys_own(case):
    total, metrics, _, shown = ran(case)
    want, means = expected(case, made(case)[1])
    assert len(shown) == (0 if case == "none" else ROWS)
    assert set(metrics) == set(means)
    np.testing.assert_allclose(total, want, rtol=1e-5)
    for name, value in metrics.items():
        np.testing.assert_allclose(value, means[name], rtol=1e-5, err_msg=name)
    # None of the terms could be left out, or have the weight of another, unseen.
    terms = sorted(value for name, value in means.items() if name.endswith("_loss"))
    assert terms[0] > 0.1 and np.diff(terms).min() > 0.01
    assert case == "random" or 0 < metrics["accuracy"] < 1


@pytest.mark.parametrize("case", CASES)
def test_the_gradient_points_where_the_loss_falls(case):
    assert_slopes(ran(case)[2], lambda params: expected(case, params)[0], made(case)[1])


@pytest.mark.parametrize("case", ["history", "random"])
def test_what_is_rehearsed_is_of_the_same_stream_and_comes_from_its_own_slots(case):
    given, slots = jax.device_get(batch(*CASES[case][:2])), slots_of(case)
    for row, (seen, parts, _) in enumerate(ran(case)[3]):
        np.testing.assert_allclose(seen.values, slots[row], rtol=1e-5)
        other = (row - 1) % ROWS
        elsewhere = set(given["stream"][other][given["mask"][other]])
        # Of 3 real items, 2 are hidden at ratio .5 and 1 at .4; one of the others is another stream's.
        for f in np.flatnonzero(parts.drawn):
            real = parts.real[f].sum()
            assert real > 0 and parts.hidden[f].sum() == max(1, np.floor(CASES[case][2].mask_ratio * real + 0.5))
            assert not (parts.hidden[f] & ~parts.real[f]).any()
            changed = parts.negative[f] != parts.items[f]
            assert changed.sum() == (real > parts.hidden[f].sum()) == parts.contrast[f]
            assert not (changed & (parts.hidden[f] | ~parts.real[f])).any()
            assert set(parts.negative[f][changed]) <= elsewhere


def test_the_sampler_chooses_the_best_segment_of_each_half():
    answer, text, _, _ = CASES["history"]
    (sampler, frozen), given = system("sampler", answer, text), batch(answer, text)

    def score(stream, mask, query):
        means, _ = sampler.apply(frozen, stream, mask, method="memorize")
        return sampler.apply(frozen, means, query, method="scores")

    scores = np.asarray(jax.vmap(score)(given["stream"], given["mask"], given["query"]))
    for row, (_, parts, _) in enumerate(ran("history")[3]):
        real = np.flatnonzero(given["mask"][row].any(1))
        halves = np.split(real, [len(real) // 2])
        best = [half[np.argmax(scores[row, half])] for half in halves]
        assert parts.drawn.all()
        assert all(b in found for b, found in zip(best, places(parts, jax.device_get(given), row), strict=True))


# Answers alone: of the sampler, and of the systems that read the stream directly.

ALONE = {"sampler": ("classes", False), "directly": ("candidates", True), "multi_hop": ("click", False)}


@functools.cache
def alone(name):
    """`(model, parameters, (params, batch) -> logits of each row)`."""
    model, params = system(name, *ALONE[name])

    def one(params, row):
        slots, _ = model.apply(params, row["stream"], row["mask"], method="memorize")
        return model.apply(params, slots, row["query"], row.get("candidates"), method="answer")

    return model, jax.device_get(params), jax.jit(jax.vmap(one, (None, 0)))


def mean_answer(name, params, given):
    rows = zip(alone(name)[2](params, given), given["label"].tolist(), strict=True)
    return objectives.means([objectives.answer(*row) for row in rows])


@pytest.mark.parametrize("name", ALONE)
def test_without_a_memory_the_loss_is_the_mean_of_the_answers(name):
    model, params, _ = alone(name)
    given = batch(*ALONE[name])
    total, metrics = jax.jit(answer_objective(model))(params, None, given)
    want = mean_answer(name, params, given) | {"aux_loss": 0}
    assert set(metrics) == set(want) and metrics["aux_loss"] == 0
    for found in (total, metrics["answer_loss"]):
        np.testing.assert_allclose(found, want["answer_loss"], rtol=1e-5)
    np.testing.assert_allclose(metrics["accuracy"], want["accuracy"])


def test_a_step_follows_the_mean_of_all_rows_however_they_are_cut():
    """Two devices, two microbatches each, two rows in each of these."""
    model, params, _ = alone("sampler")
    given = batch(*ALONE["sampler"], rows=8)
    types = (jax.sharding.AxisType.Auto,) * 4
    axes, devices = ("data", "fsdp", "sequence", "model"), jax.devices()[:2]
    mesh = jax.make_mesh((2, 1, 1, 1), axes, axis_types=types, devices=devices)
    descent = optax.sgd(1.0)
    step = make_step(answer_objective(model), descent, mesh, 8, 2, seed=0)
    own = jax.NamedSharding(mesh, jax.P())
    rows = {name: given[name] for name in ("stream", "mask", "query", "label")}
    rows = jax.device_put(rows, jax.NamedSharding(mesh, jax.P("data")))
    state, metrics = step(jax.device_put(init_state(params, descent), own), None, rows)
    np.testing.assert_allclose(metrics["answer_loss"], mean_answer("sampler", params, given)["answer_loss"], rtol=1e-5)
    moved = jax.tree.map(lambda before, after: before - np.asarray(after), params, state.params)
    assert_slopes(moved, lambda params: mean_answer("sampler", params, given)["answer_loss"], params)


def test_an_answer_that_no_model_can_give_has_no_part_in_the_loss():
    model, params, _ = alone("sampler")
    given = batch(*ALONE["sampler"], rows=3)
    given["label"] = jnp.full_like(given["label"], objectives.NOTHING)
    gradient = jax.jit(jax.grad(lambda params: answer_objective(model)(params, None, given)[0]))(params)
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(gradient))


def test_where_rehearsal_comes_first_answers_have_no_weight_before_that_step():
    weights = rehearsed(fragments=3, negatives=6, mask_ratio=0.4, answer_after=7)
    model, params, frozen, _ = made("random")
    loss = jax.jit(rehearsal_objective(model, weights, True, None))
    given, whole = batch(*CASES["random"][:2]), ran("random")
    for step, answering in ((6, 0), (7, 1)):
        total, metrics = loss(params, frozen, given | {"step": jnp.full(ROWS, step)})
        assert metrics["answering"] == answering
        without = (1 - answering) * WEIGHTS["answer"] * metrics["answer_loss"]
        np.testing.assert_allclose(total, whole[0] - without, rtol=1e-5)
        assert metrics["answer_loss"] > 0.1


def test_annealed_rehearsal_weighs_less_by_the_same_amount_with_every_step_and_then_nothing():
    weights = rehearsed(fragments=3, negatives=6, mask_ratio=0.4, anneal_steps=8)
    model, params, frozen, _ = made("random")
    loss = jax.jit(rehearsal_objective(model, weights, True, None))
    given, whole = batch(*CASES["random"][:2]), ran("random")
    for step, left in ((0, 1), (2, 0.75), (7, 0.125), (8, 0), (50, 0)):
        total, metrics = loss(params, frozen, given | {"step": jnp.full(ROWS, step)})
        parts = [WEIGHTS[name] * metrics[f"{name}_loss"] for name in ("recollection", "familiarity")]
        np.testing.assert_allclose(total, whole[0] - (1 - left) * sum(parts), rtol=1e-5)
        assert metrics["rehearsing"] == left and min(parts) > 0.01


@functools.cache
def pulls(balance, **weights):
    """`(loss, gradient in the memory, gradient in the rehearser)` of one row, which is asked by text."""
    weights = rehearsed(fragments=3, negatives=6, mask_ratio=0.4, balance=balance, **weights)
    model, params, frozen, _ = made("random")
    row = {name: value[2:3] for name, value in batch(*CASES["random"][:2]).items()}
    loss = jax.jit(jax.value_and_grad(lambda p: rehearsal_objective(model, weights, True, None)(p, frozen, row)[0]))
    total, gradient = jax.device_get(loss(params))
    return total, gradient["params"]["memory"]["into"], jax.tree.leaves(gradient["params"]["rehearser"])


def test_balanced_rehearsal_pulls_at_the_memory_by_its_share_and_not_by_its_weights():
    alone = pulls(0.0, recollection=0.0, familiarity=0.0)[1]
    once, twice, heavy = pulls(1.0), pulls(2.0), pulls(1.0, recollection=13.0, familiarity=4.0)
    np.testing.assert_allclose(once[0], pulls(0.0)[0], rtol=1e-6)  # what is minimised is told as before
    np.testing.assert_allclose(twice[1] - alone, 2 * (once[1] - alone), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(heavy[1], once[1], rtol=1e-4, atol=1e-6)
    for pulled, before in zip(heavy[2], once[2], strict=True):  # the rehearser learns by the weights
        np.testing.assert_allclose(pulled, 10 * before, rtol=1e-4, atol=1e-5)  # that of keys' biases is rounding alone
    assert np.abs(once[1] - alone).max() > 1e-3


def test_two_uses_of_slots_pull_at_them_as_hard_as_is_asked():
    rng = np.random.default_rng(0)
    slots, first, second = rng.normal(size=(3, 4, 2, 5)).astype(np.float32)
    second[1] = first[2] = 0

    def loss(slots, first, second):
        one, other = balanced(slots, 0.5)
        return (one * first).sum() + (other * second).sum()

    found = jax.vmap(jax.grad(loss))(slots, first, second)
    for i in range(4):
        size, other = np.linalg.norm(first[i]), np.linalg.norm(second[i])
        wanted = first[i] + (0.5 * size / other * second[i] if other else 0)
        np.testing.assert_allclose(found[i], wanted, rtol=1e-5, atol=1e-7)


def test_an_experiment_minimises_what_its_config_weighs():
    weights = {f"rehearsal__{name}": weight for name, weight in WEIGHTS.items()}
    prepared = prepare(tiny("demo,memory=compressive", task__length=10, **weights))
    sampler, last = prepared.phases
    rows = {name: jnp.asarray(x) for name, x in prepared.task.examples("train", np.arange(2)).items()}
    rows |= {f"other_{name}": rows[name][::-1] for name in ("stream", "mask")}
    rows["key"] = jax.random.split(jax.random.key(0), 2)
    first = {name: x[0] for name, x in rows.items()}
    models = build_sampler(prepared.config, prepared.task.shape), build(prepared.config, prepared.task.shape)
    frozen, params = (random_params(model, first) for model in models)
    total, metrics = jax.jit(last.loss)(params, frozen, rows)
    terms = [metrics["aux_loss"], *(weight * metrics[f"{name}_loss"] for name, weight in WEIGHTS.items())]
    np.testing.assert_allclose(total, sum(terms), rtol=1e-5)
    assert np.diff(sorted(metrics[f"{name}_loss"] for name in ("aux", *WEIGHTS))).min() > 0.01 < metrics["aux_loss"]
    assert set(jax.eval_shape(sampler.loss, frozen, None, rows)[1]) == {"answer_loss", "accuracy", "aux_loss"}
