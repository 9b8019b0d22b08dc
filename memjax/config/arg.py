"""What follows the colon of `--config=FILE.py:VARIANT,KEY=VALUE`, for the files of configs/."""

from typing import Any

from memjax.errors import MemjaxError, require, unknown


def parse_arg(arg: str, default: str, **defaults: Any) -> tuple[str, dict[str, Any]]:
    """Reads what follows the colon of `--config=file.py:variant,key=value`.

    Args:
        arg: what follows it.
        default: the variant, if none is given.
        defaults: the keys that there are, and their values if they are not given; a value has the type of its default.

    Returns:
        `(variant, values)`.

    Raises:
        MemjaxError: for a second variant, a key that there is not, and a value of another type.

    >>> parse_arg("rehearsal,task=1", "rehearsal", task=0)
    ('rehearsal', {'task': 1})
    """
    variant, values = None, dict(defaults)
    for part in filter(None, (arg or "").split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            require(variant is None, f"two variants, {variant!r} and {key!r}; give one, then KEY=VALUE")
            variant = key
        elif key not in values:
            raise unknown("config argument", key, values)
        else:
            kind = type(values[key])
            require(kind is not bool or value in ("0", "1"), f"config argument {key}={value!r} must be 0 or 1")
            try:
                values[key] = value == "1" if kind is bool else kind(value)
            except ValueError:
                raise MemjaxError(f"config argument {key}={value!r} must be of type {kind.__name__}") from None
    return variant or default, values
