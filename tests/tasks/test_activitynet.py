"""ActivityNet-QA's questions with features of one's own: what is written, and what is refused."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from memjax import cli, tasks
from memjax.errors import MemjaxError
from memjax.tasks.builders import activitynet
from memjax.tasks.builders.activitynet import FILES, KINDS, prepare

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
    """The folders `dataset` and `features`; the last video of train has none."""
    (tmp_path / "dataset").mkdir()
    (tmp_path / "features").mkdir()
    for name in FILES.values():
        for kind, found in zip("qa", rows(name), strict=True):
            text = json.dumps(found).encode()
            (tmp_path / "dataset" / f"{name}_{kind}.json.gz").write_bytes(gzip.compress(text))
        for video in range(2 if name == "train" else 3):
            prefix = "v_" if video == 1 else ""
            np.save(tmp_path / "features" / f"{prefix}{name}{video}.npy", np.full((9, 4), video, np.float64))
    return tmp_path


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
    with pytest.raises(MemjaxError, match=r"there is no folder .*none; name ActivityNet-QA's, and yours"):
        prepare(raw / "dataset", raw / "none", raw / "data")
    with pytest.raises(MemjaxError, match=r"there is no folder .*none"):
        prepare(raw / "none", raw / "features", raw / "data")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["activitynet", "--from=dataset", "--features=features"], 0, "1 videos have no features, such as train2"),
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
