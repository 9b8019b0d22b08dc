"""What may stand for an array, and how what may not is named."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from memjax.typing import Bool, Float, Int, Shaped

KINDS = {Float: "float", Int: "int", Bool: "bool", Shaped: "any"}
DTYPES = {
    "bool": ("bool",),
    "int": tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float": ("float16", "bfloat16", "float32", "float64"),
}
KIND_OF = {jnp.dtype(name): kind for kind, names in DTYPES.items() for name in names}
STANDS_FOR = {"bool": ("bool",), "int": ("int",), "float": ("int", "float"), "any": ("bool", "int", "float")}
HINTS = {("bool", "int"): "; write {where} != 0", ("float", "int"): "; write {where}.astype(float)"}


def as_array(value: Any, wanted: str) -> jax.Array | None:
    """A value as an array of the kind that is wanted, by the rule of `ops.checked`; None for what cannot be one."""
    if isinstance(value, jax.Array):
        kind = KIND_OF.get(value.dtype)
        return _signed(value) if kind is not None and wanted in (kind, "any") else None
    known = not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))
    try:
        with jax.ensure_compile_time_eval() if known else contextlib.nullcontext():  # for checks of values
            return _converted(value, wanted)
    except (TypeError, ValueError, OverflowError):  # ragged lists, numbers that are too large, what has no dtype
        return None


def _converted(value: Any, wanted: str) -> jax.Array | None:
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        if type(value).__name__ not in STANDS_FOR[wanted]:
            return None
        return jnp.asarray(float(value) if wanted == "float" else value)
    if isinstance(value, (list, tuple)):
        if hasattr(value, "_fields"):
            return None
        array = jnp.asarray(value) if any(isinstance(x, jax.Array) for x in jax.tree.leaves(value)) else np.array(value)
        if array.size and KIND_OF.get(array.dtype) not in STANDS_FOR[wanted]:
            return None
        return _on_device(array.astype({"float": float, "int": int, "bool": bool}[wanted]))
    if not hasattr(value, "shape") or wanted not in (KIND_OF.get(np.dtype(value.dtype)), "any"):
        return None
    array = _on_device(value)
    return _signed(array) if array.dtype in KIND_OF else None


def _on_device(array: Any) -> jax.Array:
    """Raises `OverflowError` for whole numbers that JAX, in 32 bits, would make others of."""
    if not isinstance(array, np.ndarray):
        return jnp.asarray(array)
    if array.dtype.kind in "iu" and array.dtype.itemsize >= 4 and array.size:
        limits = jnp.iinfo(jax.dtypes.canonicalize_dtype(int))
        if array.min() < limits.min or array.max() > limits.max:
            raise OverflowError
    return jax.device_put(array)  # `jnp.asarray` compiles something for each shape


def _signed(array: jax.Array) -> jax.Array:
    """Ids without a sign would stay so in differences."""
    return array.astype(int) if array.dtype.kind == "u" else array


def is_float_dtype(value: Any) -> bool:
    """Whether a value names a dtype that memjax computes in."""
    try:
        return KIND_OF.get(jnp.dtype(value)) == "float"
    except (TypeError, ValueError):  # ValueError: of an array, whose dtype is taken
        return False


def described(value: Any, wanted: str = "any", where: str = "") -> str:
    """What came, short enough for a line; with what to write instead where that is plain."""
    if value is None or type(value) in (bool, float, complex):
        return repr(value)
    if type(value) is int:
        return str(value) if abs(value) < 10**20 else "a number of more than 20 digits"
    if isinstance(value, (str, bytes)):
        return repr(value if len(value) <= 30 else value[:30])
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        traced = "a traced " if isinstance(value, jax.core.Tracer) else ""
        kind = "" if isinstance(value, (jax.Array, np.ndarray, np.generic)) else f"the {type(value).__name__} "
        hint = HINTS.get((wanted, KIND_OF.get(value.dtype, "")), "").format(where=where)
        return f"{traced}{kind}{value.dtype}{list(value.shape)}{hint}"
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return f"a {type(value).__name__} ({_of_list(value)})"
    return f"a value of class {type(value).__name__}"


def _of_list(value: Any) -> str:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, jax.errors.TracerArrayConversionError):
        return "no array"
    return "of objects" if array.dtype == object else f"{array.dtype}{list(array.shape)}"
