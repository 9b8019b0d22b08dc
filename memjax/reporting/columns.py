"""The results of a run: read from its metrics as its report says, and written as text."""

import math
from collections.abc import Mapping
from typing import Any

from memjax.reporting.description import Column, Number, Report
from memjax.reporting.intervals import wilson_interval
from memjax.reporting.run_folder import number, pick

MISSING = "–"


def column_value(column: Column, metrics: Any) -> float:
    """The value of a column as it is shown (a share in %), or how many are over its limit; NaN if it is not known."""
    values = _shown_values(column, metrics)
    if not values:
        return math.nan
    return sum(values) / len(values) if column.over is None else float(_over(column, values))


def column_text(column: Column, metrics: Any) -> str:
    """A column as text: "93.1", "12,345", "5 of 20"; "–" where it is not known."""
    values = _shown_values(column, metrics)
    if column.over is not None:
        return f"{_over(column, values)} of {len(values)}" if values else MISSING
    return number_text(sum(values) / len(values), column.number) if values else MISSING


def result_worth(report: Mapping[str, Any], metrics: Mapping[str, Any]) -> float:
    """How good metrics are by the first result of a report that they have, or else by their loss: the more, the better.
    Minus infinity where that is not finite, as of what diverged; NaN without any.

    Args:
        report: as `Report.to_json` gives it.
        metrics: of a validation, which may lack what takes a whole split.
    """
    read = Report.from_json(report)
    for column in (read.first, *read.columns, Column("loss", ("answer_loss",), "number", "lower")):
        found = _values(column, metrics)
        if found and all(map(math.isfinite, found)):
            value = column_value(column, metrics)
            return value if column.better == "higher" else -value
        if found:
            return -math.inf
    return math.nan


def column_interval(column: Column, metrics: Any, given: Any = None) -> tuple[float, float] | None:
    """The 95% interval of a column.

    Args:
        column: the result.
        metrics: of the evaluation.
        given: [low, high] of the value as it stands in the metrics. Without it, what stands beside the value as
            NAME_interval is taken. Without that, accuracy, a share, has Wilson's interval among the examples beside it,
            or among the `independent` ones that they count for, where several share a stream.

    Returns:
        (low, high) as they are shown; None where it is not known.
    """
    if given is None and "*" not in column.path:
        given = pick(metrics, *column.path[:-1], f"{column.path[-1]}_interval")
    if isinstance(given, list) and len(given) == 2:
        ends = tuple(number(end) for end in given)
    elif column.path[-1] == "accuracy" and column.number in ("percent", "error") and "*" not in column.path:
        beside, n = pick(metrics, *column.path), examples_of(pick(metrics, *column.path[:-1]))
        share = number(beside)
        if not (0 <= share <= 1 and 0 < n < math.inf):
            return None
        ends = wilson_interval(share * n, n)
    else:
        return None
    low, high = sorted(shown_value(end, column.number) for end in ends)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def shown_value(value: float, kind: Number) -> float:
    """A value of the metrics as it is shown: a share in %, and as an error what it lacks to all."""
    return {"percent": 100 * value, "error": 100 * (1 - value)}.get(kind, value)


def number_text(shown: float, kind: Number) -> str:
    """A number, as `shown_value` gave it, as text; "–" for one that is not finite."""
    if not math.isfinite(shown):
        return MISSING
    if abs(shown) >= 2**53:
        return f"{shown:.3g}"
    if kind == "count":
        return f"{round(shown):,}"
    return f"{shown:,.1f}" if kind != "number" or abs(shown) >= 10 else f"{shown:.3g}"


def count_text(value: Any) -> str:
    """A count, as it stands in a file, as text."""
    return number_text(number(value), "count")


def kibibytes_text(value: Any) -> str:
    """A number of bytes, as it stands in a file, in KiB as text."""
    kibibytes = number(value) / 1024
    return f"{kibibytes:,.1f}" if math.isfinite(kibibytes) else MISSING


def tag_values(metrics: Any, tag: str) -> dict[str, tuple[float, float]]:
    """`{value: (accuracy, independent examples)}` of a tag of an evaluation, in its own order; {} without the tag."""
    values = pick(metrics, "tags", tag)
    if not isinstance(values, dict):
        return {}
    return {name: (number(pick(v, "accuracy")), examples_of(v)) for name, v in values.items()}


def examples_of(metrics: Any) -> float:
    """How many examples are independent of each other: those that evaluation says, or all."""
    independent = number(pick(metrics, "independent"))
    return independent if math.isfinite(independent) else number(pick(metrics, "examples"))


def _values(column: Column, metrics: Any) -> list[float]:
    """What stands in the metrics under the column's path; NaN for what is no number."""
    found = [metrics]
    for key in column.path:
        inside = [each for each in found if isinstance(each, Mapping)]
        found = [x for each in inside for name, x in each.items() if key in ("*", name)]
    return [number(value) for value in found]


def _shown_values(column: Column, metrics: Any) -> list[float]:
    return [shown_value(value, column.number) for value in _values(column, metrics) if math.isfinite(value)]


def _over(column: Column, values: list[float]) -> int:
    # Accuracies are float32 in places: an error of 5% is not over 5%.
    return sum(round(value, 4) > (column.over or 0) for value in values)
