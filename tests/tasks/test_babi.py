"""The bAbI task: batches against a slow re-reading of the raw text, splits, and stories that train has never seen."""

import functools
import io
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest

from memjax.errors import MemjaxError
from memjax.tasks.babi import UNSEEN, Babi, BabiSpec
from memjax.tasks.builders.babi_records import prepare
from memjax.tasks.stream_task import check_batch
from memjax.tasks.words import words_of

REAL = Path(__file__).parents[3] / "shared" / "data" / "babi"
ARCHIVE = REAL / "babi_tasks_v1-2_en.tar.gz"
PARTIAL = REAL / "qa3_three-supporting-facts_10k_train.PARTIAL_1925q.txt.gz"
USED = re.compile(r".*/(en/qa|en-10k/qa3_|en-valid-10k/qa[13]_)")


@pytest.fixture(scope="session")
def texts():
    """The raw text of the real files that the tests use, by folder and name: all of en, a few of the others."""
    if not ARCHIVE.exists():
        pytest.skip("needs the bAbI archive")
    with tarfile.open(ARCHIVE) as archive:
        used = [info for info in archive if USED.match(info.name)]
        return {info.name.split("/", 1)[1]: archive.extractfile(info).read().decode() for info in used}


@pytest.fixture(scope="session")
def data(texts, tmp_path_factory):
    root = tmp_path_factory.mktemp("babi")
    for name, text in texts.items():
        path = root / "raw" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    prepare(root / "raw", root, extra={"en-10k": PARTIAL})
    return root


@pytest.fixture(scope="session")
def joint(data):
    return Babi(BabiSpec("en", 0, 12, str(data)))


@pytest.fixture(scope="session")
def column(joint):
    """All of a split's labels, or tags, of the joint task."""

    def get(split, key):
        parts = np.array_split(np.arange(joint.size(split)), 50)
        return np.concatenate([joint.examples(split, part)[key] for part in parts])

    return functools.cache(get)


@pytest.fixture(scope="session")
def held_out(texts):
    """Of each task of en, the train questions that stay in train, and those of its last tenth of stories."""
    result = {}
    for number in range(1, 21):
        lines = raw(texts, "en", number, "train")
        stories = lines[-1][-1] + 1
        first = stories - stories // 10
        result[number] = [line for line in lines if line[-1] < first], [line for line in lines if line[-1] >= first]
    return result


def raw(texts, folder, task, split):
    """(statements before it, question, answer, last supporting statement) of every question, and its story's number."""
    (text,) = (t for name, t in texts.items() if re.fullmatch(rf"{folder}/qa{task}_(.*_)?{split}\.txt", name))
    result, story = [], -1
    for line in text.splitlines():
        number, rest = line.split(" ", 1)
        if number == "1":
            statements, places, story = [], {}, story + 1
        if "\t" in rest:
            question, answer, support = rest.split("\t")
            last = max(places[fact] for fact in support.split())
            result.append((list(statements), question, answer, last, story))
        else:
            places[number] = len(statements)
            statements.append(rest)
    return result


def plain(sentence):
    return sentence.lower().replace(".", "").replace("?", "").replace(",", " ").split()


def decoded(task, batch, row):
    """Sentences and question as lists of words, and the answer."""
    stream = [[task.vocabulary[i] for i in ids[mask]] for ids, mask in zip(batch["stream"][row], batch["mask"][row])]
    label = batch["label"][row]
    query = [task.vocabulary[i] for i in batch["query"][row] if i]
    return stream, query, task.answers[label] if label != UNSEEN else None


def test_the_first_story_of_task_1(data):
    task = Babi(BabiSpec("en", 1, 6, str(data)))
    batch = task.examples("train", np.arange(2))
    stream, query, answer = decoded(task, batch, 1)
    first = "mary moved to the bathroom. john went to the hallway. daniel went back to the hallway."
    assert ". ".join(map(" ".join, stream[:4])) == first + " sandra moved to the garden" and not any(stream[4:])
    assert " ".join(query) == "where is daniel" and answer == "hallway"
    assert batch["stream"].shape == batch["mask"].shape == (2, 10, 6)
    assert batch["query"].shape == (2, 3) and batch["label"].shape == batch["place"].shape == (2,)
    assert {key: value.dtype.name for key, value in batch.items()} == dict.fromkeys(batch, "int32") | {"mask": "bool"}
    # Of four statements the third supports the answer; of two the first.
    assert task.shape.tags == {"place": ("early", "later")} and batch["place"].tolist() == [0, 1]
    assert task.shape.classes == 6 and task.shape.answer == "classes" and task.notes == ()


def test_joint_sizes(texts, joint):
    shape = joint.shape
    assert joint.size("test") == 20000 and joint.size("train") + joint.size("valid") == 20000
    assert shape.tags == {"task": tuple(str(task) for task in range(1, 21))}
    assert (shape.segments, shape.segment, shape.items) == (228, 11, shape.queries)
    every = [line for task in range(1, 21) for split in ("train", "test") for line in raw(texts, "en", task, split)]
    assert shape.segments == max(len(statements) for statements, *_ in every)
    assert shape.segment == max(len(plain(statement)) for statements, *_ in every for statement in set(statements))
    assert shape.query_words == max(len(plain(question)) for _, question, *_ in every)
    # All words of the language: those of the text, and the answers of one word.
    assert len({*joint.vocabulary[2:], *(word for answer in joint.answers for word in answer.split(","))}) == 156
    assert {"apple,milk", "n,w"} <= set(joint.answers)


def test_every_unseen_answer_of_the_test_split_is_labelled_so(texts, joint, column, held_out):
    known = {answer.lower() for lines, _ in held_out.values() for _, _, answer, *_ in lines}
    expected = sum(line[2].lower() not in known for task in range(1, 21) for line in raw(texts, "en", task, "test"))
    labels = column("test", "label")
    # argmax gives an id from 0 on, so that a label below 0 can never be right.
    assert UNSEEN < 0 and (labels == UNSEEN).sum() == expected > 0
    assert labels.min() == UNSEEN and labels.max() < joint.shape.classes


@pytest.mark.parametrize("number", range(1, 21))
def test_batches_are_the_raw_text(texts, joint, column, held_out, number):
    train, valid = held_out[number]
    known = {answer.lower() for lines, _ in held_out.values() for _, _, answer, *_ in lines}
    rng = np.random.default_rng(number)
    for split, questions in {"train": train, "valid": valid, "test": raw(texts, "en", number, "test")}.items():
        indices = np.flatnonzero(column(split, "task") == number - 1)
        assert len(indices) == len(questions)
        chosen = [0, len(questions) - 1, *rng.integers(0, len(questions), 5)]
        batch = joint.examples(split, indices[chosen])
        check_batch(joint.shape, batch)
        for row, place in enumerate(chosen):
            statements, question, answer, *_ = questions[place]
            stream, query, label = decoded(joint, batch, row)
            assert stream[: len(statements)] == [plain(statement) for statement in statements]
            assert not any(stream[len(statements) :])
            assert query == plain(question)
            assert label == (answer.lower() if answer.lower() in known else None)
            np.testing.assert_array_equal(batch["stream"][row] != 0, batch["mask"][row])


def test_lengths_are_those_of_the_streams(joint):
    for split in ("train", "valid", "test"):
        lengths, rows = joint.lengths(split), np.arange(0, joint.size(split), 97)
        assert lengths.shape == (joint.size(split),)
        np.testing.assert_array_equal(joint.examples(split, rows)["mask"].any(2).sum(1), lengths[rows])
    assert joint.lengths("test").max() == joint.shape.segments


@pytest.mark.parametrize("asked", [2, 5, 100])
def test_a_story_that_is_asked_on_the_way_has_the_questions_of_its_beginnings(data, joint, asked):
    """Each with its stream, words, answer and task, in the order of the file."""
    way = Babi(BabiSpec("en", 0, 12, str(data), asked))
    assert way.shape.questions == (min(asked, 12), 1)  # twelve are asked of some stories of task 20
    size = way.size("valid")
    batch = way.examples("valid", np.arange(size))
    check_batch(way.shape, batch)
    real = batch["asked"]
    alone = joint.examples("valid", np.arange(joint.size("valid")))
    assert real.any((1, 2)).all() and real.sum() == joint.size("valid") > size
    for name in ("query", "label", "task"):
        np.testing.assert_array_equal(batch[name][real], alone[name])
    example, time, _ = np.nonzero(real)
    read = np.arange(way.shape.segments) < batch["after"][example, time][:, None]
    np.testing.assert_array_equal(batch["stream"][example] * read[:, :, None], alone["stream"])
    np.testing.assert_array_equal(way.lengths("valid"), batch["after"].max(1))
    np.testing.assert_array_equal(way.lengths("valid"), batch["mask"].any(2).sum(1))
    np.testing.assert_array_equal(way.groups("valid")[example], joint.groups("valid"))


def test_places_are_those_of_the_last_fact(texts, data):
    task = Babi(BabiSpec("en", 2, 8, str(data)))
    lines = raw(texts, "en", 2, "test")
    expected = [int(last >= len(statements) / 2) for statements, _, _, last, _ in lines]
    got = task.examples("test", np.arange(task.size("test")))["place"]
    assert got.tolist() == expected and 0 < got.mean() < 1


def test_train_and_valid_share_no_story(data, held_out):
    task = Babi(BabiSpec("en", 20, 12, str(data)))
    assert [task.size("train"), task.size("valid")] == [len(lines) for lines in held_out[20]]
    task = Babi(BabiSpec("en", 1, 6, str(data)))
    whole = {}
    for split in ("train", "valid"):
        batch = task.examples(split, np.arange(task.size(split)))
        # Each story of task 1 has ten statements, and a question after the last.
        whole[split] = {stream.tobytes() for stream in batch["stream"][batch["mask"].any(2).all(1)]}
    assert (len(whole["train"]), len(whole["valid"])) == (180, 20) and not whole["train"] & whole["valid"]


def test_a_valid_file_is_used_and_train_left_whole(texts, data):
    task = Babi(BabiSpec("en-valid-10k", 1, 6, str(data)))
    assert (task.size("train"), task.size("valid"), task.size("test")) == (9000, 1000, 1000)
    statements, question, answer, *_ = raw(texts, "en-valid-10k", 1, "valid")[-1]
    stream, query, label = decoded(task, task.examples("valid", np.array([999])), 0)
    assert [sentence for sentence in stream if sentence] == [plain(statement) for statement in statements]
    assert (query, label) == (plain(question), answer)


def test_the_missing_file_of_task_3(data):
    with pytest.raises(MemjaxError, match="task 3 of bAbI folder 'en-valid-10k' has no train file") as caught:
        Babi(BabiSpec("en-valid-10k", 3, 12, str(data)))
    assert "\n" not in str(caught.value)
    left = Babi(BabiSpec("en-valid-10k", 0, 12, str(data)))
    assert left.shape.tags == {"task": ("1",)} and left.size("test") == 1000
    assert left.notes == ("task 3 is left out: no train file",)
    partial = Babi(BabiSpec("en-10k", 3, 12, str(data)))
    assert partial.notes == (f"task 3 train is from {PARTIAL.name}, which has 1,925 questions",)
    assert partial.size("train") + partial.size("valid") == 1925 and partial.shape.segments == 228


def test_the_same_index_is_the_same_example(data):
    one, other = (Babi(BabiSpec("en", 8, 10, str(data))) for _ in range(2))
    assert (one.vocabulary, one.answers, one.shape) == (other.vocabulary, other.answers, other.shape)
    indices = np.random.default_rng(0).integers(0, one.size("train"), 32)
    first, again = one.examples("train", indices), other.examples("train", indices[::-1])
    for key, value in first.items():
        np.testing.assert_array_equal(value, again[key][::-1])
    first["stream"][:] = 7
    assert (one.examples("train", indices)["stream"] != 7).any()


def story(*lines):
    return "".join(f"{number} {line}\n" for number, line in enumerate(lines, 1))


TRAIN = story("Mary is home.", "Where is Mary?\tHome\t1") * 9 + story("Zed is out.", "Where is Zed?\tout\t1")
TEST = (
    story("Mary is home.", "Mary ran, very quickly, to the far away park.", "Where is Mary?\tpark\t2")
    + story("Mary is home.", "Mary is home.", "John is home.", "Where, then, is Mary?\thome\t1")
    + story("Mary is Home", "where is mary\thome\t1")
)


def made(tmp_path, folder="en", **files):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{folder}/qa{name}.txt")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    prepare(tmp_path / "a.tar", tmp_path)
    return lambda task, words=9: Babi(BabiSpec(folder, task, words, str(tmp_path)))


def test_what_train_has_never_seen(tmp_path):
    task = made(tmp_path, **{"1_train": TRAIN, "1_test": TEST})(1)
    # The last tenth of train, Zed's story, is valid: its words and its answer are not known.
    assert task.vocabulary == ("<pad>", "<unknown>", "home", "is", "mary", "where") and task.answers == ("home",)
    assert {split: task.size(split) for split in ("train", "valid", "test")} == {"train": 9, "valid": 1, "test": 3}
    batch = task.examples("test", np.arange(3))
    check_batch(task.shape, batch)
    assert task.shape.segments == 3 and task.shape.classes == 1 and task.shape.query_words == 4
    assert batch["label"].tolist() == [UNSEEN, 0, 0] and batch["place"].tolist() == [1, 0, 0]
    assert batch["stream"][0, 1].tolist() == [4, 1, 1, 1, 1, 1, 1, 1, 1]
    assert batch["query"].tolist() == [[5, 3, 4, 0], [5, 1, 3, 4], [5, 3, 4, 0]]
    valid = task.examples("valid", np.array([0]))
    assert valid["label"].tolist() == [UNSEEN] and valid["stream"][0, 0].tolist() == [1, 3, 1, 0, 0, 0, 0, 0, 0]


def test_another_language(tmp_path):
    train = story("मरियम स्नानघर में गयी।", "मरियम कहाँ है?\tस्नानघर\t1") + story(
        "Zoë ALLA à l'école!", "Où est Zoë ?\tÉcole\t1"
    )
    task = made(tmp_path, "hn", **{"1_train": train * 5, "1_test": train})(1)
    batch = task.examples("test", np.arange(2))
    stream, query, answer = decoded(task, batch, 0)
    assert (stream[0], query, answer) == (["मरियम", "स्नानघर", "में", "गयी"], ["मरियम", "कहाँ", "है"], "स्नानघर")
    stream, query, answer = decoded(task, batch, 1)
    assert (stream[0], query, answer) == (["zoë", "alla", "à", "l", "école"], ["où", "est", "zoë"], "école")
    assert words_of("Zoe\u0308") == ["zoë"]


def test_questions_without_facts_have_no_place(tmp_path):
    task = made(tmp_path, **{"1_train": TRAIN.replace("\t1", ""), "1_test": TEST})(1)
    assert task.shape.tags == {} and set(task.examples("test", np.arange(3))) == {"stream", "mask", "query", "label"}


def test_joint_uses_what_is_there(tmp_path):
    files = {"1_train": TRAIN, "1_test": TEST, "2_train": TRAIN, "22_train": TRAIN, "22_valid": TRAIN, "22_test": TEST}
    create = made(tmp_path, **files)
    task = create(0)
    assert task.shape.tags == {"task": ("1", "22")} and task.notes == ("task 2 is left out: no test file",)
    assert [task.size(split) for split in ("train", "valid", "test")] == [19, 11, 6] and create(22).size("train") == 10
    assert task.examples("valid", np.arange(11))["task"].tolist() == [0] + [1] * 10
    for number, match in [
        (2, "has no test file"),
        (3, "has no task 3; it has 0 .joint., 1, 2, 22"),
        (-1, "no task -1"),
    ]:
        with pytest.raises(MemjaxError, match=match):
            create(number)


def test_impossible_specs_and_indices(tmp_path):
    create = made(tmp_path, **{"1_train": TRAIN, "1_test": TEST})
    assert create(1, words=9).shape == create(1, words=20).shape
    one = story("Mary is home.", "Where is Mary?\thome\t1")
    for wrong, match in [
        (lambda: create(1, words=8), "a sentence has 9 words, words is 8; set it to 9"),
        (lambda: create(1, words=0), "words must be at least 1"),
        (lambda: Babi(BabiSpec("en", 1, 9, str(tmp_path), asked=0)), "asked must be at least 1"),
        (lambda: Babi(BabiSpec("en-1k", 1, 9, str(tmp_path))), "'en-1k' is not prepared; prepared: en"),
        (lambda: Babi(BabiSpec("en", 1, 9, "none")), "memjax prepare babi --from ARCHIVE --data_dir=none"),
        (lambda: create(1).examples("test", np.array([0, -1])), r"must be in \[0, 3\) for the test split"),
        (lambda: create(1).examples("test", np.array([0, 3])), r"must be in \[0, 3\) for the test split"),
        (lambda: made(tmp_path, "one", **{"1_train": one, "1_test": one})(1), "one train story"),
    ]:
        with pytest.raises(MemjaxError, match=match) as caught:
            wrong()
        assert "\n" not in str(caught.value)


def test_a_list_of_sentences_is_no_text(unchecked):
    with pytest.raises(MemjaxError, match="a text is one string, not list"):
        words_of(["Where is Ada?"])
