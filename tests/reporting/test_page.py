import base64
import io
import json
import re
from html.parser import HTMLParser

import pytest
from matplotlib.image import imread

from memjax.errors import MemjaxError
from memjax.experiments.stream_qa.stream_qa_report import stream_qa_report
from memjax.reporting import compare, comparison_rows, load_run, page, write_report
from memjax.reporting.comparison import MEANING
from memjax.reporting.page_tables import confusion_rows, differences, example_rows

VOID = {"meta", "img", "br", "link", "input"}


class Page(HTMLParser):
    """Parses strictly: every element is closed in order; keeps tags, texts and pictures."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.images, self.cells = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "img":
            assert dict(attrs)["alt"]
            self.images.append(dict(attrs)["src"])
        if tag == "th":
            assert dict(attrs)["scope"] == "col"
        if dict(attrs).get("tabindex"):
            assert dict(attrs)["aria-label"] and dict(attrs)["role"] == "region"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def parse(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|<link|@import|url\(", text)
    return Page(text)


def test_one_run(make_run):
    folder = make_run("first")
    path = write_report([load_run(folder)])
    assert path == folder / "report.html"
    parsed = parse(path)
    assert parsed.texts.count("first") >= 2
    assert {"91.2", "95.0", "93.1", "123,456", "5.0"} <= set(parsed.cells)
    assert '"slots": 20' in "".join(parsed.texts)
    assert parsed.tags.count("details") == 1
    names = ["losses", "accuracy", "places", "slots"]
    assert len(parsed.images) == len(names)
    for source, name in zip(parsed.images, names):
        data = base64.b64decode(source.removeprefix("data:image/png;base64,"), validate=True)
        assert data == (folder / "plots" / f"{name}.png").read_bytes()
        assert imread(io.BytesIO(data)).std() > 0.05
    left = {p.name for p in folder.iterdir()}
    assert left == {"config.json", "metrics.jsonl", "evaluation.json", "plots", "report.html"}


def test_several_runs(make_run, tmp_path):
    lines = [{"phase": "train", "step": step, "loss": 1.0} for step in (1, 2)]
    runs = [load_run(make_run(name, seed=i, lines=lines)) for i, name in enumerate(("alpha", "beta"))]
    runs.append(load_run(make_run("gamma", evaluation=None, lines=[])))
    with pytest.raises(MemjaxError, match="in which folder"):
        write_report(runs)
    parsed = parse(write_report(runs, tmp_path / "out"))
    assert {"alpha", "beta", "gamma"} <= set(parsed.texts)
    assert parsed.tags.count("details") == 3
    assert "What differs" in parsed.texts and "seed" in parsed.cells


def test_a_comparison_stands_before_all_else(make_run, tmp_path):
    run = load_run(extended(make_run, "a-0"))
    parsed = parse(write_report([run], tmp_path, comparison=comparison_rows(compare({"<b>a": [run]}))))
    assert "Compared systems" in parsed.texts
    texts = [text for text in parsed.texts if text.strip()]
    assert texts.index("Comparison") < texts.index("<b>a") < texts.index("First seeds") < texts.index("a-0")
    assert "93.1%" not in texts and MEANING in texts


def test_tasks_have_their_own_table(make_run, tmp_path):
    tags = {"task": {str(i): {"accuracy": 1 - i / 100, "examples": 10} for i in range(1, 21)}}
    report = stream_qa_report({"task": tuple(tags["task"])}, 10, 200).to_json()
    evaluation = {"metrics": {"accuracy": 0.9, "tags": tags}, "report": report}
    parsed = parse(write_report([load_run(make_run(evaluation=evaluation, lines=[]))], tmp_path))
    assert "Error by task" in parsed.texts
    assert "15 of 20" in parsed.cells and "20.0" in parsed.cells


def test_text_is_only_text(make_run, tmp_path):
    name = "<script>alert(1)<"
    config = {"system": "<img src=x>", "task": {"name": "</title><b>"}, "note": "</pre><script>&amp;"}
    runs = [load_run(make_run(name, config=config, lines=[], evaluation=None)), load_run(make_run("b & c", lines=[]))]
    runs[1].evaluation["label"] = '"><i>'
    parsed = parse(write_report(runs, tmp_path / "out"))
    assert name in parsed.texts and "b & c" in parsed.texts and '"><i>' in parsed.cells
    assert not {"script", "b", "i"} & set(parsed.tags)


def test_a_report_replaces_the_last_one_whole(make_run, monkeypatch):
    folder = make_run(lines=[], evaluation=None)
    path = write_report([load_run(folder)])
    before = path.read_text()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page, "page_text", fail)
    with pytest.raises(MemjaxError, match="No space left"):
        write_report([load_run(folder)])
    assert path.read_text() == before
    assert not list(folder.glob(".*"))


def test_differences(make_run):
    a = load_run(make_run("a", config={"x": {"y": 1, "z": "s"}, "same": [1]}))
    b = load_run(make_run("b", config={"x": {"y": 2}, "same": [1]}))
    assert differences([a, b]) == [
        {"setting of the config": "x.y", "a": "1", "b": "2"},
        {"setting of the config": "x.z", "a": "s", "b": "–"},
    ]


def test_errors(make_run, tmp_path):
    with pytest.raises(MemjaxError, match="no runs"):
        write_report([], tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(MemjaxError, match="cannot write"):
        write_report([load_run(make_run())], tmp_path / "file")


def test_an_unfinished_run_says_so(make_run):
    config = {"task": {"name": "evidence"}, "training": {"steps": 11000}}
    run = load_run(make_run("short", config=config))
    run.evaluation["step"] = 67
    parsed = parse(write_report([run]))
    assert "short is not finished: step 67 of 11,000." in parsed.texts and "67 of 11,000" in parsed.cells
    whole = parse(write_report([load_run(make_run("whole"))]))
    assert not any("not finished" in text for text in whole.texts)


def extended(make_run, name="run", **more):
    """A run whose test counts its examples."""
    folder = make_run(name)
    found = json.loads((folder / "evaluation.json").read_text())
    found["metrics"] |= {"examples": 1000, "answer_loss": 0.25}
    (folder / "evaluation.json").write_text(json.dumps(found | more))
    return folder


def test_the_headline_stands_at_the_top_with_its_interval(make_run):
    parsed = parse(write_report([load_run(extended(make_run))]))
    at = parsed.texts.index("93.1%")
    assert parsed.texts[at + 1].strip() == "all, 95% interval 91.4 to 94.5, 1,000 examples"
    assert "91.4 to 94.5" in parsed.cells


def test_the_test_stands_beside_the_validation(make_run):
    parsed = parse(write_report([load_run(extended(make_run))]))
    at = parsed.cells.index("validation")
    assert parsed.cells[at - 1 : at + 7] == ["run", "validation", "–", "–", "90.4", "–", "–", "1,200"]
    test = at - 8
    assert parsed.cells[test - 1 : test + 7] == ["run", "test", "91.2", "95.0", "93.1", "0.25", "1,000", "1,200"]
    young = parse(write_report([load_run(make_run("young", evaluation=None))]))
    assert "validation" in young.cells and "test" not in young.cells
    lines = [{"phase": "train", "step": 1, "loss": 1.0}]
    assert "Test beside validation" not in parse(write_report([load_run(make_run("none", lines=lines))])).texts


SHOWN = [
    {"question": "where is <b>mary</b>?", "answer": "home", "prediction": "home", "tags": {"half": "early"}},
    {"question": "who has the milk", "answer": "john", "prediction": "mary", "tags": {"hops": 2}},
    "damaged",
    {"question": None},
]


def test_examples_are_questions_answers_and_predictions(make_run):
    rows = example_rows({"examples_shown": SHOWN})
    assert rows == [
        {"question": "where is <b>mary</b>?", "answer": "home", "prediction": "home", "outcome": "right",
         "half": "early", "hops": "–"},
        {"question": "who has the milk", "answer": "john", "prediction": "mary", "outcome": "wrong",
         "half": "–", "hops": "2"},
        {"question": "–", "answer": "–", "prediction": "–", "outcome": "–", "half": "–", "hops": "–"},
    ]  # fmt: skip
    for strange in (None, {}, {"examples_shown": None}, {"examples_shown": {"a": 1}}, {"examples_shown": []}):
        assert example_rows(strange) == []
    many = [{"question": "a" * 9999, "answer": "x", "prediction": "x", "tags": []}] * 1000
    rows = example_rows({"examples_shown": many})
    assert len(rows) == 100 and len(rows[0]["question"]) == 2002
    parsed = parse(write_report([load_run(extended(make_run, examples_shown=SHOWN))]))
    assert "Examples" in parsed.texts and {"who has the milk", "where is <b>mary</b>?", "wrong"} <= set(parsed.cells)
    assert "b" not in parsed.tags


def test_a_table_of_many_rows_is_scrolled_in_its_place(make_run):
    def page(count):
        shown = [{"question": str(n), "answer": "x", "prediction": "y"} for n in range(count)]
        return write_report([load_run(extended(make_run, f"run{count}", examples_shown=shown))]).read_text()

    assert page(20).count('<div class="wide tall"') == 0 and page(21).count('<div class="wide tall"') == 1


CONFUSIONS = {"home": {"home": 90, "garden": 8, "hall": 2}, "hall": {"hall": 5, "home": 10}, "x": 3, "y": {"z": None}}


def test_confusions_are_the_most_frequent_wrong_predictions(make_run):
    rows, note = confusion_rows({"confusions": CONFUSIONS})
    assert [tuple(row.values()) for row in rows] == [
        ("hall", "home", "10", "15", "66.7"),
        ("home", "garden", "8", "100", "8.0"),
        ("home", "hall", "2", "100", "2.0"),
    ]
    assert list(rows[0]) == ["answer", "prediction", "times", "of", "% of this answer"]
    assert note == "Wrong predictions, the most frequent first: 20 of 115 are wrong."
    rows, note = confusion_rows({"confusions": {str(n): {"other": n} for n in range(1, 31)}})
    assert len(rows) == 20 and rows[0]["answer"] == "30" and "20 of 30 pairs are shown" in note
    for strange in (None, {}, {"confusions": []}, {"confusions": {"a": {"b": "c"}}}):
        assert confusion_rows(strange)[0] == []
    parsed = parse(write_report([load_run(extended(make_run, confusions=CONFUSIONS))]))
    assert "Confusions" in parsed.texts and {"hall", "garden", "66.7"} <= set(parsed.cells)


def test_command_versions_and_notes_are_on_the_page(make_run, tmp_path):
    said = {
        "command": "memjax train --config=a.py:<b>",
        "versions": {"memjax": "0.2", "jax": "0.10"},
        "devices": "8 x TPU v5e",
        "notes": ["<i>!"],
    }
    parsed = parse(write_report([load_run(extended(make_run, **said))]))
    ran = "memjax 0.2, jax 0.10, 8 x TPU v5e"
    same = parse(write_report([load_run(extended(make_run, "same", **said, trained_on="8 x TPU v5e"))]))
    assert ran in same.texts
    moved = parse(write_report([load_run(extended(make_run, "moved", **said, trained_on="1 x H100"))]))
    assert "memjax 0.2, jax 0.10, trained on 1 x H100, tested on 8 x TPU v5e" in moved.texts
    assert {"Command and versions", said["command"], ran, "Notes", "<i>!"} <= set(parsed.texts)
    runs = [load_run(extended(make_run, "b", **said | {"command": "other"})), load_run(make_run("c"))]
    parsed = parse(write_report(runs, tmp_path / "out"))
    assert {"other", "b: <i>!"} <= set(parsed.texts)
    bare = parse(write_report([load_run(make_run("bare"))]))
    assert not {"Command and versions", "Notes"} & set(bare.texts)


def test_every_evaluation_is_on_the_page(make_run):
    folder = extended(make_run, examples_shown=SHOWN)
    other = json.loads((folder / "evaluation.json").read_text())
    other["metrics"]["accuracy"], other["examples_shown"] = 0.125, [SHOWN[1]]
    (folder / "evaluation-valid.json").write_text(json.dumps(other))
    parsed = parse(write_report([load_run(folder)]))
    assert {"valid", "12.5", "93.1"} <= set(parsed.cells)
    at = parsed.texts.index("Examples")
    assert "run" in parsed.texts[at:] and "run, valid" in parsed.texts[at:]
