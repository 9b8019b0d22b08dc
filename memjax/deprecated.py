"""Names of the version before, which still work for one version, with a warning."""

import warnings
from collections.abc import Mapping
from typing import Any


def renamed(module: str, names: Mapping[str, Any], name: str) -> Any:
    """What a module's old name stands for, with a `DeprecationWarning`: for the `__getattr__` of that module.

    names: the classes and functions by their old names. Raises `AttributeError` for any other name.

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
