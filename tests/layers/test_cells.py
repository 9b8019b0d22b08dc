"""NTM and DNC as RNN cells: what Flax's scans make of them, against the memories' own writes.

Slips tried, each of which fails a test here: what was read before the hidden state in the outputs; `read_first` not
passed on; programs without their bias; one axis of examples alone.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close, assert_finite

from memjax import MemjaxError, memories
from memjax.layers import DNCCell, NTMCell, NUTMCell
from memjax.memories import memorize

B, L, D = 2, 5, 4
SIZES = {"memory_width": 3, "read_heads": 2, "hidden": 6}
CELLS = {"ntm": NTMCell, "dnc": DNCCell}
every_cell = pytest.mark.parametrize("name", CELLS)


def cell(name, **options):
    return CELLS[name](features=7, rows=4, **SIZES, **options)


def inputs(seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(B, L, D)), jnp.float32)


@functools.cache
def made(name):
    """`(params, apply)` of `nn.RNN` around the cell, its biases moved."""
    model = nn.RNN(cell(name), return_carry=True)
    params = jax.jit(model.init)(jax.random.key(0), inputs())
    return jax.tree.map(lambda leaf: leaf + 0.1, params), jax.jit(model.apply)


@every_cell
def test_a_scanned_cell_is_the_memory_that_reads_the_same(name):
    params, run = made(name)
    carry, out = run(params, inputs())
    own = dict(params["params"]["cell"])
    memory = memories.create(name, slots=4, width=D, **SIZES)
    said = own.pop("out")
    own["read_out"] = jnp.zeros((3, D))
    write = functools.partial(memory.apply, {"params": own}, method=memorize)
    for example in range(B):
        state, _ = write(inputs()[example, :, None])
        assert_close(jax.tree.map(lambda leaf, i=example: leaf[i], carry), state, 1e-5)
        last = np.concatenate([state.hidden, state.reads.ravel()]) @ said["kernel"] + said["bias"]
        assert_close(out[example, -1], last, 1e-5)


def test_with_one_program_a_nutm_is_a_dnc():
    params, run = made("dnc")
    own = dict(params["params"]["cell"])
    programs = {"interface_programs": own.pop("interface_w")[None], "interface_keys": jnp.ones((1, 3))}
    programs |= {"interface_w_query": jnp.ones((6, 4)), "interface_b_query": jnp.ones(4)}
    other = nn.RNN(NUTMCell(features=7, rows=4, programs=1, program_width=3, **SIZES), return_carry=True)
    assert_close(other.apply({"params": {"cell": own | programs}}, inputs()), run(params, inputs()), 1e-5)


@every_cell
def test_one_call_is_one_step_with_any_batch(name):
    params, run = made(name)
    own = {"params": params["params"]["cell"]}
    _, whole = run(params, inputs())
    x, step = inputs(), jax.jit(cell(name).apply)
    for shape in ((), (B,), (1, B)):
        part = x if shape else x[0]
        carry = cell(name).initialize_carry(jax.random.key(0), (*shape, D))
        for t in range(2):
            now = part[..., t, :] if shape != (1, B) else part[None, :, t]
            carry, out = step(own, carry, now)
        assert out.shape == (*shape, 7)
        assert_close(out.reshape(-1, 7), whole[: max(1, np.prod(shape, dtype=int)), 1], 1e-5)


@every_cell
def test_gradients_reach_the_first_input_and_every_parameter(name):
    params, _ = made(name)

    def last(params, x):
        return (nn.RNN(cell(name)).apply(params, x)[:, -1] ** 2).sum()

    by_params, by_inputs = jax.jit(jax.grad(last, argnums=(0, 1)))(params, inputs())
    assert_finite((by_params, by_inputs))
    assert (by_inputs != 0).any(-1).all()
    for path, gradient in jax.tree.leaves_with_path(by_params):
        assert (gradient != 0).any(), jax.tree_util.keystr(path)


def test_the_gradient_of_a_dnc_sorts_the_rows_no_second_time():
    """Their order is kept, where the rest of a step is computed again."""
    params, _ = made("dnc")

    def last(params, x):
        return nn.RNN(cell("dnc")).apply(params, x).sum()

    forward, gradient = (
        jax.jit(function).lower(params, inputs()).compile().as_text().count(" sort(")
        for function in (last, jax.grad(last))
    )
    assert forward == gradient > 0


def test_reading_first_answers_from_before_the_write():
    x = inputs()[:, 0]
    carry = cell("ntm").initialize_carry(jax.random.key(0), x.shape)
    own = {"params": made("ntm")[0]["params"]["cell"]}
    after, _ = cell("ntm", read_first=True).apply(own, carry, x)
    # The memory of before is nearly empty, and so is what was read of it.
    assert jnp.abs(after.reads).max() < 1e-5 < jnp.abs(cell("ntm").apply(own, carry, x)[0].reads).max()


@every_cell
@pytest.mark.parametrize("size", ["features", "rows", "memory_width", "read_heads", "hidden"])
def test_a_cell_of_no_size_is_one_clear_line(name, size):
    sizes = {"features": 7, "rows": 4, **SIZES, size: 0}
    with pytest.raises(MemjaxError, match=f"{size} must be a whole number of at least 1, not 0"):
        CELLS[name](**sizes).initialize_carry(jax.random.key(0), (D,))


@pytest.mark.parametrize("change", [{"rows": 2.5}, {"hidden": True}, {"programs": 0}, {"program_width": -1}])
def test_sizes_of_every_kind_are_checked_where_a_cell_is_called_too(change, unchecked):
    made_of = NUTMCell(**{"features": 7, "rows": 4, **SIZES, **change})
    with pytest.raises(MemjaxError, match=f"{next(iter(change))} must be a whole number"):
        made_of.init(jax.random.key(0), None, inputs()[0, 0])


def test_the_carry_of_another_cell_is_one_clear_line(unchecked):
    params, _ = made("ntm")
    own = {"params": params["params"]["cell"]}
    x = inputs()[0, 0]
    other, larger = cell("dnc"), NTMCell(features=7, rows=9, **SIZES)
    for carry in (made_by.initialize_carry(jax.random.key(0), (D,)) for made_by in (other, larger)):
        with pytest.raises(MemjaxError, match="another layer's"):
            cell("ntm").apply(own, carry, x)
    with pytest.raises(MemjaxError, match="inputs are an array"):
        cell("ntm").apply(own, cell("ntm").initialize_carry(jax.random.key(0), (D,)), [1.0] * D)


def test_a_carry_in_bfloat16_is_gone_on_from():
    params, _ = made("ntm")
    own, x = {"params": params["params"]["cell"]}, inputs()[0, 0]
    carry = cell("ntm").initialize_carry(jax.random.key(0), (D,))
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), carry)
    after, _ = cell("ntm").apply(own, low, x)
    assert jax.tree.map(lambda leaf: leaf.dtype, after) == jax.tree.map(lambda leaf: leaf.dtype, carry)
