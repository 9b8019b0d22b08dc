"""A memory is asked through its slots alone; heads; many questions on one memory; bfloat16."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from models.asking import (
    ANSWERS,
    CHOICES,
    ITEMS,
    QUERIES,
    SYSTEMS,
    WIDTH,
    K,
    N,
    T,
    example,
    fragments,
    memory,
    method,
    shape,
    system,
)
from oracles.checking import assert_close, assert_finite, assert_same
from training.tiny import random_params

from memjax import memories
from memjax.memories import RehearsalMemory, Slots, memorize
from memjax.models import MemoryModel
from memjax.models.readers import ClassHead
from memjax.training.objective import answer_metrics

every_answer = pytest.mark.parametrize("answer", ANSWERS)


def asked(answer="classes", text=False, **options):
    """(params, example, slots, logits) of an asked memory."""
    _, params = system("memory", answer, text, **options)
    one = example(answer, text)
    slots, _ = method("memorize", "memory", answer, text, **options)(params, one["stream"], one["mask"])
    logits = method("answer", "memory", answer, text, **options)(params, slots, *asks(one))
    return params, one, slots, logits


def asks(one):
    """What a question has of an example."""
    return [one[name] for name in ("query", "candidates") if name in one]


# The memory is the only way from the stream to the answer.


def test_answer_takes_slots_and_query_and_nothing_of_the_stream():
    assert list(inspect.signature(MemoryModel.answer).parameters) == ["self", "slots", "query", "candidates"]
    assert list(inspect.signature(MemoryModel.rehearse).parameters)[:3] == ["self", "slots", "fragments"]


@pytest.mark.parametrize("name", ["rehearsal", "continual"])
def test_no_gradient_reaches_the_stream_but_through_the_slots(name):
    width = {"update_heads": 2} if name == "continual" else {}
    model = MemoryModel(shape(), memory(name, **width), WIDTH, 2, 1, 1, 2)
    one = example()
    params = random_params(model, one)
    items = jax.random.normal(jax.random.key(1), (T, N, WIDTH))

    def answer(items, cut):
        def run(model):
            state, _ = memorize(model.memory, items, one["mask"])
            slots = model.memory.slots(state)
            if cut:
                slots = jax.tree.map(jax.lax.stop_gradient, slots)
            return model.answer(slots, one["query"])

        return model.apply(params, method=run)

    slope = jax.jit(jax.jacobian(answer), static_argnums=1)
    through = slope(items, False)
    assert through.shape == (CHOICES, T, N, WIDTH)
    np.testing.assert_array_equal((through != 0).any((0, 3)), one["mask"])
    np.testing.assert_array_equal(slope(items, True), 0)


@pytest.mark.parametrize("name", ["hpmn", "mimn"])
def test_no_question_goes_through_the_memory(name):
    """As what is asked for does in the public code of HPMN: then each question would cost a memory of its own."""
    made = memories.create(name, slots=4, width=WIDTH)
    model = MemoryModel(shape("click"), made, WIDTH, 2, 1, 1, 2)
    one = example("click")
    params = random_params(model, one)

    def shown(params):
        slots, aux_loss = model.apply(params, one["stream"], one["mask"], method="memorize")
        return slots.values.sum() + aux_loss, slots

    def logit(params):
        return model.apply(params, shown(params)[1], one["query"], method="answer")[-1]

    def reached(gradient):
        return {
            part for part, own in gradient["params"].items() if any((leaf != 0).any() for leaf in jax.tree.leaves(own))
        }

    by_slots, by_logit = jax.jit(lambda params: (jax.grad(shown, has_aux=True)(params)[0], jax.grad(logit)(params)))(
        params
    )
    assert reached(by_slots) == {"embed", "memory"}
    assert reached(by_logit) == {"embed", "memory", "query", "reader", "head"}


@every_answer
def test_with_constant_slots_no_parameter_that_reads_the_stream_has_a_gradient(answer):
    model, params = system("memory", answer)
    one = example(answer)
    slots = Slots(jax.random.normal(jax.random.key(0), (K, WIDTH)), jnp.ones(K, bool))

    def loss(params, slots):
        return model.apply(params, slots, one["query"], one.get("candidates"), method="answer")[-1]

    by_params, by_slots = jax.jit(jax.grad(loss, argnums=(0, 1), allow_int=True))(params, slots)
    own = {name: any((leaf != 0).any() for leaf in jax.tree.leaves(g)) for name, g in by_params["params"].items()}
    assert own == {"embed": False, "memory": False, "rehearser": False, "query": True, "reader": True, "head": True}
    assert (by_slots.values != 0).any(-1).all()


def test_answering_works_after_the_stream_is_deleted():
    _, params = system()
    one = example()
    slots, _ = method("memorize", "memory")(params, one["stream"], one["mask"])
    before = method("answer", "memory")(params, slots, one["query"])
    for name in ("stream", "mask"):
        one[name].delete()
        assert one[name].is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        method("memorize", "memory")(params, one["stream"], one["mask"])
    assert_same(method("answer", "memory")(params, slots, one["query"]), before)


class CountingMemory(RehearsalMemory):
    """Counts, on the host, how often a stream is read."""

    def encode(self, items, mask):
        jax.debug.callback(lambda: READ.append(1))
        return super().encode(items, mask)


READ = []


def test_many_questions_on_one_memory_cost_one_memorization():
    model = MemoryModel(shape(), CountingMemory(K, WIDTH, N, layers=1, heads=2), WIDTH, 2, 1, 1, 2)
    _, params = system()
    one, queries = example(), jnp.arange(QUERIES)

    @jax.jit
    def ask_all(params, stream, mask, queries):
        slots, _ = model.apply(params, stream, mask, method="memorize")
        return jax.vmap(lambda query: model.apply(params, slots, query, method="answer"))(queries)

    READ.clear()
    logits = jax.block_until_ready(ask_all(params, one["stream"], one["mask"], queries))
    jax.effects_barrier()
    assert len(READ) == 1
    slots, _ = method("memorize", "memory")(params, one["stream"], one["mask"])
    alone = [method("answer", "memory")(params, slots, query) for query in queries]
    assert logits.shape == (QUERIES, CHOICES)
    assert_close(logits, jnp.stack(alone), 1e-5)
    assert len({row.tobytes() for row in np.asarray(logits)}) == QUERIES


# Padding, and what is real.


@pytest.mark.parametrize("name", ["memory", *SYSTEMS])
def test_what_the_padding_of_the_stream_holds_never_matters(name):
    model, params = system(name)
    one = example()

    @jax.jit
    def slope(params, stream):
        def loss(params):
            slots, _ = model.apply(params, stream, one["mask"], method="memorize")
            logits = model.apply(params, slots, one["query"], method="answer")
            return answer_metrics(logits, one["label"])["answer_loss"], logits

        return jax.grad(loss, has_aux=True)(params)

    clean = slope(params, one["stream"])
    assert_finite(clean)
    for garbage in (3, -7, 10**6):
        assert_same(slope(params, jnp.where(one["mask"], one["stream"], garbage)), clean)
    real = jnp.where(one["mask"], (one["stream"] + 1) % ITEMS, 0)
    assert (slope(params, real)[1] != clean[1]).any()


@pytest.mark.parametrize("name", ["memory", *SYSTEMS])
def test_padding_at_the_end_of_the_stream_changes_nothing(name):
    _, params = system(name)
    one = example()

    def logits(stream, mask):
        slots, _ = method("memorize", name)(params, stream, mask)
        return method("answer", name)(params, slots, one["query"])

    short = logits(one["stream"][:3], one["mask"][:3])
    stream = jnp.pad(one["stream"][:3], ((0, 2), (0, 0)), constant_values=5)
    assert_close(logits(stream, jnp.pad(one["mask"][:3], ((0, 2), (0, 0)))), short, 1e-5)


def test_the_padding_of_a_query_text_never_matters():
    _, params = system("memory", "classes", True)
    _, one, slots, logits = asked("classes", True)
    answer = method("answer", "memory", "classes", True)
    longer = jnp.concatenate([one["query"], jnp.zeros(3, int)])
    assert_close(answer(params, slots, longer), logits, 1e-6)
    assert_close(answer(params, slots, one["query"][:3]), logits, 1e-6)
    assert np.abs(answer(params, slots, one["query"].at[2].set(0)) - logits).max() > 1e-3
    assert np.abs(answer(params, slots, one["query"][jnp.array([1, 0, 2, 3])]) - logits).max() > 1e-3


def test_the_padding_of_a_candidate_never_matters():
    params, one, slots, logits = asked("candidates")
    longer = jnp.pad(one["candidates"], ((0, 0), (0, 3)))
    assert_close(method("answer", "memory", "candidates")(params, slots, one["query"], longer), logits, 1e-6)


def test_an_empty_candidate_is_none():
    params, one, slots, logits = asked("candidates")
    more = jnp.pad(one["candidates"], ((0, 2), (0, 0)))
    found = method("answer", "memory", "candidates")(params, slots, one["query"], more)
    assert_close(found[:CHOICES], logits, 1e-6)
    assert (found[CHOICES:] == -jnp.inf).all()


# Heads.


@every_answer
@pytest.mark.parametrize("text", [False, True])
def test_there_is_a_logit_for_every_answer(answer, text):
    *_, logits = asked(answer, text)
    assert logits.shape == (2 if answer == "click" else CHOICES,)
    assert logits.dtype == jnp.float32
    assert_finite(logits)


def test_permuting_the_candidates_permutes_the_logits():
    params, one, slots, logits = asked("candidates")
    order = jnp.array([3, 1, 4, 0, 2])
    permuted = method("answer", "memory", "candidates")(params, slots, one["query"], one["candidates"][order])
    assert_close(permuted, logits[order], 1e-6)
    assert len(set(np.asarray(logits).tolist())) == CHOICES


def test_candidates_are_read_by_weights_of_their_own():
    params, *_ = asked("candidates", True)
    assert "embed" in params["params"]["query"] and "QueryEncoder_0" in str(
        jax.tree_util.tree_structure(params["params"]["head"])
    )


@every_answer
@pytest.mark.parametrize("text", [False, True])
def test_questions_and_candidates_are_taken_so_many_times_larger(answer, text):
    params, one, slots, logits = asked(answer, text)
    model, _ = system("memory", answer, text)
    taken = jax.jit(functools.partial(model.clone(query_scale=3.0).apply, method="answer"))(params, slots, *asks(one))

    def scaled(path, leaf):
        of_query = "embed" in jax.tree_util.keystr(path) and path[1].key in ("query", "head")
        return 3 * leaf if of_query else leaf

    larger = jax.tree_util.tree_map_with_path(scaled, params)
    assert_close(taken, method("answer", "memory", answer, text)(larger, slots, *asks(one)), 1e-6)
    assert np.abs(taken - logits).max() > 1e-3


def class_logits(head, feature):
    """Oracle of the head for classes: layers of relu, then a linear one."""
    *hidden, last = (head[f"Dense_{layer}"] for layer in range(len(head)))
    for layer in hidden:
        feature = np.maximum(feature @ layer["kernel"] + layer["bias"], 0)
    return feature @ last["kernel"] + last["bias"]


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_the_head_for_classes_is_linear_after_its_hidden_layers(layers):
    head, feature = ClassHead(CHOICES, layers), np.random.default_rng(0).normal(size=WIDTH)
    params = head.init(jax.random.key(0), jnp.asarray(feature))["params"]
    assert len(params) == layers + 1
    own = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    logits = head.apply({"params": params}, jnp.asarray(feature))
    np.testing.assert_allclose(logits, class_logits(own, feature), atol=1e-5)


def test_two_of_equal_and_unequal_pairs_are_told_apart_by_a_hidden_layer_alone():
    """Why yes-or-no questions need one: no linear head, whatever its weights, answers "are these two the same?"."""
    same = jnp.eye(2).repeat(2, 0), jnp.tile(jnp.eye(2), (2, 1))
    pairs, labels = jnp.concatenate(same, 1), jnp.array([1, 0, 0, 1])

    def fitted(layers):
        head = ClassHead(2, layers)

        def loss(params):
            logits = jax.vmap(functools.partial(head.apply, params))(pairs)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        def descend(params, _):
            return jax.tree.map(lambda p, g: p - g, params, jax.grad(loss)(params)), None

        return loss(jax.lax.scan(descend, head.init(jax.random.key(0), pairs[0]), length=500)[0])

    assert fitted(0) > np.log(2) - 1e-3
    assert fitted(1) < 0.1


@pytest.mark.parametrize("label", [0, 1])
def test_the_loss_of_a_click_is_binary_cross_entropy(label):
    *_, logits = asked("click")
    logit = np.float64(logits[1] - logits[0])
    probability = 1 / (1 + np.exp(-logit))
    expected = -(label * np.log(probability) + (1 - label) * np.log(1 - probability))
    metrics = answer_metrics(logits, jnp.asarray(label))
    assert logits[0] == 0
    np.testing.assert_allclose(metrics["answer_loss"], expected, rtol=1e-5)
    assert metrics["accuracy"] == ((probability > 0.5) == label)


# Encoders, dtypes, baselines.


@pytest.mark.parametrize("encoder", ["transformer", "gru"])
def test_every_parameter_learns_with_either_encoder(encoder):
    model, params = system("memory", encoder=encoder)
    one = example()
    parts = fragments(one)

    @jax.jit
    def slope(params):
        def loss(params):
            slots, _ = model.apply(params, one["stream"], one["mask"], method="memorize")
            logits = model.apply(params, slots, one["query"], method="answer")
            rehearsed = model.apply(params, slots, parts, negatives=0, key=jax.random.key(0), method="rehearse")
            return answer_metrics(logits, one["label"])["answer_loss"] + sum(rehearsed)

        return jax.grad(loss)(params)

    gradients = slope(params)
    assert_finite(gradients)
    for path, gradient in jax.tree.leaves_with_path(gradients):
        where = jax.tree_util.keystr(path)
        # The text encoder is not used for a query that is an id; the bias of keys does not change a softmax.
        if "['text']" not in where and not where.endswith("['key']['bias']"):
            assert (gradient != 0).any(), where


def test_the_encoders_are_not_the_same():
    logits = [asked(encoder=encoder)[-1] for encoder in ("transformer", "gru")]
    assert (logits[0] != logits[1]).any()


@pytest.mark.parametrize("name", ["memory", *SYSTEMS])
@pytest.mark.parametrize("answer", ["classes", "candidates"])
def test_bfloat16_is_near_float32_and_its_logits_and_parameters_are_float32(name, answer):
    def logits(dtype):
        _, params = system(name, answer, True, dtype=dtype)
        assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float32")}
        one = example(answer, True)
        slots, _ = method("memorize", name, answer, True, dtype=dtype)(params, one["stream"], one["mask"])
        answered = method("answer", name, answer, True, dtype=dtype)
        return answered(params, slots, *asks(one)), slots

    (exact, _), (low, slots) = logits(jnp.float32), logits(jnp.bfloat16)
    assert low.dtype == jnp.float32
    assert name != "memory" or slots.values.dtype == jnp.float32
    assert_close(low, exact, 0.05)
    assert (low != exact).any()


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_a_direct_reader_keeps(name):
    _, params = system(name)
    one = example()
    slots, aux = method("memorize", name)(params, one["stream"], one["mask"])
    assert aux == 0
    expected = {"directly": [True], "multi_hop": one["mask"].reshape(-1), "sampler": one["mask"].any(1)}[name]
    np.testing.assert_array_equal(slots.mask, expected)


def test_the_samplers_segments_are_means_of_their_real_items():
    _, params = system("sampler")
    one = example()
    slots, _ = method("memorize", "sampler")(params, one["stream"], one["mask"])
    table = np.asarray(params["params"]["embed"]["embedding"], np.float64)
    for segment in range(T):
        ids = np.asarray(one["stream"])[segment][np.asarray(one["mask"])[segment]]
        expected = table[ids].mean(0) if len(ids) else np.zeros(WIDTH)
        np.testing.assert_allclose(slots.values[segment], expected, atol=1e-6)


def test_the_sampler_answers_by_the_attention_that_it_draws_with():
    _, params = system("sampler")
    one = example()
    slots, _ = method("memorize", "sampler")(params, one["stream"], one["mask"])
    scores = np.asarray(method("scores", "sampler")(params, slots, one["query"]), np.float64)
    real = np.asarray(one["mask"]).any(1)
    weights = np.where(real, np.exp(scores), 0) / np.exp(scores)[real].sum()
    own = jax.tree.map(lambda x: np.asarray(x, np.float64), params["params"])
    query = own["query"]["embed"]["embedding"][int(one["query"])]
    hidden = np.tanh(
        query @ own["attention_w_left"]
        + np.asarray(slots.values, np.float64) @ own["attention_w_right"]
        + own["attention_b"]
    )
    np.testing.assert_allclose(scores, hidden @ own["attention_v"], atol=1e-5)
    feature = np.concatenate([weights @ np.asarray(slots.values, np.float64), query])
    logits = method("answer", "sampler")(params, slots, one["query"])
    np.testing.assert_allclose(logits, class_logits(own["head"]["score"], feature), atol=1e-4)
