"""Checks of sizes that a class makes of itself, each mistake one line; a config puts the setting's path in front."""

from typing import Any

from memjax.errors import require

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
        require(getattr(sizes, name) >= low, f"{name} must be at least {low}, not {getattr(sizes, name)}")


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
