"""The command line: train, compare, evaluate, report, prepare, list. Thin; everything behind it can be imported."""

import _thread
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import NoReturn

import jax
from absl import flags, logging

import memjax
from memjax import plugins, program
from memjax.errors import TOO_LARGE, Interrupted, MemjaxError, Preempted, is_too_large, one_line, require, unknown
from memjax.program import INTERRUPTED

USAGE = """\
memjax train     trains what a config describes, tests it, and writes a report
memjax compare   trains several systems in turn, and puts them into one table
memjax evaluate  tests a run again, on other data or another length too
memjax report    a table and a page of runs
memjax prepare   checks a data set's files, and puts them into the form that is read
memjax list      what configs, memories and tasks there are

memjax COMMAND --help says more. First: memjax train, which trains the demo.
"""
# Each command, and whether what installed packages announce is imported for it.
COMMANDS = {"compare": True, "evaluate": False, "list": True, "prepare": False, "report": False, "train": True}
TERMINATED = 143  # of what was ended by SIGTERM: not 0, for the run is to be started again
UNREAD = 141  # of what printed more than was read, as SIGPIPE's


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status: 0, or 2 after one line about what the user can mend."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except MemjaxError as error:
        print(f"memjax: {error}", file=sys.stderr)
        return 2
    except (BrokenPipeError, program.Unread):
        program.drop_output()
        return UNREAD


def _run(arguments: list[str]) -> int:
    helped = bool({"-h", "--help"} & set(arguments))
    if not arguments or arguments[0] in ("help", "-h", "--help"):
        print(USAGE, end="", flush=True)
        return 0
    if arguments[0] == "--version":
        print(memjax.__version__, flush=True)
        return 0
    logging.set_verbosity(logging.FATAL)  # what damage is to Orbax, we say in a line of ours
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # grain reads absl's flags, and they are not ours
    try:
        if arguments[0] not in COMMANDS:
            raise unknown("command", arguments[0], COMMANDS)
        command = _import_command(arguments[0])
        if helped:
            print(command.USAGE, end="", flush=True)
            return 0
        command.run(_load_plugins(arguments[1:], COMMANDS[arguments[0]]))
    except (AssertionError, MemoryError, OverflowError, RuntimeError) as error:
        if not isinstance(error, AssertionError) and is_too_large(error):
            raise MemjaxError(TOO_LARGE) from None
        _require_devices()
        raise
    except Interrupted as error:
        print(f"memjax: interrupted; {error}, and the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    except KeyboardInterrupt:
        print(f"memjax: interrupted; {program.what_next(arguments[0])}", file=sys.stderr)
        return INTERRUPTED
    except program.Terminated:
        print(f"memjax: asked to stop; {program.what_next(arguments[0])}", file=sys.stderr)
        return TERMINATED
    except Preempted as error:
        print(f"memjax: asked to stop; {error}, and the same command goes on from there", file=sys.stderr)
        return TERMINATED
    return 0


def _import_command(name: str) -> ModuleType:
    """The module of a command, which needs more than `import memjax` does."""
    try:
        return importlib.import_module(f"memjax.commands.{name}_command")
    except ModuleNotFoundError as error:
        missing = (error.name or "memjax").partition(".")[0]
        if missing == "memjax":
            raise
        raise MemjaxError(f"{name} needs {missing}: pip install 'memjax[train]'") from None


def _load_plugins(arguments: Sequence[str], installed: bool) -> list[str]:
    """Imports the modules of `--plugin=`; the other arguments."""
    if installed:
        plugins.load_installed()
    for argument in arguments:
        name, equals, module = argument.partition("=")
        if name in ("--plugin", "-plugin"):
            require(equals and module, "write --plugin=MODULE, with an equals sign")
            plugins.load(module)
    return [a for a in arguments if not a.startswith(("--plugin=", "-plugin="))]


def _require_devices() -> None:
    """Raises `MemjaxError` where JAX is told to use devices that are not here."""
    try:
        jax.devices()
    except (AssertionError, RuntimeError) as error:
        asked, reason = os.environ.get("JAX_PLATFORMS", ""), one_line(error) or "it has no plugin for them"
        raise MemjaxError(
            f"JAX has no devices for JAX_PLATFORMS={asked} ({reason}); set JAX_PLATFORMS=cpu, or install its plugin"
        ) from None


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C. What is raised in JAX's callback of the garbage collector is swallowed: there it comes a little later."""
    if frame is not None and frame.f_code.co_name == "_xla_gc_callback":
        threading.Timer(0.1, _thread.interrupt_main).start()
        return
    raise KeyboardInterrupt


def run() -> NoReturn:
    """The program: `main`, and the end of the process."""
    program.guard_streams()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as it is of what a script starts with "&"
        signal.signal(signal.SIGINT, _interrupt)
        program.leave_at_the_second_interrupt()
    signal.signal(signal.SIGTERM, program.terminate)
    program.quiet_threads()
    status = main()
    try:
        sys.stdout.flush()
    except program.Unread:
        status = UNREAD
        program.drop_output()
    except MemjaxError as error:
        if not status:  # else it was told
            print(f"memjax: {error}", file=sys.stderr)
        status = status or 2
        program.drop_output()
    if status in (INTERRUPTED, TERMINATED) or (status and jax.distributed.is_initialized()):
        # At once: XLA's threads that still compile, or wait for other processes, would crash or hang an interpreter
        # that is taken down around them.
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    run()
