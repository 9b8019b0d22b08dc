"""`memjax list`."""

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from memjax import memories, tasks
from memjax.commands.shared import make_console
from memjax.config.overrides import PACKAGE
from memjax.errors import require
from memjax.memories.memory_registry import size_fields

USAGE = """\
memjax list [configs] [memories] [tasks] [--plugin=MODULE ...]

What there is: configs with their commands, memories with their sizes, tasks with their settings; with what installed
packages bring.
"""
KINDS = ("configs", "memories", "tasks")


def run(arguments: Sequence[str]) -> None:
    """Runs the command."""
    foreign = [a for a in arguments if a not in KINDS]
    require(not foreign, f"memjax list takes {', '.join(KINDS)}, not {' '.join(foreign)!r}")
    console = make_console()
    for kind in arguments or KINDS:
        {"configs": _configs, "memories": _memories, "tasks": _tasks}[kind](console)


def _configs(console: Console) -> None:
    table = _table("Configs", "file", "what it is", "command")
    for file in sorted(_config_files()):
        head = ast.get_docstring(ast.parse(file.read_text())) or ""
        commands = [line.strip() for line in head.splitlines() if line.strip().startswith("memjax ")]
        # Behind two blanks stands what a command is for.
        told = [line.partition("  ")[0].removeprefix("memjax train ") for line in commands]
        _row(table, f"configs/{file.name}", head.partition("\n")[0], "\n".join(told))
    console.print(table)


def _memories(console: Console) -> None:
    table = _table("Memories", "name", "what it is", "sizes of its own")
    for name, cls in sorted(memories.registry.items()):
        own = (field for size, field in size_fields(cls).items() if size != "dtype")
        _row(table, name, _first_line(cls), _fields(own))
    console.print(table)


def _tasks(console: Console) -> None:
    table = _table("Tasks", "name", "what it is", "settings", "family")
    for name, entry in sorted(tasks.registry.items()):
        _row(table, name, _first_line(entry.make), _fields(dataclasses.fields(entry.spec)), entry.family)
    console.print(table)


def _config_files() -> Iterator[Path]:
    folders = [folder for folder in (PACKAGE / "configs", PACKAGE.parent / "configs") if folder.is_dir()]
    return folders[0].glob("*.py")


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]


def _fields(fields: Iterable[dataclasses.Field]) -> str:
    def one(field: dataclasses.Field) -> str:
        plain = isinstance(field.default, (bool, int, float, str))
        return f"{field.name}={field.default}" if plain else field.name

    return ", ".join(map(one, fields))


def _row(table: Table, *cells: str) -> None:
    table.add_row(*map(Text, cells))  # text, not markup: docstrings have brackets


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", show_lines=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
