"""From mappings to typed dataclasses and back: keys, types and ranges checked, each mistake one line with its path."""

import contextlib
import dataclasses
import math
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from memjax.deprecated import new_names
from memjax.errors import MemjaxError, require, unknown

LARGEST_INT = 2**31 - 1
LARGEST_FLOAT = 3e38  # of float32, in which everything is computed


def typed(cls: type, mapping: Any, path: str) -> Any:
    """A dataclass from a mapping of its fields.

    A key that the mapping lacks has the default of the class, so that what an older version wrote can be read; without
    a default it is a mistake. A class that checks itself in `__post_init__` says the field alone; the path is put in
    front here. A field whose class has a method `read(mapping, path)` is made by that.

    Args:
        cls: the dataclass.
        mapping: of its fields, those of dataclasses in it mappings again.
        path: of the mapping, for errors, as "config.mesh".

    Returns:
        An instance of `cls`.

    Raises:
        MemjaxError: for whatever does not fit, one line with the path of a setting.

    >>> from memjax.config import MeshConfig
    >>> typed(MeshConfig, {"data": 0, "fsdp": 1, "sequence": 1, "model": 1}, "config.mesh")
    Traceback (most recent call last):
        ...
    memjax.errors.MemjaxError: config.mesh.data must be at least 1, or -1 for the rest, not 0
    """
    require(isinstance(mapping, Mapping), f"{path} must be a group of settings, not {mapping!r}")
    hints, fields = typing.get_type_hints(cls), dataclasses.fields(cls)
    names = [field.name for field in fields]
    with setting(path):
        mapping = new_names(cls, mapping)  # what an older version wrote
    for key in mapping:
        if key not in names:
            raise unknown("setting", f"{path}.{key}", [f"{path}.{name}" for name in names])
    missing = [f.name for f in fields if f.name not in mapping and not _has_default(f)]
    require(not missing, f"{path} lacks {', '.join(missing)}")
    values = {key: _value(hints[key], mapping[key], f"{path}.{key}") for key in names if key in mapping}
    with setting(path):
        return cls(**values)


@contextlib.contextmanager
def setting(path: str) -> Iterator[None]:
    """Puts the path of a setting in front of what a class says of its sizes."""
    try:
        yield
    except MemjaxError as error:
        raise MemjaxError(f"{path}.{error}") from None


def plain(config: Any) -> Any:
    """A config as nested plain dicts, of which `typed` makes the same one; a class may say so itself with `plain`."""
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return config
    if hasattr(config, "plain"):
        return config.plain()
    return {field.name: plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def check_range(value: Any, path: str, limit: int | float | None = None) -> None:
    """Raises `MemjaxError` for a number that int32 or float32 cannot hold."""
    if isinstance(value, (int, float)):
        limit = limit or (LARGEST_INT if isinstance(value, int) else LARGEST_FLOAT)
        require(abs(value) <= limit, f"{path} must be between {-limit} and {limit}, not {value}")


def _has_default(field: dataclasses.Field) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _value(hint: Any, value: Any, path: str) -> Any:
    if typing.get_origin(hint) is Literal:
        if value not in typing.get_args(hint):
            raise unknown(f"value of {path}", value, typing.get_args(hint))
        return value
    if dataclasses.is_dataclass(hint):
        if isinstance(value, typing.cast(type, hint)):
            return value
        return hint.read(value, path) if hasattr(hint, "read") else typed(typing.cast(type, hint), value, path)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        check_range(value, path, LARGEST_FLOAT)
        value = float(value)
    if hint in (int, float, str, bool):
        wrong = not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)
        require(not wrong, f"{path} must be of type {hint.__name__}, not {value!r}")
        require(hint is not float or math.isfinite(value), f"{path} must be finite, not {value!r}")
        require(hint is not str or "\0" not in value, f"{path} must have no null character, not {value!r}")
        check_range(value, path)
    return value
