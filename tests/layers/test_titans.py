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
from memjax.layers import LMM, MAC, MAG, MAL, SurpriseSettings, WindowAttention

WIDTH, HEADS, WINDOW, L = 8, 2, 4, 11
SIZES = {"width": WIDTH, "heads": HEADS, "persistent": 3}
LAYERS = {
    "attention": WindowAttention(**SIZES, window=WINDOW),
    "LMM": LMM(**SIZES),
    "LMM, ablated": LMM(**SIZES, momentum=False, forgetting=False),
    "LMM, per chunk": LMM(WIDTH, HEADS, gradient_at="chunk", chunk=3),
    "MAC": MAC(**SIZES, window=WINDOW),
    "MAG": MAG(**SIZES, window=WINDOW),
    "MAL": MAL(**SIZES, window=WINDOW),
}
every_layer = pytest.mark.parametrize("name", LAYERS)
cut_anywhere = pytest.mark.parametrize("name", [name for name in LAYERS if name != "LMM, per chunk"])


@functools.cache
def made(name):
    """Parameters of a layer, moved, so that no zero and no one hides a mistake."""
    leaves, treedef = jax.tree.flatten(LAYERS[name].init(jax.random.key(0), jnp.ones((2, WIDTH))))
    rng = np.random.default_rng(3)
    return treedef.unflatten([leaf + jnp.asarray(rng.normal(size=leaf.shape) / 4, leaf.dtype) for leaf in leaves])


@functools.cache
def run(name):
    return jax.jit(LAYERS[name].apply)


def tokens(length=L, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(length, WIDTH)), jnp.float32)


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("attention", functools.partial(sequence.window_attention, heads=HEADS, window=WINDOW)),
        ("LMM", functools.partial(sequence.lmm, heads=HEADS)),
        ("LMM, per chunk", functools.partial(sequence.lmm, heads=HEADS, chunk=3)),
        ("MAC", functools.partial(sequence.mac, heads=HEADS, window=WINDOW)),
    ],
)
def test_a_layer_is_its_equations(name, oracle):
    params, x = float64(made(name)["params"]), float64(tokens())
    out, _ = run(name)(made(name), tokens())
    in_front = params["persistent"] if name == "LMM" else np.zeros((0, WIDTH))  # of LMM they are tokens like others
    expected = oracle(params, np.concatenate([in_front, x]))[len(in_front) :]
    assert_close(np.asarray(out), expected, 2e-5)


def test_mag_and_mal_are_made_of_attention_and_memory():
    def part(name, layer, x):
        return layer.apply({"params": made(name)["params"][["attention", "memory"][layer is memory]]}, x)[0]

    attention, memory, x = LAYERS["attention"], LAYERS["LMM"], tokens()
    scales = [made("MAG")["params"][f"norms_{i}"]["scale"] for i in (0, 1)]
    attended, remembered = (
        sequence.normed(np.asarray(part("MAG", layer, x))) * scale
        for layer, scale in zip((attention, memory), scales, strict=True)
    )
    assert_close(np.asarray(run("MAG")(made("MAG"), x)[0]), attended * sequence.silu(remembered), 1e-5)
    bare = WindowAttention(WIDTH, HEADS, WINDOW)
    assert_close(run("MAL")(made("MAL"), x)[0], part("MAL", bare, part("MAL", memory, x)), 1e-5)


@cut_anywhere
@pytest.mark.parametrize("cuts", [(5,), (4, 8), (1, 2, 10), range(1, L)])
def test_a_stream_may_be_cut_anywhere(name, cuts):
    whole, end = run(name)(made(name), tokens())
    state, parts = None, []
    for piece in np.split(np.asarray(tokens()), list(cuts)):
        out, state = run(name)(made(name), jnp.asarray(piece), state)
        parts.append(out)
    assert_close(jnp.concatenate(parts), whole, 2e-5)
    if name != "MAC":  # whose state has room for tokens that are yet to come
        assert_close(state, end, 2e-5)


@every_layer
def test_no_token_sees_what_comes_after_it(name):
    params = made(name)

    def seen(x):
        return LAYERS[name].apply(params, x)[0]

    jacobian = jax.jit(jax.jacrev(seen))
    slopes = np.abs(jacobian(tokens())).sum((1, 3))  # [of, by]
    later = np.triu(np.ones((L, L), bool), 1)
    assert (slopes[later] == 0).all()
    assert (slopes[np.eye(L, dtype=bool)] > 0).all()
    reach = ~later
    if name == "attention":
        reach &= ~np.tril(np.ones((L, L), bool), -WINDOW)
        assert (slopes[~reach] == 0).all()
    if not name.startswith("MAC"):  # in MAC a segment sees those before it through the memory alone
        assert (slopes[reach] > 0).all()
    assert slopes[-1, 0] > 0 or name == "attention"


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


@every_layer
def test_every_parameter_learns(name):
    def loss(params):
        return jnp.square(LAYERS[name].apply(params, tokens())[0]).sum()

    slopes = jax.jit(jax.grad(loss))(made(name))
    assert_finite(slopes)
    for path, slope in jax.tree.leaves_with_path(slopes):
        assert not slope.size or jnp.abs(slope).max() > 1e-7, jax.tree_util.keystr(path)


@every_layer
def test_in_bfloat16_and_over_a_batch(name):
    layer = LAYERS[name].clone(dtype=jnp.bfloat16)
    batch = jnp.stack([tokens(seed=seed) for seed in range(3)])
    out, _ = jax.jit(jax.vmap(layer.apply, (None, 0)))(made(name), batch)
    assert_close(np.asarray(out[1], np.float64), np.asarray(run(name)(made(name), batch[1])[0], np.float64), 0.15)


def test_with_gradients_per_chunk_a_layer_says_where_a_stream_may_be_cut():
    _, state = run("LMM, per chunk")(made("LMM, per chunk"), tokens())
    with pytest.raises(ValueError, match="cut the stream at multiples of chunk_size"):
        run("LMM, per chunk")(made("LMM, per chunk"), tokens(), state)


@pytest.mark.parametrize("layer", [LMM, MAC, MAG, MAL])
def test_every_layer_hands_its_settings_to_its_memory(layer):
    settings = {"momentum": False, "forgetting": False, "chunk": 3, "time_constant": 7.0, "dtype": jnp.bfloat16}
    settings |= {} if layer is MAC else {"gradient_at": "chunk"}
    window = {} if layer is LMM else {"window": WINDOW}
    bound = layer(WIDTH, HEADS, **window, persistent=3, **settings).bind(made(layer.__name__))
    memory = bound.remember if layer in (LMM, MAC) else bound.memory.remember
    assert memory.settings == SurpriseSettings(WIDTH, HEADS, persistent=3, **settings)


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
        ({"persistent": 3, "gradient_at": "chunk"}, "persistent 3 must be a multiple of chunk 64"),
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
        (MAC, {"gradient_at": "chunk"}, "gradient_at=chunk is not for MAC"),
    ],
)
def test_sizes_that_a_layer_cannot_have_are_one_line(layer, change, message):
    with pytest.raises(MemjaxError, match=message):
        layer(**SOUND | {"window": WINDOW} | change).init(jax.random.key(0), jnp.ones((2, 8)))


@every_layer
def test_what_is_no_sequence_of_its_width_or_no_state_of_its_own_is_one_line(name, unchecked):
    layer, params = LAYERS[name], made(name)
    for shape in ((3, WIDTH + 1), (2, 3, WIDTH)):
        with pytest.raises(MemjaxError, match=rf"takes one sequence, \[L, {WIDTH}\]"):
            layer.apply(params, jnp.ones(shape))
    for other in LAYERS:
        state = jax.tree.map(
            lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(run(other), made(other), tokens())[1]
        )
        if other.split(",")[0] != name.split(",")[0] and {name, other} != {"MAG", "MAL"}:  # those two have one state
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
