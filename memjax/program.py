"""The process of the command line: its signals, and its standard streams, whatever they are.

`import memjax` reads this file first, and nothing happens then in a program that is not the command line.
"""

import contextlib
import itertools
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from memjax.errors import MemjaxError, remark

INTERRUPTED = 130  # the exit status of what was ended by Ctrl-C


class Terminated(BaseException):
    """SIGTERM, where nothing has to be saved first: what is half written is taken away, and the process ends."""


class Unread(Exception):
    """Who reads what is printed has left, as `head` does."""


class Stream:
    """A standard stream whose own failure is one line, wherever something was printed.

    told: of what is printed, a failure is a `MemjaxError`; of what is said beside it, nobody can be told.
    """

    def __init__(self, stream: Any, told: bool):
        self._stream, self._told = stream, told
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # what it has no character for

    def write(self, text: str) -> int:
        """As a text stream does."""
        return self._do(self._stream.write, text) or 0

    def flush(self) -> None:
        """As a text stream does."""
        self._do(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _do(self, action: Any, *arguments: Any) -> Any:
        try:
            return action(*arguments)
        except OSError as error:
            if self._told:
                raise _failure(error) from None
            return None


def _failure(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return Unread()
    return MemjaxError(f"cannot print: {error.strerror}; give standard output a place that has room, or close it")


def guard_streams() -> None:
    """Makes the standard streams safe to print on: one that is closed takes everything and keeps nothing."""
    closed = []
    for number in range(3):  # in order, so that each gets its own number back
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # else the next file that is opened would get what is printed
            closed.append(number)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stdout, sys.stderr = Stream(sys.stdout, told=True), Stream(sys.stderr, told=False)  # type: ignore[assignment]
    if 1 in closed:
        remark("standard output is closed; nothing is printed")


def drop_output() -> None:
    """What was not printed yet never is: Python flushes once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def what_next(command: str) -> str:
    """What a command does when it is given again after it was stopped."""
    trains = command in ("train", "compare")
    return "the same command goes on from the last checkpoint" if trains else "the same command begins again"


def terminate(*_: object) -> None:
    """SIGTERM."""
    raise Terminated


def leave(*_: object) -> None:
    """Ends the process as after a Ctrl-C, at once."""
    with contextlib.suppress(OSError):
        command = "".join(sys.argv[1:2])
        os.write(2, f"memjax: interrupted; {what_next(command)}\n".encode())
    os._exit(INTERRUPTED)


def leave_at_the_second_interrupt() -> None:
    """Ends the process at the second Ctrl-C, wherever it is: while XLA compiles, Python sees no signal for minutes."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # one Ctrl-C goes to all of them

    def watch() -> None:
        seen = 0
        while True:
            seen += os.read(read, 1)[0] == signal.SIGINT
            if seen == 2:
                leave()

    threading.Thread(target=watch, name="interrupts", daemon=True).start()


def quiet_threads() -> None:
    """Says nothing of what the threads of Orbax find behind a save or a read that failed: that is told by another."""

    def told(unraisable: Any) -> None:
        foreign = threading.current_thread() is not threading.main_thread()
        if not (foreign and str(unraisable.exc_value) == "Event loop is closed"):
            sys.__unraisablehook__(unraisable)

    sys.unraisablehook = told
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)


def _is_command_line() -> bool:
    words, program = getattr(sys, "orig_argv", []), (getattr(sys, "argv", None) or [""])[0]
    return ("-m", "memjax.cli") in itertools.pairwise(words) or Path(program).name == "memjax"


if _is_command_line() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, leave)  # while everything else is imported
