import io
import json
import math

import pytest
from rich.console import Console

from memjax.errors import MemjaxError
from memjax.experiments.algorithmic_family import algorithmic_report
from memjax.experiments.maze.maze_family import maze_report
from memjax.experiments.stream_qa.stream_qa_report import SAMPLER, stream_qa_report
from memjax.reporting import load_run, print_table, summary_rows
from memjax.reporting.description import Column, Report, TagTable
from memjax.reporting.page_tables import headline
from memjax.reporting.tables import INTERVAL, describe, duration, notes, tag_rows, tag_tables, training_seconds


def evaluation(accuracy, tasks=None, **more):
    tags = {"task": {name: {"accuracy": value, "examples": 100} for name, value in tasks.items()}} if tasks else {}
    metrics = {"accuracy": accuracy, "loss": 1.0, "tags": tags}
    own = {"task": tuple(tasks)} if tasks else {}
    report = stream_qa_report(own, classes=10, recalled_among=200, sampler=True).to_json()
    found = {"label": "a memory", "step": 500, "examples": 200, "metrics": metrics, "sampler": None, "report": report}
    return found | more


# Of a length that is not known.
SHORT = {"system": "memory", "task": {"name": "evidence"}, "memory": {"name": "rehearsal"}}


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
            "system": SAMPLER.system,
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
    (table,) = tag_tables([run])
    assert table == TagTable("Error by task", "task", "error")
    other = load_run(make_run("other", evaluation=evaluation(0.5, {"2": 0.25})))
    heading = "error % by task"
    assert tag_rows([run, other], table) == [
        {heading: "1", "joint": "5.0", "other": "–"},
        {heading: "2", "joint": "5.0", "other": "75.0"},
        {heading: "3", "joint": "0.0", "other": "–"},
        {heading: "10", "joint": "10.0", "other": "–"},
    ]


def test_sequences_of_bits_have_their_wrong_bits(make_run):
    report = algorithmic_report({}).to_json()
    found = evaluation(0.99) | {"metrics": {"accuracy": 0.99, "wrong_bits": 12.3456}, "report": report}
    rows = summary_rows([load_run(make_run("bits", evaluation=found)), load_run(make_run("other"))])
    assert rows[0]["wrong bits"] == "12.3" and rows[1]["wrong bits"] == "–"


def test_not_evaluated(make_run):
    (row,) = summary_rows([load_run(make_run("young", evaluation=None, config=SHORT))])
    assert row["run"] == "young"
    assert row["system"] == "rehearsal memory"
    assert row["accuracy %"] == row["examples"] == row["state KiB"] == "–"
    assert (row["steps"], row["time"]) == ("1,200", "1m 20s")
    (row,) = summary_rows([load_run(make_run("new", evaluation=None, lines=[], config=SHORT))])
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
    assert [row["tasks over 5%"] for row in rows] == ["–", "–", "–", "1 of 2"]


def test_strange_values_are_unknown(make_run):
    strange = evaluation("high", examples=math.nan, parameters=None, state_bytes=True, step="many", label=3)
    (row,) = summary_rows([load_run(make_run(evaluation=strange, lines=[]))])
    unknown = ("error %", "accuracy %", "examples", "parameters", "state KiB")
    assert row["steps"] == "0 of 1,200"
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
    short = load_run(make_run("b"))
    short.evaluation["step"] = 700
    text = printed([load_run(make_run("rehearsal-with-a-long-name")), short], width)
    for value in ("91.2", "95.0", "93.1", "98.5", "123,456", "1,200", "1m 20s", "700 of"):
        assert value in text
    table = text.split("b is not finished")[0]
    assert max(map(len, table.splitlines())) <= max(width, 80)


def test_the_terminal_shows_names_as_they_are(make_run):
    text = printed([load_run(make_run("[red]x[/]\x1b[31m"))], 200)
    assert "[red]x[" in text or "?[31m" in text
    assert "\x1b" not in text


def test_names_in_headings_and_notes_are_shown_as_they_are(make_run):
    found = evaluation(0.5, {"1": 1, "2": 0}, notes=["[bold]as[/] \x1b[31m it is"])
    found["report"]["columns"][0]["name"] = found["report"]["headline"] = "[red]error[/red] %"
    text = printed([load_run(make_run(evaluation=found))], 200)
    assert "[red]error[/red] %" in text and "note: [bold]as[/] ?[31m it is" in text and "\x1b" not in text


def test_a_run_that_was_not_trained_to_its_end_says_so(make_run):
    config = {"task": {"name": "evidence"}, "training": {"steps": 11000}}
    tested = load_run(make_run("tested", config=config, evaluation=evaluation(0.5, step=67)))
    young = load_run(make_run("young", config=config, evaluation=None))
    new = load_run(make_run("new", config=config, evaluation=None, lines=[]))
    rows = summary_rows([tested, young, new])
    assert [row["steps"] for row in rows] == ["67 of 11,000", "1,200 of 11,000", "0 of 11,000"]
    text = printed([tested, young, load_run(make_run("whole"))], 240)
    assert "tested is not finished: step 67 of 11,000." in text and "young is not finished" in text
    assert "whole is not" not in text


def test_every_evaluation_of_a_run_has_its_row(make_run):
    folder = make_run("run", evaluation=evaluation(0.5, split="test"))
    for name, accuracy in (("valid", 0.75), ("longer [x]", 0.25)):
        (folder / f"evaluation-{name}.json").write_text(json.dumps(evaluation(accuracy, split="valid")))
    (folder / "evaluations.json").write_text("not one of ours")
    run = load_run(folder)
    rows = summary_rows([run, load_run(make_run("b"))])
    shown = [(row["run"], row["evaluation"], row["accuracy %"]) for row in rows]
    assert shown[:3] == [("run", "test", "50.0"), ("run", "longer [x]", "25.0"), ("run", "valid", "75.0")]
    assert [row["time"] for row in rows[:3]] == ["1m 20s", "–", "–"]
    assert "evaluation" not in summary_rows([load_run(make_run("c"))])[0]
    assert "longer [x]" in printed([run], 240)


def test_the_headline_has_an_interval(make_run):
    rows = summary_rows([load_run(make_run())], intervals=True)
    assert INTERVAL not in rows[0]  # nobody knows of how many examples
    found = evaluation(0.75) | {"metrics": {"accuracy": 0.75, "examples": 100}}
    found["sampler"] = {"accuracy": 0.5, "examples": 100}
    rows = summary_rows([load_run(make_run("counted", evaluation=found))], intervals=True)
    assert [row[INTERVAL] for row in rows] == ["17.5 to 34.3", "40.4 to 59.6"]  # of the error
    assert list(rows[0]).index(INTERVAL) == list(rows[0]).index("accuracy %") + 1
    given = load_run(make_run("given", evaluation=found | {"interval": [0.7, 0.8]}))
    assert summary_rows([given], intervals=True)[0][INTERVAL] == "20.0 to 30.0"
    for strange in ([0.7], ["a", "b"], [0.7, None], {}):
        odd = load_run(make_run(str(strange), evaluation=evaluation(0.75, interval=strange)))
        assert INTERVAL not in summary_rows([odd], intervals=True)[0]


def test_a_folder_of_runs_says_that_they_are_in_it(make_run):
    run = make_run("a")
    with pytest.raises(MemjaxError, match=rf"is no run folder: it has no config\.json; give those in it, as {run}"):
        load_run(run.parent)
    with pytest.raises(MemjaxError, match=r"config\.json is no run folder: it is a file"):
        load_run(run / "config.json")


def test_examples_that_share_streams_count_for_fewer(make_run):
    found = evaluation(0.75) | {"metrics": {"accuracy": 0.75, "examples": 1000, "independent": 100}, "examples": 1000}
    run = load_run(make_run("shared", evaluation=found))
    assert summary_rows([run], intervals=True)[0][INTERVAL] == "17.5 to 34.3"
    assert headline(run, [run])[1].endswith("1,000 examples, which count for 100 independent ones")


def test_no_share_of_examples_has_the_interval_of_one(make_run):
    """An area under a curve is no share of the examples: its own interval stands beside it, or none is told."""
    auc = Report("auc %", (Column("auc %", ("auc",), "percent", "higher"),)).to_json()
    found = {"auc": 0.72, "examples": 100}
    for metrics, told in ((found, None), (found | {"auc_interval": [0.71, 0.74]}, "71.0 to 74.0")):
        run = load_run(make_run(str(told), evaluation=evaluation(0.5) | {"report": auc, "metrics": metrics}))
        assert summary_rows([run], intervals=True)[0].get(INTERVAL) == told


def test_notes_say_whose_they_are_where_not_all_have_them(make_run):
    a, b = (load_run(make_run(name, evaluation=evaluation(1, notes=["both", name]))) for name in "ab")
    assert notes([a, b]) == ["both", "a: a", "b: b"]
    assert notes([load_run(make_run("c", evaluation=evaluation(1, notes="text")))]) == []
    a.more["other"] = {"metrics": {}, "notes": ["both", "a", "more"]}
    assert notes([a, b]) == ["both", "a: a", "a: more", "b: b"]


def test_what_the_columns_mean_is_said_once(make_run):
    a, b = (load_run(make_run(name)) for name in "ab")
    assert describe([a, b]).count("Early, later, all") == describe([a, b]).count("The history sampler answers") == 1
    b.evaluation["sampler"] = None
    assert "history sampler" not in describe([b])


def test_a_family_may_show_what_is_right(make_run):
    tags = {"colour": {name: {"accuracy": value, "examples": 10} for name, value in {"red": 0.5, "blue": 1}.items()}}
    found = {"metrics": {"accuracy": 0.75, "tags": tags}, "report": maze_report({"colour": ("red", "blue")}).to_json()}
    run = load_run(make_run("mqn", evaluation=found))
    assert summary_rows([run])[0]["success %"] == "75.0"
    (table,) = tag_tables([run])
    old = load_run(make_run("old", evaluation=found | {"report": None}))  # has the tag, and another table
    assert tag_tables([run, old]) == [table, TagTable("Error by colour", "colour", "error")]
    assert tag_rows([run, old], table) == [
        {"accuracy % by colour": "red", "mqn": "50.0"}, {"accuracy % by colour": "blue", "mqn": "100.0"},
    ]  # fmt: skip
