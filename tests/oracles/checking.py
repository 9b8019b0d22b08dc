"""Ways of comparing that several tests share."""

import jax
import numpy as np
from jax.extend.core import Var


def cast(tree, dtype):
    """The floats of a tree in a dtype; ids and masks as they are."""
    return jax.tree.map(lambda x: jax.numpy.asarray(x, dtype if np.issubdtype(x.dtype, np.floating) else x.dtype), tree)


def float64(tree):
    return jax.tree.map(lambda x: np.asarray(x, np.float64), tree)


def assert_close(actual, expected, tolerance):
    """Each array to `tolerance` of its own largest number."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for (path, want), got in zip(jax.tree.leaves_with_path(expected), jax.tree.leaves(actual), strict=True):
        want, got = float64((want, got))
        atol = tolerance * max(1, np.abs(want).max(initial=0))
        np.testing.assert_allclose(got, want, rtol=0, atol=atol, err_msg=jax.tree_util.keystr(path))


def assert_same(actual, expected):
    """To the bit."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def assert_finite(tree):
    for path, leaf in jax.tree.leaves_with_path(tree):
        assert np.isfinite(np.asarray(leaf, np.float64)).all(), jax.tree_util.keystr(path)


def matmuls_that_no_carry_reaches(jaxpr):
    """In the scans of a jaxpr, the matrix products that could have been computed before the scan."""
    found = []

    def visit(jaxpr, carried):
        reached = {var for var, flag in zip(jaxpr.invars, carried, strict=True) if flag}
        for eqn in jaxpr.eqns:
            inputs = [isinstance(var, Var) and var in reached for var in eqn.invars]
            if eqn.primitive.name == "dot_general" and not any(inputs):
                found.append(eqn)
            for inner in _inner(eqn):
                visit(inner, inputs)
            if any(inputs):
                reached.update(eqn.outvars)

    def outside(jaxpr):
        for eqn in jaxpr.eqns:
            for inner in _inner(eqn):
                if eqn.primitive.name == "scan":
                    first, count = _carry(eqn.params)
                    visit(inner, [first <= i < first + count for i in range(len(inner.invars))])
                else:
                    outside(inner)

    outside(jaxpr)
    return found


def _carry(params):
    """Where the carry begins among the inputs of a scan, and how many they are."""
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()  # JAX 0.12 keeps trees in place of counts
    return len(consts.vals), len(carry.vals)


def _inner(eqn):
    for value in eqn.params.values():
        if hasattr(value, "jaxpr"):
            yield value.jaxpr
        elif hasattr(value, "eqns"):
            yield value


def assert_gradients_are_differences(gradients, loss, arguments):
    """Of a loss in NumPy, along a direction for each array: none can hide behind another."""
    leaves, treedef = jax.tree.flatten(arguments)
    rng, step = np.random.default_rng(2), 1e-5
    for i, (leaf, (path, gradient)) in enumerate(zip(leaves, jax.tree.leaves_with_path(gradients), strict=True)):
        direction = rng.normal(size=leaf.shape)
        moved = ([*leaves[:i], leaf + sign * step * direction, *leaves[i + 1 :]] for sign in (1, -1))
        ahead, behind = (loss(*treedef.unflatten(each)) for each in moved)
        slope, difference = np.sum(np.asarray(gradient) * direction), (ahead - behind) / (2 * step)
        np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-7, err_msg=jax.tree_util.keystr(path))
