"""One wrong value in place of a right one, anywhere in the arguments of a call; and what becomes of the call."""

import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from memjax import MemjaxError


@contextlib.contextmanager
def quick_errors():
    """JAX takes its own frames out of every traceback, which is most of the time that thousands of them take."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    yield
    jax.config.update("jax_traceback_filtering", before)


def places(value, path=()):
    """`(path, value)` of an argument, of all that is in it, and so on; a path is names and indices."""
    inside = {}
    if isinstance(value, dict):
        inside = value
    elif hasattr(value, "_asdict"):
        inside = value._asdict()
    elif dataclasses.is_dataclass(value):
        inside = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, (list, tuple)):
        inside = dict(enumerate(value))
    if path:
        yield path, value
    for key, part in inside.items():
        if key != "within":  # no array: a count that a state carries, static
            yield from places(part, (*path, key))


def replaced(value, path, new):
    """The same with something else at that path."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, dict):
        return {**value, key: replaced(value[key], rest, new)}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(replaced(part, rest, new) if i == key else part for i, part in enumerate(value))
    part = replaced(getattr(value, key), rest, new)
    return value._replace(**{key: part}) if hasattr(value, "_replace") else dataclasses.replace(value, **{key: part})


def outcome(call):
    """ "works", or the error; of `MemjaxError` one line is required."""
    try:
        call()
    except MemjaxError as error:
        text = str(error)
        return f"MemjaxError: {text}" if text and "\n" not in text and len(text) < 400 else f"not a line: {text}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "works"


def wrong(value, any_kind=False, few=False):
    """`(what it is, the value, whether it must be refused)` in place of a right value.

    any_kind: an array of whatever kind is right. few: without what is like another mistake.
    """
    junk = [
        ("a complex number", 1j, True),
        ("an array of complex", np.zeros(np.shape(value) if _is_array(value) else (), np.complex64), True),
        ("a str", "no such thing", True),
        ("a ragged list", [[1.0], [1.0, 2.0]], True),
        ("an object", object(), True),
        ("bytes", b"x", True),
        ("a set", {1, 2}, True),
        ("a dict", {"x": 1.0}, True),
        ("a huge number", 10**400, True),
        ("a list of strings", ["a"], True),
        ("a key", jax.random.key(0), not _is_key(value)),
    ]
    yield from junk[: 5 if few else None]
    if hasattr(value, "_asdict") or dataclasses.is_dataclass(value):
        leaf = next(x for x in jax.tree.leaves(value) if x.ndim)
        yield from [("one of its arrays", leaf, False), ("a plain tuple", tuple(jax.tree.leaves(value)), False)]
    if not callable(value):
        yield ("a class", int, True)
    yield from [("None", None, False), ("a float", 0.5, False), ("an int", 3, False), ("a bool", True, False)]
    yield from [("0", 0, False), ("-1", -1, False), ("NaN", float("nan"), False), ("an empty list", [], False)]
    if not _is_array(value):
        return
    array = np.asarray(value)
    kind = array.dtype.kind
    kinds = [
        ("float8", np.zeros(array.shape, jnp.float8_e4m3fn), True),
        ("int4", np.zeros(array.shape, jnp.int4), True),
        ("objects", np.full(array.shape, None), True),
        ("dates", np.zeros(array.shape, "datetime64[s]"), True),
        ("shapes alone", jax.ShapeDtypeStruct(array.shape, jnp.float32), True),
        ("bfloat16", np.zeros(array.shape, jnp.bfloat16), kind != "f" and not any_kind),
        ("int32", np.zeros(array.shape, jnp.int32), kind != "i" and not any_kind),
        ("bools", np.zeros(array.shape, bool), kind != "b" and not any_kind),
        ("float64 of NumPy", np.zeros(array.shape), kind != "f" and not any_kind),
        ("one axis more", array[None], False),
        ("nested lists", array.tolist(), False),
    ]
    yield from kinds if not few else [kinds[0], *kinds[5:]]
    if array.ndim:
        yield ("one axis less", array[0], False)
        for axis in range(array.ndim):
            for name, size in (("one more", array.shape[axis] + 1), ("none", 0), ("one", 1))[: 2 if few else 3]:
                resized = np.resize(array, [*array.shape[:axis], size, *array.shape[axis + 1 :]])
                yield (f"{name} on axis {axis}", resized, False)
    if array.ndim > 1:
        yield ("turned around", array.T, False)


def _is_key(value):
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _is_array(value):
    return isinstance(value, (np.ndarray, np.generic, jax.Array)) and not _is_key(value)
