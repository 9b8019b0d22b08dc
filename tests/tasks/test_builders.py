"""The bAbI builder: what it reads, what it refuses, and that a refused source leaves nothing behind."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from memjax.errors import MemjaxError
from memjax.tasks.builders.babi_format import Question, parse, read_extra, read_source
from memjax.tasks.builders.babi_records import Builder, open_folder, prepare

REAL = Path(__file__).parents[3] / "shared" / "data" / "babi"
ARCHIVE = REAL / "babi_tasks_v1-2_en.tar.gz"
PARTIAL = REAL / "qa3_three-supporting-facts_10k_train.PARTIAL_1925q.txt.gz"
real = pytest.mark.skipif(not ARCHIVE.exists(), reason="needs the bAbI archive")

ENGLISH = """\
1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Daniel took the apple.
5 What is in the hallway?\tJohn,Daniel\t2 4
1 Sandra is tired.
2 Why?\ttired\t1
"""
HINDI = "1 मरियम स्नानघर में गयी।\n2 मरियम कहाँ है?\tस्नानघर\t1\n"


def tar(path: Path, members: dict[str, str | bytes], mode="w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def both(folder: str, text: str = ENGLISH) -> dict[str, str]:
    return {f"top/{folder}/qa1_a-name_{split}.txt": text for split in ("train", "test")}


def everything(data_dir: Path) -> list[str]:
    return sorted(str(path.relative_to(data_dir)) for path in data_dir.rglob("*"))


def refused(source, data_dir, match, **kwargs):
    before = everything(data_dir)
    with pytest.raises(MemjaxError, match=match) as caught:
        prepare(source, data_dir, **kwargs)
    assert "\n" not in str(caught.value)
    assert everything(data_dir) == before


def test_a_story_is_parsed():
    first, second = parse(ENGLISH, "qa1_train.txt")
    assert first.sentences == ("Mary moved to the bathroom.", "John went to the hallway.", "Daniel took the apple.")
    assert first.questions == (
        Question(2, "Where is Mary?", "bathroom", (0,)),
        Question(3, "What is in the hallway?", "John,Daniel", (1, 2)),
    )
    assert second == (("Sandra is tired.",), (Question(1, "Why?", "tired", (0,)),))
    assert parse(ENGLISH.replace("\n", "\r\n"), "qa1_train.txt") == [first, second]


def test_a_byte_order_mark_is_no_text(tmp_path):
    source = tar(tmp_path / "a.tar", {"en/qa1_train.txt": "\ufeff" + ENGLISH})
    assert read_source(source) == {"en": {(1, "train"): parse(ENGLISH, "")}}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("hello world\n", r"qa1_train.txt, line 1: not bAbI's 'ID text': 'hello world'"),
        ("1 Mary is home.\nno\n", "line 2: not bAbI's"),
        ("1\n", "line 1: not bAbI's"),
        ("2 Mary is home.\n3 Where?\thome\t2\n", "line 1: ID 2 after 0"),
        ("1 A.\n2 Who?\ta\t1\n2 Who?\ta\t1\n", "line 3: ID 2 after 2"),
        ("1 A.\n2 ...\n3 Who?\ta\t1\n", "line 2: a sentence without a word"),
        ("1 A.\n2 Who?\t\t1\n", "line 2: a question needs"),
        ("1 A.\n2 Who?\ta\t1\tb\n", "line 2: a question needs"),
        ("1 Who?\ta\n", "line 1: a question before any statement"),
        ("1 A.\n2 Who?\ta\t1\n3 Who?\ta\t2\n", "line 3: supporting IDs '2'"),
        ("1 A.\n2 Who?\ta\t7\n", "line 2: supporting IDs '7'"),
        ("1 A.\n2 B.\n1 A.\n2 Who?\ta\t1\n", "line 3: the story before has no question"),
        ("1 A.\n2 Who?\ta\t1\n1 A.\n", "line 4: the story before has no question"),
        ("", "no story"),
        (" \n\n", "no story"),
    ],
)
def test_what_is_not_babi_is_named(text, match):
    with pytest.raises(MemjaxError, match=match):
        parse(text, "qa1_train.txt")


def test_prepared_records_are_the_stories(tmp_path):
    members = (
        both("en") | {"top/en/qa2_train.txt": ENGLISH[-35:], "top/README.txt": "not a story"} | both("हिन्दी", HINDI)
    )
    source = tar(tmp_path / "babi.tgz", members)
    done = prepare(source, tmp_path / "data")
    assert [(one.folder, one.split, one.stories, one.questions) for one in done] == [
        ("en", "test", {1: 2}, {1: 3}),
        ("en", "train", {1: 2, 2: 1}, {1: 3, 2: 1}),
        ("हिन्दी", "test", {1: 1}, {1: 1}),
        ("हिन्दी", "train", {1: 1}, {1: 1}),
    ]
    records = open_folder(tmp_path / "data", "en")
    assert records.splits == {"test": {1: (2, 3)}, "train": {1: (2, 3), 2: (1, 1)}}
    assert records.stories("train", 1) == parse(ENGLISH, "")
    assert records.stories("train", 2) == parse(ENGLISH, "")[1:]
    assert open_folder(tmp_path / "data", "हिन्दी").stories("test", 1) == parse(HINDI, "")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["babi"]


def test_tfds_reads_what_was_prepared(tmp_path):
    prepare(tar(tmp_path / "babi.tgz", both("en")), tmp_path / "data")
    source = Builder(config="en", data_dir=tmp_path / "data", file_format="array_record").as_data_source("train")
    assert source[0]["task"] == 1 and source[0]["answers"] == b"bathroom\nJohn,Daniel"
    assert source[0]["after"].tolist() == [2, 3] and source[0]["supporting"] == b"0\n1 2"


def test_a_zip_a_tar_and_folders_give_the_same(tmp_path):
    expected = read_source(tar(tmp_path / "a.tar.gz", both("en") | both("shuffled")))
    assert sorted(expected) == ["en", "shuffled"]
    assert read_source(tar(tmp_path / "a.tar", both("en") | both("shuffled"), "w")) == expected
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, text in (both("en") | both("shuffled")).items():
            archive.writestr(name, text)
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
    assert read_source(tmp_path / "a.zip") == expected
    assert read_source(tmp_path) == expected
    assert read_source(tmp_path / "top") == expected
    assert read_source(tmp_path / "top" / "en") == {"en": expected["en"]}
    assert read_source(tar(tmp_path / "flat.tar.gz", {"qa1_train.txt": ENGLISH})).keys() == {"flat"}


def test_preparing_again_replaces_a_folder_and_keeps_the_others(tmp_path):
    data = tmp_path / "data"
    prepare(tar(tmp_path / "a.tgz", both("en") | both("en-10k")), data)
    prepare(tar(tmp_path / "b.tgz", {"en/qa5_train.txt": ENGLISH[-35:]}), data)
    assert open_folder(data, "en").splits == {"train": {5: (1, 1)}}
    assert open_folder(data, "en-10k").splits == {"test": {1: (2, 3)}, "train": {1: (2, 3)}}
    assert [path.name for path in data.iterdir()] == ["babi"]


def test_a_damaged_source_leaves_what_was_prepared(tmp_path):
    data = tmp_path / "data"
    good = tar(tmp_path / "good.tgz", both("en"))
    prepare(good, data)
    for size in (0, 1, 20, 100, good.stat().st_size - 1):
        (tmp_path / "cut.tgz").write_bytes(good.read_bytes()[:size])
        refused(tmp_path / "cut.tgz", data, "cut.tgz cannot be read .*damaged")
    plain = tar(tmp_path / "good.tar", both("en"), "w").read_bytes()
    # Cut between two members, within one, and with the second header broken: tarfile itself notices none but one.
    second = plain.index(b"top/en/qa1_a-name_test.txt")
    broken = plain[:second] + b"?" + plain[second + 1 :]
    for data_bytes in (plain[:second], plain[: second + 600], broken):
        (tmp_path / "cut.tar").write_bytes(data_bytes)
        refused(tmp_path / "cut.tar", data, "cut.tar cannot be read .*damaged")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("en/qa1_train.txt", ENGLISH)
    flipped = bytearray((tmp_path / "a.zip").read_bytes())
    flipped[60] ^= 1
    (tmp_path / "a.zip").write_bytes(flipped)
    refused(tmp_path / "a.zip", data, "a.zip cannot be read .*damaged")
    assert open_folder(data, "en").stories("train", 1) == parse(ENGLISH, "")


def test_a_refused_source_makes_no_data_dir(tmp_path):
    data = tmp_path / "data"
    (tmp_path / "empty").mkdir()
    cases = {
        "no such file": tmp_path / "nowhere.tgz",
        "no bAbI folder": tmp_path / "empty",
        "no bAbI folder in": tar(tmp_path / "other.tgz", {"a/readme.txt": "hello"}),
        r"bad.tgz: top/en/qa1_a-name_train.txt, line 1: not bAbI's": tar(tmp_path / "bad.tgz", both("en", "hello\n")),
        "not UTF-8": tar(tmp_path / "binary.tgz", {"en/qa1_train.txt": b"1 \xff\xfe\n"}),
        "no story": tar(tmp_path / "blank.tgz", both("en", "")),
        "a second train file for task 1": tar(tmp_path / "twice.tgz", both("en") | {"en/qa1_train.txt": ENGLISH}),
    }
    for match, source in cases.items():
        refused(source, data, match)
    good = tar(tmp_path / "good.tgz", both("en"))
    refused([good, good], data, "an earlier source has a folder 'en' too")
    assert not data.exists()
    data.write_text("a file in the way")
    with pytest.raises(MemjaxError, match=r"cannot write to .*data: "):
        prepare(good, data)


@pytest.mark.parametrize("name", ["../evil.txt", "../qa1_train.txt", "en/../../qa1_train.txt", "/tmp/qa1_train.txt"])
def test_a_member_that_points_outside_is_refused(tmp_path, name):
    refused(tar(tmp_path / "a.tgz", {**both("en"), name: ENGLISH}), tmp_path / "data", "points outside")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, ENGLISH)
    refused(tmp_path / "a.zip", tmp_path / "data", "points outside")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_link_for_a_member_is_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("en/qa1_train.txt")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    refused(tmp_path / "a.tar", tmp_path / "data", "is a link or a device")
    info = zipfile.ZipInfo("en/qa1_train.txt")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    refused(tmp_path / "a.zip", tmp_path / "data", "is a link or a device")


def test_an_extra_file_fills_what_the_source_lacks(tmp_path):
    source = tar(tmp_path / "a.tgz", both("en"))
    extra = tmp_path / "qa3_three-facts_10k_train.PARTIAL_2q.txt.gz"
    extra.write_bytes(gzip.compress(ENGLISH.encode()))
    prepare(source, tmp_path / "data", extra={"en": extra})
    records = open_folder(tmp_path / "data", "en")
    assert records.splits["train"] == {1: (2, 3), 3: (2, 3)}
    assert records.extras == {(3, "train"): extra.name}
    assert records.stories("train", 3) == parse(ENGLISH, "")

    plain = tmp_path / "qa1_train.txt"
    plain.write_text(ENGLISH)
    (tmp_path / "qa4_train.txt.gz").write_bytes(extra.read_bytes()[:-20])
    (tmp_path / "stories.txt").write_text(ENGLISH)
    for folder, path, match in [
        ("en", plain, "en has a train file of task 1; leave"),
        ("hn", extra, "extra file for folder 'hn', which is not in the source: en"),
        ("en", tmp_path / "qa9_train.txt", "no such file"),
        ("en", tmp_path / "stories.txt", "the name must tell task and split"),
        ("en", tmp_path / "qa4_train.txt.gz", "qa4_train.txt.gz is damaged"),
    ]:
        refused(source, tmp_path / "data", match, extra={folder: path})


def test_what_is_not_prepared_says_what_to_run(tmp_path):
    with pytest.raises(MemjaxError, match=f"run: memjax prepare babi --from ARCHIVE --data_dir={tmp_path}"):
        open_folder(tmp_path, "en")
    prepare(tar(tmp_path / "a.tgz", both("en") | both("hn")), tmp_path)
    with pytest.raises(MemjaxError, match="'en-11k' is not prepared; prepared: en, hn"):
        open_folder(tmp_path, "en-11k")


@real
def test_the_real_archive_holds_what_is_known_of_it():
    folders = read_source(ARCHIVE)
    assert {name: len(folder) for name, folder in folders.items()} == {
        "en": 40,
        "en-10k": 39,
        "en-valid": 60,
        "en-valid-10k": 59,
    }
    questions = {
        name: {key: sum(len(story.questions) for story in stories) for key, stories in folder.items()}
        for name, folder in folders.items()
    }
    assert set(questions["en"].values()) == {1000}
    assert all(count == (10000 if split == "train" else 1000) for (_, split), count in questions["en-10k"].items())
    assert (3, "train") not in questions["en-10k"]
    valid = {task: count for (task, split), count in questions["en-valid-10k"].items() if split == "valid"}
    assert valid == dict.fromkeys(range(1, 21), 1000) | {18: 1004, 20: 998}
    stories = {task: len(stories) for (task, split), stories in folders["en-10k"].items() if split == "train"}
    rest = {4: 10000, 16: 10000, 19: 10000, 15: 2500, 17: 1250, 18: 1978, 20: 933}
    assert stories == dict.fromkeys([1, 2, *range(5, 15)], 2000) | rest
    for task in range(1, 21):
        if task != 3:
            split_again = folders["en-valid-10k"][task, "train"] + folders["en-valid-10k"][task, "valid"]
            assert sorted(split_again) == sorted(folders["en-10k"][task, "train"])
    key, stories = read_extra(PARTIAL)
    assert key == (3, "train") and len(stories) == 385 and sum(len(story.questions) for story in stories) == 1925
    assert stories[:200] == folders["en"][3, "train"]


@pytest.mark.parametrize("number", ["0", "2147483648", "9" * 20, "9" * 5000])
def test_a_task_number_that_cannot_be_is_refused(tmp_path, number):
    refused(tar(tmp_path / "a.tgz", {f"en/qa{number}_a_train.txt": ENGLISH}), tmp_path / "data", "number of a task")
    assert not (tmp_path / "data").exists()


def test_a_builder_without_stories_says_what_to_run(tmp_path):
    with pytest.raises(MemjaxError, match="memjax prepare babi --from"):
        Builder(config="en", data_dir=tmp_path, file_format="array_record").download_and_prepare()
