"""From mappings to typed dataclasses, every key, type and range checked, each mistake one line with its path."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from typing import Any, Literal

from memjax.errors import require, unknown

LARGEST_INT = 2**31 - 1
LARGEST_FLOAT = 3e38  # of float32, in which everything is computed


def typed(cls: type, mapping: Any, path: str) -> Any:
    """The dataclass `cls` from a mapping that has all its keys and no others. Raises `MemjaxError`."""
    require(isinstance(mapping, Mapping), f"{path} must be a group of settings, not {mapping!r}")
    hints = typing.get_type_hints(cls)
    for key in mapping:
        if key not in hints:
            raise unknown("setting", f"{path}.{key}", [f"{path}.{known}" for known in hints])
    missing = [key for key in hints if key not in mapping]
    require(not missing, f"{path} lacks {', '.join(missing)}")
    return cls(**{key: _value(hint, mapping[key], f"{path}.{key}") for key, hint in hints.items()})


def _value(hint: Any, value: Any, path: str) -> Any:
    if typing.get_origin(hint) is Literal:
        if value not in typing.get_args(hint):
            raise unknown(f"value of {path}", value, typing.get_args(hint))
        return value
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, typing.cast(type, hint)) else typed(typing.cast(type, hint), value, path)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        check_range(value, path, LARGEST_FLOAT)
        value = float(value)
    if hint in (int, float, str, bool):
        wrong = not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)
        require(not wrong, f"{path} must be of type {hint.__name__}, not {value!r}")
        require(hint is not float or math.isfinite(value), f"{path} must be finite, not {value!r}")
        check_range(value, path)
    return value


def check_range(value: Any, path: str, limit: float | None = None) -> None:
    """Raises `MemjaxError` for a number that int32 or float32 cannot hold."""
    if isinstance(value, (int, float)):
        limit = limit or (LARGEST_INT if isinstance(value, int) else LARGEST_FLOAT)
        require(abs(value) <= limit, f"{path} must be between {-limit} and {limit}, not {value}")
