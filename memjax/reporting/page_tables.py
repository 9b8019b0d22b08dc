"""The tables that only the page has: validation, answers one by one, confusions, what differs between configs."""

import json
import math
from collections.abc import Sequence
from typing import Any

from memjax.reporting.columns import MISSING, count_text, number_text
from memjax.reporting.default_report import report_of
from memjax.reporting.run_folder import Run, distinct_names, number, pick
from memjax.reporting.tables import Row, interval_text, result_columns, result_row

MOST_EXAMPLES, MOST_CONFUSIONS, MOST_LETTERS = 100, 20, 2000
EXAMPLE_WORDS = ("question", "answer", "prediction", "outcome")


def validation_rows(runs: Sequence[Run]) -> list[Row]:
    """For each run that was validated: its results on the test, and under them those of the validation beside it: the
    last one, or the best, if the run was tested with its parameters.
    """
    rows = []
    for run, name in zip(runs, distinct_names(runs)):
        if run.validated is None:
            continue
        columns = {column.name: MISSING for column in result_columns(runs)}
        own, evaluation = report_of(run, runs).columns, run.evaluation
        if evaluation is not None:
            metrics, split = evaluation.get("metrics"), str(evaluation.get("split") or "test")
            step = evaluation.get("best_step", evaluation.get("step"))
            rows.append(_split_row(name, split, step, columns | result_row(own, metrics), metrics))
        results = columns | result_row(own, run.validated)
        rows.append(_split_row(name, "validation", run.validated.get("step"), results, run.validated))
    return rows


def _split_row(run: str, split: str, step: Any, results: Row, metrics: Any) -> Row:
    loss = number_text(number(pick(metrics, "answer_loss")), "number")
    counts = {"examples": count_text(pick(metrics, "examples")), "step": count_text(step)}
    return {"run": run, "split": split} | results | {"answer loss": loss} | counts


def headline(run: Run, runs: Sequence[Run]) -> tuple[str, str]:
    """(number, words) of a run's result: "93.1%", "all, 95% interval 91.4 to 94.5, 1,000 examples"."""
    evaluation = run.evaluation or {}
    column, metrics = report_of(run, runs).first, evaluation.get("metrics")
    interval = interval_text(column, metrics, evaluation.get("interval"))
    name = column.name.removesuffix(" %")
    unit = "%" if name != column.name else ""
    words = [name, f"95% interval {interval}" if interval != MISSING else ""]
    examples = count_text(evaluation.get("examples"))
    independent = count_text(pick(metrics, "independent"))
    count_for = f", which count for {independent} independent ones" if independent not in (MISSING, examples) else ""
    words.append(f"{examples} examples{count_for}" if examples != MISSING else "")
    return result_row([column], metrics)[column.name] + unit, ", ".join(filter(None, words))


def example_rows(evaluation: Any) -> list[Row]:
    """A row for each answer that is shown: the question, what is right, what was answered, and its tags."""
    shown = pick(evaluation, "examples_shown")
    found = [each for each in shown if isinstance(each, dict)][:MOST_EXAMPLES] if isinstance(shown, list) else []
    tags = list(dict.fromkeys(tag for each in found if isinstance(each.get("tags"), dict) for tag in each["tags"]))
    rows = []
    for each in found:
        row = {name: _short(each.get(name)) for name in ("question", "answer", "prediction")}
        known = each.get("answer") is not None and each.get("prediction") is not None
        row["outcome"] = ("right" if each["answer"] == each["prediction"] else "wrong") if known else MISSING
        own = {tag: _short(pick(each, "tags", tag)) for tag in tags if tag not in row}
        rows.append(row | own)
    return rows


def confusion_rows(evaluation: Any) -> tuple[list[Row], str]:
    """(rows, note): the most frequent wrong predictions: how often, of how many questions with that answer."""
    counts = pick(evaluation, "confusions")
    table = {
        str(answer): {str(given): n for given, count in row.items() if (n := number(count)) > 0 and math.isfinite(n)}
        for answer, row in (counts.items() if isinstance(counts, dict) else ())
        if isinstance(row, dict)
    }
    asked = {answer: sum(row.values()) for answer, row in table.items()}
    wrong = [(n, answer, given) for answer, row in table.items() for given, n in row.items() if given != answer]
    wrong.sort(key=lambda each: (-each[0], each[1:]))
    rows = [
        {
            "answer": _short(answer),
            "prediction": _short(given),
            "times": number_text(n, "count"),
            "of": number_text(asked[answer], "count"),
            "% of this answer": number_text(100 * n / asked[answer], "percent"),
        }
        for n, answer, given in wrong[:MOST_CONFUSIONS]
    ]
    missed, total = sum(n for n, _, _ in wrong), sum(asked.values())
    note = f"Wrong predictions, the most frequent first: {missed:,.0f} of {total:,.0f} are wrong"
    return rows, f"{note}; {len(rows)} of {len(wrong)} pairs are shown." if len(wrong) > len(rows) else f"{note}."


def differences(runs: Sequence[Run]) -> list[Row]:
    """A row for each setting in which the runs' configs differ: its dotted name, then its value in each run."""
    flat = [_flatten(run.config) for run in runs]
    keys = [key for key in dict.fromkeys(k for f in flat for k in f) if len({f.get(key, MISSING) for f in flat}) > 1]
    names = distinct_names(runs)
    return [{"setting of the config": key} | {n: f.get(key, MISSING) for n, f in zip(names, flat)} for key in keys]


def _flatten(tree: Any, prefix: str = "") -> Row:
    if isinstance(tree, dict) and tree:
        return {k: v for name, child in tree.items() for k, v in _flatten(child, f"{prefix}.{name}").items()}
    return {prefix.removeprefix("."): tree if isinstance(tree, str) else json.dumps(tree, ensure_ascii=False)}


def _short(value: Any) -> str:
    text = MISSING if value is None else str(value)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} …"
