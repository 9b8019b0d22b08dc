"""The one exception for what a user can cause, the checks that raise it, those of a run asked to stop; remarks."""

import difflib
import sys
from collections.abc import Iterable
from typing import Any


class MemjaxError(ValueError):
    """What is wrong and what to do, in one line. The command line prints it and exits with status 2."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.splitlines()))  # a name in it may have line breaks


class Preempted(Exception):
    """A run was asked to stop (SIGTERM), and did so when it had saved its state. Nothing is wrong with it."""


class Interrupted(KeyboardInterrupt):
    """A run was interrupted (Ctrl-C), and left when it had saved its state: which step that is."""


def require(condition: Any, message: str) -> None:
    """Raises `MemjaxError(message)` unless the condition holds."""
    if not condition:
        raise MemjaxError(message)


def require_count(name: str, size: Any) -> None:
    """Raises `MemjaxError` unless the size is a whole number of at least 1."""
    require(type(size) is int and size >= 1, f"{name} must be a whole number of at least 1, not {size!r}")


TOO_LARGE = (
    "this does not fit into memory; lower config.training.batch_size, config.model.width, config.memory.slots "
    "or the sizes in config.task and config.rehearsal"
)


def is_too_large(error: BaseException) -> bool:
    """Whether an error says that memory was short: of JAX's errors of one class, a word tells the one of that kind."""
    words = "RESOURCE_EXHAUSTED", "Out of memory"
    return not isinstance(error, RuntimeError) or any(word in str(error) for word in words)


def unknown(kind: str, name: Any, known: Iterable[str]) -> MemjaxError:
    """The error for a name that does not exist, with the nearest one that does."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=1) or difflib.get_close_matches(str(name).lower(), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return MemjaxError(f"unknown {kind} {name!r}; {hint}")


def remark(message: str) -> None:
    """Says, beside the results, what a user should know though nothing has to be done."""
    print(f"memjax: {message}", file=sys.stderr, flush=True)


def one_line(error: BaseException) -> str:
    """What an error says, short enough for a line of ours."""
    return " ".join(str(error).split())[:120]
