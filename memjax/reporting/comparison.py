"""Runs in rows, a row for each system: means and deviations over the seeds, as a table and as JSON."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean, median, stdev
from typing import Any

import numpy as np
from rich.console import Console

from memjax.reporting.columns import MISSING, column_value, count_text, kibibytes_text, number_text
from memjax.reporting.default_report import report_of
from memjax.reporting.run_folder import LAST, Run, number, pick
from memjax.reporting.tables import Row, result_columns
from memjax.reporting.terminal import print_rows

MEANING = (
    "Results: means over the seeds, ± their standard deviation. "
    "Seeds: the runs that were tested. "
    "Parameters, state KiB: of one model, and of one example's state. "
    "Ms per step: of training, the median of the readings of all seeds and their quartiles; a reading is what lies "
    "between two log entries, without the first entry of a run, in which it compiles, and without those in which it is "
    "validated, if there are others. A run that was stopped compiles again in one reading."
)


def compare(rows: Mapping[str, Sequence[Run]]) -> dict[str, dict[str, Any]]:
    """Runs in rows, each a system with several seeds.

    Args:
        rows: the runs of each row, by its name; those that were not evaluated count for nothing.

    Returns:
        For each row `accuracy` of every run; `results`, for each column of the runs' reports `number`, `better` and its
        `values` as they are shown; `seeds`, how many runs; `parameters` and `state_bytes` of the first; the seconds
        that a step takes without compiling, `seconds_per_step` (median), `seconds_quartiles`, `seconds_readings` (how
        many). None is for what is not known.
    """
    everything = [run for runs in rows.values() for run in runs if run.evaluation is not None]
    headlines = [report_of(run, everything).headline for run in everything]
    columns = sorted(result_columns(everything), key=lambda column: column.name not in headlines)
    found = {}
    for name, runs in rows.items():
        tested = [run for run in runs if run.evaluation is not None]
        metrics = [pick(run.evaluation, "metrics") for run in tested]
        readings = np.concatenate([np.empty(0), *map(step_seconds, tested)])
        results = {}
        for column in columns:
            values = [x for each in metrics if math.isfinite(x := column_value(column, each))]
            results[column.name] = {"number": column.number, "better": column.better, "values": values}
        found[name] = {
            "accuracy": [x for each in metrics if math.isfinite(x := number(pick(each, "accuracy")))],
            "results": results,
            "seeds": len(tested),
            "parameters": pick(tested[0].evaluation, "parameters") if tested else None,
            "state_bytes": pick(tested[0].evaluation, "state_bytes") if tested else None,
            "seconds_per_step": median(readings.tolist()) if readings.size else None,
            "seconds_quartiles": np.quantile(readings, [0.25, 0.75]).tolist() if readings.size else None,
            "seconds_readings": readings.size,
        }
    return found


def step_seconds(run: Run) -> np.ndarray:
    """Seconds that a step took, a reading between every two log entries of the last phase; what lies before the first
    entry, with its compiling, is left out, and readings with a validation, but where all have one. Empty where there is
    no more than one entry.
    """
    clock = run.curves.get(LAST, {}).get("seconds")
    if clock is None:
        return np.empty(0)
    readings = np.diff(clock.values) / np.diff(clock.steps)
    # At a step that is logged and validated it is logged first.
    validated = [curve.steps for curve in run.validation.get(LAST, {}).values()]
    at = np.unique(np.concatenate([np.empty(0), *validated]))
    quiet = np.diff(np.searchsorted(at, clock.steps)) == 0
    usable = np.isfinite(readings) & (readings > 0)
    return readings[usable & quiet] if (usable & quiet).any() else readings[usable]


def comparison_rows(found: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """The comparison as text, the best mean of the first result first; see `MEANING`.

    Args:
        found: what `compare` gave.

    Returns:
        A row of text for each row.
    """
    return [
        {"system": name}
        | {column: _spread(result, found[name]["seeds"]) for column, result in found[name]["results"].items()}
        | {
            "seeds": str(found[name]["seeds"]),
            "parameters": count_text(found[name]["parameters"]),
            "state KiB": kibibytes_text(found[name]["state_bytes"]),
            "ms per step": _pace(found[name]),
        }
        for name in sorted(found, key=lambda name: _rank(found[name]["results"]))
    ]


def print_comparison(rows: Sequence[Row], console: Console, noted: Sequence[str] = ()) -> None:
    """Prints a comparison as a table, and what it means.

    Args:
        rows: what `comparison_rows` gave.
        console: where it is printed.
        noted: what must be said of its runs.
    """
    print_rows(rows, [MEANING, *(f"note: {note}" for note in noted)], console)


def _rank(results: Mapping[str, Mapping[str, Any]]) -> float:
    first = next(iter(results.values()), None)
    if not (first and first["values"]):
        return math.inf
    return mean(first["values"]) * (-1 if first["better"] == "higher" else 1)


def _spread(result: Mapping[str, Any], seeds: int) -> str:
    values, kind = result["values"], result["number"]
    if not values:
        return MISSING
    spread = f" ± {number_text(stdev(values), kind)}" if len(values) > 1 else ""
    some = "" if len(values) == seeds else f" ({len(values)} of {seeds})"  # the others diverged
    return number_text(mean(values), kind) + spread + some


def _pace(row: Mapping[str, Any]) -> str:
    middle, ends = row["seconds_per_step"], row["seconds_quartiles"]
    if middle is None:
        return MISSING
    quartiles = " to ".join(f"{1e3 * end:,.1f}" for end in ends)
    return f"{1e3 * middle:,.1f}" + (f" ({quartiles})" if row["seconds_readings"] > 1 else "")
