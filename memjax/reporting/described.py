"""From plain JSON to frozen dataclasses, by the types of their fields."""

import dataclasses
import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from memjax.errors import MemjaxError, require

_PLAIN = {str: "a text", float: "a number", NoneType: "null"}


def read_value(kind: Any, value: Any, where: str) -> Any:
    """The value as the type says.

    Args:
        kind: a dataclass, a text, a number, one of some texts, a tuple, a mapping, or a union.
        value: of the JSON.
        where: its place in the JSON, for errors.

    Raises:
        MemjaxError: for a value of another type, a missing field and an unknown one.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _read_fields(kind, value, where)
    if origin is tuple:
        require(isinstance(value, list), f"{where} must be a list")
        return tuple(read_value(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is Mapping:
        require(isinstance(value, dict), f"{where} must be an object")
        return {name: read_value(arguments[1], item, f"{where}.{name[:40]}") for name, item in value.items()}
    if origin is Literal:
        require(isinstance(value, str) and value in arguments, f"{where} must be one of {', '.join(arguments)}")
        return value
    allowed = arguments if origin is UnionType else (kind,)
    if float in allowed and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) not in allowed or (isinstance(value, float) and not math.isfinite(value)):
        raise MemjaxError(f"{where} must be {' or '.join(_PLAIN[each] for each in allowed)}")
    return value


def _read_fields(cls: type, value: Any, where: str) -> Any:
    require(isinstance(value, dict), f"{where} must be an object")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in value:
        require(name in fields, f"{where} has {name[:40]!r}, which this version of memjax does not know")
    for name, field in fields.items():
        optional = (field.default, field.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)
        require(name in value or optional, f"{where} has no {name}")
    return cls(**{name: read_value(fields[name].type, item, f"{where}.{name}") for name, item in value.items()})
