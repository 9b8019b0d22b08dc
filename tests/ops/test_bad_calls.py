"""Every argument of every op, made wrong in every way: a result, or one line that names the op and the argument."""

import functools
import inspect
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mistakes import outcome, places, quick_errors, replaced, wrong
from oracles.cases import CASES

from memjax import ops

OPS = sorted(name for name in ops.__all__ if inspect.isfunction(getattr(ops, name)))
SIZES = {
    "ntm_interface_size": {"width": 3, "heads": 2},
    "dnc_interface_size": {"width": 3, "heads": 2},
    "dmsdnc_interface_size": {"blocks": 2, "width": 3, "heads": 2},
}
WRAPPER = "checked.<locals>.wrapped"  # the code that all ops begin with


def valid_call(name):
    """The arguments of the first call of an op that its case makes, by name."""
    if name in SIZES:
        return SIZES[name]
    if name == "surprise_linear_sharded":
        return valid_call("surprise_linear") | {"axis_name": "shards"}
    case = next(CASES[case] for case in CASES if case.split()[0] == name)
    rng = np.random.default_rng(0)
    params, (data, aux) = case.params(rng), case.example(rng)
    calls = []

    def listen(frame, event, argument):
        if event == "return" and frame.f_code.co_qualname == WRAPPER:
            seen = frame.f_locals
            calls.append((seen["function"].__name__, seen["args"], seen["kwargs"]))

    before = sys.getprofile()
    sys.setprofile(listen)
    try:
        case.op(params, **data, **aux)
    finally:
        sys.setprofile(before)
    args, kwargs = next((args, kwargs) for called, args, kwargs in calls if called == name)
    return dict(zip(inspect.signature(getattr(ops, name)).parameters, args, strict=False)) | kwargs


def _on_device(x):
    return jnp.asarray(x) if isinstance(x, np.ndarray) else x


def call(name, arguments):
    """On shapes alone, but for `surprise_linear_sharded`, which stands on an axis."""
    if name != "surprise_linear_sharded":
        return jax.eval_shape(lambda: getattr(ops, name)(**arguments))
    axis = jax.vmap(lambda _: ops.surprise_linear_sharded(**arguments), axis_name="shards")
    return jax.eval_shape(axis, jnp.zeros(2))


@pytest.mark.parametrize("name", OPS)
def test_a_check_leaves_nothing_in_what_is_compiled(name):
    arguments = jax.tree.map(_on_device, valid_call(name))
    arguments |= {number: jnp.asarray(arguments[number]) for number in {"trace", "empty", "linear"} & arguments.keys()}
    op, (arrays, treedef) = getattr(ops, name), jax.tree.flatten(arguments)
    traced = [i for i, leaf in enumerate(arrays) if isinstance(leaf, jax.Array)]

    def program(function):
        def run(*values):
            given = list(arrays)
            for i, value in zip(traced, values, strict=True):
                given[i] = value
            return function(**jax.tree.unflatten(treedef, given))

        if name == "surprise_linear_sharded":
            run = jax.vmap(run, axis_name="shards", in_axes=None, axis_size=2)
        return str(jax.make_jaxpr(run)(*(arrays[i] for i in traced)))

    unchecked = op
    while hasattr(unchecked, "__wrapped__"):
        unchecked = unchecked.__wrapped__
    assert program(op) == program(unchecked)


@pytest.mark.parametrize("name", OPS)
def test_a_call_with_one_wrong_argument_works_or_is_one_line(name, unchecked):
    arguments = jax.tree.map(_on_device, valid_call(name))
    assert outcome(lambda: call(name, arguments)) == "works"
    refused = total = 0
    with quick_errors():
        for path, value in places(arguments):
            any_kind = bool({"entries", "entry"} & set(path))
            for mistake, bad, must_fail in wrong(value, any_kind, few=len(path) > 1):
                total += 1
                found = outcome(functools.partial(call, name, replaced(arguments, path, bad)))
                at = f"{name}: {path} as {mistake}"
                assert found == "works" or found.startswith("MemjaxError"), f"{at}: {found}"
                assert not must_fail or found != "works", f"{at} is taken"
                refused += found != "works"
    assert total >= 30 and refused >= total / 2, f"{refused} of {total} refused"
