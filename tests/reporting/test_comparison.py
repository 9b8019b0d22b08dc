"""What a comparison makes of run folders."""

import pytest

from memjax.reporting import compare, comparison_rows, load_run


def test_means_deviations_and_costs_of_a_row(make_run):
    rows = {
        "behind": [load_run(make_run("a", accuracy=(0.4, 0.5), seed=0))],
        "ahead": [load_run(make_run(f"b{seed}", accuracy=(0.8 + seed / 10, 0.9), seed=seed)) for seed in (0, 1)],
    }
    found = compare(rows)
    assert found["ahead"]["early"] == [0.8, 0.9]
    assert found["ahead"]["accuracy"] == pytest.approx([0.85, 0.9])
    assert found["behind"]["seconds_per_step"] == pytest.approx(0.05)
    first, second = comparison_rows(found)
    assert first == {
        "system": "ahead",
        "accuracy %": "87.5 ± 3.5",
        "early %": "85.0 ± 7.1",
        "seeds": "2",
        "parameters": "123,456",
        "state KiB": "5.0",
        "ms per step": "50.0",
    }
    assert second["system"] == "behind" and second["accuracy %"] == "45.0"


def test_a_run_that_was_not_tested_counts_for_nothing(make_run):
    found = compare({"alone": [load_run(make_run("alone", evaluation=None))]})
    assert found["alone"]["accuracy"] == []
    assert comparison_rows(found)[0]["accuracy %"] == "–"


def test_without_places_there_is_no_early(make_run):
    evaluation = {"metrics": {"accuracy": 0.5}, "step": 10, "parameters": 1, "state_bytes": None}
    found = compare({"alone": [load_run(make_run("alone", evaluation=evaluation))]})
    assert found["alone"]["early"] is None and comparison_rows(found)[0]["early %"] == "–"
