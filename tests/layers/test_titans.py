"""LMM, MAC, MAG, MAL and attention over a window: their oracles, streams cut anywhere, and what no token may see."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import sequence
from oracles.checking import assert_close, assert_finite, assert_same, float64

from memjax.errors import MemjaxError
from memjax.layers import LMM, MAC, MAG, MAL, RULES, SurpriseSettings, WindowAttention, rule

WIDTH, HEADS, WINDOW, L = 8, 2, 4, 11
SIZES = {"width": WIDTH, "heads": HEADS, "persistent": 3}
DEEP = {"memory_layers": 2, "memory_norm": True, "gradient_at": "chunk"}
LAYERS = {
    "attention": WindowAttention(**SIZES, window=WINDOW),
    "LMM": LMM(**SIZES, impl="closed_form"),
    "LMM, auto": LMM(**SIZES, chunk=3),
    "LMM, ablated": LMM(**SIZES, momentum=False, forgetting=False, convolution=False),
    "LMM, horizon": LMM(**SIZES, horizon=3.0),
    "LMM, each write bounded": LMM(**SIZES, bounded="write"),
    "LMM, per chunk": LMM(WIDTH, HEADS, gradient_at="chunk", chunk=3),
    "LMM, deep": LMM(**SIZES, **DEEP, chunk=3),
    "LMM, TTT": LMM(**SIZES, memory_norm=True, momentum=False, forgetting=False, gradient_at="chunk", chunk=3),
    "LMM, huber": LMM(**SIZES, loss="huber", gradient_at="chunk", chunk=3),
    "LMM, l3": LMM(**SIZES, loss="l3", impl="sequential"),
    "LMM, decay first": LMM(**SIZES, decay_before_gradient=True, rate_bound=0.5),
    "LMM, by channel": LMM(**SIZES, decay="channel", chunk=3),
    "LMM, by channel and chunk": LMM(**SIZES, decay="channel", gradient_at="chunk", chunk=3),
    "LMM, KDA": LMM(WIDTH, HEADS, **rule("kda"), chunk=5, impl="closed_form"),
    "MAC, no convolution": MAC(**SIZES, window=WINDOW, convolution=False),
    "MAC, by channel": MAC(**SIZES, window=WINDOW, decay="channel"),
    "MAL, KDA": MAL(**SIZES, window=WINDOW, **rule("kda"), chunk=3),
    "MAC, per chunk": MAC(WIDTH, HEADS, window=WINDOW, gradient_at="chunk", chunk=WINDOW),
    "MAC, deep": MAC(**SIZES, window=WINDOW, **DEEP, chunk=WINDOW),
    "MAG, deep": MAG(**SIZES, window=WINDOW, **DEEP, chunk=3),
    "MAL, deep": MAL(**SIZES, window=WINDOW, memory_layers=2, gradient_at="chunk", chunk=3),
    "MAC": MAC(**SIZES, window=WINDOW),
    "MAG": MAG(**SIZES, window=WINDOW, impl="closed_form"),
    "MAL": MAL(**SIZES, window=WINDOW),
}
# The published rules that are not among these, for two of the tests: cut anywhere, and no token sees a later one.
PUBLISHED = ("deltanet", "gated_deltanet", "titans_deep", "ttt_mlp", "l3")
EVERY = LAYERS | {f"LMM, {name}, published": LMM(WIDTH, HEADS, chunk=3, **rule(name)) for name in PUBLISHED}
every_layer = pytest.mark.parametrize("name", LAYERS)
every_rule = pytest.mark.parametrize("name", EVERY)


@functools.cache
def made(name):
    """Parameters of a layer, moved, so that no zero and no one hides a mistake."""
    leaves, treedef = jax.tree.flatten(jax.jit(EVERY[name].init)(jax.random.key(0), jnp.ones((2, WIDTH))))
    rng = np.random.default_rng(3)
    return treedef.unflatten([leaf + jnp.asarray(rng.normal(size=leaf.shape) / 4, leaf.dtype) for leaf in leaves])


@functools.cache
def run(name):
    return jax.jit(EVERY[name].apply)


@functools.cache
def beginning(name):
    """The state of nothing read."""
    return jax.jit(functools.partial(EVERY[name].apply, method="initial_state"))(made(name))


def tokens(length=L, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(length, WIDTH)), jnp.float32)


@every_layer
def test_no_dtype_and_no_rank_is_promoted_that_was_not_said(name):
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        jax.eval_shape(EVERY[name].apply, made(name), tokens())


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("attention", functools.partial(sequence.window_attention, heads=HEADS, window=WINDOW)),
        ("LMM", functools.partial(sequence.lmm, heads=HEADS)),
        ("LMM, horizon", functools.partial(sequence.lmm, heads=HEADS, horizon=3.0)),
        ("LMM, each write bounded", functools.partial(sequence.lmm, heads=HEADS, bounded="write")),
        ("LMM, per chunk", functools.partial(sequence.lmm, heads=HEADS, chunk=3)),
        ("LMM, deep", functools.partial(sequence.lmm, heads=HEADS, chunk=3)),
        ("LMM, TTT", functools.partial(sequence.lmm, heads=HEADS, chunk=3, momentum=False, forgetting=False)),
        ("LMM, huber", functools.partial(sequence.lmm, heads=HEADS, chunk=3, loss="huber")),
        ("LMM, l3", functools.partial(sequence.lmm, heads=HEADS, loss="l3")),
        ("LMM, decay first", functools.partial(sequence.lmm, heads=HEADS, decay_first=True, bound=0.5)),
        ("LMM, by channel", functools.partial(sequence.lmm, heads=HEADS)),
        ("LMM, by channel and chunk", functools.partial(sequence.lmm, heads=HEADS, chunk=3)),
        ("LMM, KDA", functools.partial(sequence.lmm, heads=HEADS, momentum=False, decay_first=True)),
        ("MAC, by channel", functools.partial(sequence.mac, heads=HEADS, window=WINDOW)),
        ("MAC, per chunk", functools.partial(sequence.mac, heads=HEADS, window=WINDOW, chunk=WINDOW)),
        ("MAC, deep", functools.partial(sequence.mac, heads=HEADS, window=WINDOW, chunk=WINDOW)),
        ("MAC", functools.partial(sequence.mac, heads=HEADS, window=WINDOW)),
    ],
)
def test_a_layer_is_its_equations(name, oracle):
    params, x = float64(made(name)["params"]), float64(tokens())
    out, _ = run(name)(made(name), tokens())
    lmm = name.startswith("LMM") and "persistent" in params
    in_front = params["persistent"] if lmm else np.zeros((0, WIDTH))  # of LMM they are tokens like others
    expected = oracle(params, np.concatenate([in_front, x]))[len(in_front) :]
    assert_close(np.asarray(out), expected, 2e-5)


@pytest.mark.parametrize("kind", ["", ", deep"])
def test_mag_and_mal_are_made_of_attention_and_memory(kind):
    def parts(name, x):
        params = float64(made(name)["params"])
        chunk = 3 if kind else None
        front = params["persistent"]
        remembered = sequence.lmm(params["memory"], np.concatenate([front, x]), HEADS, chunk)
        return params, front, remembered[: len(front)], remembered[len(front) :]

    x = float64(tokens())
    params, front, _, remembered = parts("MAG" + kind, x)
    attended = sequence.window_attention(params["attention"], x, HEADS, WINDOW, front)
    a, b = (sequence.normed(y) * params[f"norms_{i}"]["scale"] for i, y in enumerate((attended, remembered)))
    assert_close(np.asarray(run("MAG" + kind)(made("MAG" + kind), tokens())[0]), a * sequence.silu(b), 2e-5)

    params, front, of_front, remembered = parts("MAL" + kind, x)
    seen, front = (sequence.normed(y) * params["norm"]["scale"] for y in (x + remembered, front + of_front))
    attended = sequence.window_attention(params["attention"], seen, HEADS, WINDOW, front)
    assert_close(np.asarray(run("MAL" + kind)(made("MAL" + kind), tokens())[0]), remembered + attended, 2e-5)


@every_rule
@pytest.mark.parametrize("cuts", [(7,), (4, 8), (1, 2, 5, 8), range(1, L)])
def test_a_stream_may_be_cut_anywhere(name, cuts):
    """Pieces of few lengths, 1, 3, 4 and 7: each is compiled once."""
    whole, end = run(name)(made(name), tokens())
    state, parts = beginning(name), []
    for piece in np.split(np.asarray(tokens()), list(cuts)):
        out, state = run(name)(made(name), jnp.asarray(piece), state)
        parts.append(out)
    assert_close(jnp.concatenate(parts), whole, 2e-5)
    if not name.startswith("MAC"):  # whose state has room for tokens that are yet to come
        assert_close(state, end, 2e-5)


@pytest.mark.parametrize("published", RULES)
def test_every_published_rule_is_among_what_is_cut(published):
    names, wanted = {name for settings in RULES.values() for name in settings}, LMM(WIDTH, HEADS, **rule(published))
    assert any(
        all(getattr(layer, name) == getattr(wanted, name) for name in names)
        for layer in EVERY.values()
        if isinstance(layer, LMM) and layer.convolution
    )


RESETTING = {
    "attention": LAYERS["attention"],
    "LMM": LMM(WIDTH, HEADS),
    "LMM, l3": LMM(WIDTH, HEADS, loss="l3", impl="sequential"),
    "LMM, decay first": LMM(WIDTH, HEADS, decay_before_gradient=True),
    "LMM, KDA": LMM(WIDTH, HEADS, **rule("kda"), chunk=3),
    "LMM, per chunk": LMM(WIDTH, HEADS, gradient_at="chunk", chunk=4),
    "LMM, one chunk": LMM(WIDTH, HEADS, gradient_at="chunk", chunk=16),
    "LMM, huber": LMM(WIDTH, HEADS, loss="huber", gradient_at="chunk", chunk=3, convolution=False),
    "LMM, by channel and chunk": LMM(WIDTH, HEADS, decay="channel", gradient_at="chunk", chunk=3),
    "MAG": MAG(WIDTH, HEADS, window=WINDOW),
    "MAL": MAL(WIDTH, HEADS, window=WINDOW, chunk=3),
    "MAL, per chunk": MAL(WIDTH, HEADS, window=WINDOW, gradient_at="chunk", chunk=3),
    # Token by token:
    "LMM, deep": LMM(WIDTH, HEADS, **DEEP, chunk=3),
    "LMM, in front": LMM(**SIZES),
    "MAC": MAC(WIDTH, HEADS, window=WINDOW),
    "MAC, deep, in front": MAC(**SIZES, window=WINDOW, **DEEP, chunk=WINDOW),
    "MAG, in front": MAG(**SIZES, window=WINDOW, gradient_at="chunk", chunk=3),
    "MAL, deep, in front": MAL(**SIZES, window=WINDOW, **DEEP, chunk=3),
}


ROW = 12  # tokens


@functools.cache
def resetting(name):
    """A layer's compiled `apply` and its parameters."""
    layer = RESETTING[name]
    return jax.jit(layer.apply), jax.jit(layer.init)(jax.random.key(0), tokens())


def documents(starts):
    """The tokens of a row from each start to the next, and what is before the first."""
    return np.split(np.asarray(tokens(ROW)), [start for start in starts if start])


@pytest.mark.parametrize("name", RESETTING)
@pytest.mark.parametrize("starts", [(0, 3, 4, 10), (10,), range(ROW)])
def test_documents_in_one_row_are_what_they_are_in_rows_of_their_own(name, starts):
    """The rows are filled up with other tokens, which no token before them sees: all are of one compiled length."""
    (apply, params), x = resetting(name), tokens(ROW)
    reset = jnp.zeros(ROW, bool).at[jnp.array(starts)].set(True)
    before = apply(params, tokens(2, seed=1))[1]  # what the first document begins in, where it is not reset
    own = documents(starts)
    filled = [jnp.concatenate([jnp.asarray(piece), tokens(ROW, seed=3)])[:ROW] for piece in own]
    state = None if starts[0] == 0 else before
    outs = [apply(params, row, state if i == 0 else None)[0] for i, row in enumerate(filled)]
    wanted = jnp.concatenate([out[: len(piece)] for out, piece in zip(outs, own)])
    end = apply(params, jnp.asarray(own[-1]))[1]

    found, found_end = apply(params, x, before, reset=reset)
    assert_close(found, wanted, 2e-5)
    more, found_more = (apply(params, tokens(ROW, seed=2), state)[0] for state in (end, found_end))
    assert_close(found_more, more, 2e-5)
    state, outs = before, []
    for piece, flags in zip(np.split(np.asarray(x), 3), np.split(np.asarray(reset), 3)):
        out, state = apply(params, jnp.asarray(piece), state, reset=jnp.asarray(flags))
        outs.append(out)
    assert_close(jnp.concatenate(outs), wanted, 2e-5)


@pytest.mark.parametrize("name", RESETTING)
def test_gradients_of_documents_in_one_row_are_those_of_rows_of_their_own(name):
    starts = (0, 3, 4, 10)
    (_, params), apply = resetting(name), RESETTING[name].apply
    reset = jnp.zeros(ROW, bool).at[jnp.array(starts)].set(True)
    own = documents(starts)
    filled = jnp.stack([jnp.concatenate([jnp.asarray(piece), tokens(ROW, seed=3)])[:ROW] for piece in own])
    counted = jnp.arange(ROW) < jnp.array([[len(piece)] for piece in own])

    def alone(params):
        return jnp.square(jax.vmap(lambda row: apply(params, row)[0])(filled) * counted[..., None]).sum()

    def packed(params):
        return jnp.square(apply(params, tokens(ROW), reset=reset)[0]).sum()

    assert_close(jax.jit(jax.grad(packed))(params), jax.jit(jax.grad(alone))(params), 2e-4)


@pytest.mark.parametrize("name", ["attention", "LMM", "MAC", "MAG", "MAL"])
@pytest.mark.parametrize(
    "reset",
    [jnp.zeros(L - 1, bool), jnp.zeros(L), jnp.array([3, 5]), jnp.array(True), True, [True], jnp.zeros((L, L), bool)],
)
def test_what_marks_no_documents_is_one_line(name, reset, unchecked):
    with pytest.raises(
        MemjaxError, match=rf"reset must be a bool array \[{L}\], true where a document begins"
    ) as caught:
        RESETTING[name].init(jax.random.key(0), tokens(), reset=reset)
    assert "\n" not in str(caught.value)


@functools.cache
def slopes(name):
    """`(params, x, weights [L]) -> gradients by both` of the weighted squares of what comes out."""

    def weighted(params, x, weights):
        return (weights * jnp.square(EVERY[name].apply(params, x)[0]).sum(1)).sum()

    return jax.jit(jax.grad(weighted, (0, 1)))


@every_rule
def test_no_token_sees_what_comes_after_it(name):
    of = [slopes(name)(made(name), tokens(), weights)[1] for weights in jnp.eye(L)]
    by_token = np.abs(of).sum(2)  # [of, by]
    later = np.triu(np.ones((L, L), bool), 1)
    assert (by_token[later] == 0).all()
    assert (by_token[np.eye(L, dtype=bool)] > 0).all()
    reach = ~later
    if name == "attention":
        reach &= ~np.tril(np.ones((L, L), bool), -WINDOW)
        assert (by_token[~reach] == 0).all()
    if not name.startswith("MAC"):  # in MAC a segment sees those before it through the memory alone
        assert (by_token[reach] > 0).all()
    assert by_token[-1, 0] > 0 or name == "attention"


@pytest.mark.parametrize("name", ["attention", "LMM", "LMM, per chunk", "LMM, deep", "MAC", "MAC, deep", "MAG", "MAL"])
def test_a_state_of_nothing_read_may_be_donated(name):
    """None of its arrays is a parameter, which would be gone with it, or is there twice."""
    state = LAYERS[name].clone(persistent=0).apply(params := made(name), method="initial_state")
    arrays = [leaf for leaf in (*jax.tree.leaves(params), *jax.tree.leaves(state)) if isinstance(leaf, jax.Array)]
    held = [leaf.unsafe_buffer_pointer() for leaf in arrays if leaf.size]
    assert len(set(held)) == len(held)


@every_layer
def test_the_state_does_not_grow_and_an_empty_call_leaves_it(name):
    sizes = [
        jax.tree.map(jnp.shape, jax.eval_shape(run(name), made(name), tokens(length))[1]) for length in (3, 6, 900)
    ]
    assert sizes[0] == sizes[1] == sizes[2]
    _, state = run(name)(made(name), tokens(6))
    out, same = run(name)(made(name), tokens(0), state)
    assert out.shape == (0, WIDTH)
    assert_close(same, state, 0)


@pytest.mark.parametrize("name", ["LMM, ablated", "LMM, TTT", "LMM, KDA", "MAC", "MAG, deep", "MAL, KDA"])
def test_without_momentum_a_state_holds_none(name):
    def state(**settings):
        layer = LAYERS[name].clone(**settings)
        params = jax.eval_shape(layer.init, jax.random.key(0), tokens())
        return jax.eval_shape(functools.partial(layer.apply, method="initial_state"), params)

    one, other = state(momentum=True), state(momentum=False)
    one, other = (tree if name.startswith("LMM") else tree.memory for tree in (one, other))
    assert jax.tree.structure(one.memory.momentum) == jax.tree.structure(one.memory.memory)
    assert other.memory.momentum is None
    assert other == one._replace(memory=dataclasses.replace(one.memory, momentum=None))


@every_layer
def test_every_parameter_learns(name):
    of_params, _ = slopes(name)(made(name), tokens(), jnp.ones(L))
    assert_finite(of_params)
    for path, slope in jax.tree.leaves_with_path(of_params):
        assert not slope.size or jnp.abs(slope).max() > 1e-7, jax.tree_util.keystr(path)


@every_layer
def test_in_bfloat16_and_over_a_batch(name):
    layer = LAYERS[name].clone(dtype=jnp.bfloat16)
    batch = jnp.stack([tokens(seed=seed) for seed in range(3)])
    out, _ = jax.jit(jax.vmap(layer.apply, (None, 0)))(made(name), batch)
    assert_close(np.asarray(out[1], np.float64), np.asarray(run(name)(made(name), batch[1])[0], np.float64), 0.15)


@every_layer
@pytest.mark.parametrize("wide", ["bfloat16 parameters", "float64"])
def test_a_token_leaves_a_state_of_the_same_types(name, wide):
    """So that a scan over tokens may carry it, whatever the parameters were cast to, and where numbers are 64 bits."""
    with jax.enable_x64(wide == "float64"):
        dtype = jnp.bfloat16 if wide == "bfloat16 parameters" else jnp.float64
        layer, params = LAYERS[name], jax.tree.map(lambda leaf: leaf.astype(dtype), made(name))
        x = jax.ShapeDtypeStruct((1, WIDTH), dtype)
        state = jax.eval_shape(functools.partial(layer.apply, params, method="initial_state"))
        _, after = jax.eval_shape(functools.partial(layer.apply, params), x, state)
        assert after == state


@pytest.mark.parametrize("name", RESETTING)
@pytest.mark.parametrize("wide", [False, True])
def test_documents_leave_a_state_of_the_same_types(name, wide):
    with jax.enable_x64(wide):
        layer, dtype = RESETTING[name], jnp.float64 if wide else jnp.float32
        x = jax.ShapeDtypeStruct((5, WIDTH), dtype)
        params = jax.eval_shape(layer.init, jax.random.key(0), x)
        state = jax.eval_shape(functools.partial(layer.apply, method="initial_state"), params)
        reset = jax.ShapeDtypeStruct((5,), bool)
        _, after = jax.eval_shape(lambda *args: layer.apply(*args[:3], reset=args[3]), params, x, state, reset)
        assert [(x.shape, x.dtype) for x in jax.tree.leaves(after)] == [
            (x.shape, x.dtype) for x in jax.tree.leaves(state)
        ]


@pytest.mark.parametrize("layer", [LMM, MAC, MAG, MAL])
def test_every_layer_hands_its_settings_to_its_memory(layer):
    settings = {"momentum": False, "forgetting": False, "chunk": WINDOW, "time_constant": 7.0, "dtype": jnp.bfloat16}
    settings |= {"gradient_at": "chunk", "rate_bound": 0.5, "bounded": "write", "loss": "huber", "impl": "sequential"}
    window = {} if layer is LMM else {"window": WINDOW}
    bound = layer(WIDTH, HEADS, **window, persistent=3, **settings).bind(made(layer.__name__))
    memory, persistent = (bound.remember, 3) if layer is LMM else (bound.memory.remember, 0)
    assert memory.settings == SurpriseSettings(WIDTH, HEADS, persistent=persistent, **settings)
    bound = layer(WIDTH, HEADS, **window, **rule("kda")).bind(made(layer.__name__))
    assert (bound if layer is LMM else bound.memory).remember.settings == SurpriseSettings(WIDTH, HEADS, **rule("kda"))


@pytest.mark.parametrize("name", ["LMM", "MAC"])
def test_a_layer_with_a_kernel_for_each_chunk_is_the_same_layer(name):
    def total(impl, params):
        out, state = LAYERS[name].clone(impl=impl).apply(params, tokens())
        return (out**2).sum() + sum((leaf**2).sum() for leaf in jax.tree.leaves(state))

    both = [
        jax.jit(jax.value_and_grad(functools.partial(total, impl)))(made(name)) for impl in ("pallas", "closed_form")
    ]
    assert_close(*both, 1e-4)


def test_a_key_that_fills_a_chunk_makes_no_memory_diverge():
    """Without the bound that the settings derive it does, momentum or none."""
    for momentum in (True, False):
        sizes = {"chunk": 64, "gradient_at": "chunk", "momentum": momentum}
        for bound, finite in ((0.0, True), (1.0, False)):
            layer = LMM(WIDTH, HEADS, **sizes, rate_bound=bound)
            params = jax.jit(layer.init)(jax.random.key(0), jnp.ones((2, WIDTH)))
            bias = params["params"]["remember"]["gates"]["bias"]
            params["params"]["remember"]["gates"]["bias"] = bias + 3.0  # rates near their bound, momentum near 1
            _, state = jax.jit(layer.apply)(params, jnp.ones((4096, WIDTH)))
            assert (float(jnp.abs(state.memory.memory).max()) < 10) == finite


def test_keys_that_come_again_make_no_memory_diverge():
    """Unless each write is bounded and not all that momentum makes of it: a sentence of 16 tokens, 64 times.

    Gates are alike for all tokens: where momentum differs from token to token, no bound of a token's own rate holds.
    """
    sentence = jnp.tile(tokens(16), (64, 1))
    for bounded, finite in (("token", True), ("write", False)):
        layer = LMM(WIDTH, HEADS, bounded=bounded)
        params = jax.jit(layer.init)(jax.random.key(0), sentence[:2])
        gates = params["params"]["remember"]["gates"]
        gates |= {"kernel": 0 * gates["kernel"], "bias": jnp.repeat(jnp.array([5.0, 2.0, 2.0]), HEADS)}
        _, state = jax.jit(layer.apply)(params, sentence)
        largest = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(state))
        assert (largest < 100) == finite


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("titans", {}),
        ("titans_chunked", {"chunk": 3}),
        ("titans_deep", {"chunk": 3}),
        ("deltanet", {"momentum": False, "forgetting": False}),
        ("gated_deltanet", {"momentum": False, "decay_first": True}),
        ("kda", {"momentum": False, "decay_first": True}),
        ("ttt_linear", {"momentum": False, "forgetting": False, "chunk": 3}),
        ("ttt_mlp", {"momentum": False, "forgetting": False, "chunk": 3}),
        ("huber", {"chunk": 3, "loss": "huber"}),
        ("l3", {"chunk": 3, "loss": "l3"}),
    ],
)
def test_a_published_rule_is_its_equations(name, oracle):
    assert set(RULES) == {"titans", "titans_chunked", "titans_deep", "deltanet", "gated_deltanet"} | {
        "kda", "ttt_linear", "ttt_mlp", "huber", "l3",
    }  # fmt: skip
    layer = LMM(WIDTH, HEADS, chunk=3, **rule(name))
    leaves, treedef = jax.tree.flatten(jax.jit(layer.init)(jax.random.key(0), tokens(2)))
    rng = np.random.default_rng(4)
    params = treedef.unflatten([leaf + jnp.asarray(rng.normal(size=leaf.shape) / 4, leaf.dtype) for leaf in leaves])
    out, _ = jax.jit(layer.apply)(params, tokens())
    own = float64(params["params"])
    assert_close(np.asarray(out), sequence.lmm(own, float64(tokens()), HEADS, **oracle), 2e-5)
    assert len([key for key in own["remember"] if key.startswith("start")]) == {"ttt_linear": 1}.get(
        name, 2 if name in ("ttt_mlp", "titans_deep") else 0
    )
    assert ("scale" in own["remember"]) == name.startswith("ttt")
    assert ("keep" in own["remember"]) == (name == "kda")


def test_a_rule_that_none_has_is_one_line():
    with pytest.raises(MemjaxError, match="did you mean 'deltanet'"):
        rule("deltnet")


def test_settings_are_declared_once_and_make_a_layer():
    settings = SurpriseSettings(WIDTH, HEADS, persistent=3, chunk=5)
    names = {field.name for field in dataclasses.fields(SurpriseSettings)}
    for layer in (LMM, MAC, MAG, MAL):
        assert not names & set(vars(layer).get("__annotations__", {}))
        window = {} if layer is LMM else {"window": WINDOW}
        assert layer.of(settings, **window) == layer(WIDTH, HEADS, persistent=3, chunk=5, **window)
        assert layer.of(settings, **window, chunk=7).settings == SurpriseSettings(WIDTH, HEADS, persistent=3, chunk=7)
    with pytest.raises(dataclasses.FrozenInstanceError, match="'chunk'"):
        settings.chunk = 7
    assert hash(settings) == hash(dataclasses.replace(settings)) and settings == dataclasses.replace(settings)


@pytest.mark.parametrize("layer", [SurpriseSettings, LMM, MAC, MAG, MAL])
def test_the_time_constant_is_still_known_as_retention(layer):
    own = {"window": WINDOW} if layer in (MAC, MAG, MAL) else {}
    with pytest.warns(DeprecationWarning, match=f"{layer.__name__}: retention is called time_constant now"):
        old = layer(WIDTH, HEADS, retention=7.0, **own)
    assert old == layer(WIDTH, HEADS, time_constant=7.0, **own)
    with pytest.raises(MemjaxError, match="retention is called time_constant now; give time_constant alone"):
        layer(WIDTH, HEADS, retention=7.0, time_constant=7.0, **own)


SOUND = {"width": 8, "heads": 2}


@pytest.mark.parametrize("layer", [SurpriseSettings, LMM, MAC, MAG, MAL])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "width must be at least 1, not 0"),
        ({"width": 9}, "width 9 must be a multiple of heads 2"),
        ({"heads": 0}, "heads must be at least 1, not 0"),
        ({"persistent": -1}, "persistent must be at least 0, not -1"),
        ({"width": 8.0}, "width must be a whole number, not 8.0"),
        ({"memory_layers": 2.5}, "memory_layers must be a whole number, not 2.5"),
        ({"rate_bound": "0.5"}, r"rate_bound must be in \[0, 1\]"),
        ({"memory_layers": 0}, "memory_layers must be at least 1, not 0"),
        ({"memory_layers": 2}, "gradient_at must be chunk for a deep memory, not token"),
        ({"expansion": 0}, "expansion must be at least 1, not 0"),
        ({"horizon": 1.0}, "horizon must be above 1, or 0 for none, not 1.0"),
        ({"horizon": -2.0}, "horizon must be above 1"),
        ({"horizon": "32"}, "horizon must be above 1, or 0 for none, not 32"),
        ({"horizon": float("nan")}, "horizon must be above 1"),
        ({"rate_bound": 1.5}, r"rate_bound must be in \[0, 1\], beyond which it diverges, not 1.5"),
        ({"loss": "l2 "}, "unknown loss 'l2 '; did you mean 'l2'"),
        ({"loss": "huber"}, "loss=huber has no closed form per token; set gradient_at=chunk or impl=sequential"),
        ({"impl": "scan"}, "unknown impl 'scan'"),
        (
            {"memory_norm": True, "decay_before_gradient": True, "gradient_at": "chunk", "chunk": 4},
            "decay_before_gradient is for linear memories",
        ),
        (
            {"memory_layers": 2, "impl": "pallas", "gradient_at": "chunk", "chunk": 4},
            "impl=pallas is for linear memories with decay=token; set impl=closed_form",
        ),
        ({"decay": "channel", "impl": "pallas"}, "impl=pallas is for linear memories with decay=token"),
        ({"bounded": "tokens"}, "unknown bounded 'tokens'; did you mean 'token'"),
        ({"decay": "channels"}, "unknown decay 'channels'; did you mean 'channel'"),
        ({"decay": "channel", "forgetting": False}, "decay=channel is for linear memories that forget"),
        ({"decay": "channel", "memory_norm": True, "gradient_at": "chunk", "chunk": 4}, "decay=channel is for linear"),
        ({"chunk": 0}, "chunk must be at least 1, not 0"),
        ({"time_constant": 0.0}, "time_constant must be above 0 and at most 1e6, not 0.0"),
        ({"time_constant": float("nan")}, "time_constant must be above 0"),
        ({"gradient_at": "tokens"}, "unknown gradient_at 'tokens'; did you mean 'token'"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_one_line_where_they_are_given(layer, change, message, unchecked):
    own = {"window": WINDOW} if layer in (MAC, MAG, MAL) else {}
    with pytest.raises(MemjaxError, match=message):
        layer(**SOUND | own | change)


@pytest.mark.parametrize(
    ("layer", "change", "message"),
    [
        (WindowAttention, {"width": 6}, "width 6 must be a multiple of 2"),
        (WindowAttention, {"window": 0}, "window must be at least 1"),
        (MAC, {"window": 0}, "window must be at least 1"),
        (MAG, {"window": 0}, "window must be at least 1"),
        (MAL, {"window": -1}, "window must be at least 1, not -1"),
        (MAL, {"window": 4.0}, "window must be a whole number, not 4.0"),
        (
            MAC,
            {"gradient_at": "chunk", "chunk": 8},
            "chunk 8 must be window 4 for MAC with gradient_at=chunk, whose chunk is a segment",
        ),
    ],
)
def test_sizes_that_a_layer_cannot_have_are_one_line(layer, change, message):
    with pytest.raises(MemjaxError, match=message):
        layer(**SOUND | {"window": WINDOW} | change)


@every_layer
def test_parameters_are_not_made_from_a_sequence_of_no_tokens(name, unchecked):
    with pytest.raises(MemjaxError, match="init needs a sequence of at least one token"):
        LAYERS[name].init(jax.random.key(0), jnp.ones((0, WIDTH)))


@every_layer
def test_a_state_that_was_kept_in_bfloat16_is_gone_on_from(name):
    layer, params = LAYERS[name], made(name)
    state = jax.tree.map(jnp.asarray, layer.apply(params, tokens()[:3])[1])  # counts, too
    low = jax.tree.map(lambda x: x.astype(jnp.bfloat16) if jnp.issubdtype(x.dtype, jnp.floating) else x, state)
    rounded = jax.tree.map(lambda x, own: x.astype(own.dtype), low, state)
    assert_same(layer.apply(params, tokens()[3:], low), layer.apply(params, tokens()[3:], rounded))
    with pytest.raises(MemjaxError, match="of other kinds of numbers"):
        layer.apply(params, tokens()[3:], jax.tree.map(lambda x: x.astype(jnp.int32), state))


@every_layer
def test_what_is_no_sequence_of_its_width_or_no_state_of_its_own_is_one_line(name, unchecked):
    layer, params = LAYERS[name], made(name)
    wrong = (*map(jnp.ones, ((3, WIDTH + 1), (2, 3, WIDTH), ())), [[1.0] * WIDTH], None, jnp.ones((3, WIDTH), complex))
    for x in wrong:
        with pytest.raises(MemjaxError, match=rf"takes one sequence, a float array \[L, {WIDTH}\]"):
            layer.apply(params, x)
    for other in LAYERS:
        state = jax.tree.map(
            lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(run(other), made(other), tokens())[1]
        )
        shapes = [
            [leaf.shape for leaf in jax.tree.leaves(jax.eval_shape(run(one), made(one), tokens())[1])]
            for one in (name, other)
        ]
        if shapes[0] != shapes[1] or name[:2] != other[:2]:  # MAG and MAL have one state
            with pytest.raises(MemjaxError, match="another layer's"):
                layer.apply(params, tokens(), state)


def test_the_state_of_another_window_is_refused():
    _, state = WindowAttention(WIDTH, HEADS, WINDOW + 2, 3).apply(made("attention"), tokens())
    with pytest.raises(MemjaxError, match="another layer's"):
        run("attention")(made("attention"), tokens(), state)


def test_attention_knows_nothing_of_how_long_the_stream_has_been():
    """Positions in the whole stream would lose their last bits in float32, and then overflow."""
    run_on = jax.jit(LAYERS["attention"].apply)
    _, state = run_on(made("attention"), tokens(seed=1))
    later = state
    for _ in range(3):
        later = run_on(made("attention"), tokens(seed=1), later)[1]
    assert_same(later, state)
