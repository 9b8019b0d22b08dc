"""Checks of sizes that a class makes of itself, each mistake one line; a config puts the setting's path in front."""

from collections.abc import Collection
from numbers import Integral
from typing import Any

from memjax.errors import require, unknown

LARGEST_WIDTH = 2**20  # far more than fits; the square of a larger one ends the process in XLA
LARGEST_COUNT = 100  # of what is traced and compiled one by one: 1,000 take minutes


def at_least(sizes: Any, low: int | float, *names: str) -> None:
    """Fields must be at least `low`.

    Args:
        sizes: what has the fields.
        low: the least value.
        names: of the fields.

    Raises:
        MemjaxError: for one that is not.
    """
    for name in names:
        said = name.removeprefix("num_")  # of a memory's slots, as users give them
        require(getattr(sizes, name) >= low, f"{said} must be at least {low}, not {getattr(sizes, name)}")


def at_most(sizes: Any, high: int | float, *names: str) -> None:
    """Fields must be at most `high`.

    Args:
        sizes: what has the fields.
        high: the largest value.
        names: of the fields.

    Raises:
        MemjaxError: for one that is not.
    """
    for name in names:
        require(getattr(sizes, name) <= high, f"{name} must be at most {high}, not {getattr(sizes, name)}")


def check_whole(sizes: Any, *names: str) -> None:
    """Raises `MemjaxError` unless these fields are whole numbers."""
    for name in names:
        number = getattr(sizes, name)
        whole = isinstance(number, Integral) and not isinstance(number, bool)
        require(whole, f"{name} must be a whole number, not {number!r}")


def one_of(sizes: Any, known: Collection[str], *names: str) -> None:
    """Raises `MemjaxError` unless these fields are among what is known."""
    for name in names:
        if getattr(sizes, name) not in known:
            raise unknown(name, getattr(sizes, name), known)


def check_scales(sizes: Any, *names: str) -> None:
    """Raises `MemjaxError` unless these fields are above 0 and at most a million."""
    for name in names:
        scale = getattr(sizes, name)
        require(0 < scale <= 1e6, f"{name} must be above 0 and at most 1e6, not {scale}")


def check_penalties(sizes: Any, *names: str) -> None:
    """Raises `MemjaxError` unless these fields, weights of losses, are from 0 to a million."""
    for name in names:
        weight = getattr(sizes, name)
        require(0 <= weight <= 1e6, f"{name} must be from 0 to 1e6, not {weight}")


def check_shares(sizes: Any, *names: str) -> None:
    """Raises `MemjaxError` unless these fields are at least 0 and below 1."""
    for name in names:
        require(0 <= getattr(sizes, name) < 1, f"{name} must be in [0, 1), not {getattr(sizes, name)}")


def check_multiple(sizes: Any, name: str, *parts: str) -> None:
    """Raises `MemjaxError` unless a field is a multiple of some others."""
    whole, said = getattr(sizes, name), name.removeprefix("num_")
    for part in parts:
        own = getattr(sizes, part)
        require(whole % own == 0, f"{said} {whole} must be a multiple of {part} {own}")


def check_widths(sizes: Any, *names: str) -> None:
    """Fields must be from 1 to `LARGEST_WIDTH`.

    Args:
        sizes: what has the fields.
        names: of the fields.

    Raises:
        MemjaxError: for one that is not.
    """
    at_least(sizes, 1, *names)
    at_most(sizes, LARGEST_WIDTH, *names)


def check_counts(sizes: Any, low: int, *names: str) -> None:
    """Fields must be from `low` to `LARGEST_COUNT`.

    Args:
        sizes: what has the fields.
        low: the least value.
        names: of the fields.

    Raises:
        MemjaxError: for one that is not.
    """
    at_least(sizes, low, *names)
    at_most(sizes, LARGEST_COUNT, *names)
