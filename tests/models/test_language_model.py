"""The language model: an oracle of its blocks, streams cut anywhere, prefill and decode, dropout."""

import functools
import warnings

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import memory_network, sequence
from oracles.checking import assert_close, float64

from memjax.errors import MemjaxError
from memjax.models import LMM, MAC, MAG, MAL, LanguageModel, MemN2NLanguage, WindowAttention, generate, language_model

VOCABULARY, WIDTH, DEPTH, HIDDEN, L = 13, 8, 2, 12, 10
SIZES = {"width": WIDTH, "heads": 2, "persistent": 2}
DEEP = {"memory_layers": 2, "gradient_at": "chunk", "chunk": 4}
LAYERS = {
    "attention": functools.partial(WindowAttention, window=4, **SIZES),
    "LMM": functools.partial(LMM, **SIZES),
    "MAC": functools.partial(MAC, window=4, **SIZES),
    "MAG": functools.partial(MAG, window=4, **SIZES),
    "MAL": functools.partial(MAL, window=4, **SIZES),
    "LMM, deep": functools.partial(LMM, **SIZES, **DEEP),
    "MAC, deep": functools.partial(MAC, window=4, **SIZES, **DEEP),
}
every_model = pytest.mark.parametrize("name", [*LAYERS, "MemN2N"])
TOKENS = jnp.asarray(np.random.default_rng(0).integers(VOCABULARY, size=L))


def model_of(name, **changes):
    if name == "MemN2N":
        return MemN2NLanguage(**{"vocabulary": VOCABULARY, "width": WIDTH, "hops": 3, "memory": 4, **changes})
    sizes = {"depth": DEPTH, "hidden": HIDDEN, "make_layer": LAYERS[name]}
    return LanguageModel(VOCABULARY, WIDTH, **{**sizes, **changes})


@functools.cache
def made(name, **changes):
    """Parameters, moved, so that no one of a norm hides a mistake."""
    leaves, treedef = jax.tree.flatten(jax.jit(model_of(name, **changes).init)(jax.random.key(0), TOKENS))
    rng = np.random.default_rng(3)
    return treedef.unflatten([leaf + jnp.asarray(rng.normal(size=leaf.shape) / 4, leaf.dtype) for leaf in leaves])


@functools.cache
def run(name):
    return jax.jit(model_of(name).apply)


def test_its_blocks_are_their_equations():
    params = float64(made("attention")["params"])

    def norm(i, x):
        return sequence.normed(x) * params[f"norms_{i}"]["scale"]

    x = params["embed"]["embedding"][np.asarray(TOKENS)] * WIDTH**0.5
    for i in range(DEPTH):
        x = x + sequence.window_attention(params[f"layers_{i}"], norm(2 * i, x), heads=2, window=4)
        a, b = np.split(norm(2 * i + 1, x) @ params[f"opened_{i}"]["kernel"], 2, axis=-1)
        x = x + (sequence.silu(a) * b) @ params[f"closed_{i}"]["kernel"]
    expected = norm(2 * DEPTH, x) @ params["embed"]["embedding"].T
    assert_close(np.asarray(run("attention")(made("attention"), TOKENS)[0]), expected, 2e-5)


def test_memn2n_is_its_equations():
    params = float64(made("MemN2N")["params"])
    expected = memory_network.language_model(params, np.asarray(TOKENS), hops=3, memory=4)
    assert_close(np.asarray(run("MemN2N")(made("MemN2N"), TOKENS)[0]), expected, 2e-5)


@every_model
def test_prefill_and_decoding_give_what_one_call_gives(name):
    whole, _ = run(name)(made(name), TOKENS)
    logits, state = run(name)(made(name), TOKENS[:6])
    parts = [logits]
    for token in TOKENS[6:]:
        logits, state = run(name)(made(name), token[None], state)
        parts.append(logits)
    assert_close(jnp.concatenate(parts), whole, 5e-5)


@every_model
def test_its_state_is_of_one_size_whatever_the_length(name):
    shapes = [
        jax.tree.map(jnp.shape, jax.eval_shape(run(name), made(name), jnp.zeros(n, int))[1]) for n in (1, 7, 1000)
    ]
    own = jax.eval_shape(lambda params: model_of(name).apply(params, method="initial_state"), made(name))
    assert shapes[0] == shapes[1] == shapes[2] == jax.tree.map(jnp.shape, own)


@every_model
def test_the_likeliest_tokens_are_generated_and_it_goes_on_where_it_was(name):
    params = made(name)

    @functools.partial(jax.jit, static_argnums=1)
    def go_on(tokens, count, state=None):
        return generate(model_of(name), params, tokens, count, state=state)

    tokens, _ = go_on(TOKENS[:4], 6)
    logits, _ = run(name)(made(name), jnp.concatenate([TOKENS[:4], tokens]))
    np.testing.assert_array_equal(logits[3:-1].argmax(-1), tokens)
    first, state = go_on(TOKENS[:4], 2)
    more, _ = go_on(first[-1:], 4, state)
    np.testing.assert_array_equal(jnp.concatenate([first, more]), tokens)


@every_model
def test_a_long_prompt_is_read_in_blocks(name, monkeypatch):
    shallow = {"hops": 1} if name == "MemN2N" else {"depth": 1}  # how many blocks it has is the other tests' matter
    model, params = model_of(name, **shallow), made(name, **shallow)

    def states():
        make = lambda tokens: generate(model, params, tokens, 3)  # noqa: E731
        return [jax.jit(make)(TOKENS[:length]) for length in (9, 10)]

    at_once = states()
    monkeypatch.setattr(language_model, "BLOCK", 3)  # so that the last block is whole, and is not
    for (tokens, state), (expected, expected_state) in zip(states(), at_once, strict=True):
        np.testing.assert_array_equal(tokens, expected)
        jax.tree.map(lambda a, b: assert_close(a, b, 5e-5), state, expected_state)


@pytest.mark.parametrize("key", [None, 0])
def test_tokens_are_generated_by_one_program_however_often(key):
    traced = []

    class Counted(nn.Module):
        @nn.compact
        def __call__(self, x, state=None, reset=None):
            traced.append(len(x))
            return nn.Dense(WIDTH)(x), () if state is None else state

        def initial_state(self):
            return ()

    model = model_of("LMM", depth=1, make_layer=Counted)
    params = model.init(jax.random.key(0), TOKENS)
    counts = []
    for seed, temperature in enumerate((1.0, 2, np.float32(0.5))):
        own = None if key is None else jax.random.key(seed)
        tokens, _ = generate(model, params, TOKENS[:4], 3, key=own, temperature=temperature)
        assert tokens.shape == (3,)
        counts.append(len(traced))
    assert counts[0] == counts[1] == counts[2] > 0


def test_tokens_are_drawn_from_the_models_distribution():
    model, params, prompt = model_of("LMM"), made("LMM"), TOKENS[:4]
    one = lambda key: generate(model, params, prompt, 1, key=key, temperature=2.0)[0][0]  # noqa: E731
    draw = jax.jit(jax.vmap(one))
    tokens = draw(jax.random.split(jax.random.key(1), 4000))
    logits, _ = run("LMM")(params, prompt)
    expected = np.asarray(jax.nn.softmax(logits[-1] / 2))
    assert np.abs(np.bincount(tokens, minlength=VOCABULARY) / 4000 - expected).max() < 0.03


@pytest.mark.parametrize("name", ["LMM", "MemN2N"])
def test_dropout_is_for_training_alone_and_follows_its_key(name):
    params = made(name)

    def out(key):
        rngs = {} if key is None else {"dropout": key}
        return model_of(name, dropout=0.5).apply(params, TOKENS, train=key is not None, rngs=rngs)[0]

    out = jax.jit(out)
    still, one, two = out(None), *(out(jax.random.key(seed)) for seed in (0, 1))
    assert_close(still, run(name)(made(name), TOKENS)[0], 1e-5)
    assert not np.allclose(one, two) and not np.allclose(one, still)


def test_without_a_perceptron_there_are_no_weights_for_it():
    names = set(jax.eval_shape(lambda: model_of("LMM", hidden=0).init(jax.random.key(0), TOKENS))["params"])
    assert names == {"embed", "layers_0", "layers_1", "norms_0", "norms_1", "norms_2"}


def test_logits_that_are_not_finite_give_no_token():
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, made("LMM"))
    assert (generate(model_of("LMM"), broken, TOKENS[:4], 3)[0] == -1).all()


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (jnp.array([0, VOCABULARY]), "must be in .0, 13.; they go from 0 to 13"),
        (jnp.array([-1]), "they go from -1"),
        (jnp.array([0.5]), "whole numbers"),
        (jnp.zeros((2, 3), int), r"\[L\]"),
        ([1, 2], r"an array \[L\] of .*, not \[1, 2\]"),
    ],
)
def test_what_is_no_token_is_one_line(unchecked, tokens, words):
    for call in (lambda: model_of("LMM").apply(made("LMM"), tokens), lambda: generate(model_of("LMM"), {}, tokens, 1)):
        with pytest.raises(MemjaxError, match=words):
            call()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"at": [1, 2]}, "at must be an array of places"),
        ({"at": np.ones(2)}, "at must be an array of places"),
        ({"at": np.array([0, 5])}, "at must be places of 5 tokens, not from 0 to 5"),
        ({"at": np.array([-6])}, "not from -6 to -6"),
        ({"reset": np.zeros(3, bool)}, "reset must be a bool array"),
    ],
)
def test_places_and_documents_that_cannot_be_are_one_line(unchecked, given, words):
    with pytest.raises(MemjaxError, match=words):
        model_of("LMM").init(jax.random.key(0), jnp.arange(5), **given)


@pytest.mark.parametrize(
    "given", [{"count": 2.5}, {"count": 0}, {"count": 1, "temperature": "a"}, {"count": 1, "temperature": 0}]
)
def test_counts_and_temperatures_that_cannot_be_are_one_line(unchecked, given):
    with pytest.raises(MemjaxError, match=r"count must be a whole number|temperature must be a number above 0"):
        generate(model_of("LMM"), made("LMM"), TOKENS[:3], **given)


def test_a_prompt_of_numpy_is_taken_without_a_warning(unchecked):
    model = LanguageModel(vocabulary=5, width=4, depth=1, hidden=0, make_layer=functools.partial(LMM, width=4, heads=2))
    params = jax.jit(model.init)(jax.random.key(0), jnp.zeros(2, int))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokens, _ = generate(model, params, np.array([1, 2]), 2)
    assert tokens.dtype == jnp.int32


def test_a_tiny_temperature_draws_the_likeliest():
    likeliest = run("LMM")(made("LMM"), TOKENS[:3])[0][-1].argmax()
    for seed in range(3):
        tokens, _ = generate(model_of("LMM"), made("LMM"), TOKENS[:3], 1, key=jax.random.key(seed), temperature=1e-38)
        assert tokens[0] == likeliest


def test_a_place_that_is_not_there_has_no_logits_where_it_is_not_known():
    logits, _ = run("LMM")(made("LMM"), TOKENS[:3], at=jnp.array([1, 9]))
    assert np.isfinite(logits[0]).all() and np.isnan(logits[1]).all()


def test_the_state_of_another_model_is_one_line(unchecked):
    _, state = run("LMM")(made("LMM"), TOKENS)
    for other, words in ((state[:1], "a tuple of 2"), (state[0], "another layer's|a tuple of 2")):
        with pytest.raises(MemjaxError, match=words):
            model_of("LMM").apply(made("LMM"), TOKENS, other)
    with pytest.raises(MemjaxError, match="not WordsState"):
        model_of("MemN2N").apply(made("MemN2N"), TOKENS, state)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("LMM", {"dropout": 1.0}, "dropout"),
        ("LMM", {"hidden": -1}, "hidden"),
        ("LMM", {"make_layer": (LMM,)}, "make_layer has 1 makers, depth is 2"),
        ("LMM", {"make_layer": (LMM, LMM(8, 2))}, "make_layer must make a layer"),
        ("MemN2N", {"dropout": -0.1}, "dropout"),
        ("MemN2N", {"width": 0}, "width must be a whole number of at least 1, not 0"),
    ],
)
def test_sizes_that_a_model_cannot_have_are_one_line(name, change, words):
    with pytest.raises(MemjaxError, match=words):
        model_of(name, **change).init(jax.random.key(0), TOKENS)


@pytest.mark.parametrize(
    ("prompt", "count", "temperature", "words"),
    [(TOKENS[:0], 3, 1.0, "at least one token"), (TOKENS, 0, 1.0, "count"), (TOKENS, 2, 0.0, "temperature")],
)
def test_what_cannot_be_generated_is_one_clear_line(prompt, count, temperature, words):
    with pytest.raises(MemjaxError, match=words):
        generate(model_of("LMM"), made("LMM"), prompt, count, temperature=temperature)


@pytest.mark.parametrize("key", [0, jax.random.split(jax.random.key(0), 2)])
def test_what_is_no_key_is_one_clear_line(unchecked, key):
    with pytest.raises(MemjaxError, match=r"key must be a key, as jax\.random\.key makes one"):
        generate(model_of("LMM"), made("LMM"), TOKENS, 2, key=key)


def test_what_is_read_is_left_out_in_training():
    model, tokens = MemN2NLanguage(vocabulary=40, width=16, hops=2, memory=30, dropout=0.5), jnp.arange(30)
    params = model.init(jax.random.key(0), tokens)
    params = jax.tree.map(lambda x: 10 * x, params)

    def total(params):
        logits, _ = model.apply(params, tokens, train=True, rngs={"dropout": jax.random.key(1)})
        return (logits**2).sum()

    slopes = jax.grad(total)(params)["params"]
    for name in ("key_words", "value_words"):
        assert 0.4 < (slopes[name][:29] == 0).mean() < 0.65, name
