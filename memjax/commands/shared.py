"""What several commands do alike: where they print, where compiled programs are kept, run folders, reports of runs."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags
from rich.console import Console

from memjax.config.overrides import parse_flags
from memjax.errors import MemjaxError, require
from memjax.reporting import load_run, print_table, write_report
from memjax.reporting.run_folder import runs_in
from memjax.training import compile_cache


def make_console(quiet: bool = False) -> Console:
    """The terminal; what is no terminal has room for every table."""
    console = Console(quiet=quiet)
    return console if console.is_terminal else Console(width=max(console.width, 240), quiet=quiet)


def command_line() -> str:
    """What the user typed, as a shell would take it."""
    return shlex.join(["memjax", *sys.argv[1:]])


def define_compile_cache(values: flags.FlagValues) -> None:
    """Defines the flag `--compile_cache`, for a command that compiles."""
    flags.DEFINE_string("compile_cache", None, "keep compiled programs here", flag_values=values)


def keep_compiled(values: flags.FlagValues) -> None:
    """Keeps compiled programs where `--compile_cache` says.

    Raises:
        MemjaxError: for a folder that cannot be written to.
    """
    require(values.compile_cache != "", "--compile_cache= is empty; give it a folder, or off")
    compile_cache.keep_compiled(values.compile_cache)


def run_folders(arguments: Sequence[str], values: flags.FlagValues, command: str) -> list[Path]:
    """The run folders that are named; that of a comparison stands for all runs in it."""
    rest = parse_flags(values, arguments, command)
    require(rest, "name at least one run folder, such as runs/evidence-demo")
    return [run for folder in rest for run in _runs_of(Path(folder))]


def _runs_of(folder: Path) -> list[Path]:
    return [folder] if (folder / "config.json").exists() else runs_in(folder) or [folder]


def report(folders: Sequence[Path], out: Path, console: Console) -> None:
    """Prints the table of runs, and writes their page."""
    loaded = [load_run(folder) for folder in folders]
    print_table(loaded, console)
    try:
        page = write_report(loaded, out)
    except OSError as error:
        raise MemjaxError(f"cannot write the report to {out}: {error.strerror}; give another folder") from None
    console.out(f"report: {page}")
