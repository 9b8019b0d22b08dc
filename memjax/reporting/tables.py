"""The runs as tables: rows of text for any output."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from memjax.errors import require
from memjax.reporting.columns import (
    MISSING,
    column_interval,
    column_text,
    count_text,
    kibibytes_text,
    number_text,
    shown_value,
    tag_values,
)
from memjax.reporting.default_report import report_of
from memjax.reporting.description import Column, TagTable
from memjax.reporting.run_folder import Run, distinct_names, last_step, pick, with_parts

WORDS = ("run", "evaluation", "task", "system")
SIZES = ("examples", "parameters", "state KiB", "steps", "time")
INTERVAL = "95% interval"
Row = dict[str, str]


def summary_rows(runs: Sequence[Run], *, intervals: bool = False) -> list[Row]:
    """A row of text for each evaluation of each run, and for each phase before it that its report gives a row; all with
    the same columns. "–" is for what is not known.

    The columns of results are those of the runs' reports. "steps" is "67 of 11,000" where a run was not trained to its
    end.

    Args:
        runs: as `load_run` gives them.
        intervals: whether there is a column for the 95% interval of the headline.

    Raises:
        MemjaxError: without runs.
    """
    require(runs, "there are no runs to report")
    names = [name for run, name in zip(runs, distinct_names(runs)) for _ in range(1 + len(run.more))]
    rows = [row for part, name in zip(with_parts(runs), names, strict=True) for row in _rows(part, name, runs)]
    evaluated = ["evaluation"] if any(run.more for run in runs) else []
    task = ["task"] if len({row["task"] for row in rows}) > 1 else []
    shown = [column.name for column in result_columns(runs)]
    interval = [INTERVAL] if intervals and any(row[INTERVAL] != MISSING for row in rows) else []
    columns = ["run", *evaluated, *task, "system", *shown, *interval, *SIZES]
    return [{column: row.get(column, MISSING) for column in columns} for row in rows]


def _rows(part: Run, name: str, runs: Sequence[Run]) -> list[Row]:
    """The rows of one evaluation of a run."""
    report, evaluation = report_of(part, runs), part.evaluation or {}
    split = str(evaluation.get("split") or MISSING)
    common = {"run": name, "evaluation": part.part or split, "task": part.task or MISSING}
    examples = count_text(evaluation.get("examples"))
    own = {
        "examples": examples,
        "parameters": count_text(evaluation.get("parameters")),
        "state KiB": kibibytes_text(evaluation.get("state_bytes")),
        "steps": _steps(part),
        "time": duration(training_seconds(part)),
    }
    metrics = evaluation.get("metrics")
    interval = {INTERVAL: interval_text(report.first, metrics, evaluation.get("interval"))}
    rows = [common | {"system": part.label} | result_row(report.columns, metrics) | interval | own]
    for phase in report.phases:
        if phase.system and (metrics := pick(evaluation, phase.name)):
            own = {"examples": examples, "steps": count_text(last_step(part, phase.name))}
            own[INTERVAL] = interval_text(report.first, metrics)
            rows.append(common | {"system": phase.system} | result_row(report.columns, metrics) | own)
    return rows


def result_row(columns: Sequence[Column], metrics: Any) -> Row:
    """The results alone: the text of each column."""
    return {column.name: column_text(column, metrics) for column in columns}


def interval_text(column: Column, metrics: Any, given: Any = None) -> str:
    """The 95% interval of a column as text: "91.4 to 94.5"; "–" where it is not known."""
    ends = column_interval(column, metrics, given)
    return " to ".join(number_text(end, column.number) for end in ends) if ends else MISSING


def result_columns(runs: Sequence[Run]) -> list[Column]:
    """The columns of the reports of all runs and evaluations; of each name the first."""
    columns: dict[str, Column] = {}
    for part in with_parts(runs):
        for column in report_of(part, runs).columns:
            columns.setdefault(column.name, column)
    return list(columns.values())


def tag_tables(runs: Sequence[Run]) -> list[TagTable]:
    """The tables by tags of the reports of all runs, each once."""
    panels = [panel for part in with_parts(runs) for panel in report_of(part, runs).panels]
    return list(dict.fromkeys(panel for panel in panels if isinstance(panel, TagTable)))


def tag_rows(runs: Sequence[Run], table: TagTable) -> list[Row]:
    """A row for each value of a tag ("task": 1, 2, ...), a column for each evaluation that has it and whose report has
    the table; [] if none has.
    """
    parts = with_parts(runs)
    having = [(n, part) for n, part in zip(distinct_names(parts), parts) if table in report_of(part, runs).panels]
    metrics = {name: pick(part.evaluation, "metrics") for name, part in having}
    by_run = {name: values for name, each in metrics.items() if (values := tag_values(each, table.tag))}
    names = list(dict.fromkeys(value for values in by_run.values() for value in values))
    if all(name.isdecimal() for name in names):
        names.sort(key=int)

    def text(values: dict[str, tuple[float, float]], name: str) -> str:
        return number_text(shown_value(values.get(name, (math.nan, 0))[0], table.number), table.number)

    heading = f"{'error' if table.number == 'error' else 'accuracy'} % by {table.tag}"
    return [{heading: name} | {run: text(values, name) for run, values in by_run.items()} for name in names]


def describe(runs: Sequence[Run]) -> str:
    """A few sentences on what the columns of the runs' rows mean."""
    parts = with_parts(runs)
    reports = [report_of(part, runs) for part in parts]
    said = [report.meaning for report in reports]
    for part, report in zip(parts, reports):
        said += [phase.meaning for phase in report.phases if phase.system and pick(part.evaluation, phase.name)]
    said.append("Time: training, with compiling and validation, without the test.")
    return " ".join(filter(None, dict.fromkeys(said)))


def unfinished(runs: Sequence[Run]) -> list[str]:
    """A sentence for each run that was not trained to its end."""
    return [
        f"{name} is not finished: {run.unfinished}." for name, run in zip(distinct_names(runs), runs) if run.unfinished
    ]


def notes(runs: Sequence[Run]) -> list[str]:
    """The notes of the evaluations, each once, with the names of the runs if it is not a note of all of them."""
    noted: dict[str, dict[str, None]] = {}
    tested = [run for run in runs if run.evaluation is not None]
    for name, run in zip(distinct_names(tested), tested):
        for part in with_parts([run]):
            said = pick(part.evaluation, "notes")
            for note in said if isinstance(said, list) else []:
                noted.setdefault(str(note), {})[name] = None
    return [note if len(names) == len(tested) else f"{', '.join(names)}: {note}" for note, names in noted.items()]


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


def _steps(run: Run) -> str:
    if run.unfinished:
        return run.unfinished.removeprefix("step ")
    return count_text(run.step) if run.step else MISSING
