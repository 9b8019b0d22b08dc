"""Spans in documents: what is read of the files, what an example holds, and what is refused."""

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
from memjax.tasks.span_files import EVIDENCE, TRIVIA, first_place, read_documents
from memjax.tasks.spans import UNSCORED
from memjax.typing import SPLITS

DATA = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")

TOLD = ("A fox met the wolf. The wolf was hungry!\nThe fox's den lay far.", "At home, the wolf ate a red apple.")
ASKED = (
    ("Who was hungry?", "The wolf.", "1", "explicit", "the hungry wolf"),
    ("Who ate?", "the wolf", "2", "explicit", ""),  # which stands in the first section too
    ("What lay far?", "the fox's den", "1,2", "explicit", ""),
    ("Is it told?", "the wolf", "1", "implicit", ""),
    ("Who sang?", "a bird", "1", "explicit", ""),
    ("Which?", "the", "1", "explicit", ""),
)
COLUMNS = ("question", "answer1", "cor_section", "ex-or-im1", "answer4", "attribute1", "local-or-sum")


def table(columns, rows):
    text = io.StringIO()
    csv.writer(text).writerows([columns, *rows])
    return text.getvalue()


def members(told=TOLD, asked=ASKED):
    found = {}
    for name in ("train", "val", "test"):
        rows = [(*row, "character", "local") for row in asked]
        found[f"questions/{name}/fox-{name}-questions.csv"] = table(COLUMNS, rows)
        sections = [(str(i), text) for i, text in enumerate(told, 1)]
        found[f"section-stories/{name}/fox-{name}-story.csv"] = table(("section", "text"), sections)
    return found


def write(folder, files):
    with tarfile.open(folder / "tales.tar.gz", "w:gz") as tar:
        for name, text in files.items():
            data, info = text.encode(), tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return folder


def made(folder, file="tales.tar.gz", **changes):
    sizes = {"words": 4, "cut": 12, "within": 8, "least": 1} | changes
    return tasks.create(tasks.SpansSpec(file=file, data_dir=str(folder), **sizes))


def words(task, ids):
    return " ".join(task.vocabulary[i] for i in np.ravel(ids) if i)


def spans(task, split):
    """(what is read, question, span, answers) of each example."""
    batch = task.examples(split, np.arange(task.size(split)))
    tasks.check_batch(task.shape, batch)
    found = []
    for i, stream in enumerate(batch["stream"]):
        span = stream.reshape(-1)[batch["first"][i] : batch["last"][i] + 1]
        answers = [words(task, answer) for answer in batch["answers"][i] if answer.any()]
        found.append((words(task, stream), words(task, batch["query"][i]), words(task, span), answers))
    return batch, found


def test_a_document_is_its_words_in_blocks_and_a_span_is_the_answer_in_its_section(tmp_path):
    task = made(write(tmp_path, members()))
    batch, found = spans(task, "test")
    text = "a fox met the wolf the wolf was hungry the foxs den lay far at home the wolf ate a red apple"
    assert found == [
        (text, "who was hungry", "the wolf", ["the wolf", "the hungry wolf"]),
        (text, "who ate", "the wolf", ["the wolf"]),
        (text, "what lay far", "the foxs den", ["the foxs den"]),
    ]
    assert batch["first"].tolist() == [3, 16, 9] and batch["last"].tolist() == [4, 17, 11]
    assert batch["stream"].shape == (3, 6, 4) and (batch["stream"][0, -1] != 0).tolist() == [True, True, False, False]
    assert [task.shape.tags["place"][place] for place in batch["place"]] == ["early", "later", "early"]
    assert task.groups("test").tolist() == [0, 0, 0]
    assert task.notes == ("6 questions whose answer does not stand in the text are left out",)
    assert [task.vocabulary[i] for i in range(UNSCORED)] == ["<pad>", "<unknown>", "a", "an", "the"]


def test_a_question_about_several_sections_has_its_span_in_one_of_them(tmp_path):
    told = ("The wolf sang.", "A fox fled.", "The wolf slept.", "The wolf ate.")
    asked = (("Who slept?", "the wolf", "2,3", "explicit", ""), ("Who fled?", "a fox", "4", "explicit", ""))
    task = made(write(tmp_path, members(told, (*asked, ("Who ate?", "the wolf", "4", "explicit", "")))))
    batch, _ = spans(task, "test")
    assert batch["first"].tolist() == [6, 3, 9]  # no fox is in the section that is named: its first place anywhere


def test_in_train_a_document_is_cut_so_that_its_answer_ends_within_its_first_words(tmp_path):
    task = made(write(tmp_path, members()))
    batch, found = spans(task, "train")
    whole = spans(task, "test")[1][0][0].split()
    assert (batch["last"] < 8).all() and task.shape.train_blocks == 3
    for i, (text, _, span, _) in enumerate(found):
        read = text.split()
        assert len(read) <= 12 and " ".join(read) in " ".join(whole)
        assert span == " ".join(read[batch["first"][i] : batch["last"][i] + 1])
    assert found[0][0].split() == whole[:12]  # from the beginning where that will do
    again = made(tmp_path).examples("train", np.arange(3))
    assert all((again[name] == batch[name]).all() for name in batch)


def test_an_answer_that_is_too_long_for_train_is_left_out_of_it(tmp_path):
    task = made(write(tmp_path, members()), cut=12, within=2)
    assert "1 questions of train whose answer is too long are left out" in task.notes
    assert [task.size(split) for split in SPLITS] == [2, 3, 3]


def test_questions_without_words_are_counted_apart_from_those_whose_answer_is_nowhere(tmp_path):
    asked = (*ASKED, ("?!", "the wolf", "1", "explicit", ""), ("...", "a bird", "1", "explicit", ""))
    assert made(write(tmp_path, members(asked=asked))).notes == (
        "6 questions whose answer does not stand in the text are left out",
        "6 questions without words are left out",
    )


def test_words_that_train_has_seldom_are_unknown_to_models_and_still_told_apart(tmp_path):
    files = members()
    owl = [("Who was hungry?", "a stork", "1", "explicit", "", "character", "local")]
    files["questions/test/fox-test-questions.csv"] = table(COLUMNS, owl)
    told = table(("section", "text"), [("1", "A stork and an otter were hungry.")])
    files["section-stories/test/fox-test-story.csv"] = told
    task = made(write(tmp_path, files))
    batch, found = spans(task, "test")
    assert found[0][2] == "a stork" and (batch["first"], batch["last"]) == ([0], [1])
    stork, otter = (task.vocabulary.index(word) for word in ("stork", "otter"))
    assert stork != otter and min(stork, otter) >= task.shape.known
    with pytest.raises(MemjaxError, match=r"no word occurs 99 times in train; lower config\.task\.least"):
        made(tmp_path, least=99)


@given(st.lists(st.sampled_from("ab"), max_size=9), st.lists(st.sampled_from("ab"), max_size=3))
@settings(max_examples=100, deadline=None)
def test_the_first_place_is_that_of_a_plain_search(text, wanted):
    places = [i for i in range(len(text)) if text[i : i + len(wanted)] == wanted and wanted]
    assert first_place(wanted, text) == (places[0] if places else None)


def trivia(folder, pages=("One.txt", "sub/Two.txt"), texts=("It opened on Sunset Blvd. in 1993.",), data=None):
    """TriviaQA's folder, of the one question of its sample or one like it."""
    (folder / "trivia" / "qa").mkdir(parents=True, exist_ok=True)
    row = {
        "Question": "Which musical?",
        "Answer": {"Value": "Sunset Boulevard", "Aliases": ["Sunset Blvd", "Sunset Boulevard"]},
        "EntityPages": [{"Filename": page} for page in pages],
    }
    for name in TRIVIA.values():
        text = json.dumps({"Data": [row] * 10} if data is None else data)
        (folder / "trivia" / "qa" / name).write_text(text)
    for page, text in zip(pages, texts * len(pages), strict=False):
        path = folder / "trivia" / EVIDENCE / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_in_triviaqas_layout_a_page_is_a_document_and_any_alias_will_do(tmp_path):
    task = made(trivia(tmp_path), "trivia")
    assert [task.size(split) for split in SPLITS] == [18, 2, 20]
    _, found = spans(task, "valid")
    assert found[0][2:] == ("sunset blvd", ["sunset boulevard", "sunset blvd", "sunset boulevard"][:2])


@real
def test_the_sample_of_triviaqa_is_read(tmp_path):
    sample = json.loads((DATA / "triviaqa" / "triviaqa_sample.json").read_text())
    name = sample["Data"][0]["EntityPages"][0]["Filename"]
    sample["Data"] *= 10
    text = "Andrew Lloyd Webber wrote many musicals. Sunset Boulevard opened in Los Angeles on 9 December 1993."
    found = read_documents(trivia(tmp_path, (name,), (text,), sample) / "trivia")
    assert [len(found[split]) for split in SPLITS] == [9, 1, 10]
    question = found["test"][0].questions[0]
    assert question.text.startswith("Which Lloyd Webber musical premiered") and "Sunset Bulevard" in question.answers
    _, told = spans(made(tmp_path, "trivia", cut=20, within=16), "test")
    assert told[0][2] == "sunset boulevard" and "sunset bulevard" in told[0][3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": []}, "is not TriviaQA's"),
        ({"data": {"Data": [3]}}, "question 0: it has no Question or Answer"),
        ({"data": {"Data": [{"Question": "x", "Answer": {"Aliases": []}}]}}, "Value and Aliases must be texts"),
        ({"data": {"Data": [{"Question": "x", "Answer": {"Value": "x", "Aliases": 3}}]}}, "Aliases must be a list"),
        ({"pages": ("../x.txt",), "texts": ()}, "not a file of evidence/wikipedia"),
        ({"pages": ("x.txt",), "texts": ()}, "there is no .*x.txt"),
        ({"data": {"Data": []}}, "no question about a page of evidence/wikipedia for train, valid, test"),
    ],
)
def test_a_folder_of_another_kind_is_one_clear_line(tmp_path, change, message):
    with pytest.raises(MemjaxError, match=message) as caught:
        made(trivia(tmp_path, **change), "trivia")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": 0}, "words must be at least 1"),
        ({"cut": 10**6}, "cut must be at most"),
        ({"within": 13}, "within must be at most 12"),
        ({"file": ""}, "file is empty"),
        ({"file": "none.tar.gz"}, "there is no .*none.tar.gz"),
    ],
)
def test_settings_that_cannot_be_are_one_clear_line(tmp_path, changes, message):
    with pytest.raises(MemjaxError, match=message) as caught:
        made(write(tmp_path, members()), **changes)
    assert "\n" not in str(caught.value)


def test_data_without_a_span_is_one_clear_line(tmp_path):
    with pytest.raises(MemjaxError, match=r"tales.tar.gz has no question with a span for train"):
        made(write(tmp_path, members(asked=ASKED[3:])))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b | {"stream": b["stream"][:, :2]}, r"stream must be \['B', 6, 4\], as the task's shape says"),
        (lambda b: b | {"last": b["last"] * 0}, "a span ends before it begins"),
        (lambda b: b | {"last": b["last"] * 0 + 23}, "behind its document"),
        (lambda b: b | {"answers": b["answers"] * 0 + 4}, "no answer that can be scored"),
        (lambda b: b | {"query": b["query"] + 99}, "the query has ids"),
        (lambda b: b | {"place": b["place"] + 2}, "the tag place"),
    ],
)
def test_a_batch_that_is_not_what_the_shape_says_is_one_line(tmp_path, change, message):
    task = made(write(tmp_path, members()))
    batch = task.examples("test", np.arange(3))
    with pytest.raises(MemjaxError, match=message) as caught:
        tasks.check_batch(task.shape, change(batch))
    assert "\n" not in str(caught.value)


CHANGED = ("tales.tar.gz", f"trivia/qa/{TRIVIA['train']}", f"trivia/{EVIDENCE}/sub/Two.txt")


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), name=st.sampled_from(CHANGED))
@settings(max_examples=60, deadline=None)
def test_a_file_with_any_byte_changed_is_read_or_refused_in_one_line(tmp_path_factory, place, byte, name):
    folder = trivia(write(tmp_path_factory.mktemp("tales"), members()))
    path = folder / name
    data = bytearray(path.read_bytes())
    data[place % len(data)] = byte
    path.write_bytes(data)
    try:
        task = made(folder, name.split("/")[0])
    except MemjaxError as error:
        assert "\n" not in str(error)
    else:
        tasks.check_batch(task.shape, task.examples("train", np.arange(task.size("train"))))


@real
def test_fairytaleqa_has_as_many_spans_as_its_readme_says_but_for_what_a_word_is():
    """4,496, 583 and 550 there, as letters in the text: an answer may be part of a word, or have other punctuation."""
    task = made(DATA / "fairytaleqa", "fairytaleqa.tar.gz", words=20, cut=800, within=400, least=2)
    assert [task.size(split) for split in SPLITS] == [4540, 590, 561]
    for split in SPLITS:
        batch = task.examples(split, np.arange(task.size(split)))
        tasks.check_batch(task.shape, batch)
        rows = np.arange(len(batch["first"]))
        assert (batch["stream"].reshape(len(rows), -1)[rows, batch["first"]] == batch["answers"][:, 0, 0]).all()
    assert (task.examples("train", np.arange(4540))["last"] < 400).all() and task.shape.blocks == 314


def test_in_train_too_a_place_is_that_in_what_is_read(tmp_path):
    told = (" ".join(f"w{i}" for i in range(100)),)
    asked = [("Which?", f"w{i}", "1", "explicit", "") for i in range(40, 60)]
    task = made(write(tmp_path, members(told, asked)), cut=12, within=12)
    for split in ("train", "test"):
        batch = task.examples(split, np.arange(task.size(split)))
        count = (batch["stream"] != 0).sum((1, 2))
        assert batch["place"].tolist() == (2 * batch["first"] >= count).tolist() and 0 < batch["place"].mean() < 1
