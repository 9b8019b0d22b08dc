"""A folder of one's own: what is read of it, against the folder itself; what is wrong with it is one clear line.

Slips that were tried, each of which fails a test here: the first items in place of the latest; ids and means of all
splits; a question of a stream in another split than its others; on the way, an item too few before the second question.
"""

import json
import math
import shutil
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.tasks import FileTaskSpec
from memjax.tasks.stream_task import check_batch
from memjax.typing import SPLITS, WithLengths

PLACES = ("garden", "kitchen", "cellar")


def folder_of(path, kind="ids", streams=30, split=True, answers=None, seed=0):
    """A folder, the streams in it by name, and its questions."""
    random, made, questions = np.random.default_rng(seed), {}, []
    (path / "streams").mkdir()
    for number in range(streams):
        own = "train" if number < streams - 10 else "valid" if number < streams - 5 else "test"
        length = int(random.integers(3, 12))
        items = random.integers(100, 104 if own == "train" else 106, length) * 7
        if kind == "vectors":
            items = random.normal(3.0, 2.0 + 5 * (own != "train"), (length, 4)).astype(np.float32)
            items[:, 3] = 0.1  # never changes, and is not exact
        if kind == "words":
            items = np.array([f"film {item}" for item in items])
        made[f"s{number}"] = items
        np.save(path / "streams" / f"s{number}.npy", items)
        for _ in range(2):
            answer = (answers or PLACES)[int(random.integers(len(answers or PLACES)))]
            question = {"stream": f"s{number}", "query": f"Where is {'Ada' if random.random() < 0.5 else 'Béla'}?"}
            after = {"after": int(random.integers(1, length + 1))} if random.random() < 0.7 else {}
            questions.append(question | {"answer": answer} | after | ({"split": own} if split else {}))
    write(path, questions)
    return made, questions


def write(path, questions):
    (path / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)) + "\n")


def create(path, segment=4, length=8, asked=1):
    return tasks.create(FileTaskSpec(segment, length, str(path), asked))


@pytest.mark.parametrize("kind", ["ids", "words", "vectors"])
def test_an_example_is_the_latest_items_before_its_question(tmp_path, kind):
    streams, questions = folder_of(tmp_path, kind)
    task = create(tmp_path)
    train = [q for q in questions if q["split"] == "train"]
    read = set()  # (stream, place)
    for q in train:
        after = q.get("after", len(streams[q["stream"]]))
        read |= {(q["stream"], place) for place in range(max(0, after - 8), after)}
    known = np.stack([streams[name][place] for name, place in sorted(read)])
    assert isinstance(task, WithLengths) and task.answers == tuple(sorted(PLACES))
    for split in SPLITS:
        own = [q for q in questions if q["split"] == split]
        batch = task.examples(split, np.arange(task.size(split)))
        check_batch(task.shape, batch)
        assert task.size(split) == len(own)
        assert (task.lengths(split) == batch["mask"].any(2).sum(1)).all()
        for row, q in enumerate(own):
            items = streams[q["stream"]][: q.get("after")][-8:]
            found = batch["stream"][row][batch["mask"][row]]
            if kind == "vectors":
                known = np.float64(known)
                spread = known.std(0)
                want = (items - known.mean(0)) / np.where(spread > 1e-6, spread, 1)
                np.testing.assert_allclose(found, want, atol=1e-5)
            else:
                ordered = sorted(set(known.tolist()))
                want = [ordered.index(item) + 1 if item in ordered else 0 for item in items.tolist()]
                assert found.tolist() == want
            words = [task.vocabulary[word] for word in batch["query"][row] if word]
            assert words == q["query"].lower().strip("?").split()
            assert task.answers[batch["label"][row]] == q["answer"]
    if kind != "vectors":
        unseen = set()
        for q in questions:
            after = q.get("after", len(streams[q["stream"]]))
            unseen |= {(q["stream"], p) for p in range(max(0, after - 8), after) if q["split"] != "train"}
        count = sum(streams[name][place] not in known for name, place in unseen)
        assert count and f"{count} items that valid and test read occur nowhere in train: they are one id" in task.notes
    cut = sum(q.get("after", len(streams[q["stream"]])) > 8 for q in questions)
    assert f"of {cut} questions the latest 8 items are read; config.task.length is for more" in task.notes


@pytest.mark.parametrize("kind", ["ids", "vectors"])
def test_on_the_way_a_question_has_read_what_it_reads_by_itself(tmp_path, kind):
    streams, questions = folder_of(tmp_path, kind)
    for number in range(6):  # a stream with more questions than one example asks, two of them at once
        questions.append(
            {"stream": "s0", "query": "Where is Ada?", "answer": "cellar", "split": "train", "kind": "more"}
        )
        questions[-1]["after"] = min(1 + number // 2, len(streams["s0"]))
    write(tmp_path, questions)
    alone, task = create(tmp_path), create(tmp_path, asked=3)
    assert task.shape.questions == (3, 1) and task.shape.tags == alone.shape.tags
    for split in SPLITS:
        batch, others = (one.examples(split, np.arange(one.size(split))) for one in (task, alone))
        check_batch(task.shape, batch)
        assert (task.lengths(split) == batch["mask"].any(2).sum(1)).all() and task.size(split) < alone.size(split)
        assert len(set(task.groups(split).tolist())) == len(set(alone.groups(split).tolist()))

        def told(stream, mask, *question):
            return (stream[mask].tolist(), *(np.asarray(part).tolist() for part in question))

        names = ("query", "label", "kind")
        found = []
        for row, place in np.argwhere(batch["asked"][:, :, 0]):
            before = np.arange(task.shape.segments) < batch["after"][row, place]
            mask = batch["mask"][row] & before[:, None]
            found.append(told(batch["stream"][row], mask, *(batch[name][row, place, 0] for name in names)))
        wanted = [told(*parts) for parts in zip(*(others[name] for name in ("stream", "mask", *names)), strict=True)]
        assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("kind", ["ids", "vectors"])
def test_what_an_items_numbers_mean_is_told_in_words(tmp_path, kind):
    """Which a run keeps a digest of: other items of the same count are other data."""
    names = []
    for seed, shift in ((0, 0), (0, 1)):
        path = tmp_path / f"{kind}{shift}"
        path.mkdir()
        folder_of(path, kind, seed=seed)
        for file in (path / "streams").iterdir():
            np.save(file, np.load(file) + shift)
        names.append(create(path).item_names)
    assert len(names[0]) == len(names[1]) == (len(create(tmp_path / "ids0").items) if kind == "ids" else 8)
    assert names[0] != names[1]


def test_without_a_split_all_questions_of_a_stream_are_in_one(tmp_path):
    _, questions = folder_of(tmp_path, split=False, streams=60)
    task = create(tmp_path)
    assert sum(map(task.size, SPLITS)) == len(questions) == 120 and task.size("train") > 70
    again = create(tmp_path)
    seen = []
    for split in SPLITS:
        assert task.size(split) % 2 == 0  # two of each stream
        batch, same = (t.examples(split, np.arange(t.size(split))) for t in (task, again))
        assert all((batch[name] == same[name]).all() for name in batch)
        seen.append(task.size(split))
    assert min(seen) > 0


def test_true_and_false_are_clicks(tmp_path):
    _, questions = folder_of(tmp_path, answers=(True, False))
    task = create(tmp_path)
    assert task.shape.answer == "click" and task.shape.classes == 2 and task.answers == ()
    batch = task.examples("test", np.arange(task.size("test")))
    assert batch["label"].tolist() == [int(q["answer"]) for q in questions if q["split"] == "test"]


def test_what_train_lacks_is_said_and_counts_as_an_error(tmp_path):
    _, questions = folder_of(tmp_path)
    questions[-1] |= {"answer": "attic", "query": "Whither went Ada?"}
    write(tmp_path, questions)
    task = create(tmp_path)
    assert "1 questions of valid and test have answers that train lacks: they count as errors" in task.notes
    batch = task.examples("test", np.array([task.size("test") - 1]))
    assert batch["label"].tolist() == [-1] and batch["query"][0, :3].tolist() == [1, 1, task.vocabulary.index("ada")]


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("kind", ["ids", "words", "vectors"])
def test_parquet_is_the_same_streams_sorted_by_time(tmp_path, kind, timed):
    streams, _ = folder_of(tmp_path, kind)
    plain = create(tmp_path).examples("train", np.arange(30))
    rows = [(name, item, time) for name, items in streams.items() for time, item in enumerate(items.tolist())]
    if timed:
        rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    for file in (tmp_path / "streams").iterdir():
        file.unlink()
    columns = dict(zip(("stream", "item", "time"), map(list, zip(*rows, strict=True)), strict=True))
    if not timed:
        del columns["time"]
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "streams.parquet")
    task = create(tmp_path)
    found = task.examples("train", np.arange(30))
    for name, value in found.items():
        np.testing.assert_array_equal(value, plain[name], err_msg=name)
    assert any("sorted by time" in note for note in task.notes) == timed


def test_new_items_and_questions_are_encoded_as_those_of_the_folder(tmp_path):
    streams, questions = folder_of(tmp_path)
    task = create(tmp_path)
    batch = task.examples("test", np.array([0]))
    q = next(q for q in questions if q["split"] == "test")
    assert task.encode(streams[q["stream"]][: q.get("after")][-8:]).tolist() == batch["stream"][batch["mask"]].tolist()
    assert task.encode_query(q["query"]).tolist() == batch["query"][0].tolist()
    assert task.encode(np.array([10**15])).tolist() == [0]
    for wrong, words in (
        (lambda: task.encode(np.array(["a"])), "items are of type int64"),
        (lambda: task.encode(np.zeros((2, 3))), r"items are \[L\] in .*, not \[2, 3\]"),
        (lambda: task.encode_query("?"), "has 0 words, not 1 to 3"),
        (lambda: task.encode_query("where is my blue umbrella"), "has 5 words"),
    ):
        with pytest.raises(MemjaxError, match=words):
            wrong()


def test_large_and_constant_numbers_are_normalised_in_double(tmp_path):
    _, questions = folder_of(tmp_path, "vectors")
    for file in sorted((tmp_path / "streams").iterdir()):
        rows = np.random.default_rng(len(file.name)).normal(size=(12, 2))
        np.save(file, np.column_stack([1.7e9 + np.arange(12), np.full(12, 0.1), rows]))
    write(tmp_path, [{k: v for k, v in q.items() if k != "after"} for q in questions])
    batch = create(tmp_path, length=12).examples("train", np.arange(20))
    found = batch["stream"].reshape(-1, 4)
    assert len(np.unique(found[:, 0])) == 12 and abs(found[:, 0].std() - 1) < 1e-3 and (abs(found[:, 1]) < 1e-6).all()


def test_marks_within_json_and_null_are_read(tmp_path):
    _, questions = folder_of(tmp_path, split=False, streams=60)
    questions[0] |= {"query": "Where\u2028is Ada?", "after": None, "split": None}
    text = "\n".join(json.dumps(q, ensure_ascii=False) for q in questions)
    (tmp_path / "questions.jsonl").write_text("\ufeff" + text, encoding="utf-8")
    assert sum(map(create(tmp_path).size, SPLITS)) == len(questions)


QUESTION = {"stream": "s0", "query": "Where?", "answer": "garden", "split": "train"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", r"line 61 of .*questions\.jsonl is no JSON"),
        ("[1]", "is no JSON object"),
        (QUESTION | {"stream": "s99"}, "there is no stream 's99' with items"),
        (QUESTION | {"after": 0}, r"after must be from 1 to \d+, the items of its stream, not 0"),
        (QUESTION | {"after": 99}, "not 99"),
        (QUESTION | {"after": True}, "'after' is True; it must be a whole number"),
        (QUESTION | {"query": 3}, "'query' is 3; it must be a text"),
        (QUESTION | {"query": "?!"}, "the query '\\?!' has no words"),
        (QUESTION | {"answer": 3}, "'answer' is 3; it must be a text, or true or false"),
        (QUESTION | {"answer": True}, "have true or false for an answer and others a text"),
        (QUESTION | {"split": "dev"}, "split must be train, valid, test, not 'dev'"),
        (QUESTION | {"when": 3}, "has 'when'; there are stream, query, answer, after, split"),
        ({"stream": "s0", "query": "Where?"}, "has no 'answer'"),
        ({k: v for k, v in QUESTION.items() if k != "split"}, "say their split and others do not"),
    ],
)
def test_a_question_that_is_none_is_one_clear_line(tmp_path, line, words):
    folder_of(tmp_path)
    with (tmp_path / "questions.jsonl").open("a") as file:
        file.write(line if isinstance(line, str) else json.dumps(line))
    with pytest.raises(MemjaxError, match=words) as caught:
        create(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (
            np.zeros((3, 5)),
            r"stream s1 has vectors of 4 numbers, stream a vectors of 5 numbers|stream s0 has vectors of 4",
        ),
        (np.arange(3), "stream s0 has vectors of 4 numbers, stream a whole numbers"),
        (np.full((3, 4), np.nan), "stream a has a vector whose numbers are not finite, item 0; mend it"),
        (np.zeros((2, 3, 4)), r"a\.npy holds float64\[2, 3, 4\]; a stream is whole numbers or words \[L\], or vectors"),
        (np.array([1.5]), r"holds float64\[1\]"),
        (np.array(["a", "b"], object), r"cannot be read: .*; write it with .*, words as numpy\.array\(words, str\)"),
        (np.array([2**63 + 1], np.uint64), r"has whole numbers of 2\^63 or more"),
    ],
)
def test_streams_that_do_not_fit_together_are_one_clear_line(tmp_path, items, words):
    folder_of(tmp_path, "ids" if items.dtype == np.uint64 else "vectors")
    np.save(tmp_path / "streams" / "a.npy", items)
    with pytest.raises(MemjaxError, match=words) as caught:
        create(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_folder_that_lacks_something_is_one_clear_line(tmp_path, monkeypatch):
    with pytest.raises(MemjaxError, match=r"has no streams: put there streams/NAME\.npy"):
        create(tmp_path)
    _, questions = folder_of(tmp_path)
    np.save(tmp_path / "streams" / "none.npy", np.zeros(0, int))
    assert "1 of 31 streams are left out: they have no items" in create(tmp_path).notes
    write(tmp_path, [q for q in questions if q["split"] != "valid"])
    with pytest.raises(MemjaxError, match='has no question for valid; give some lines "split": "valid"'):
        create(tmp_path)
    one = [{key: value for key, value in questions[0].items() if key != "split"}]
    write(tmp_path, one)
    with pytest.raises(MemjaxError, match=r'has no question for .*; give every line a "split", or more streams'):
        create(tmp_path)
    write(tmp_path, [q | {"answer": "garden"} for q in questions])
    with pytest.raises(MemjaxError, match=r"all answers of train in .* are the same"):
        create(tmp_path)
    write(tmp_path, [q | {"query": "why " * 513} for q in questions])
    with pytest.raises(MemjaxError, match="has 513 words; shorten it, 512 are the most"):
        create(tmp_path)
    (tmp_path / "questions.jsonl").write_text("")
    with pytest.raises(MemjaxError, match=r"questions\.jsonl has no questions"):
        create(tmp_path)
    (tmp_path / "streams.parquet").write_bytes(b"PAR1")
    with pytest.raises(MemjaxError, match=r"has both streams/\*\.npy and streams\.parquet"):
        create(tmp_path)
    for file in (tmp_path / "streams").iterdir():
        file.unlink()
    with pytest.raises(MemjaxError, match=r"streams\.parquet cannot be read"):
        create(tmp_path)
    for columns, words in (
        ({"stream": ["a"]}, "has no column 'item'; it has stream"),
        ({"stream": ["a"], "item": [None]}, "'item' has rows without a value"),
        ({"stream": ["a", "a"], "item": [[1.0], [1.0, 2.0]]}, "'item' holds vectors of several widths"),
        ({"stream": [], "item": []}, "has no rows"),
        ({"stream": [1.5], "item": [1]}, "'stream' holds double, not whole numbers or words"),
        ({"stream": ["a"], "item": [1.5]}, "'item' holds double, not whole numbers, words, or lists of numbers"),
        ({"stream": ["a"], "item": [[1, None]]}, "has lists with gaps"),
        ({"stream": ["a"], "item": [1], "time": [math.nan]}, "'time' has rows without a value"),
        ({"stream": ["a"], "item": [1], "time": ["noon"]}, "'time' holds string, not whole numbers, other numbers"),
    ):
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "streams.parquet")
        with pytest.raises(MemjaxError, match=words):
            create(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MemjaxError, match=r"needs pyarrow: pip install 'memjax\[parquet\]'"):
        create(tmp_path)


def test_streams_whose_names_look_the_same_are_refused(tmp_path):
    folder_of(tmp_path)
    for name in ("caf\u00e9", "cafe\u0301"):
        np.save(tmp_path / "streams" / f"{name}.npy", np.arange(3))
    with pytest.raises(MemjaxError, match=r"two streams of .* are called 'café', in other forms of Unicode"):
        create(tmp_path)


def test_ids_of_any_whole_type_are_encoded_as_the_file_was(tmp_path):
    made, _ = folder_of(tmp_path)
    made["s0"] = np.array([2**60, 2**60 + 1, 2**60 + 2], np.uint64)  # which are one number as floats
    np.save(tmp_path / "streams" / "s0.npy", made["s0"])
    write(tmp_path, [{"stream": f"s{i}", "query": "where", "answer": PLACES[i % 3]} for i in range(30)])
    task = create(tmp_path)
    for items in made.values():
        assert task.encode(items.astype(np.uint64)).tolist() == task.encode(items.astype(np.int64)).tolist()
    assert task.encode(np.array([])).tolist() == []
    for wrong, words in ((np.array([5.0, math.nan]), "not float64"), (np.array([2**63], np.uint64), "below 2\\^63")):
        with pytest.raises(MemjaxError, match=words):
            task.encode(wrong)


def test_a_number_that_changes_by_rounding_alone_is_not_blown_up(tmp_path):
    made, _ = folder_of(tmp_path, "vectors")
    made["s0"][0, 3] = np.nextafter(np.float32(0.1), 1, dtype=np.float32)
    for name in made:
        made[name][:, 3] += (int(name[1:]) >= 20) * np.float32(0.1)  # in valid and test it is twice as much
        np.save(tmp_path / "streams" / f"{name}.npy", made[name])
    task = create(tmp_path)
    assert abs(task.examples("test", np.arange(5))["stream"]).max() < 100
    assert "1 of 4 numbers of a vector never change in train" in task.notes


@pytest.mark.filterwarnings("error")
def test_a_vector_far_beyond_those_of_train_is_refused_by_name(tmp_path):
    made, _ = folder_of(tmp_path, "vectors")
    np.save(tmp_path / "streams" / "s29.npy", made["s29"].astype(np.float64) * 1e300)
    with pytest.raises(MemjaxError, match="stream s29 has numbers far beyond those of train"):
        create(tmp_path)


def test_what_looks_the_same_is_one_answer_and_one_item(tmp_path):
    plain, other = "caf\u00e9", "cafe\u0301"
    (tmp_path / "streams").mkdir()
    for number, word in enumerate((plain, other, other)):
        np.save(tmp_path / "streams" / f"s{number}.npy", np.array(["a", word, "b"]))
    own = ("train", "valid", "test")
    questions = [
        {"stream": f"s{i}", "query": "where", "answer": answer, "split": own[i]}
        for i, (one, two) in enumerate([(plain, "no"), (other, "no"), (other, "no")])
        for answer in (one, two)
    ]
    write(tmp_path, questions)
    task = create(tmp_path)
    assert task.answers == (plain, "no") and task.item_names == ("a", "b", plain) and task.notes == ()
    assert task.examples("test", np.arange(2))["label"].tolist() == [0, 1]
    assert task.encode(np.array([other])).tolist() == task.encode(np.array([plain])).tolist() == [3]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", ["vectors", "ids"])
def test_items_that_are_no_array_of_their_kind_are_one_line(tmp_path, kind):
    folder_of(tmp_path, kind)
    task = create(tmp_path)
    width = [4] * (kind == "vectors")
    for wrong in ([["a"] * 4], np.full([2, *width], None), [[1, 2, 3, 4], [1, 2]], np.ones([2, *width]) * 1j):
        with pytest.raises(MemjaxError, match=r"^(items|vectors) are "):
            task.encode(wrong)


@pytest.mark.filterwarnings("error")
def test_vectors_too_large_to_be_scaled_are_refused(tmp_path):
    made, _ = folder_of(tmp_path, "vectors")
    for name in made:
        np.save(tmp_path / "streams" / f"{name}.npy", np.full((3, 2), 1e300 if name < "s2" else -1e300))
    write(tmp_path, [{"stream": name, "query": "where", "answer": PLACES[i % 3]} for i, name in enumerate(made)])
    with pytest.raises(MemjaxError, match="numbers too large to be squared"):
        create(tmp_path)


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), kind=st.sampled_from(["ids", "vectors", "parquet"]))
@settings(max_examples=100, deadline=None)
def test_a_folder_with_any_byte_changed_is_read_or_refused_in_one_line(tmp_path_factory, place, byte, kind):
    folder = tmp_path_factory.mktemp("own")
    folder_of(folder, "ids" if kind == "parquet" else kind)
    if kind == "parquet":
        streams = {path.stem: np.load(path) for path in (folder / "streams").iterdir()}
        shutil.rmtree(folder / "streams")
        names = [name for name, items in streams.items() for _ in items]
        table = pyarrow.table({"stream": names, "item": np.concatenate(list(streams.values()))})
        pyarrow.parquet.write_table(table, folder / "streams.parquet")
    files = [folder / "questions.jsonl", folder / ("streams.parquet" if kind == "parquet" else "streams/s1.npy")]
    path = files[place % 2]
    data = bytearray(path.read_bytes())
    data[place // 2 % len(data)] = byte
    path.write_bytes(data)
    try:
        task = create(folder)
        check_batch(task.shape, task.examples("train", np.arange(3)))
    except MemjaxError as error:
        assert "\n" not in str(error)
