"""What ops take for an array, and how a line says what they do not."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close

from memjax import MemjaxError, ops
from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.typing import Annotated, Array, Bool, Float, FloatDtype, Int, Key, Literal, PyTree


def tokens():
    return [jnp.eye(3), jnp.eye(3), jnp.ones((3, 2)), *jnp.log(jnp.array([[0.9] * 3, [0.5] * 3])), jnp.full(3, 0.1)]


def test_a_number_is_the_gate_of_every_token():
    q, k, v, keep, momentum, lr = tokens()
    wanted = ops.surprise_linear(q, k, v, keep, momentum, lr)
    for number in (0.1, np.float32(0.1), jnp.array(0.1)):
        assert_close(ops.surprise_linear(q, k, v, np.log(0.9), np.log(0.5), lr=number), wanted, 1e-6)
    run = jax.jit(lambda lr: ops.surprise_linear(q, k, v, keep, momentum, lr))
    assert_close(run(0.1), wanted, 1e-6)
    slope = jax.grad(lambda lr: ops.surprise_linear(q, k, v, keep, momentum, lr)[0].sum())(0.1)
    every = jax.grad(lambda lr: ops.surprise_linear(q, k, v, keep, momentum, lr)[0].sum())(lr)
    assert_close(slope, every.sum(), 1e-5)
    many = jax.vmap(lambda lr: ops.surprise_linear(q, k, v, keep, momentum, lr)[0])(jnp.array([0.1, 0.2]))
    assert_close(many[0], wanted[0], 1e-6)


def test_a_number_out_of_range_is_one_line_inside_jit_too():
    q, k, v, keep, momentum, _ = tokens()
    for run in (ops.surprise_linear, jax.jit(ops.surprise_linear, static_argnums=5)):
        with pytest.raises(MemjaxError, match=r"lr must be finite and at least 0; it goes from -0.5"):
            run(q, k, v, keep, momentum, -0.5)


def test_lists_and_numpy_are_taken_as_arrays():
    memory, key = [[1.0, 0.0], [0.0, 1.0]], [3, 0]
    wanted = ops.content_weights(jnp.array(memory), jnp.array([3.0, 0.0]), jnp.array(2.0))
    mixed = [[jnp.array(1.0), 0.0], [0.0, np.float32(1)]]
    for given in (memory, tuple(map(tuple, memory)), np.array(memory), np.array(memory, np.float64), mixed):
        assert_close(ops.content_weights(given, key, 2), wanted, 0)
    assert_close(jax.jit(lambda one: ops.content_weights([[one, 0.0], [0, one]], key, 2))(1.0), wanted, 1e-7)
    params = ops.GRUParams([[1.0] * 3], np.ones((1, 3)), [0, 0, 0], jnp.zeros(3))
    assert ops.gru_step(params, [1.0], [5]).shape == (1,)


def test_the_dtype_is_what_it_was():
    half = jnp.ones((2, 2), jnp.bfloat16)
    assert ops.sharpen_weights(half[0], 2).dtype == jnp.bfloat16  # a number has no dtype
    with jax.enable_x64(True):
        assert ops.erase_and_add(np.ones((2, 2)), [1, 0], [1.0, 1.0], np.ones(2)).dtype == jnp.float64
        assert ops.erase_and_add(np.ones((2, 2), np.float32), *np.ones((3, 2), np.float32)).dtype == jnp.float32
    assert ops.erase_and_add(np.ones((2, 2)), [1, 0], [1.0, 1.0], np.ones(2)).dtype == jnp.float32


def test_whole_numbers_without_a_sign_are_taken_as_ids():
    mask = [True, True]
    wanted = ops.sentence_weights(jnp.array([2, 1]), jnp.array(mask), 3)
    for ids in ([2, 1], np.array([2, 1], np.uint8), np.array([2, 1], np.int64), jnp.array([2, 1], jnp.uint32)):
        assert_close(ops.sentence_weights(ids, mask, np.int64(3)), wanted, 0)


def says(text):
    return pytest.raises(MemjaxError, match=f"^{re.escape(text)}$")


def test_a_line_names_op_argument_what_was_expected_and_what_came(unchecked):
    q, k, v, keep, momentum, lr = tokens()
    with says("surprise_linear: lr must be a float array [L], not complex64[3]"):
        ops.surprise_linear(q, k, v, keep, momentum, lr.astype(jnp.complex64))
    with says("surprise_linear: mask must be a bool array [L], not int32[3]; write mask != 0"):
        ops.surprise_linear(q, k, v, keep, momentum, lr, mask=jnp.ones(3, int))
    with says("surprise_linear: q must be a float array [L, dk], not None"):
        ops.surprise_linear(None, k, v, keep, momentum, lr)
    with says("surprise_linear: q must be a float array [L, dk], not int32[3, 3]; write q.astype(float)"):
        ops.surprise_linear(jnp.ones((3, 3), int), k, v, keep, momentum, lr)
    with says("surprise_linear: v must be a float array [L, dv] with L = 3 as in q, not float32[4, 2]"):
        ops.surprise_linear(q, k, jnp.ones((4, 2)), keep, momentum, lr)
    with says("surprise_linear: unknown impl 'sequental'; did you mean 'sequential'?"):
        ops.surprise_linear(q, k, v, keep, momentum, lr, impl="sequental")
    for size, text in ((0, "0"), (True, "True"), ("a", "'a'"), (2.0, "2.0"), (-1, "-1")):
        with says(f"surprise_linear: chunk_size must be a whole number of at least 1, not {text}"):
            ops.surprise_linear(q, k, v, keep, momentum, lr, chunk_size=size)
    most = "a whole number of at most 2147483647"
    for size, text in ((2**40, str(2**40)), (10**30, "a number of more than 20 digits")):
        with says(f"surprise_linear: chunk_size must be {most}, not {text}"):
            ops.surprise_linear(q, k, v, keep, momentum, lr, chunk_size=size)
    batch = jnp.ones((5, 3, 3))
    with says(
        "surprise_linear: q must be a float array [L, dk], not float32[5, 3, 3]; "
        "one example at a time: batch it with jax.vmap"
    ):
        ops.surprise_linear(batch, batch, v, keep, momentum, lr)


def test_a_line_about_what_lies_inside_an_argument_says_where(unchecked):
    attention = ops.AdditiveParams(jnp.ones((2, 5)), jnp.ones((3, 5)), jnp.ones(5), jnp.ones(5))
    with says("slot_attention: slots must be a float array [K, dm] with dm = 2 as in params.w_left, not float32[4, 7]"):
        ops.slot_attention(attention, jnp.ones((4, 7)), jnp.ones((6, 3)))
    with says("slot_attention: params.v must be a float array [h] with h = 5 as in params.w_left, not float32[4]"):
        ops.slot_attention(attention._replace(v=jnp.ones(4)), jnp.ones((4, 2)), jnp.ones((6, 3)))
    with says("slot_attention: params must be of class AdditiveParams or DotParams, not a value of class dict"):
        ops.slot_attention(attention._asdict(), jnp.ones((4, 2)), jnp.ones((6, 3)))
    update = ops.GRUParams(jnp.ones((3, 9)), jnp.ones((3, 9)), jnp.ones(9), jnp.ones(9))
    with says("gru_step: params.b_h must be a float array [h3] with 3 * h = 9, not float32[8]"):
        ops.gru_step(update._replace(b_h=jnp.ones(8)), jnp.ones(3), jnp.ones(3))
    hop = ops.HopParams(ops.AdditiveParams(jnp.ones((4, 5)), jnp.ones((2, 5)), jnp.ones(5), jnp.ones(5)))
    read = ops.ReadParams((hop, hop), jnp.ones((6, 4)))
    ops.multi_hop_read(read, jnp.ones((3, 2)), jnp.ones(4))
    with says("multi_hop_read: params.w_query must be a float array [dm+h, h] with dm + h = 6, not float32[7, 4]"):
        ops.multi_hop_read(read._replace(w_query=jnp.ones((7, 4))), jnp.ones((3, 2)), jnp.ones(4))
    bad = read._replace(hops=(hop, ops.HopParams(hop.attention._replace(b=None))))
    with says("multi_hop_read: params.hops[1].attention.b must be a float array [h], not None"):
        ops.multi_hop_read(bad, jnp.ones((3, 2)), jnp.ones(4))


def test_hops_may_have_hidden_layers_of_their_own():
    def hop(hidden):
        return ops.HopParams(ops.AdditiveParams(*(jnp.ones(s) for s in ((4, hidden), (2, hidden), hidden, hidden))))

    read = ops.ReadParams((hop(5), hop(7)), jnp.ones((6, 4)))
    assert ops.multi_hop_read(read, jnp.ones((3, 2)), jnp.ones(4)).shape == (4,)


def test_outside_of_its_axis_a_sharded_op_says_where_it_belongs():
    with pytest.raises(MemjaxError, match=r"there is no axis 'seq' here; call it inside jax.shard_map"):
        ops.surprise_linear_sharded(*tokens(), axis_name="seq")


def test_what_the_functions_of_a_deep_memory_do_wrong_is_one_line(unchecked):
    q, k, v, *gates = tokens()
    good = lambda w, x: x @ w  # noqa: E731
    squared = lambda out, v: ((out - v) ** 2).sum()  # noqa: E731
    weights = jnp.ones((3, 2))
    for apply, loss, words in (
        (good, lambda out, v: out - v, "loss must give a number, not"),
        (lambda w, x: x, squared, r"apply must give an array of the shape of a value, \[2\], not"),
        (lambda w, x: w["no"], squared, "apply fails with "),
        (good, lambda out: out, "loss fails with TypeError"),
        (None, squared, "apply must be a function, not None"),
    ):
        with pytest.raises(MemjaxError, match=f"^surprise_memory: {words}"):
            ops.surprise_memory(apply, loss, weights, q, k, v, *gates)


@checked
def everything(
    x: Float[Array, "*many d"],
    ids: Int[Array, "*many"],
    mask: Bool[Array, "*many"] | None = None,
    *,
    key: Key | None = None,
    tree: PyTree | None = None,
    how: Literal["one", "two"] = "one",
    dtype: FloatDtype = None,
    flag: bool = False,
) -> tuple:
    """What this does."""
    return x, ids, mask, tree, flag


def test_a_checked_function_is_otherwise_what_it_was():
    assert everything.__doc__ == "What this does." and everything.__name__ == "everything"
    assert list(inspect.signature(everything).parameters)[:3] == ["x", "ids", "mask"]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        everything([1.0])
    with pytest.raises(TypeError, match="unexpected keyword"):
        everything([1.0], 1, masc=None)
    x, ids, mask, tree, flag = everything(
        [[1.0, 2.0]], np.array([3]), tree={"a": 1, "b": (None, 2.0)}, key=jax.random.key(0), flag=np.bool_(True)
    )
    assert x.shape == (1, 2) and ids.dtype == jnp.int32 and mask is None and flag is True
    assert tree["b"][0] is None and isinstance(tree["a"], jax.Array)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"key": 3}, "key must be a key, as jax.random.key makes one, not 3"),
        ({"tree": {"a": "x"}}, "tree must be arrays, not 'x'"),
        ({"dtype": jnp.float8_e4m3fn}, "dtype must be float16, bfloat16, float32 or float64, not a value of class"),
        ({"dtype": "int32"}, "dtype must be float16, bfloat16, float32 or float64, not 'int32'"),
        ({"flag": 1}, "flag must be True or False, not 1"),
        ({"how": np.ones(3)}, "unknown how 'float64[3]'"),
        ({"ids": [0.5]}, "ids must be an int array [...], not a list (float64[1])"),
        ({"ids": [2**40]}, "ids must be an int array [...], not a list (int64[1])"),
        ({"mask": [1]}, "mask must be a bool array [...], not a list (int64[1])"),
        ({"mask": [[True], [True, False]]}, "mask must be a bool array [...], not a list (no array)"),
        ({"mask": np.ones((1, 1), bool)}, "mask must be a bool array [...] with many = [1] as in x, not bool[1, 1]"),
        ({"x": jax.ShapeDtypeStruct((1, 2), jnp.float32)}, "not the ShapeDtypeStruct float32[1, 2]"),
    ],
)
def test_each_kind_of_argument_has_its_line(unchecked, change, text):
    with pytest.raises(MemjaxError, match=r"^everything: ") as caught:
        everything(**{"x": [[1.0, 2.0]], "ids": [3]} | change)
    assert text in str(caught.value)


def test_names_of_axes_are_those_of_their_own_record():
    """Two records of one class, each of its own h: nothing says that they agree, until `Axes` does."""

    @checked
    def apart(a: ops.GRUParams, b: ops.GRUParams) -> None: ...

    @checked
    def alike(a: Annotated[ops.GRUParams, Axes("h")], b: Annotated[ops.GRUParams, Axes("h")]) -> None: ...

    one, other = (ops.GRUParams(*map(jnp.ones, ((2, 3 * h), (h, 3 * h), 3 * h, 3 * h))) for h in (4, 5))
    apart(one, other)
    alike(one, one)
    with pytest.raises(MemjaxError, match=r"alike: b.w_h must be a float array .h, h3. with h = 4 as in a.w_h"):
        alike(one, other)
