"""The runs as tables: rows of text for any output, and the table in the terminal."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

from memjax.errors import require
from memjax.reporting.maps import is_pair
from memjax.reporting.runs import Run, distinct_names, number, pick, tag_values

MISSING = "–"
SAMPLER = "history sampler (reads the stream)"
PLACES = ("half", "quarter")
WORDS = ("run", "task", "system")
Row = dict[str, str]


def summary_rows(runs: Sequence[Run]) -> list[Row]:
    """A row of text for each run and each history sampler, all with the same columns; "–" is for what is not known.

    The columns of results follow the runs: early, later, all (accuracy in %) where the evidence has a place; error and
    accuracy in % where it has none; mean error and tasks over 5% where several tasks were learned together; perplexity
    of a text; wrong bits of a sequence.
    Raises `MemjaxError` without runs.
    """
    require(runs, "there are no runs to report")
    rows = []
    for name, run in zip(distinct_names(runs), runs):
        metrics, evaluation = pick(run.evaluation, "metrics"), run.evaluation or {}
        step = number(evaluation.get("step"))
        common = {"run": name, "task": run.task or MISSING}
        rows.append(
            common
            | {"system": run.label}
            | _results(metrics)
            | {
                "examples": _count(evaluation.get("examples")),
                "parameters": _count(evaluation.get("parameters")),
                "state KiB": _fixed(number(evaluation.get("state_bytes")) / 1024),
                "steps": _count(step if math.isfinite(step) else _last_step(run, "train")),
                "time": duration(training_seconds(run)),
            }
        )
        if sampler := pick(run.evaluation, "sampler"):
            own = {"examples": _count(evaluation.get("examples")), "steps": _count(_last_step(run, "sampler"))}
            rows.append(common | {"system": SAMPLER} | _results(sampler) | own)
    columns = _columns(rows)
    return [{column: row.get(column, MISSING) for column in columns} for row in rows]


def tag_rows(runs: Sequence[Run], tag: str) -> list[Row]:
    """A row for each value of a tag ("task": 1, 2, ...): error in % of each evaluated run; [] where no run has it."""
    by_run = {name: tag_values(pick(run.evaluation, "metrics"), tag) for name, run in zip(distinct_names(runs), runs)}
    by_run = {name: values for name, values in by_run.items() if values}
    names = list(dict.fromkeys(value for values in by_run.values() for value in values))
    if all(name.isdecimal() for name in names):
        names.sort(key=int)
    missing = (math.nan, math.nan)
    return [
        {f"error % by {tag}": name}
        | {run: _percent(1 - values.get(name, missing)[0]) for run, values in by_run.items()}
        for name in names
    ]


def other_tags(runs: Sequence[Run]) -> list[str]:
    """The tags by which the runs were evaluated, other than the place of the evidence, and pairs, which are maps."""
    by_run = [pick(run.evaluation, "metrics", "tags") for run in runs]
    tags = dict.fromkeys(tag for tags in by_run if isinstance(tags, dict) for tag in tags)
    return [tag for tag in tags if tag not in PLACES and not is_pair(tag)]


def print_table(runs: Sequence[Run], console: Console | None = None) -> None:
    """Prints the summary of the runs in the terminal, or to the console given. Raises `MemjaxError` without runs."""
    console = console or Console()
    rows = summary_rows(runs)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
    widths = _widths(rows, console.width)
    for column, width in widths.items():
        table.add_column(column, justify="left" if column in WORDS else "right", width=width, overflow="fold")
    for row in rows:
        # Text, not markup: a name is shown as it is, and cannot colour or move anything.
        table.add_row(*(Text("".join(c if c.isprintable() else "?" for c in cell)) for cell in row.values()))
    # Printed piece by piece, for rich would squeeze a table that is wider than the terminal until nothing is left.
    pieces = console.render(table, console.options.update(width=sum(widths.values()) + len(widths)))
    console.print(Segments(pieces), crop=False, soft_wrap=True, end="")
    console.print(Text(describe(rows), style="dim"))


def _widths(rows: Sequence[Row], room: int) -> dict[str, int]:
    """The width of each column, a blank between them: in `room` if that can be, but a number is never broken in two."""
    longest = {column: max(cell_len(row[column]) for row in rows) for column in rows[0]}
    widths = {column: max(width, len(column)) for column, width in longest.items()}
    gaps = len(widths) - 1
    if sum(widths.values()) + 3 * gaps <= room:
        return {column: width + 2 * (i < gaps and column in WORDS) for i, (column, width) in enumerate(widths.items())}
    if sum(widths.values()) + gaps > room:
        # Headings break between their words, names anywhere.
        least = {c: min(n, 10) if c in WORDS else max([n, *map(len, c.split())]) for c, n in longest.items()}
        spare = room - sum(least.values()) - gaps
        for column in widths:
            more = max(0, min(spare, widths[column] - least[column])) if column in WORDS else 0
            widths[column], spare = least[column] + more, spare - more
    return widths


def describe(rows: Sequence[Row]) -> str:
    """One or two sentences on what the columns of these rows mean."""
    columns, said = rows[0], []
    if "early %" in columns:
        said.append("Early, later, all: accuracy where the evidence lies in the first half, the second half, anywhere.")
    if "perplexity" in columns:
        said.append("Perplexity: exp of the mean loss of a token.")
    if "wrong bits" in columns:
        said.append("Wrong bits: of a sequence, in the mean over all tested lengths.")
    if "tasks over 5%" in columns:
        said.append("Mean error: the mean over the tasks of the error of each.")
    if any(row["system"] == SAMPLER for row in rows):
        said.append("The history sampler answers with the whole stream before it, which a memory cannot.")
    return " ".join([*said, "Time: training, with compiling and validation, without the test."])


def training_seconds(run: Run) -> float:
    """How long the run trained, all phases and resumptions together; NaN if that was not logged."""
    # The clock starts again with each phase; in a run that is taken up it goes on.
    phases = [curves["seconds"].values for curves in run.curves.values() if "seconds" in curves]
    lasts = [float(clock[np.isfinite(clock)].max()) for clock in phases if np.isfinite(clock).any()]
    return sum(lasts) if lasts else math.nan


def duration(seconds: float | int) -> str:
    """Seconds in words: "34.5 s", "12m 34s", "2h 05m"."""
    if not math.isfinite(seconds):
        return MISSING
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    if round(seconds) < 3600:
        return f"{round(seconds) // 60}m {round(seconds) % 60:02d}s"
    minutes = round(seconds / 60)
    return f"{minutes // 60}h {minutes % 60:02d}m"


def _results(metrics: Any) -> Row:
    accuracy = number(pick(metrics, "accuracy"))
    halves, perplexity = tag_values(metrics, "half"), number(pick(metrics, "perplexity"))
    if math.isfinite(perplexity):
        return {"perplexity": _fixed(perplexity)}
    if math.isfinite(wrong := number(pick(metrics, "wrong_bits"))):
        return {"wrong bits": f"{wrong:.3g}"}
    tasks = [1 - value for value, _ in tag_values(metrics, "task").values() if math.isfinite(value)]
    if halves:
        early, later = (_percent(halves.get(name, (math.nan, math.nan))[0]) for name in ("early", "later"))
        return {"early %": early, "later %": later, "all %": _percent(accuracy)}
    if len(tasks) > 1:
        # Accuracies are float32 in places: an error of 5% is not over 5%.
        over = sum(round(error, 6) > 0.05 for error in tasks)
        return {"mean error %": _percent(sum(tasks) / len(tasks)), "tasks over 5%": f"{over} of {len(tasks)}"}
    return {"error %": _percent(1 - accuracy), "accuracy %": _percent(accuracy)} if metrics else {}


def _columns(rows: Sequence[Row]) -> list[str]:
    seen = {column for row in rows for column in row}
    by_place, by_task = ["early %", "later %", "all %"], ["mean error %", "tasks over 5%"]
    results = ["perplexity", "wrong bits", *by_place, *by_task, "error %", "accuracy %"]
    if not seen & set(results):
        seen |= {"error %", "accuracy %"}
    shown = [column for column in results if column in seen]
    task = ["task"] if len({row["task"] for row in rows}) > 1 else []
    return ["run", *task, "system", *shown, "examples", "parameters", "state KiB", "steps", "time"]


def _last_step(run: Run, phase: str) -> float:
    return max((float(curve.steps[-1]) for curve in run.curves.get(phase, {}).values()), default=math.nan)


def _percent(share: float) -> str:
    return _fixed(100 * share)


def _fixed(value: float) -> str:
    return f"{value:,.1f}" if math.isfinite(value) else MISSING


def _count(value: Any) -> str:
    return f"{round(number(value)):,}" if math.isfinite(number(value)) else MISSING
