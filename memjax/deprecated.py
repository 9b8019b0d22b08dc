"""Names and keywords of the version before, which still work for one version, with a warning."""

import functools
import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from memjax.errors import require


def renamed(module: str, names: Mapping[str, Any], name: str) -> Any:
    """What a module's old name stands for, with a `DeprecationWarning`: for the `__getattr__` of that module.

    Args:
        module: its name.
        names: the classes and functions by their old names.
        name: what was asked for.

    Raises:
        AttributeError: for any other name.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     renamed("memjax.example", {"old": len}, "old")
    <built-in function len>
    >>> str(caught[0].message)
    'memjax.example.old is called memjax.example.len now; the old name goes with the next version'
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    new = names[name]
    message = f"{module}.{name} is called {module}.{new.__name__} now; the old name goes with the next version"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return new


def moved(module: str, places: Mapping[str, str], name: str) -> Any:
    """What a module once had and another has now, with a `DeprecationWarning`: for its `__getattr__`.

    Args:
        module: its name.
        places: the module of today of each name.
        name: one of them.
    """
    message = f"{module}.{name} is {places[name]}.{name} now; the old place goes with the next version"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return getattr(importlib.import_module(places[name]), name)


def old_keyword(old: str, *, new: str) -> Callable[[Any], Any]:
    """A class that still takes a keyword by its old name, with a `DeprecationWarning`.

    Args:
        old: the name that goes.
        new: the name of today.

    Returns:
        A decorator of the class.

    >>> from dataclasses import dataclass
    >>> @old_keyword("depth", new="layers")
    ... @dataclass
    ... class Stack:
    ...     layers: int
    >>> Stack(depth=2), new_names(Stack, {"depth": 2})
    (Stack(layers=2), {'layers': 2})
    """

    def decorate(cls: Any) -> Any:
        make = cls.__init__

        @functools.wraps(make)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            if old in kwargs:
                warn_of_keywords(cls, kwargs)
                kwargs = new_names(cls, kwargs)
            make(self, *args, **kwargs)

        cls.__init__ = __init__
        cls.renamed_keywords = {**getattr(cls, "renamed_keywords", {}), old: new}
        return cls

    return decorate


def new_names(cls: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a class by their names of today.

    Args:
        cls: the class, which `old_keyword` may have decorated.
        settings: by old names or new ones.

    Raises:
        MemjaxError: for one that is given by both.
    """
    names = getattr(cls, "renamed_keywords", {})
    for old in names.keys() & settings.keys():
        require(names[old] not in settings, f"{old} is called {names[old]} now; give {names[old]} alone")
    return {names.get(key, key): value for key, value in settings.items()}


def warn_of_keywords(cls: Any, settings: Mapping[str, Any]) -> None:
    """Warns of settings that are given by their old names.

    Args:
        cls: the class.
        settings: of which only the names count.
    """
    names = getattr(cls, "renamed_keywords", {})
    for old in names.keys() & settings.keys():
        message = f"{cls.__name__}: {old} is called {names[old]} now; the old name goes with the next version"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
