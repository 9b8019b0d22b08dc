"""What is said of a report in JSON: read as it was written, and everything else is one clear line."""

import json
from typing import get_args

import pytest

from memjax.errors import MemjaxError
from memjax.experiments.algorithmic_family import algorithmic_report
from memjax.experiments.maze.maze_family import maze_report
from memjax.experiments.retention.retention_family import retention_report
from memjax.experiments.sequence import sequence_report
from memjax.experiments.spans.spans_family import EXACT, F1, HELD
from memjax.experiments.stream_qa.stream_qa_report import stream_qa_report
from memjax.reporting import load_run
from memjax.reporting.default_report import default_report, report_of
from memjax.reporting.description import (
    ACCURACY,
    ERROR,
    KINDS,
    OWN_COLUMNS,
    Bars,
    Column,
    Panel,
    Report,
    TagMaps,
    TagTable,
    tag_panels,
)
from memjax.reporting.tables import summary_rows

PLACES = {"half": ("early", "later"), "quarter": ("1st",), "hops": ("1", "2")}
FAMILIES = {
    "places": stream_qa_report(PLACES, 10, 200, sampler=True),
    "tasks": stream_qa_report({"task": ("1", "2")}, 10, 200),
    "one task": stream_qa_report({}, 10, 200),
    "clicks": stream_qa_report({}, 2, 200, clicks=True, ranked=True),
    "stories": stream_qa_report({"place": ("early", "later", "all")}, 9, 200, candidates=True),
    "choices": stream_qa_report({"place": ("early", "later", "all")}, 3, 200, candidates=True, choices=True),
    "learners": stream_qa_report({"half": PLACES["half"]}, 2, 200, clicks=True),
    "text": sequence_report({}, 10_000, 1, text=True),
    "recall": sequence_report({"length": ("64",), "length x pairs": ("64 x 1",)}, 64, 2),
    "algorithmic": algorithmic_report({"length": ("20", "100")}),
    "retention": retention_report({"source": ("generated", "file")}, 30, base=True),
    "maze": maze_report({}),
}


@pytest.mark.parametrize("report", FAMILIES.values(), ids=FAMILIES)
def test_what_was_written_is_read_again(report):
    text = json.dumps(report.to_json(), allow_nan=False)
    assert Report.from_json(json.loads(text)) == report


def test_several_choices_are_told_by_accuracy_and_the_answers_of_a_story_by_their_ranks():
    told = {name: [column.name for column in FAMILIES[name].columns] for name in ("choices", "stories")}
    assert told["choices"] == ["accuracy %", "early %", "later %", "MRR", "MRR of a guess"]
    assert told["stories"] == ["MRR", "MRR of a guess", "early MRR", "later MRR", "accuracy %"]
    assert [FAMILIES[name].first.name for name in ("choices", "stories")] == ["accuracy %", "MRR"]


def test_every_kind_of_panel_can_be_read():
    assert set(KINDS.values()) == set(get_args(Panel))


def test_a_table_for_each_tag_and_maps_for_pairs():
    assert tag_panels(["a", "b", "a x b"], "percent") == (
        TagTable("Accuracy by a", "a", "percent"),
        TagTable("Accuracy by b", "b", "percent"),
        TagMaps("maps", "Accuracy by two things at once", "Accuracy, in %, by two things at once.", ("a x b",)),
    )
    assert tag_panels([]) == ()


def changed(path, value):
    """The JSON of a report in which one thing is another; a value of ... is left out."""
    report = json.loads(json.dumps(FAMILIES["places"].to_json()))
    *outer, last = path
    inside = report
    for key in outer:
        inside = inside[key]
    if value is ...:
        del inside[last]
    else:
        inside[last] = value
    return report


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (None, "report is no object"),
        ([], "report is no object"),
        ({}, "report has no headline"),
        (changed(["headline"], 3), "report.headline must be a text"),
        (changed(["headline"], "other %"), "the headline 'other %' is the name of no column"),
        (changed(["columns"], {}), "report.columns must be a list"),
        (changed(["columns"], []), "is the name of no column"),
        (changed(["columns", 0], "early"), r"report.columns\[0\] must be an object"),
        (changed(["columns", 0, "path"], ...), r"report.columns\[0\] has no path"),
        (changed(["columns", 0, "path"], "tags"), r"report.columns\[0\].path must be a list"),
        (changed(["columns", 0, "path"], ["tags", 1]), r"report.columns\[0\].path\[1\] must be a text"),
        (changed(["columns", 0, "number"], "share"), r"report.columns\[0\].number must be one of percent, error"),
        (changed(["columns", 0, "number"], ["share"]), r"report.columns\[0\].number must be one of percent, error"),
        (changed(["columns", 0, "over"], "5"), r"report.columns\[0\].over must be a number or null"),
        (changed(["columns", 0, "over"], True), r"report.columns\[0\].over must be a number or null"),
        (changed(["columns", 0, "colour"], "red"), r"report.columns\[0\] has 'colour', which this version"),
        (changed(["columns", 0, "name"], "later %"), "two columns have one name"),
        (changed(["columns", 0, "name"], "run"), "a column of results cannot be called 'run'"),
        (changed(["panels"], {}), "report.panels is no list"),
        (changed(["panels", 0], 1), r"report.panels\[0\].kind must be one of table, bars"),
        (changed(["panels", 0, "kind"], "pie"), r"report.panels\[0\].kind must be one of table, bars"),
        (changed(["panels", 0, "kind"], ["table"]), r"report.panels\[0\].kind must be one of table, bars"),
        (changed(["panels", 0, "tag"], ...), r"report.panels\[0\] has no tag"),
        (changed(["panels", 1, "name"], "../../x"), "cannot be the name of a picture's file"),
        (changed(["panels", 1, "name"], "slots"), "two pictures have one name"),
        (changed(["panels", 1, "name"], "losses"), "two pictures have one name"),
        (changed(["panels", 1, "tags"], ["half"]), r"report.panels\[1\].tags must be an object"),
        (changed(["guessing", "accuracy"], None), "report.guessing.accuracy must be a number"),
        (changed(["guessing", "accuracy"], float("inf")), "report.guessing.accuracy must be a number"),
        (changed(["phases", 0, "title"], 1), r"report.phases\[0\].title must be a text"),
    ],
)
def test_anything_else_is_one_clear_line(make_run, report, message):
    with pytest.raises(MemjaxError, match=message):
        Report.from_json(report)
    if report is not None:
        folder = make_run(evaluation={"metrics": {"accuracy": 1}, "report": report})
        with pytest.raises(MemjaxError, match=rf"evaluation\.json is damaged \(.*{message}") as caught:
            load_run(folder)
        assert "\n" not in str(caught.value)


def test_whole_numbers_stand_for_numbers():
    report = changed(["columns", 0, "over"], 5)
    assert Report.from_json(report).columns[0].over == 5.0


def test_a_run_folder_of_an_older_version_shows_what_it_has(make_run):
    folder = make_run()
    evaluation = json.loads((folder / "evaluation.json").read_text())
    del evaluation["report"]
    evaluation |= {"classes": 4, "buffer": {}, "maze": {}}
    report = default_report(evaluation)
    assert report.headline == "accuracy %" and report.columns == (ERROR, ACCURACY)
    tables = [panel.tag for panel in report.panels if isinstance(panel, TagTable)]
    assert tables == ["half", "quarter"]
    assert [panel.name for panel in report.panels if not isinstance(panel, TagTable)] == ["buffer", "walk", "slots"]
    assert report.guessing["accuracy"] == 0.25
    assert default_report({"chance": 0.5, "classes": 4}).guessing["accuracy"] == 0.5
    (folder / "evaluation.json").write_text(json.dumps(evaluation | {"buffer": None, "maze": None}))
    rows = summary_rows([load_run(folder)])
    assert [row["system"] for row in rows] == ["rehearsal memory", "sampler"]
    assert [row["accuracy %"] for row in rows] == ["93.1", "98.5"]


def test_other_numbers_of_an_older_version_are_columns():
    metrics = {
        "accuracy": 1,
        "answers": 5,
        "loss": 0,
        "wrong_bits": 3.5,
        "tags": {},
        "run": 1,
        "accuracy %": 2,
        "x": None,
    }
    columns = default_report({"metrics": metrics}).columns
    assert columns == (ERROR, ACCURACY, Column("wrong bits", ("wrong_bits",), "number", "higher"))
    for strange in ({}, {"metrics": None}, {"metrics": {"tags": 3}}):
        assert default_report(strange).panels == ()


def test_a_run_that_was_not_evaluated_is_shown_as_another_of_its_task(make_run):
    young = load_run(make_run("young", evaluation=None))
    old = load_run(make_run("old", evaluation={"metrics": {}}))
    run = load_run(make_run("run"))
    other = load_run(make_run("other", config={"task": {"name": "other"}}, evaluation=None))
    assert report_of(young, [young, old, run]) == report_of(run)
    assert (
        report_of(old, [young, old, run]) == report_of(young, [young]) == report_of(other, [run]) == default_report({})
    )


def test_names_that_tables_have_are_those_that_no_column_may_have(make_run):
    run = load_run(make_run())
    run.more["x"] = run.evaluation
    other = load_run(make_run("b", config={"task": {"name": "c"}}))
    rows = summary_rows([run, other], intervals=True)
    assert set(rows[0]) - {"early %", "later %", "all %"} <= OWN_COLUMNS


def test_bars_have_their_titles():
    (bars,) = (panel for panel in FAMILIES["places"].panels if isinstance(panel, Bars))
    assert bars.tags == {"half": "by half of the stream", "quarter": "by quarter of the stream"}


LESS = {"error %", "wrong bits", "perplexity", "mean error %", "tasks over 5%", "wrong exit %", "out of time %"}


def test_less_is_better_of_errors_alone():
    for column in (*(c for report in FAMILIES.values() for c in report.columns), F1, EXACT, HELD):
        assert column.better == ("lower" if column.name in LESS else "higher"), column.name
