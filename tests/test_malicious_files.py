"""Nothing that is read can run code or leave its folder: a malicious file in each format that memjax reads.

The formats: JSON and JSON lines of a run folder; Orbax's checkpoints; .npz of streaming states and of restarts; text,
gzip, zip and tar of language, needles and clicks; tar and zip of bAbI, and what is prepared of it; the archive of
mazes; features of videos, .npy and .npz; columns of NarrativeQA, JSON lines and subtitles of TVQA. The file that is
given to --config is none of them: it is Python by design, the user's own program, and is run.
"""

import gzip
import io
import json
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from test_streaming import made
from training.test_loop import run as trained
from training.tiny import mapping

from memjax import environments, streaming, tasks
from memjax.errors import MemjaxError
from memjax.experiments.reading import read_config
from memjax.reporting import load_run
from memjax.tasks.builders import activitynet, narrativeqa, tvqa
from memjax.tasks.builders.babi_records import open_folder, prepare

STORY = "1 Mary moved to the bathroom.\n2 Where is Mary?\tbathroom\t1\n" * 12
OUTSIDE = ["../evil.txt", "/tmp/memjax-evil.txt", "a/../../evil.txt"]


class Evil:
    """An object whose pickle makes a file when it is loaded."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return (exec, (f"open({self.mark!r}, 'w').close()",))


@pytest.fixture
def mark(tmp_path):
    """The file that code would make; after the test there is none, nor anything outside of `tmp_path / "in"`."""
    (tmp_path / "in").mkdir()
    mark = tmp_path / "code-ran"
    pickle.loads(pickle.dumps(Evil(mark)))
    assert mark.exists()  # the pickle does what is feared
    mark.unlink()
    yield mark
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert not Path("/tmp/memjax-evil.txt").exists()


@pytest.fixture
def inside(mark):
    return mark.parent / "in"


def refused(function, *arguments):
    with pytest.raises(MemjaxError) as caught:
        function(*arguments)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def evil_files(mark):
    """What may lie where an .npz is expected."""
    evil = Evil(mark)
    array = io.BytesIO()
    np.save(array, np.array([evil], object), allow_pickle=True)
    member = io.BytesIO()
    with zipfile.ZipFile(member, "w") as archive:
        archive.writestr("about", pickle.dumps(evil))
        archive.writestr("../evil.npy", pickle.dumps(evil))
    pickled = np.array([evil], object)
    return [
        pickle.dumps(evil), array.getvalue(), npz(state=pickled), npz(about=pickled, epoch=pickled), member.getvalue(),
    ]  # fmt: skip


def test_states_and_progress_of_restarts_are_never_unpickled(mark, inside):
    from memn2n_restarts import Trainer

    model, params, *_ = made()
    restarts = object.__new__(Trainer)
    restarts.start = lambda: type("Started", (), {"params": {"w": np.zeros(2, np.float32)}})
    for content in evil_files(mark):
        (inside / "bad.npz").write_bytes(content)
        assert "holds" in refused(streaming.load, inside / "bad.npz", model, params)
        assert "is damaged" in refused(restarts.restore, inside / "bad.npz")


CODE = "__import__('pathlib').Path({mark!r}).touch()"
JSON = [
    CODE,
    '{{"x": ' + CODE + "}}",
    "!!python/object/apply:os.system ['touch {mark}']",
    "[" * 100_000,
    '{{"x":' * 100_000,
    '{{"step": ' + "9" * 5000 + "}}",
]


@pytest.mark.parametrize("name", ["config.json", "evaluation.json", "metrics.jsonl"])
@pytest.mark.parametrize("text", [*JSON, None], ids=["code", "code inside", "YAML", "deep", "deeper", "huge", "pickle"])
def test_the_files_of_a_run_are_data(name, text, mark, inside):
    (inside / "config.json").write_text(json.dumps(mapping()))
    content = pickle.dumps(Evil(mark)) if text is None else text.format(mark=str(mark)).encode()
    (inside / name).write_bytes(content + b"\n")
    assert name in refused(load_run, inside)
    if name == "config.json":
        assert name in refused(read_config, inside)


def test_code_in_a_value_of_a_run_is_text(mark, inside):
    code = CODE.format(mark=str(mark))
    (inside / "config.json").write_text(json.dumps({"system": code, "task": {"name": code}}))
    (inside / "evaluation.json").write_text(json.dumps({"label": code, "metrics": {"accuracy": code}}))
    assert load_run(inside).label == code
    assert "config.task.name" in refused(read_config, inside)


@pytest.mark.parametrize("which", ["all", "state", "record"])
def test_a_checkpoint_of_pickles_is_refused(which, mark, inside):
    trained(inside / "run", steps=3)
    step = inside / "run" / "train" / "3"
    files = [path for path in (step if which == "all" else step / which).rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(pickle.dumps(Evil(mark)))
    assert "is damaged or of another model" in refused(trained, inside / "run")


def tar(path, members, mode="w:gz"):
    """An archive of (name, content); a content that is a pair is the kind of a member without one, and its target."""
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                info.type, info.linkname = content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


LINKS = [(tarfile.SYMTYPE, "/etc/passwd"), (tarfile.LNKTYPE, "../../etc/passwd"), (tarfile.CHRTYPE, ""),
         (tarfile.FIFOTYPE, "")]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_members_that_point_outside_are_never_written_there(name, mark, inside):
    text = ("a line of a text\n" * 60).encode()
    spec = tasks.LanguageSpec("texts.tar.gz", "word", 4, 8, str(inside))
    tar(inside / spec.file, [(name, text), ("b.txt", pickle.dumps(Evil(mark), 0))])
    assert tasks.create(spec).size("train") > 0  # read in memory, as the text that it is
    tar(inside / "mazes.tar.gz", [(name, text), (f"tasks/Own/{name}", text)])
    assert "archive" in refused(environments.read_mazes, inside / "mazes.tar.gz", "Own")
    story = name.replace("evil", "qa1_train")
    tar(inside / "babi.tgz", [("en/qa1_test.txt", STORY.encode()), (story, STORY.encode())])
    assert "points outside" in refused(prepare, inside / "babi.tgz", inside / "data")
    with zipfile.ZipFile(inside / "babi.zip", "w") as archive:
        archive.writestr(story, STORY)
    assert "points outside" in refused(prepare, inside / "babi.zip", inside / "data")
    assert not (inside / "data").exists()


@pytest.mark.parametrize("link", LINKS, ids=["symlink", "hard link", "device", "pipe"])
def test_links_and_devices_are_never_followed(link, mark, inside):
    spec = tasks.LanguageSpec("texts.tar.gz", "word", 4, 8, str(inside))
    tar(inside / spec.file, [("a.txt", link)])
    assert "holds no .txt file" in refused(tasks.create, spec)
    tar(inside / "babi.tgz", [("en/qa1_train.txt", link)])
    assert "is a link or a device" in refused(prepare, inside / "babi.tgz", inside / "data")
    names = ("goalInfo.xml", "blockTypeInfo.xml", "task.xml", "maps/0/topology.csv")
    tar(inside / "mazes.tar.gz", [(f"tasks/Own/{name}", link) for name in names])
    assert "archive" in refused(environments.read_mazes, inside / "mazes.tar.gz", "Own")


@pytest.mark.parametrize("file", ["a.txt", "a.txt.gz", "a.tar.gz", "a.zip", "a.csv"])
def test_a_pickle_for_a_text_is_refused(file, mark, inside):
    evil = pickle.dumps(Evil(mark))
    for content in (evil, gzip.compress(evil)):
        (inside / file).write_bytes(content)
        refused(tasks.create, tasks.LanguageSpec(file, "word", 4, 8, str(inside)))
        refused(tasks.create, tasks.ClicksSpec(file, 8, 4, 1, 4, 0, str(inside)))
        refused(environments.read_mazes, inside / file, "Own")
        refused(prepare, inside / file, inside / "data")


@pytest.mark.parametrize("which", ["all", "*.array_record*", "dataset_info.json", "features.json"])
def test_prepared_babi_of_pickles_is_refused(which, mark, inside):
    story = {f"en/qa1_{split}.txt": STORY.encode() for split in ("train", "test")}
    prepare(tar(inside / "babi.tgz", story.items()), inside)
    for path in (inside / "babi").rglob("*" if which == "all" else which):
        if path.is_file():
            path.write_bytes(pickle.dumps(Evil(mark)))
    refused(lambda: open_folder(inside, "en").stories("train", 1))


@pytest.mark.parametrize("form", ["archive", "folder"])
def test_features_of_videos_are_never_unpickled(form, mark, inside):
    (inside / "dataset").mkdir()
    for name in activitynet.FILES.values():
        asked = [{"video_name": "a", "question": f"what {i}", "question_id": i} for i in range(2)]
        answered = [{"answer": f"a cat {i}", "type": 5, "question_id": i} for i in range(2)]
        for kind, rows in zip("qa", (asked, answered), strict=True):
            (inside / "dataset" / f"{name}_{kind}.json").write_text(json.dumps(rows))
    pickled = np.array([[Evil(mark)]], object)
    (inside / "features").mkdir()
    features = inside / ("f.npz" if form == "archive" else "features")
    np.savez(inside / "f.npz", a=np.ones((2, 3)))
    np.save(inside / "features" / "a.npy", np.ones((2, 3)))
    assert activitynet.prepare(inside / "dataset", features, inside / "data").videos == 1  # but for the pickles it is
    for content in [*evil_files(mark), npz(a=pickled), npz(v_a=pickled)]:
        (inside / "f.npz").write_bytes(content)
        (inside / "features" / "a.npy").write_bytes(content)
        refused(activitynet.prepare, inside / "dataset", features, inside / "data")


def test_pickles_for_the_files_of_stories_and_dialogues_are_refused(mark, inside):
    evil = pickle.dumps(Evil(mark))
    for name in (narrativeqa.DOCUMENTS, *narrativeqa.COLUMNS, *tvqa.TVQA_QUESTIONS, tvqa.TVQA_SUBTITLES):
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_bytes(evil)
    for module in (narrativeqa, tvqa):
        refused(module.prepare, inside, inside / "data")
    (inside / tvqa.TVQA_SUBTITLES).unlink()
    for name in OUTSIDE:
        tar(inside / "tvqa_subtitles.tar.gz", [(name.replace(".txt", ".srt"), evil)])
        assert "is no file of subtitles" in refused(tvqa.prepare, inside, inside / "data")
