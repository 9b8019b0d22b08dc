"""What a comparison makes of run folders."""

import io

import numpy as np
import pytest
from rich.console import Console

from memjax.experiments.sequence import sequence_report
from memjax.reporting import compare, comparison_rows, load_run, print_comparison
from memjax.reporting.comparison import MEANING, step_seconds


def test_means_deviations_and_costs_of_a_row(make_run):
    rows = {
        "behind": [load_run(make_run("a", accuracy=(0.4, 0.5), seed=0))],
        "ahead": [load_run(make_run(f"b{seed}", accuracy=(0.8 + seed / 10, 0.9), seed=seed)) for seed in (0, 1)],
    }
    found = compare(rows)
    assert found["ahead"]["accuracy"] == pytest.approx([0.85, 0.9])
    assert found["ahead"]["results"]["early %"] == {"number": "percent", "better": "higher", "values": [80.0, 90.0]}
    assert found["behind"]["seconds_per_step"] == pytest.approx(0.05)
    first, second = comparison_rows(found)
    assert list(first.items()) == [
        ("system", "ahead"),
        ("all %", "87.5 ± 3.5"),
        ("early %", "85.0 ± 7.1"),
        ("later %", "90.0 ± 0.0"),
        ("seeds", "2"),
        ("parameters", "123,456"),
        ("state KiB", "5.0"),
        ("ms per step", "50.0 (50.0 to 50.0)"),
    ]
    assert second["system"] == "behind" and second["all %"] == "45.0"


def test_less_is_better_where_the_report_says_so(make_run):
    def run(name, perplexity):
        report = sequence_report({}, 100, 1, text=True).to_json()
        found = {"metrics": {"accuracy": 0.9, "perplexity": perplexity}, "report": report}
        return [load_run(make_run(name, evaluation=found))]

    rows = comparison_rows(compare({"b": run("b", 120), "a": run("a", 90.5), "none": run("none", None)}))
    assert [(row["system"], row["perplexity"]) for row in rows] == [("a", "90.5"), ("b", "120.0"), ("none", "–")]


def test_of_how_many_seeds_a_mean_is_stands_there_where_others_diverged(make_run):
    report = sequence_report({}, 100, 1, text=True).to_json()
    runs = [
        load_run(
            make_run(f"p{value}", evaluation={"metrics": {"accuracy": 0.9, "perplexity": value}, "report": report})
        )
        for value in (10, 12, None)
    ]
    (row,) = comparison_rows(compare({"all": runs}))
    assert row["perplexity"] == "11.0 ± 1.41 (2 of 3)" and row["seeds"] == "3"


def test_a_run_that_was_not_tested_counts_for_nothing(make_run):
    young = load_run(make_run("young", evaluation=None))
    found = compare({"alone": [young]})
    assert found["alone"]["accuracy"] == [] and found["alone"]["seeds"] == 0
    assert comparison_rows(found)[0]["seeds"] == "0"
    both = compare({"one": [load_run(make_run("one")), young], "alone": [young]})
    assert [(row["all %"], row["seeds"]) for row in comparison_rows(both)] == [("93.1", "1"), ("–", "0")]


def test_run_folders_of_an_older_version_have_error_and_accuracy(make_run):
    evaluation = {"metrics": {"accuracy": 0.5}, "step": 10, "parameters": 1, "state_bytes": None}
    (row,) = comparison_rows(compare({"alone": [load_run(make_run("alone", evaluation=evaluation))]}))
    assert (row["accuracy %"], row["error %"], row["state KiB"]) == ("50.0", "50.0", "–")


def clock(*entries):
    return [{"phase": "train", "step": step, "seconds": seconds} for step, seconds in entries]


def test_a_step_takes_what_it_takes_without_compiling(make_run):
    """60 seconds of compiling before the first entry, and as many in a validation, are not in the median."""
    entries = [(10, 61.0), (20, 62.0), (30, 63.0), (50, 65.0), (60, 126.0), (70, 128.0)]
    run = load_run(make_run(lines=clock(*entries)))
    np.testing.assert_allclose(step_seconds(run), [0.1, 0.1, 0.1, 6.1, 0.2])
    found = compare({"a": [run]})["a"]
    assert found["seconds_per_step"] == pytest.approx(0.1) and found["seconds_readings"] == 5
    assert found["seconds_quartiles"] == pytest.approx([0.1, 0.2])
    assert comparison_rows({"a": found})[0]["ms per step"] == "100.0 (100.0 to 200.0)"


def test_readings_with_a_validation_are_left_out_where_there_are_others(make_run):
    entries = [(10, 61.0), (20, 62.0), (30, 63.0), (40, 123.0), (50, 124.5)]
    valid = [{"phase": "train", "split": "valid", "step": step, "accuracy": 0.5} for step in (30, 50)]
    run = load_run(make_run(lines=[*clock(*entries), *valid]))
    np.testing.assert_allclose(step_seconds(run), [0.1, 0.1, 0.15])
    between = [{"phase": "train", "split": "valid", "step": step, "accuracy": 0.5} for step in (25, 35)]
    run = load_run(make_run("between", lines=[*clock(*entries), *between]))
    np.testing.assert_allclose(step_seconds(run), [0.1, 0.15])
    always = [{"phase": "train", "split": "valid", "step": step, "accuracy": 0.5} for step in range(10, 60, 10)]
    run = load_run(make_run("always", lines=[*clock(*entries), *always]))
    np.testing.assert_allclose(step_seconds(run), [0.1, 0.1, 6.0, 0.15])


@pytest.mark.parametrize("entries", [[], [(10, 60.0)], [(10, None), (20, None)], [(10, 5.0), (20, 5.0)]])
def test_without_two_entries_nobody_knows_how_long_a_step_takes(make_run, entries):
    found = compare({"a": [load_run(make_run(lines=clock(*entries)))]})
    assert found["a"]["seconds_per_step"] is None and comparison_rows(found)[0]["ms per step"] == "–"


def test_names_of_rows_are_shown_as_they_are_and_the_columns_are_explained(make_run):
    console = Console(file=io.StringIO(), width=600, color_system=None)
    print_comparison(comparison_rows(compare({"[red]a[/]\x1b[31m": [load_run(make_run())]})), console)
    text = console.file.getvalue()
    assert "[red]a[/]?[31m" in text and "\x1b" not in text and MEANING in text
