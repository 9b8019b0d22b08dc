import io
import math

import pytest
from rich.console import Console

from memjax.errors import MemjaxError
from memjax.reporting import load_run, print_table, summary_rows
from memjax.reporting.tables import SAMPLER, duration, other_tags, tag_rows, training_seconds


def evaluation(accuracy, tasks=None, **more):
    tags = {"task": {name: {"accuracy": value, "examples": 100} for name, value in tasks.items()}} if tasks else {}
    metrics = {"accuracy": accuracy, "loss": 1.0, "tags": tags}
    return {"label": "a memory", "step": 500, "examples": 200, "metrics": metrics, "sampler": None, **more}


def printed(runs, width):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_table(runs, console)
    return console.file.getvalue()


def test_evidence(make_run):
    rows = summary_rows([load_run(make_run("first"))])
    assert rows == [
        {
            "run": "first",
            "system": "rehearsal memory",
            "early %": "91.2",
            "later %": "95.0",
            "all %": "93.1",
            "examples": "1,000",
            "parameters": "123,456",
            "state KiB": "5.0",
            "steps": "1,200",
            "time": "1m 20s",
        },
        {
            "run": "first",
            "system": SAMPLER,
            "early %": "90.0",
            "later %": "99.0",
            "all %": "98.5",
            "examples": "1,000",
            "parameters": "–",
            "state KiB": "–",
            "steps": "400",
            "time": "–",
        },
    ]


def test_a_task_without_places(make_run):
    (row,) = summary_rows([load_run(make_run(evaluation=evaluation(0.873)))])
    assert (row["error %"], row["accuracy %"]) == ("12.7", "87.3")
    assert "early %" not in row
    assert row["parameters"] == row["state KiB"] == "–"


def test_joint_tasks(make_run):
    # An accuracy of exactly 95%, in float64 and in float32, is not an error over 5%.
    tasks = {"10": 0.9, "1": 0.95, "2": 0.949999988079071, "3": 1.0}
    run = load_run(make_run("joint", evaluation=evaluation(0.5, tasks)))
    (row,) = summary_rows([run])
    assert (row["mean error %"], row["tasks over 5%"]) == ("5.0", "1 of 4")
    assert other_tags([run]) == ["task"]
    other = load_run(make_run("other", evaluation=evaluation(0.5, {"2": 0.25})))
    heading = "error % by task"
    assert tag_rows([run, other], "task") == [
        {heading: "1", "joint": "5.0", "other": "–"},
        {heading: "2", "joint": "5.0", "other": "75.0"},
        {heading: "3", "joint": "0.0", "other": "–"},
        {heading: "10", "joint": "10.0", "other": "–"},
    ]


def test_sequences_of_bits_have_their_wrong_bits(make_run):
    found = evaluation(0.99) | {"metrics": {"accuracy": 0.99, "wrong_bits": 12.3456}}
    rows = summary_rows([load_run(make_run("bits", evaluation=found)), load_run(make_run("other"))])
    assert rows[0]["wrong bits"] == "12.3" and rows[1]["wrong bits"] == "–"


def test_not_evaluated(make_run):
    (row,) = summary_rows([load_run(make_run("young", evaluation=None))])
    assert row["run"] == "young"
    assert row["system"] == "rehearsal memory"
    assert row["accuracy %"] == row["examples"] == row["state KiB"] == "–"
    assert (row["steps"], row["time"]) == ("1,200", "1m 20s")
    (row,) = summary_rows([load_run(make_run("new", evaluation=None, lines=[]))])
    assert row["steps"] == row["time"] == "–"


def test_all_rows_have_the_same_columns(make_run):
    runs = [
        load_run(make_run("a")),
        load_run(make_run("b", evaluation=None)),
        load_run(make_run("c", evaluation=evaluation(0.5, {"1": 1, "2": 0}), config={"task": {"name": "babi"}})),
    ]
    rows = summary_rows(runs)
    assert len({tuple(row) for row in rows}) == 1
    assert [row["task"] for row in rows] == ["evidence", "evidence", "evidence", "babi"]
    assert [row["early %"] for row in rows] == ["91.2", "90.0", "–", "–"]


def test_strange_values_are_unknown(make_run):
    strange = evaluation("high", examples=math.nan, parameters=None, state_bytes=True, step="many", label=3)
    (row,) = summary_rows([load_run(make_run(evaluation=strange, lines=[]))])
    unknown = ("error %", "accuracy %", "examples", "parameters", "state KiB", "steps")
    assert {row[column] for column in unknown} == {"–"}


def test_no_runs():
    with pytest.raises(MemjaxError, match="no runs"):
        summary_rows([])


@pytest.mark.parametrize("sampler", [2.0, 7.0])
def test_the_clock_starts_again_with_each_phase(make_run, sampler):
    lines = [
        {"phase": phase, "step": 10, "seconds": seconds} for phase, seconds in [("sampler", sampler), ("base", 1.0)]
    ]
    lines += [{"phase": "train", "step": step, "seconds": seconds} for step, seconds in [(10, 5.0), (20, 9.0)]]
    assert training_seconds(load_run(make_run(lines=lines))) == sampler + 1.0 + 9.0
    assert math.isnan(training_seconds(load_run(make_run("new", lines=[]))))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (34.5, "34.5 s"),
        (59.96, "1m 00s"),
        (754, "12m 34s"),
        (3599.7, "1h 00m"),
        (7500, "2h 05m"),
        (math.nan, "–"),
    ],
)
def test_duration(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_the_terminal_never_loses_a_number(make_run, width):
    runs = [load_run(make_run("rehearsal-with-a-long-name")), load_run(make_run("b", evaluation=None))]
    text = printed(runs, width)
    for value in ("91.2", "95.0", "93.1", "98.5", "123,456", "1,200", "1m 20s"):
        assert value in text
    table = text.split("Early, later")[0]
    assert max(map(len, table.splitlines())) <= max(width, 80)


def test_the_terminal_shows_names_as_they_are(make_run):
    text = printed([load_run(make_run("[red]x[/]\x1b[31m"))], 200)
    assert "[red]x[" in text or "?[31m" in text
    assert "\x1b" not in text
