"""Runs in rows, a row for each system: means and deviations over the seeds, as a table and as JSON."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memjax.reporting.runs import Run, number, pick, tag_values
from memjax.reporting.tables import MISSING, Row


def compare(rows: Mapping[str, Sequence[Run]]) -> dict[str, dict[str, Any]]:
    """For each row: `accuracy` and `early` of every evaluated run, and parameters, bytes of state, seconds per step.

    `early`: accuracy where the evidence lies in the first half of the stream, or None where it has no place.
    """
    found = {}
    for name, runs in rows.items():
        tested = [run for run in runs if run.evaluation is not None]
        early = [tag_values(pick(run.evaluation, "metrics"), "half").get("early", (math.nan,))[0] for run in tested]
        paces = [pace for run in tested if math.isfinite(pace := seconds_per_step(run))]
        found[name] = {
            "accuracy": [number(pick(run.evaluation, "metrics", "accuracy")) for run in tested],
            "early": early if all(map(math.isfinite, early)) else None,
            "parameters": pick(tested[0].evaluation, "parameters") if tested else None,
            "state_bytes": pick(tested[0].evaluation, "state_bytes") if tested else None,
            "seconds_per_step": mean(paces) if paces else None,
        }
    return found


def seconds_per_step(run: Run) -> float:
    """How long a step of training took, with its share of compiling and validation; NaN if that was not logged."""
    clock = run.curves.get("train", {}).get("seconds")
    return float(clock.values[-1] / clock.steps[-1]) if clock and len(clock.steps) else math.nan


def comparison_rows(found: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """The comparison as text, best mean accuracy first; "±" is the standard deviation over the seeds."""
    order = sorted(found, key=lambda name: -mean(found[name]["accuracy"] or [-1]))
    return [
        {
            "system": name,
            "accuracy %": _spread(found[name]["accuracy"]),
            "early %": _spread(found[name]["early"] or []),
            "seeds": str(len(found[name]["accuracy"])),
            "parameters": _count(found[name]["parameters"]),
            "state KiB": _count(found[name]["state_bytes"], 1024),
            "ms per step": _count(found[name]["seconds_per_step"], 1e-3),
        }
        for name in order
    ]


def print_comparison(rows: Sequence[Row], console: Console) -> None:
    """Prints the rows of a comparison as a table."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "system" else "right")
    for row in rows:
        table.add_row(*map(Text, row.values()))
    console.print(table)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return MISSING
    return f"{100 * mean(values):.1f}" + (f" ± {100 * stdev(values):.1f}" if len(values) > 1 else "")


def _count(value: int | float | None, unit: int | float = 1) -> str:
    return MISSING if value is None else f"{value / unit:,.{0 if unit == 1 else 1}f}"
