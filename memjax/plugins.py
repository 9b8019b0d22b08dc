"""What other packages bring: memories, tasks and families of experiments, by entry points or by `--plugin=MODULE`.

An installed package announces its own in its `pyproject.toml`:

    [project.entry-points."memjax.tasks"]
    parity = "my_package.parity"

and its module calls `memjax.register_task` when it is imported (for memories, `memjax.register_memory`; for families,
`memjax.register_family`). A module that is not installed is named on the command line. A run folder keeps the names of
the modules that it needed, and never imports one by itself.
"""

import importlib
import sys
from importlib.metadata import entry_points
from pathlib import Path

from memjax.errors import MemjaxError, one_line, remark, require

GROUPS = ("memjax.memories", "memjax.tasks", "memjax.families")


def load(module: str) -> None:
    """Imports a module that registers what it brings: one that is installed, or one in the working directory.

    Raises:
        MemjaxError: if it cannot be imported.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = importlib.import_module(module)
    except MemjaxError as error:
        raise MemjaxError(f"--plugin={module}: {error}") from None
    except Exception as error:  # the module is the user's: whatever it raises is theirs to read
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise MemjaxError(f"--plugin={module} cannot be imported ({reason}); install it, or mend it") from error
    require(
        getattr(found, "__file__", None),
        f"--plugin={module} is a folder without an __init__.py: install it, or go into the folder that has {module}.py",
    )


def load_installed() -> None:
    """Imports what installed packages announce. One that fails is told in a remark, and left out."""
    for group in GROUPS:
        for point in entry_points(group=group):
            try:
                point.load()
            except Exception as error:  # another package's fault must not end this command
                reason = f"{type(error).__name__}: {one_line(error)}"
                remark(f"the plugin {point.value} of {group} cannot be imported ({reason}); left out")
