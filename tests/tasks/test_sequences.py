"""Sequence tasks: what an example holds, recomputed from its tokens; what files may be; what is refused."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.tasks.needle import ALPHABET, DEPTHS
from memjax.tasks.sequence import NOTHING
from memjax.tasks.text import without_gutenberg

DATA = Path(__file__).parents[3] / "shared" / "data"
RECALL = {
    "key_tokens": 9, "value_tokens": 7, "noise_tokens": 5, "pairs": 4, "length": 17, "longest": 4,
    "train": 50, "valid": 6, "test": 3, "seed": 0,
}  # fmt: skip
NEEDLE = {
    "needle": "passkey", "size": 5, "haystack": "noise", "length": 100, "longest": 4, "train": 50, "valid": 6,
    "test": 3, "seed": 0, "data_dir": "",
}  # fmt: skip
TEXT = "".join(f"line {i} of a text\n" for i in range(200))


def recall(**changes):
    return tasks.create(tasks.RecallSpec(**{**RECALL, **changes}))


def needle(**changes):
    return tasks.create(tasks.NeedleSpec(**{**NEEDLE, **changes}))


def language(folder, file, text=TEXT, unit="word", length=8, test_length=16):
    path = Path(folder, file)
    if file.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for split in ("train", "valid", "test"):
                archive.writestr(f"ptb.{split}.txt", text)
                archive.writestr(f"__MACOSX/._ptb.{split}.txt", "not this")
    elif file.endswith(".tar.gz"):
        with tarfile.open(path, "w:gz") as archive:
            for name, part in (("b.txt", text[len(text) // 2 :]), ("a.txt", text[: len(text) // 2]), ("c.md", "no")):
                member = tarfile.TarInfo(name)
                member.size = len(part)
                archive.addfile(member, io.BytesIO(part.encode()))
    else:
        path.write_bytes(gzip.compress(text.encode()) if file.endswith(".gz") else text.encode())
    return tasks.create(tasks.LanguageSpec(file, unit, length, test_length, str(folder)))


def every(task, split):
    return task.examples(split, np.arange(task.size(split)))


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_every_key_of_recall_is_asked_once_and_its_target_is_the_value_beside_it(split):
    task = recall()
    batch = every(task, split)
    tasks.check_batch(task.shape, batch)
    lengths, counts = [], []
    for tokens, target in zip(batch["tokens"], batch["target"]):
        asked = np.flatnonzero(target != NOTHING)
        end, count = asked[-1] + 1, len(asked)
        lengths.append(end)
        counts.append(count)
        assert (asked == np.arange(end - count, end)).all()
        stored = tokens[: end - count]
        places = np.flatnonzero(stored < 9)
        assert len(set(stored[places])) == len(places) == count
        values = dict(zip(stored[places], stored[places + 1]))
        assert all(9 <= value < 16 for value in values.values())
        assert {key: values[key] for key in tokens[asked]} == dict(zip(tokens[asked], target[asked]))
        noise = np.delete(stored, np.concatenate([places, places + 1]))
        assert (noise >= 16).all()
        assert (tokens[end:] == 0).all()
    if split == "test":
        for i, tag in enumerate(batch["length x pairs"]):
            assert task.shape.tags["length x pairs"][tag] == f"{lengths[i]} x {counts[i]}"
            assert task.shape.tags["length"][batch["length"][i]] == str(lengths[i])
            assert task.shape.tags["pairs"][batch["pairs"][i]] == str(counts[i])
        assert sorted(set(lengths)) == [17, 34, 68] and sorted(set(counts)) == [1, 2, 4]
    else:
        assert set(lengths) == {17} and set(counts) <= {1, 2, 3, 4}


def test_pairs_of_recall_lie_everywhere_and_any_number_of_them_is_trained_on():
    batch = every(recall(train=2000), "train")
    counts = (batch["target"] != NOTHING).sum(1)
    assert (np.abs(np.bincount(counts, minlength=5)[1:] - 500) < 100).all()
    one = batch["tokens"][counts == 1]
    first = np.argmax(one < 9, axis=1)
    shares = np.bincount(first, minlength=15) / len(one)
    assert (np.abs(shares[:15] - 1 / 15) < 0.04).all() and (first < 15).all()


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize("kind", ["passkey", "number", "word"])
def test_a_needle_is_said_at_its_depth_and_asked_for_at_the_end(split, kind):
    task = needle(needle=kind)
    batch = every(task, split)
    tasks.check_batch(task.shape, batch)
    for i, (tokens, target) in enumerate(zip(batch["tokens"], batch["target"])):
        asked = np.flatnonzero(target != NOTHING)
        text = "".join(ALPHABET[t] for t in tokens[: asked[-1] + 1])
        answer = "".join(ALPHABET[t] for t in target[asked])
        assert text.endswith(f" What is the {kind}? {answer[:-1]}") and len(asked) == 5
        place = text.index(f" The {kind} is {answer}. ")
        room = len(text) + 1 - len(f" The {kind} is {answer}. ") - len(f" What is the {kind}? {answer}")
        low, high = (int((batch["depth"][i] + n) * room / DEPTHS) for n in (0, 1))
        assert low <= place <= high
        assert task.shape.tags["length"][batch["length"][i]] == str(len(text))
    assert task.shape.choices == (26 if kind == "word" else 10)


def test_a_text_of_several_pieces_is_whole_when_they_are_read_in_their_order():
    task = needle(train=800, pieces=4)
    batch = every(task, "train")
    tasks.check_batch(task.shape, batch)
    assert task.ordered and not needle().ordered and task.shape.pieces == 4
    texts, begin = [], 0
    for row, target in enumerate(batch["target"]):
        if (target != NOTHING).any():
            texts.append((batch["tokens"][begin : row + 1].ravel(), target, row + 1 - begin))
            begin = row + 1
    assert begin == 800 and {pieces for *_, pieces in texts} == {1, 2, 4}
    for tokens, target, pieces in texts:
        text, answer = ("".join(ALPHABET[t] for t in ids) for ids in (tokens, target[target != NOTHING]))
        assert len(text) == 100 * pieces and text.endswith(f" What is the passkey? {answer[:-1]}")
        assert text.count(f" The passkey is {answer}. ") == 1
    assert {pieces for *_, pieces in texts[:267]} == {1}
    counts = np.bincount([pieces for *_, pieces in texts[267:]], minlength=5) * np.arange(5)
    assert (np.abs(counts[[1, 2, 4]] / 533 - 1 / 3) < 0.1).all()  # as many characters of each kind
    alone = task.examples("train", np.array([702]))
    assert (alone["tokens"][0] == batch["tokens"][702]).all() and (alone["target"][0] == batch["target"][702]).all()


def test_the_splits_of_a_haystack_share_no_text(tmp_path):
    marks = "#$%&()*+<=>@[]^_{|}~"  # none of them in what is hidden or asked; 16, 2 and 2 of the 20 for the splits
    (tmp_path / "hay.txt").write_text("".join(marks[i * 20 // 3000] for i in range(3000)))
    task = needle(haystack="hay.txt", data_dir=str(tmp_path), longest=2, needle="number")
    for split, own in (("train", marks[:16]), ("valid", marks[16:18]), ("test", marks[18:])):
        seen = {ALPHABET[t] for t in every(task, split)["tokens"].ravel()} & set(marks)
        assert seen and seen <= set(own)


@given(index=st.integers(0, 49), others=st.lists(st.integers(0, 49), max_size=4))
@settings(max_examples=25, deadline=None)
def test_an_example_is_a_function_of_its_index(index, others):
    for task in (recall(), needle()):
        alone, among = (task.examples("train", np.array(chosen)) for chosen in ([index], [*others, index]))
        for name in alone:
            np.testing.assert_array_equal(alone[name][0], among[name][-1])


@pytest.mark.parametrize("file", ["text.txt", "text.txt.gz", "texts.tar.gz", "ptb.zip"])
def test_streams_of_a_text_hold_every_token_once_and_targets_are_the_tokens_that_follow(file, tmp_path):
    text = "".join(f"line {i % 7} of a text\n" for i in range(200))  # valid and test have no word of their own
    task = language(tmp_path, file, text)
    tasks.check_batch(task.shape, every(task, "train"))
    words = [*text.replace("\n", " <eos> ").split()]
    for split in ("valid", "test"):
        batch = every(task, split)
        tasks.check_batch(task.shape, batch)
        real = batch["target"] != NOTHING
        tokens, target = batch["tokens"][real], batch["target"][real]
        np.testing.assert_array_equal(tokens[1:], target[:-1])
        if file == "ptb.zip":
            read = [task.vocabulary[i] for i in [tokens[0], *target]]
            assert read == words
    batch = every(task, "train")
    np.testing.assert_array_equal(batch["tokens"][:, 1:], batch["target"][:, :-1])
    np.testing.assert_array_equal(batch["tokens"][1:, :-1], batch["tokens"][:-1, 1:])


def test_a_word_that_train_lacks_is_unk_and_said(tmp_path):
    text = TEXT.replace("line 3 ", "line <unk> ") + "end of a new_word\n"
    task = language(tmp_path, "text.txt", text)
    assert any("tokens of the test split" in note for note in task.notes)
    assert task.vocabulary.index("<unk>") in every(task, "test")["tokens"]


def test_a_word_that_train_lacks_is_not_asked_for_where_there_is_no_unk(tmp_path):
    task = language(tmp_path, "text.txt", TEXT + "end of a new_word of a\n")
    batch, text = every(task, "test"), TEXT + "end of a new_word of a\n"
    words = text[len(text) * 95 // 100 :].replace("\n", " <eos> ").split()
    asked = [task.vocabulary[t] for t in batch["target"].ravel() if t >= 0]
    assert "new_word" in words and asked == [word for word in words[1:] if word in task.vocabulary]
    assert (batch["tokens"] >= 0).all() and any("they are not asked for" in note for note in task.notes)


def test_a_header_without_an_end_of_line_is_no_text():
    assert without_gutenberg("*** START OF THIS BOOK ***") == ""
    assert without_gutenberg("*** END OF *** a\n*** START OF\nb\n*** END OF") == "b"


def test_characters_are_those_of_the_text_without_gutenbergs_own(tmp_path):
    text = f"header\n*** START OF THIS BOOK ***\n{TEXT}\n*** END OF THIS BOOK ***\ntrailer XYZ"
    task = language(tmp_path, "text.txt", text, unit="character")
    assert "X" not in task.vocabulary and "*" not in task.vocabulary and task.shape.text
    train = every(task, "train")["tokens"]
    assert "".join(task.vocabulary[i] for i in train[0]) == TEXT[:8]


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")
def test_the_penn_treebank_has_the_published_numbers_of_words():
    task = tasks.create(tasks.LanguageSpec("ptb.zip", "word", 64, 1000, str(DATA / "ptb")))
    assert task.shape.vocabulary == 10_000 and not task.notes
    assert task.size("train") + 64 == 929_589
    for split, tokens in (("valid", 73_760), ("test", 82_430)):
        assert (every(task, split)["target"] != NOTHING).sum() == tokens - 1


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")
@pytest.mark.parametrize("file", ["paul_graham_essays.tar.gz", "warandpeace.txt.gz"])
def test_needles_lie_in_real_texts(file):
    task = needle(haystack=file, data_dir=str(DATA / "haystack_texts"), length=256, longest=16)
    batch = every(task, "test")
    assert batch["tokens"].shape == (3 * 5 * 5, 4096)
    text = "".join(ALPHABET[t] for t in batch["tokens"][-1])
    assert " The passkey is " in text and "the" in text[:200]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda tmp: recall(pairs=3), "power of two"),
        (lambda tmp: recall(longest=3), "power of two"),
        (lambda tmp: recall(key_tokens=3), "as many keys, there are 3"),
        (lambda tmp: recall(length=2**20, longest=8), "must be at most 4194304"),
        (lambda tmp: needle(haystack=""), "haystack is empty"),
        (lambda tmp: recall(length=11), "at least 3 times"),
        (lambda tmp: recall(noise_tokens=0), "at least 1"),
        (lambda tmp: recall(seed=-1), "seed"),
        (lambda tmp: needle(needle="pasword"), "needle must be one of passkey, number, word"),
        (lambda tmp: needle(length=20), "no room"),
        (lambda tmp: needle(longest=5), "longest must be a power of two, not 5"),
        (lambda tmp: needle(pieces=5), "pieces must be a power of two, not 5"),
        (lambda tmp: needle(pieces=4), "train must be a multiple of pieces, 4, not 50"),
        (lambda tmp: needle(pieces=2**20), "length 100 times pieces 1048576 must be at most"),
        (lambda tmp: needle(haystack="none.txt", data_dir=str(tmp)), "there is no .*none.txt"),
        (lambda tmp: language(tmp, "ptb.zip", "a b\n"), "has 3 tokens, 9 are needed"),
        (lambda tmp: language(tmp, "text.txt", length=0), "at least 1"),
        (lambda tmp: tasks.create(tasks.LanguageSpec("ptb.zip", "word", 4, 4, str(tmp))), "there is no"),
    ],
)
def test_what_cannot_be_is_one_clear_line(make, words, tmp_path):
    with pytest.raises(MemjaxError, match=words) as caught:
        make(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["a.txt.gz", "a.tar.gz", "a.zip", "a.txt"])
def test_a_damaged_file_is_one_clear_line(file, tmp_path):
    (tmp_path / file).write_bytes(b"\xff\xfe damaged")
    with pytest.raises(MemjaxError, match=file) as caught:
        tasks.create(tasks.LanguageSpec(file, "word", 4, 4, str(tmp_path)))
    assert "\n" not in str(caught.value)


def test_a_zip_without_the_splits_is_one_clear_line(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("other.txt", "x")
    with pytest.raises(MemjaxError, match=r"no member ptb\.train\.txt"):
        tasks.create(tasks.LanguageSpec("a.zip", "word", 4, 4, str(tmp_path)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokens": np.full((2, 3), 99)}, "tokens have ids from 99"),
        ({"target": np.full((2, 3), NOTHING)}, "nothing is asked"),
        ({"target": np.zeros((2, 4), int)}, r"\[B, L\]"),
        ({"length": np.array([0, 9])}, "tag length"),
        ({"tokens": np.zeros((0, 3), int)}, "at least one example"),
    ],
)
def test_a_batch_that_does_not_fit_is_one_clear_line(change, words):
    task = recall()
    good = {name: value[:2] for name, value in every(task, "train").items()}
    good |= {"tokens": np.zeros((2, 3), int), "target": np.zeros((2, 3), int)}
    tasks.check_batch(task.shape, good)
    with pytest.raises(MemjaxError, match=words):
        tasks.check_batch(task.shape, {**good, **change})


@pytest.mark.parametrize("indices", [[], [-1], [50]])
def test_an_index_that_the_split_lacks_is_refused(indices):
    for task in (recall(), needle()):
        with pytest.raises(MemjaxError, match="indices"):
            task.examples("train", np.array(indices, int))
