"""ActivityNet-QA's questions with features of one's own: what is written, and what is refused."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax import archives, cli, tasks
from memjax.errors import MemjaxError
from memjax.tasks.builders import activitynet
from memjax.tasks.builders.activitynet import FILES, KINDS, MISSING, prepare

DATA = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")


def rows(split):
    """Three videos of a split, each asked twice."""
    asked, answered = [], []
    for video in range(3):
        for number, (text, answer, kind) in enumerate((("is it a cat", "yes", 3), ("what is it", f"cat {video}", 5))):
            one = f"v_{split}{video}_{number}"
            asked.append({"video_name": f"{split}{video}", "question": text, "question_id": one})
            answered.append({"answer": answer, "type": kind, "question_id": one})
    return asked, answered


@pytest.fixture
def raw(tmp_path):
    return official(tmp_path)


def official(root):
    """The folders `dataset` and `features`; the last video of train has none."""
    (root / "dataset").mkdir()
    (root / "features").mkdir()
    for name in FILES.values():
        for kind, found in zip("qa", rows(name), strict=True):
            text = json.dumps(found).encode()
            (root / "dataset" / f"{name}_{kind}.json.gz").write_bytes(gzip.compress(text))
        for video in range(2 if name == "train" else 3):
            prefix = "v_" if video == 1 else ""
            np.save(root / "features" / f"{prefix}{name}{video}.npy", np.full((9, 4), video, np.float64))
    return root


def made(raw, **options):
    return prepare(raw / "dataset", raw / "features", raw / "data", **options)


def test_the_folder_is_a_task_with_the_kinds_of_questions(raw):
    assert made(raw) == activitynet.Prepared({"train": 4, "valid": 6, "test": 6}, 8, 0, ("train2",))
    spec = tasks.FileTaskSpec(segment=3, length=100, data_dir=str(raw / "data" / "activitynet_qa"))
    task = tasks.create(spec)
    batch = task.examples("test", np.arange(6))
    tasks.check_batch(task.shape, batch)
    assert task.shape.tags == {"kind": ("object", "yes/no")} and batch["kind"].tolist() == [1, 0] * 3
    assert task.answers == ("cat 0", "cat 1", "yes") and batch["label"].tolist() == [2, 0, 2, 1, 2, -1]
    assert task.shape.item_width == 4 and task.lengths("test").tolist() == [3] * 6


def test_frames_are_evenly_spread_and_rare_answers_are_no_classes(raw, monkeypatch):
    np.save(raw / "features" / "test0.npy", np.arange(18.0).reshape(9, 2) @ np.ones((2, 4)))
    monkeypatch.setattr(activitynet, "CLASSES", 2)
    found = made(raw, frames=3)
    assert found.rare == 2 and found.questions == {"train": 3, "valid": 6, "test": 6}
    kept = np.load(raw / "data" / "activitynet_qa" / "streams" / "test0.npy")
    assert kept.dtype == np.float32 and kept[:, 0].tolist() == [1, 17, 33]
    made(raw, frames=1)
    assert np.load(raw / "data" / "activitynet_qa" / "streams" / "test0.npy")[:, 0].tolist() == [17]


@pytest.mark.parametrize("kind", ["q", "a"])
@pytest.mark.parametrize("own", ["v_test0_0", None])
def test_questions_without_an_id_of_their_own_are_refused(raw, kind, own):
    path = raw / "dataset" / f"test_{kind}.json.gz"
    found = json.loads(gzip.decompress(path.read_bytes()))
    found[1] |= {"question_id": own}
    if own is None:
        del found[1]["question_id"]
    path.write_bytes(gzip.compress(json.dumps(found).encode()))
    with pytest.raises(MemjaxError, match="of test have no question_id of their own"):
        made(raw)


def test_what_was_prepared_before_is_replaced_and_stays_where_something_fails(raw):
    made(raw)
    (raw / "data" / "other").mkdir()
    np.save(raw / "features" / "train0.npy", np.zeros((0, 4)))
    with pytest.raises(MemjaxError, match=r"train0\.npy must hold numbers"):
        made(raw)
    folder = raw / "data" / "activitynet_qa"
    assert len(list((folder / "streams").iterdir())) == 8
    (raw / "features" / "train0.npy").unlink()
    assert made(raw).missing == ("train0", "train2")
    assert len(list((folder / "streams").iterdir())) == 7
    assert sorted(path.name for path in (raw / "data").iterdir()) == ["activitynet_qa", "other"]


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("val_q.json.gz", lambda found: {}, "val_q.json.gz is not ActivityNet-QA's"),
        ("val_a.json.gz", lambda found: found[1:], "question 'v_val0_0' of val has no answer"),
        ("val_a.json.gz", lambda found: [each | {"type": 9} for each in found], "its type is 9, not 0 to 8"),
        (
            "val_a.json.gz",
            lambda found: [each | {"answer": ""} for each in found],
            "lacks a video, a text or an answer",
        ),
        ("val_q.json.gz", lambda found: [e | {"video_name": "../x"} for e in found], "cannot be the name of a video"),
        ("val_q.json.gz", lambda found: [e | {"video_name": "x"} for e in found], "has features of no video of val"),
    ],
)
def test_files_that_do_not_fit_are_one_clear_line(raw, file, change, message):
    path = raw / "dataset" / file
    found = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(json.dumps(change(found)).encode()))
    with pytest.raises(MemjaxError, match=message) as caught:
        made(raw)
    assert "\n" not in str(caught.value) and not (raw / "data").exists()


@pytest.mark.parametrize("features", [np.ones((3, 5)), np.full((3, 4), np.nan), np.full((3, 4), 1e300)])
def test_features_that_could_not_be_trained_on_leave_what_was_prepared_before(raw, features):
    made(raw)
    np.save(raw / "features" / "test0.npy", features)
    with pytest.raises(MemjaxError, match=r"test0|all must be of one kind") as caught:
        made(raw)
    assert "\n" not in str(caught.value)
    assert np.load(raw / "data" / "activitynet_qa" / "streams" / "test0.npy").shape == (9, 4)


def test_features_that_are_none_are_one_clear_line(raw):
    (raw / "features" / "test0.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(MemjaxError, match=r"test0\.npy cannot be read"):
        made(raw)
    with pytest.raises(MemjaxError, match=r"none is no folder; name with --features one of .npy files, or an archive"):
        prepare(raw / "dataset", raw / "none", raw / "data")
    with pytest.raises(MemjaxError, match=r"none is no folder; name ActivityNet-QA's"):
        prepare(raw / "none", raw / "features", raw / "data")


def test_videos_without_features_are_named_in_a_file_while_there_are_some(raw):
    for video in range(3):
        (raw / "features" / f"{'v_' if video == 1 else ''}val{video}.npy").rename(raw / f"{video}.npy")
    (raw / "0.npy").rename(raw / "features" / "val0.npy")
    made(raw)
    assert written(raw)[MISSING] == b"train2\nval1\nval2\n"
    for name in ("train2", "val1", "val2"):
        np.save(raw / "features" / f"{name}.npy", np.ones((9, 4)))
    assert made(raw).missing == () and MISSING not in written(raw)


def archived(raw):
    """The folder's features as an archive, whose names have v_ where those of the files have."""
    arrays = {path.stem: np.load(path) for path in (raw / "features").iterdir()}
    np.savez_compressed(raw / "features.npz", unasked=np.ones((1, 4)), **arrays)
    return raw / "features.npz"


def written(raw):
    folder = raw / "data" / "activitynet_qa"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_archive_of_features_makes_what_the_folder_makes(raw):
    from_folder = made(raw, frames=3), written(raw)
    found = prepare(raw / "dataset", archived(raw), raw / "data", frames=3)
    assert (found, written(raw)) == from_folder and found.missing == ("train2",)


def broken(member):
    """An archive of one broken member for a video of test, and one of each other split."""
    with zipfile.ZipFile(file := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("train0", "val0"):
            np.save(array := io.BytesIO(), np.ones((9, 4)))
            archive.writestr(f"{name}.npy", array.getvalue())
        archive.writestr("test0.npy", member)
    return file.getvalue()


def npy(array):
    np.save(file := io.BytesIO(), array, allow_pickle=True)
    return file.getvalue()


ARCHIVES = {
    "of another kind": (b"no archive", "cannot be read: File is not a zip file; write it with numpy.savez"),
    "cut": (broken(npy(np.ones((9, 4))))[:300], "features.npz cannot be read"),
    "a pickle": (broken(npy(np.array([None]))), "test0.npy cannot be read: .*allow_pickle"),
    "of texts": (broken(npy(np.array([["a"]]))), r"test0.npy must hold numbers \[frames, d\]"),
    "of one axis": (broken(npy(np.ones(9))), "test0.npy must hold numbers"),
    "no array": (broken(b"x"), "test0.npy cannot be read"),
    "more than it has": (broken(npy(np.ones((9, 4))).replace(b"(9, 4), ", b"(9000,4),")), "test0.npy cannot be read"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_is_none_is_one_clear_line_and_leaves_what_was_prepared_before(raw, kind):
    made(raw)
    before, (data, message) = written(raw), ARCHIVES[kind]
    (raw / "features.npz").write_bytes(data)
    with pytest.raises(MemjaxError, match=message) as caught:
        prepare(raw / "dataset", raw / "features.npz", raw / "data")
    assert "\n" not in str(caught.value) and written(raw) == before


CHANGED = ("dataset/train_q.json.gz", "dataset/test_a.json.gz", "features/v_val1.npy", "features.npz")


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), name=st.sampled_from(CHANGED))
@settings(max_examples=60, deadline=None)
def test_files_with_any_byte_changed_are_prepared_or_refused_in_one_line(tmp_path_factory, place, byte, name):
    raw = official(tmp_path_factory.mktemp("films"))
    features = archived(raw) if name == "features.npz" else raw / "features"
    packed, data = name.endswith(".gz"), (raw / name).read_bytes()
    data = bytearray(gzip.decompress(data) if packed else data)
    data[place % len(data)] = byte
    (raw / name).write_bytes(gzip.compress(data) if packed else data)
    try:
        prepare(raw / "dataset", features, raw / "data")
        tasks.create(tasks.FileTaskSpec(segment=3, length=100, data_dir=str(raw / "data" / "activitynet_qa")))
    except MemjaxError as error:
        assert "\n" not in str(error)


def test_an_archive_is_unpacked_to_a_bound_all_arrays_together(raw, monkeypatch):
    """Two arrays of the three are as much as may be: either bound alone would be kept."""
    for name in ("train0", "v_val1", "test0"):
        np.save(raw / "features" / f"{name}.npy", np.zeros((100_000, 4), np.float32))
    monkeypatch.setattr(archives, "FLOOR", 4_000_000)
    path = archived(raw)
    assert 1_600_000 < archives.limit(path.stat().st_size) < 4_800_000
    with pytest.raises(MemjaxError, match=r"features\.npz unpacks to far more than it is"):
        prepare(raw / "dataset", path, raw / "data")
    assert not (raw / "data" / "activitynet_qa").exists()


def test_an_archive_with_a_name_twice_or_none_is_one_clear_line(raw):
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(archived(raw), "a") as archive:
        archive.writestr("test0.npy", b"x")
    with pytest.raises(MemjaxError, match=r"features\.npz has 'test0\.npy' twice"):
        prepare(raw / "dataset", raw / "features.npz", raw / "data")
    with pytest.raises(MemjaxError, match=r"there is no file .*none\.npz; write it with numpy\.savez"):
        prepare(raw / "dataset", raw / "none.npz", raw / "data")


def test_what_was_not_prepared_is_never_replaced(raw):
    folder = raw / "data" / "activitynet_qa"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(MemjaxError, match=r"activitynet_qa holds mine\.txt, which was not prepared"):
        made(raw)
    (folder / "mine.txt").unlink()
    made(raw)
    for source, features in ((folder, raw / "features"), (raw / "dataset", folder / "streams")):
        with pytest.raises(MemjaxError, match="lies where the prepared data goes"):
            prepare(source, features, raw / "data")
    assert len(written(raw)) == 10


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["activitynet", "--from=dataset", "--features=features.npz"], 2, "there is no file features.npz"),
        (
            ["activitynet", "--from=dataset", "--features=features"],
            0,
            "1 videos have no features: left out, and named in data/activitynet_qa/videos_without_features.txt",
        ),
        (["activitynet", "--from=dataset"], 2, "and one of features"),
        (["activitynet", "--from=dataset", "--features=features", "--extra=a=b"], 2, "takes no --extra"),
        (["babi", "--from=dataset", "--features=features"], 2, "memjax prepare babi takes no --features"),
        (["activitynet", "--from=dataset", "--features=features", "--frames=-1"], 2, "frames must be at least 0"),
    ],
)
def test_the_command_says_what_was_left_out(raw, monkeypatch, capsys, arguments, status, said):
    monkeypatch.chdir(raw)
    found = cli.main(["prepare", *arguments])
    out = capsys.readouterr()
    assert found == status and said in out.out + out.err


@real
def test_the_real_questions_are_read_whole(tmp_path):
    """Features are not to be had: those of each video are its number."""
    (tmp_path / "features").mkdir()
    found = {name: activitynet._questions(DATA / "activitynet_qa", name) for name in FILES.values()}
    for number, video in enumerate({one.video for own in found.values() for one in own}):
        np.save(tmp_path / "features" / f"{video}.npy", np.full((1, 1), number))
    written = prepare(DATA / "activitynet_qa", tmp_path / "features", tmp_path / "data")
    assert {name: len(own) for name, own in found.items()} == {"train": 32000, "val": 18000, "test": 8000}
    assert written.questions == {"train": 32000 - written.rare, "valid": 18000, "test": 8000}
    assert written.videos == 5800 and written.missing == () and round(written.rare / 32000, 3) == 0.153
    assert sum(one.kind == KINDS[3] for one in found["test"]) == 2094
