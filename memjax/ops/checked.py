"""What every public op makes of its arguments, by its annotations: arrays of the right kind and shape, or one line.

The rule, of all ops and memories alike: an array has a dtype, which must be of the kind that is asked for. A float is
float16, bfloat16, float32 or float64. Python's numbers and lists of them have no dtype, and become arrays of that kind:
a whole number may stand for a float, nothing else for anything else. So a mask is of bools, never of 0 and 1. All of
it happens while JAX traces: a compiled function has no trace of it.
"""

import dataclasses
import functools
import inspect
import numbers
import types
import typing
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import MemjaxError, unknown
from memjax.ops.arrays import KINDS, as_array, described, is_float_dtype
from memjax.ops.axes import ONE_FOR_ALL, Axes, Scope, Sizes, shown
from memjax.typing import FloatDtype, Key, PyTree

Rule = Callable[[Any, str, Sizes], Any]
F = typing.TypeVar("F", bound=Callable)
LARGEST = 2**31 - 1


def checked(function: F, like: Callable | None = None, name: str = "") -> F:
    """A function whose arguments are what its annotations say, arrays where those name arrays, or `MemjaxError`.

    `Annotated[Float[Array, "L"], ONE_FOR_ALL]` is a number as well, for all of L; `Annotated[GRUParams, Axes(..)]` says
    how the axes inside are called outside. like: a function whose annotations count but where this one names an array
    or a record.

    >>> from memjax.typing import Array, Float
    >>> @checked
    ... def norm(x: Float[Array, "d"], y: Float[Array, "d"]) -> Float[Array, ""]:
    ...     return x @ y
    >>> float(norm([1, 2], jnp.ones(2)))
    3.0
    >>> norm([1.0, 2.0], jnp.ones(3))
    Traceback (most recent call last):
        ...
    memjax.errors.MemjaxError: norm: y must be a float array [d] with d = 2 as in x, not float32[3]
    """
    kinds = {argument: parameter.annotation for argument, parameter in inspect.signature(function).parameters.items()}
    if like is not None:
        own = {argument: kind for argument, kind in kinds.items() if hasattr(kind, "dim_str") or _fields(kind)}
        kinds = {
            argument: parameter.annotation for argument, parameter in inspect.signature(like).parameters.items()
        } | own
    every = {argument: rule_of(kind, argument, Scope(), 0) for argument, kind in kinds.items()}
    rules = {argument: rule for argument, rule in every.items() if rule is not None}
    places = list(every.items())
    name = name or getattr(function, "__name__", "")

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        sizes = Sizes(name)
        taken = [
            value if rule is None else rule(value, argument, sizes)
            for value, (argument, rule) in zip(args, places, strict=False)
        ]
        named = {key: rules[key](value, key, sizes) if key in rules else value for key, value in kwargs.items()}
        sizes.settle()
        taken = [_widened(value, sizes) for value in taken] + list(args[len(taken) :])
        named = {key: _widened(value, sizes) for key, value in named.items()}
        if jax.config.jax_numpy_rank_promotion == "allow":
            return function(*taken, **named)
        with jax.numpy_rank_promotion("allow"):  # a caller's "raise" is about their own code: shapes are checked above
            return function(*taken, **named)

    return typing.cast(F, wrapped)


class _Number(typing.NamedTuple):
    """A number that is to be as long as the others are."""

    value: jax.Array
    axes: list


def _widened(value: Any, sizes: Sizes) -> Any:
    if type(value) is not _Number:
        return value
    shape = sizes.known(value.axes)
    if isinstance(value.value, jax.core.Tracer):
        return jnp.broadcast_to(value.value, shape)
    with jax.ensure_compile_time_eval():  # it stays known, so that its value can be checked
        return jnp.broadcast_to(value.value, shape)


def rule_of(kind: Any, where: str, scope: Scope, depth: int) -> Rule | None:
    """What is made of an argument with this annotation; None for whatever it may be."""
    if kind in (Any, inspect.Parameter.empty):
        return None
    if kind is FloatDtype:
        return _dtype
    around: Any = Axes()
    if typing.get_origin(kind) is typing.Annotated:
        kind, around = typing.get_args(kind)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if all(key in parts for key in typing.get_args(Key)):
        return functools.partial(_key, type(None) in parts)
    if origin in (typing.Union, types.UnionType):
        return _one_of(parts, where, scope, depth)
    if hasattr(kind, "dim_str"):
        return _array(kind, scope, number=around == ONE_FOR_ALL)
    if isinstance(kind, type(PyTree)):
        return _tree(getattr(kind, "leaftype", None), scope)
    if origin is Literal:
        return functools.partial(_literal, parts)
    if origin is tuple:
        return _sequence(parts, where, scope, depth)
    if kind in SCALARS:
        return SCALARS[kind]
    if Callable in (kind, origin):
        return _callable
    fields = _fields(kind)
    return _record(kind, fields, where, scope.inside(around, where, depth), depth)


def _fields(kind: Any) -> dict[str, Any]:
    """What is in a NamedTuple or a frozen dataclass; of other classes nothing."""
    frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    if hasattr(kind, "_fields") or frozen:
        hints = typing.get_type_hints(kind, include_extras=True)
        return {field: hint for field, hint in hints.items() if hint is not int}  # a count of its own
    return {}


def _array(kind: Any, scope: Scope, number: bool = False) -> Rule:
    axes, wanted = scope.shape(kind.dim_str), KINDS[kind.dtype]
    expected = _said(wanted, scope, kind.dim_str)

    def take(value, where, sizes):
        array = as_array(value, wanted)
        if array is None:
            raise sizes.refuse(where, expected, described(value, wanted, where))
        if number and not array.ndim:
            return _Number(array, axes)
        sizes.fit(where, axes, array.shape, expected, lambda: described(value))
        return array

    return take


def _said(wanted: str, scope: Scope, text: str) -> str:
    names = [shown(axis) for axis in scope.lead] + ["..." if name.startswith("*") else name for name in text.split()]
    if not names:
        return {"int": "a whole number", "bool": "True or False"}.get(wanted, "a number")
    return f"{'an' if wanted == 'int' else 'a'} {wanted} array [{', '.join(names)}]"


def _tree(leaf: Any, scope: Scope) -> Rule:
    """Arrays in any structure. Where it says of what kind they are, there is at least one, and nothing in between."""
    axes = scope.shape(leaf.dim_str) if hasattr(leaf, "dim_str") else None
    wanted = KINDS[leaf.dtype] if leaf is not None else "any"
    expected = "float arrays" if wanted == "float" else "arrays"
    expected += f" [{', '.join(leaf.dim_str.split())}]" if axes else ""

    def take(value, where, sizes):
        leaves, structure = jax.tree.flatten(value, is_leaf=None if leaf is None else lambda part: part is None)
        if leaf is not None and not leaves:
            raise sizes.refuse(where, expected, described(value))
        arrays = [as_array(part, wanted) for part in leaves]
        for part, array in zip(leaves, arrays):
            if array is None:
                raise sizes.refuse(where, expected, described(part, wanted, where))
            if axes:
                sizes.fit(where, axes, array.shape, expected, lambda array=array: described(array))
        same = all(part is array for part, array in zip(leaves, arrays))
        return value if same else jax.tree.unflatten(structure, arrays)

    return take


def _record(kind: type, fields: dict[str, Any], where: str, scope: Scope, depth: int) -> Rule:
    rules = [(field, rule_of(hint, f"{where}.{field}", scope, depth)) for field, hint in fields.items()]
    expected = f"of class {kind.__name__}"

    def take(value, where, sizes):
        if not isinstance(value, kind):
            raise sizes.refuse(where, expected, described(value))
        changed = {}
        for field, rule in rules:
            if rule is not None:
                before = getattr(value, field)
                after = rule(before, f"{where}.{field}", sizes)
                if after is not before:
                    changed[field] = after
        if not changed:
            return value
        return value._replace(**changed) if hasattr(value, "_replace") else dataclasses.replace(value, **changed)

    return take


def _sequence(parts: tuple, where: str, scope: Scope, depth: int) -> Rule:
    """A tuple, or a list in its place."""
    endless = parts[1:] == (...,)
    rules = [rule_of(part, where, scope, depth + 1) for part in parts if part is not ...]

    def take(value, where, sizes):
        fits = isinstance(value, (list, tuple)) and not hasattr(value, "_fields")
        if not fits or not (endless or len(value) == len(rules)):
            raise sizes.refuse(where, "a tuple" if endless else f"a tuple of {len(rules)}", described(value))
        outer, taken = sizes.indices, []
        for i, part in enumerate(value):
            sizes.indices = (*outer, i)
            taken.append(rules[0 if endless else i](part, f"{where}[{i}]", sizes))
        sizes.indices = outer
        return tuple(taken)

    return take


def _one_of(parts: tuple, where: str, scope: Scope, depth: int) -> Rule:
    rules, optional = [], type(None) in parts
    bare_parts = [typing.get_args(part)[0] if typing.get_origin(part) is typing.Annotated else part for part in parts]
    arrays = [bare for bare in bare_parts if hasattr(bare, "dim_str")]
    for part, bare in zip(parts, bare_parts, strict=True):
        if part is type(None) or (arrays and part in (bool, int, float)):
            continue
        rules.append((bare, rule_of(part, where, scope, depth)))
    records = [(bare, rule) for bare, rule in rules if inspect.isclass(bare) and bare not in arrays]
    plain = [rule for bare, rule in rules if not any(bare is record for record, _ in records)]
    by_axes = {len(bare.dim_str.split()): rule for bare, rule in reversed(rules) if hasattr(bare, "dim_str")}

    def take(value, where, sizes):
        if value is None and optional:
            return None
        for bare, rule in records:
            if isinstance(value, bare):
                return rule(value, where, sizes)
        if plain:  # of several arrays that with as many axes as the value, else the first
            return by_axes.get(_axes(value), plain[0])(value, where, sizes)
        names = " or ".join(bare.__name__ for bare, _ in records)
        raise sizes.refuse(where, f"of class {names}", described(value))

    return take


def _axes(value: Any) -> int:
    """How many axes an array has, or numbers in lists."""
    if isinstance(value, (list, tuple)):
        return 1 + (_axes(value[0]) if value else 0)
    return getattr(value, "ndim", 0)


def _literal(choices: tuple, value: Any, where: str, sizes: Sizes) -> Any:
    if not isinstance(value, str) or value not in choices:
        refusal = unknown(where, value if isinstance(value, str) else described(value), choices)
        raise MemjaxError(f"{sizes.op}: {refusal}")
    return value


def _count(value: Any, where: str, sizes: Sizes) -> int:
    size = int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else 0
    if not 1 <= size <= LARGEST:
        allowed = "of at least 1" if size < 1 else f"of at most {LARGEST}"
        raise sizes.refuse(where, f"a whole number {allowed}", described(value))
    return size


def _flag(value: Any, where: str, sizes: Sizes) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise sizes.refuse(where, "True or False", described(value))
    return bool(value)


def _text(value: Any, where: str, sizes: Sizes) -> str:
    if not isinstance(value, str):
        raise sizes.refuse(where, "a name", described(value))
    return value


def _callable(value: Any, where: str, sizes: Sizes) -> Any:
    if not callable(value):
        raise sizes.refuse(where, "a function", described(value))
    return value


def _dtype(value: Any, where: str, sizes: Sizes) -> Any:
    if value is not None and not is_float_dtype(value):
        raise sizes.refuse(where, "float16, bfloat16, float32 or float64", described(value))
    return value


def is_key(value: Any) -> bool:
    """Whether this is one random key, of `jax.random.key` or of `jax.random.PRNGKey`."""
    typed = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key) and not value.ndim
    raw = isinstance(value, (jax.Array, np.ndarray)) and value.dtype == np.uint32 and value.shape in ((2,), (4,))
    return typed or raw


def _key(optional: bool, value: Any, where: str, sizes: Sizes) -> Any:
    if not is_key(value) and not (optional and value is None):
        raise sizes.refuse(where, "a key, as jax.random.key makes one", described(value))
    return value


SCALARS: dict[Any, Rule] = {int: _count, bool: _flag, str: _text}
