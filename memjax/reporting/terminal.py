"""The tables in the terminal."""

from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

from memjax.reporting.run_folder import Run
from memjax.reporting.tables import WORDS, Row, describe, notes, summary_rows, unfinished


def print_table(runs: Sequence[Run], console: Console | None = None) -> None:
    """Prints the summary of the runs.

    Args:
        runs: as `load_run` gives them.
        console: where it is printed; the terminal, if not given.

    Raises:
        MemjaxError: without runs.
    """
    below = [*unfinished(runs), describe(runs), *(f"note: {note}" for note in notes(runs))]
    print_rows(summary_rows(runs), below, console or Console())


def print_rows(rows: Sequence[Row], below: Sequence[str], console: Console) -> None:
    """Prints a table of these rows, and lines below it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
    widths = _widths(rows, console.width)
    for column, width in widths.items():
        left = column in WORDS
        table.add_column(_literal(column), justify="left" if left else "right", width=width, overflow="fold")
    for row in rows:
        table.add_row(*map(_literal, row.values()))
    # Printed piece by piece, for rich would squeeze a table that is wider than the terminal until nothing is left.
    pieces = console.render(table, console.options.update(width=sum(widths.values()) + len(widths)))
    console.print(Segments(pieces), crop=False, soft_wrap=True, end="")
    for line in below:
        console.print(_literal(line, "dim"))


def _literal(text: str, style: str = "") -> Text:
    """Text, not markup: a name is shown as it is, and cannot colour or move anything."""
    return Text("".join(c if c.isprintable() else "?" for c in text), style=style)


def _widths(rows: Sequence[Row], room: int) -> dict[str, int]:
    """The width of each column, a blank between them: in `room` if that can be, but a number is never broken in two."""
    longest = {column: max(cell_len(row[column]) for row in rows) for column in rows[0]}
    widths = {column: max(width, len(column)) for column, width in longest.items()}
    gaps = len(widths) - 1
    if sum(widths.values()) + 3 * gaps <= room:
        return {column: width + 2 * (i < gaps and column in WORDS) for i, (column, width) in enumerate(widths.items())}
    if sum(widths.values()) + gaps > room:
        # Headings break between their words, "67 of 11,000" behind its "of", names anywhere.
        pieces = {c: [p for row in rows for p in row[c].replace(" of ", " of\n").split("\n")] for c in longest}
        least = {c: min(n, 10) if c in WORDS else max(map(cell_len, pieces[c] + c.split())) for c, n in longest.items()}
        spare = room - sum(least.values()) - gaps
        for column in widths:
            more = max(0, min(spare, widths[column] - least[column])) if column in WORDS else 0
            widths[column], spare = least[column] + more, spare - more
    return widths
