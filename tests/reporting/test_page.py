import base64
import io
import re
from html.parser import HTMLParser

import pytest
from matplotlib.image import imread

from memjax.errors import MemjaxError
from memjax.reporting import load_run, page, write_report

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


def test_tasks_have_their_own_table(make_run, tmp_path):
    tags = {"task": {str(i): {"accuracy": 1 - i / 100, "examples": 10} for i in range(1, 21)}}
    evaluation = {"metrics": {"accuracy": 0.9, "tags": tags}}
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
    assert page.differences([a, b]) == [
        {"setting of the config": "x.y", "a": "1", "b": "2"},
        {"setting of the config": "x.z", "a": "s", "b": "–"},
    ]


def test_errors(make_run, tmp_path):
    with pytest.raises(MemjaxError, match="no runs"):
        write_report([], tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(MemjaxError, match="cannot write"):
        write_report([load_run(make_run())], tmp_path / "file")
