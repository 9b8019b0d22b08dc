"""Multiple choice about dialogues: what is read of the files, what an example holds, and what is refused."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.tasks.dialogue_files import DREAM, TVQA_QUESTIONS, TVQA_SUBTITLES, ChoiceQuestion, read_dialogues
from memjax.typing import SPLITS

DATA = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")

TURNS = ["M: Where is the cat? I cannot find it!", "W: In the garden.", "M: ..."]
ASKED = [
    {"question": "Where is it?", "choice": ["In the house.", "In the garden!"], "answer": "In the garden!"},
    {"question": "Who asks?", "choice": ["The man.", "The woman.", "A cat."], "answer": "The man."},
]


def dream(folder, entries=None, **others):
    """The files of DREAM in a folder of this folder; others: instead of the text of a split."""
    (folder / "talk").mkdir(exist_ok=True)
    for split, name in DREAM.items():
        text = others.get(split, json.dumps([[TURNS, ASKED, f"{split}-1"]] if entries is None else entries))
        (folder / "talk" / name).write_text(text)
    return folder


def question(clip, right=1, ts="2.5-4", **changes):
    return (
        {"q": "Who?", "vid_name": clip, "answer_idx": right, "ts": ts}
        | {f"a{i}": f"A {i}." for i in range(5)}
        | changes
    )


def subtitles(clip, turns=4):
    return {
        "vid_name": clip,
        "sub": [{"text": f"Line {i} of {clip}.", "start": 1.0 * i, "end": 2} for i in range(turns)],
    }


def tvqa(folder, train, test, said):
    (folder / "talk").mkdir(exist_ok=True)
    for name, rows in zip((*TVQA_QUESTIONS, TVQA_SUBTITLES), (train, test, said), strict=True):
        text = "\n".join(map(json.dumps, rows)) + "\n"
        (folder / "talk" / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def whole_tvqa(folder, **changes):
    """Twenty clips asked about once, in train; two in test."""
    clips = [f"c{i}" for i in range(22)]
    asked = {"train": [question(clip) for clip in clips[:20]], "test": [question(clip) for clip in clips[20:]]}
    return tvqa(folder, **({"said": list(map(subtitles, clips))} | asked | changes))


def made(root, **changes):
    sizes = {"folder": "talk", "words": 5, "answer_words": 4, "least": 1} | changes
    return tasks.create(tasks.DialoguesSpec(data_dir=str(root), **sizes))


def words(task, ids):
    return " ".join(task.vocabulary[i] for i in ids if i)


def test_a_stream_is_the_turns_and_each_question_has_its_own_choices(tmp_path):
    task = made(dream(tmp_path))
    batch = task.examples("test", np.arange(task.size("test")))
    tasks.check_batch(task.shape, batch)
    for row in batch["stream"]:
        assert [words(task, segment) for segment in row] == [
            "m where is the cat", "i cannot find it", "w in the garden", "m",
        ]  # fmt: skip
    choices = [[words(task, text) for text in row] for row in batch["candidates"]]
    assert choices == [["in the house", "in the garden", ""], ["the man", "the woman", "a cat"]]
    assert [words(task, row) for row in batch["query"]] == ["where is it", "who asks"]
    assert batch["label"].tolist() == [1, 0] and task.lengths("test").tolist() == [4, 4]
    assert task.shape.tags == {} and task.shape.questions is None and task.notes == ()


def test_words_are_those_of_train_and_what_has_none_is_left_out_and_counted(tmp_path):
    odd = [{"question": "What?", "choice": ["...", "A zebra."], "answer": "A zebra."}]
    entries = json.dumps([[TURNS, ASKED, "a"], [["..."], ASKED, "b"], [["W: A zebra."], ASKED[:1] + odd, "c"]])
    task = made(dream(tmp_path, test=entries))
    assert task.notes == (
        "1 dialogues without words are left out",
        "1 questions without words, or with a choice without words, are left out",
    )
    assert task.size("test") == 3 and "zebra" not in task.vocabulary
    assert words(task, task.examples("test", np.array([2]))["stream"][0, 0]) == "w a <unknown>"


def test_choices_that_read_the_same_are_counted_in_the_notes(tmp_path):
    odd = [{"question": "What?", "choice": ["A zebra.", "A quagga.", "The man."], "answer": "A zebra."}]
    entries = json.dumps([[TURNS, ASKED + odd, "a"]])
    (note,) = made(dream(tmp_path, test=entries)).notes
    assert note.startswith("of 1 questions of valid and test the right choice reads as another one does")


def test_tvqas_subtitles_are_the_turns_and_the_moment_says_where_the_answer_lies(tmp_path):
    late = [question("c20", ts="0-1"), question("c21", right="4", ts=[2.0, 3.0]), question("c21", ts="nan-nan")]
    said = [subtitles(f"c{i}") for i in range(22)]
    said[0]["sub"].reverse()  # they are read in their order in time
    said[1]["sub"][0]["start"] = said[1]["sub"][1]["start"]  # and in that of the file where two begin together
    folder = whole_tvqa(tmp_path, test=late, said=said)
    found = read_dialogues(folder / "talk")
    assert [len(found[split]) for split in SPLITS] == [18, 2, 2]
    assert [clip.name for clip in found["valid"]] == ["c9", "c19"]
    assert [clip.turns[0] for clip in found["train"][:2]] == ["Line 0 of c0.", "Line 0 of c1."]
    assert found["test"][1].questions[0] == ChoiceQuestion("Who?", tuple(f"A {i}." for i in range(5)), 4, 2)
    assert [one.questions[0].turn for one in found["test"]] == [0, 2] and found["test"][1].questions[1].turn is None
    task = made(folder)
    batch = task.examples("test", np.arange(3))
    tasks.check_batch(task.shape, batch)
    assert [task.shape.tags["place"][i] for i in batch["place"]] == ["early", "later", "unknown"]
    assert batch["label"].tolist() == [1, 4, 1]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"train": "[1"}, "train.json is no JSON"),
        ({"train": "[" * 10_000}, "train.json is no JSON"),
        ({"test": "{}"}, "test.json is not DREAM's"),
        ({"test": "[[1]]"}, r"test.json, entry 0: it must be \[turns, questions, name\]"),
        ({"test": json.dumps([[TURNS, [{"question": "Q?"}], "x"]])}, "must have question, choice and answer"),
        ({"test": json.dumps([[TURNS, [ASKED[0] | {"answer": "No."}], "x"]])}, "an answer is none of its choices"),
        ({"test": json.dumps([[TURNS, [ASKED[0] | {"question": "why " * 513}], "x"]])}, "has 513 words; shorten it"),
        ({"valid": "[]"}, "no dialogue with a question for valid"),
        ({"valid": json.dumps([[["..."], ASKED, "x"]])}, "no question with words for valid"),
    ],
)
def test_files_of_another_kind_are_one_clear_line(tmp_path, others, message):
    with pytest.raises(MemjaxError, match=message) as caught:
        made(dream(tmp_path, **others))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"said": [subtitles("c0")] * 2}, "the clip 'c0' is there twice"),
        ({"said": [{"vid_name": "c0"}]}, "it has no vid_name, or no list sub"),
        ({"said": [{"vid_name": "c0", "sub": [{"text": "x"}]}]}, "a subtitle must have a text, and a start"),
        ({"said": [{"vid_name": "c0", "sub": [{"text": "x", "start": float("nan")}]}]}, "and a start in seconds"),
        ({"said": [[]]}, "line 1: it is no object"),
        ({"test": [question("c0", ts=[10**400, 1])]}, "not begin-end in seconds"),
        ({"test": [question("other")]}, "has no clip 'other'"),
        ({"test": [question("c0", right=None)]}, "answer_idx is None, not 0 to 4"),
        ({"test": [question("c0", ts="soon")]}, "ts is 'soon', not begin-end in seconds"),
        ({"test": [question("c0", a3=None)]}, "must have q and a0 to a4"),
    ],
)
def test_tvqas_files_that_do_not_fit_are_one_clear_line(tmp_path, changes, message):
    with pytest.raises(MemjaxError, match=message) as caught:
        made(whole_tvqa(tmp_path, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": 0}, "words must be at least 1"),
        ({"answer_words": 10**6}, "answer_words must be at most"),
        ({"least": 99}, r"no word occurs 99 times in train; lower config\.task\.least"),
        ({"folder": ""}, "folder is empty"),
        ({"folder": "none"}, "there is no folder .*none"),
        ({"folder": "."}, "has not the files train.json, dev.json, test.json of DREAM, or tvqa_train.jsonl"),
    ],
)
def test_settings_that_cannot_be_are_one_clear_line(tmp_path, changes, message):
    with pytest.raises(MemjaxError, match=message) as caught:
        made(dream(tmp_path), **changes)
    assert "\n" not in str(caught.value)


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), kind=st.sampled_from([dream, whole_tvqa]))
@settings(max_examples=80, deadline=None)
def test_a_folder_with_any_byte_changed_is_read_or_refused_in_one_line(tmp_path_factory, place, byte, kind):
    folder = kind(tmp_path_factory.mktemp("talks"))
    files = sorted((folder / "talk").iterdir())
    path = files[place % len(files)]
    packed = path.name.endswith(".gz")
    data = bytearray(gzip.decompress(path.read_bytes()) if packed else path.read_bytes())
    data[place % len(data)] = byte
    path.write_bytes(gzip.compress(bytes(data)) if packed else bytes(data))
    try:
        task = made(folder)
    except MemjaxError as error:
        assert "\n" not in str(error)
    else:
        tasks.check_batch(task.shape, task.examples("train", np.arange(task.size("train"))))


@real
def test_dream_has_the_counts_of_its_readme():
    found = read_dialogues(DATA / "dream")
    assert [sum(len(one.questions) for one in found[split]) for split in SPLITS] == [6116, 2040, 2041]
    assert sum(len(found[split]) for split in SPLITS) == 6444
    task = made(DATA, folder="dream", words=20, answer_words=20, least=2)
    batch = task.examples("test", np.arange(task.size("test")))
    tasks.check_batch(task.shape, batch)
    (note,) = task.notes
    assert note.startswith("of 54 questions of valid and test the right choice reads")
    assert task.shape.classes == 3 and np.bincount(batch["label"]).min() > 600


@real
def test_real_questions_of_tvqa_are_read_in_its_layout(tmp_path):
    """Its own subtitles are not to be had: each clip says its name."""
    with gzip.open(DATA / "tvqa" / "tvqa_plus_val.json.gz", "rt") as file:
        sample = json.load(file)
    with gzip.open(DATA / "tvqa" / "tvqa_test_public.jsonl.gz", "rt") as file:
        public = [json.loads(line) for line in file]
    for row in public:
        row["answer_idx"] = 0  # which is not published
    clips = {row["vid_name"]: None for row in (*sample, *public)}
    task = made(tvqa(tmp_path, public, sample, list(map(subtitles, clips))), words=20, answer_words=20, least=2)
    assert task.size("train") + task.size("valid") + task.size("test") == len(public) + len(sample) == 10640
    batch = task.examples("test", np.arange(task.size("test")))
    tasks.check_batch(task.shape, batch)
    assert task.shape.classes == 5 and set(np.unique(batch["label"])) == set(range(5))
