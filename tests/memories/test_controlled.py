"""NTM, DNC, NUTM and DMSDNC against the equations, with the parameters taken out of the modules.

Slips tried, each of which fails a test here: a head that shifts the other way; reads of the old memory after the write;
erase without the write weights; forward and backward links exchanged; free gates inverted; the gate of allocation
inverted; sigmoids for the read modes; keys of programs without tanh; the penalty without its decay; a softmax over
heads in place of blocks; the refreshing loss as a sum; the LSTM's gates in another order.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import external as oracle
from oracles.checking import assert_close, cast, float64, matmuls_that_no_carry_reaches

from memjax import MemjaxError, memories, ops
from memjax.memories import memorize
from memjax.ops import dnc

T, N, WIDTH = 3, 3, 4
SIZES = {"slots": 4, "width": WIDTH, "memory_width": 3, "read_heads": 2, "hidden": 5}
MEMORIES = {
    "ntm": SIZES,
    "ntm, reads first": {**SIZES, "read_first": True},
    "dnc": SIZES,
    "nutm": {**SIZES, "programs": 3, "program_width": 2},
    "dmsdnc": {**SIZES, "blocks": 2, "refresh": 0.3},
}
every_memory = pytest.mark.parametrize("label", MEMORIES)


@functools.cache
def made(label):
    """`(memory, params, items, mask)` in float64; all parameters random, so that each of them counts."""
    memory = memories.create(label.partition(",")[0], **MEMORIES[label], dtype=jnp.float64)
    rng, init = np.random.default_rng(4), functools.partial(memory.init, method=memorize)
    with jax.enable_x64(True):
        shapes = jax.eval_shape(init, jax.random.key(0), jnp.zeros((T, N, WIDTH)))
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), shapes)
    mask = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]], bool)
    return memory, params, rng.normal(size=(T, N, WIDTH)), mask


@functools.cache
def memorized(label):
    memory, params, items, mask = made(label)
    with jax.enable_x64(True):
        write = jax.jit(functools.partial(memory.apply, method=memorize))
        return float64(write(*cast((params, items, mask), jnp.float64)))


def weights(params):
    """The parameters of `ops.ExternalParams` by their names in the module."""
    p = params["params"]
    controller = ops.LSTMParams(*(p[f"controller_{leaf}"] for leaf in ("w_x", "w_h", "b")))
    kind = ops.ProgramParams if "interface_keys" in p else ops.InterfaceParams
    return ops.ExternalParams(controller, kind(*(p[f"interface_{leaf}"] for leaf in kind._fields)))


def start(label):
    """What each says its state is before the first item, written out."""
    sizes = MEMORIES[label]
    rows, width, heads, hidden = (sizes[name] for name in ("slots", "memory_width", "read_heads", "hidden"))
    state = {"hidden": np.zeros(hidden), "cell": np.zeros(hidden), "reads": np.zeros((heads, width))}
    if label.startswith("ntm"):
        first = np.eye(rows)[0]
        return state | {
            "memory": np.full((rows, width), 1e-6),
            "read_weights": np.tile(first, (heads, 1)),
            "write_weights": first,
        }
    if label == "dmsdnc":
        blocks, rows = sizes["blocks"], rows // sizes["blocks"]
        return state | {
            "memory": np.zeros((blocks, rows, width)),
            "usage": np.zeros((blocks, rows)),
            "write_weights": np.zeros((blocks, rows)),
            "read_weights": np.zeros((blocks, heads, rows)),
        }
    return state | {
        "memory": np.zeros((rows, width)),
        "usage": np.zeros(rows),
        "write_weights": np.zeros(rows),
        "read_weights": np.zeros((heads, rows)),
        "links": np.zeros((rows, rows)),
        "precedence": np.zeros(rows),
    }


def step(label):
    if label.startswith("ntm"):
        return functools.partial(oracle.ntm, read_first="reads first" in label)
    return oracle.dmsdnc if label == "dmsdnc" else oracle.dnc


@every_memory
def test_memory_and_auxiliary_loss_are_the_equations(label):
    _, params, items, mask = made(label)
    own, state, aux = weights(params), start(label), 0.0
    for written, x in enumerate(items[mask]):
        state = step(label)(own, state, x)
        if label == "dmsdnc":
            said = np.concatenate([state["hidden"], state["reads"].ravel()]) @ params["params"]["say_again"]
            aux += 0.3 * ((said - x) ** 2).mean()
        if label == "nutm":
            aux += 0.1 * 0.9**written * oracle.key_similarity(own.interface.keys)
    found, found_aux = memorized(label)
    found = found.core if label == "nutm" else found
    assert_close(found._asdict(), state, 1e-10)
    np.testing.assert_allclose(found_aux, aux, rtol=1e-6)  # its weight is float32


@every_memory
def test_the_slots_are_the_rows_of_the_memory(label):
    memory, params, *_ = made(label)
    state, _ = memorized(label)
    slots = memory.apply(cast(params, jnp.float32), cast(state, jnp.float32), method="slots")
    rows = (state.core if label == "nutm" else state).memory.reshape(4, 3)
    assert_close(slots.values, rows @ params["params"]["read_out"], 1e-5)
    assert slots.mask.all()


def test_with_one_program_a_nutm_is_a_dnc():
    memory = memories.create("nutm", **SIZES, programs=1, program_width=2)
    plain = memories.create("dnc", **SIZES)
    rng = np.random.default_rng(1)
    items = jnp.asarray(rng.normal(size=(T, N, WIDTH)), jnp.float32)
    params = plain.init(jax.random.key(0), items, method=memorize)["params"]
    programs = {"interface_programs": params["interface_w"][None], "interface_keys": jnp.ones((1, 2))}
    programs |= {"interface_w_query": jnp.ones((5, 3)), "interface_b_query": jnp.ones(3)}
    other = {name: leaf for name, leaf in params.items() if name != "interface_w"} | programs
    one, aux = memory.apply({"params": other}, items, method=memorize)
    assert_close(one.core, plain.apply({"params": params}, items, method=memorize)[0], 1e-6)
    assert aux == 0


def test_a_program_whose_key_is_asked_for_speaks_alone():
    keys, programs = np.eye(2) * 5, np.arange(12.0).reshape(2, 3, 2)
    query = np.concatenate([np.zeros((3, 2)), np.zeros((3, 1))], axis=1)
    for asked in (0, 1):
        bias = np.append(np.eye(2)[asked] * 5, 50.0)
        params = ops.ProgramParams(*(jnp.asarray(x) for x in (keys, programs, query, bias, np.zeros(2))))
        assert_close(ops.interface(params, jnp.ones(3)), programs[asked].sum(0), 1e-5)


def test_the_refreshing_loss_draws_items_with_its_key_and_expects_them_without():
    memory, params, items, mask = made("dmsdnc")
    params, items = cast((params, items), jnp.float32)
    write = jax.jit(functools.partial(memory.apply, method=memorize))
    _, expected = write(params, items, mask)
    keys = jax.random.split(jax.random.key(0), 400)
    _, drawn = jax.vmap(lambda key: write(params, items, mask, key=key))(keys)
    assert len(np.unique(np.asarray(drawn))) > 10
    np.testing.assert_allclose(drawn.mean(), expected, rtol=0.15)


def test_the_gradient_of_a_gradient_of_the_links_is_what_jax_derives(monkeypatch):
    """Inside a step that is recomputed, in a scan, as memories have it."""
    memory, params, items, _ = made("dnc")

    def slots(items):
        state, _ = memory.apply(params, items, method=memorize)
        return memory.apply(params, state, method="slots").values

    def twice(items):
        gradient = jax.grad(lambda x: (slots(x) ** 2).sum())
        return jax.jit(jax.grad(lambda x: (gradient(x) ** 2).sum()))(items)

    with jax.enable_x64(True):
        items = jnp.asarray(items, jnp.float64)
        by_hand = twice(items)
        monkeypatch.setattr(dnc, "_links_and_reads", dnc._links_and_reads.fun)
        derived = twice(items)
    assert np.abs(derived).max() > 1e-3
    assert_close(by_hand, derived, 1e-5)


@pytest.mark.parametrize("label", ["ntm", "dnc", "dmsdnc"])  # the penalty of nutm looks at its keys alone
def test_what_items_say_to_the_controller_is_computed_before_the_scan(label):
    memory, params, items, mask = made(label)
    jaxpr = jax.make_jaxpr(functools.partial(memory.apply, method=memorize))(*cast((params, items), jnp.float32), mask)
    assert not matmuls_that_no_carry_reaches(jaxpr.jaxpr)


def test_an_interface_of_another_memory_is_one_clear_line(unchecked):
    memory, params, *_ = made("dnc")
    own, state = cast(weights(params), jnp.float32), memory.initial_state()
    cut = own._replace(interface=ops.InterfaceParams(own.interface.w[:, :-1], own.interface.b[:-1]))
    with pytest.raises(MemjaxError, match="interface has 28 numbers, not 27"):
        ops.dnc_step(cut, state, jnp.zeros(20))


def test_an_item_is_a_constant_where_it_is_said_again():
    memory = memories.DMSDNC(num_slots=6, width=8, blocks=2, memory_width=4, read_heads=2, hidden=6)
    items, mask = jax.random.normal(jax.random.key(1), (2, 3, 8)), jnp.ones((2, 3), bool)
    params = memory.init(jax.random.key(0), items, method=memorize)
    state = memory.apply(params, method="initial_state")
    features = jax.tree.map(lambda x: x[0, 0], memory.apply(params, items, mask, method="encode"))

    def loss(said):
        return memory.apply(params, state, features._replace(items=said), method="write_item")[1]

    assert loss(features.items) > 0 and not jax.grad(loss)(features.items).any()
