"""What disks and strangers' files do: one line, no traceback, and nothing is lost.

Others of the kind: `test_files.py` (the writer, links, sums), `test_program.py` (terminals, Ctrl-C), `test_archives.py`
(bombs), `training/test_damage.py` (checkpoints, full disks), `training/test_signals.py` (Ctrl-C saves). Slips that were
tried: sizes compared after the bytes are read; stored bytes that the file has not; NaN said by nobody.
"""

import contextlib
import io
import json
import os
import resource
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_streaming import made
from training.tiny import CONFIGS, flags, tiny

from memjax import cli, streaming
from memjax.commands.shared import make_console
from memjax.errors import MemjaxError
from memjax.experiments.reading import read_config
from memjax.files import read_entries
from memjax.reporting import load_run, print_table, write_report
from memjax.state_files import name_of
from memjax.tasks.builders.new_folder import new_folder

DIRECTLY = f"--config={CONFIGS / 'evidence.py'}:demo,system=directly"  # compiles in the least time


def refused(function, *arguments):
    with pytest.raises(MemjaxError) as caught:
        function(*arguments)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def one_line(text):
    """Whether it is one line of ours."""
    return text.startswith("memjax: ") and text.count("\n") == 1 and text.endswith("\n")


# States of streams.


@pytest.fixture(scope="module")
def states():
    """`(model, params, states of three streams, the bytes of their file)`."""
    model, params, *_ = made()
    states = streaming.start(model, params, 3)
    buffer = io.BytesIO()
    np.savez(buffer, **{name_of(place): leaf for place, leaf in jax.tree.leaves_with_path(states)})
    return model, params, states, buffer.getvalue()


def header(shape, dtype="<f4"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def archive(path, good, change, compression=zipfile.ZIP_STORED):
    """The members of a good file, each as `change(name, bytes)` has it."""
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(path, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return path


def shape_of(content):
    member = io.BytesIO(content)
    np.lib.format.read_magic(member)
    return np.lib.format.read_array_header_1_0(member)[0]


def test_sizes_are_compared_before_bytes_are_read(states, tmp_path, monkeypatch):
    model, params, _, good = states
    path = tmp_path / "users.npz"
    read = np.lib.format.read_array
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("bytes are read"))
    many = 2**40

    def terabytes(name, content):
        return header((many, *shape_of(content)[1:]))

    bombs = {
        "said to be terabytes": (terabytes, zipfile.ZIP_STORED),
        "packed": (lambda name, content: content, zipfile.ZIP_DEFLATED),
        "zeros": (lambda name, content: header((10**6, *shape_of(content)[1:])) + bytes(10**6), zipfile.ZIP_DEFLATED),
        "longer than its header says": (lambda name, content: content + bytes(8), zipfile.ZIP_STORED),
        "another type": (lambda name, content: content.replace(b"<f4", b"<f8"), zipfile.ZIP_STORED),
        "a header of its own length": (lambda name, content: content[:8] + b"\xff\xff" + b" " * 2**16, 0),
    }
    for name, (change, compression) in bombs.items():
        archive(path, good, change, compression)
        assert "holds" in refused(streaming.load, path, model, params), name
    monkeypatch.setattr(np.lib.format, "read_array", read)
    archive(path, good, lambda name, content: content)
    streaming.load(path, model, params)


def test_an_archive_that_says_it_is_larger_than_its_file_is_refused(states, tmp_path):
    """Stored, with a header and a directory that both say 4 TB, in a file of some bytes."""
    model, params, _, good = states
    path = archive(tmp_path / "users.npz", good, lambda name, content: header((2**30, *shape_of(content)[1:])))
    with zipfile.ZipFile(path) as file:
        members = file.infolist()
    size = members[0].file_size + 2**30 * 4 * int(np.prod(shape_of(zipfile.ZipFile(path).read(members[0]))[1:]))
    read = zipfile.ZipFile.infolist

    def lie(self):
        for info in read(self):
            info.file_size = info.compress_size = size
            # By where the next entry begins a newer zipfile refuses it, too: what is tested here is our own check.
            if hasattr(info, "_end_offset"):
                info._end_offset = None
        return read(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "infolist", lie)
        assert f"{path.stat().st_size:,}" in refused(streaming.load, path, model, params)


def test_a_state_that_is_no_number_is_named(states, tmp_path, capsys):
    model, params, some, _ = states
    some = jax.tree.map(lambda leaf: leaf.at[jnp.array([0, 2])].set(jnp.nan), some)
    streaming.save(tmp_path / "users.npz", some)
    loaded = streaming.load(tmp_path / "users.npz", model, params)
    assert all(np.isnan(leaf[0]).all() and np.isfinite(leaf[1]).all() for leaf in jax.tree.leaves(loaded))
    said = capsys.readouterr().err
    assert one_line(said) and "2 of 3 streams are NaN (0, 2)" in said and "users.npz" in said


def test_states_replace_regular_files_alone_and_are_read_from_them_alone(states, tmp_path):
    model, params, some, good = states
    (tmp_path / "good.npz").write_bytes(good)
    os.mkfifo(tmp_path / "pipe")
    for name, target in {"link": tmp_path / "good.npz", "device": "/dev/null"}.items():
        (tmp_path / name).symlink_to(target)
        assert "not a file of ours" in refused(streaming.save, tmp_path / name, some)
    assert "not a file of ours" in refused(streaming.save, tmp_path / "pipe", some)
    assert (tmp_path / "good.npz").read_bytes() == good and not Path("/dev/null").is_file()
    for path in (tmp_path / "pipe", "/dev/null", tmp_path):
        assert "no regular file" in refused(streaming.load, path, model, params)


# Figures and names that no run of ours has.


def test_a_report_is_made_of_any_numbers_and_names(tmp_path, capsys):
    name = "red] $x_$ :car: \udcff"
    folder = tmp_path / "[" / name  # as it is printed, with what closes a colour
    folder.mkdir(parents=True)
    label = "\ud800[/]$_$"
    config = {"system": label, "task": {"name": label}, "memory": {"name": label}}
    (folder / "config.json").write_text(json.dumps(config))
    huge = {"accuracy": 1e308, "examples": 1e300, "tags": {"half": {label: {"accuracy": -1e308, "examples": 10**400}}}}
    evaluation = {"label": label, "step": 1e300, "parameters": 10**400, "seconds": 1e308, "metrics": huge}
    (folder / "evaluation.json").write_text(json.dumps(evaluation))
    lines = [{"phase": "train", "step": n, "loss": 1e308 if n % 2 else -1e308, "accuracy": 0.5} for n in range(1, 9)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = load_run(folder)
    print_table([run], make_console())
    assert "red] $x_$ :car: ?" in capsys.readouterr().out
    page = write_report([run])
    assert (
        page.parent == folder and "red] $x_$ :car:" in page.read_text() and len(list((folder / "plots").iterdir())) > 1
    )


@pytest.mark.parametrize("name", ["plots", "report.html", "plots/losses.png"])
def test_a_report_is_not_written_through_a_link(name, tmp_path):
    folder, outside = tmp_path / "run", tmp_path / "out"
    (folder / name).parent.mkdir(parents=True)
    outside.mkdir()
    (outside / "mine").write_text("mine")
    (folder / name).symlink_to(outside if name == "plots" else outside / "mine")
    (folder / "config.json").write_text("{}")
    (folder / "metrics.jsonl").write_text('{"phase": "train", "step": 1, "loss": 1.0}\n')
    message = refused(write_report, [load_run(folder)])
    assert str(folder / name) in message and "link" in message
    assert [path.name for path in outside.iterdir()] == ["mine"] and (outside / "mine").read_text() == "mine"


# Disks without room.


@contextlib.contextmanager
def no_room(size):
    """No file grows beyond so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_ends_a_run_in_one_line_and_it_resumes_after_room_is_made(tmp_path, capsys):
    run = tmp_path / "run"
    words = ["train", DIRECTLY, *flags(training__steps=6), f"--run={run}"]
    with no_room(2500):  # more than the config has
        status = cli.main(words)
    *remarks, last = capsys.readouterr().err.splitlines()
    assert status == 2 and last.startswith(f"memjax: cannot write to {run}"), (remarks, last)
    assert all("without TensorBoard" in line for line in remarks)
    assert read_config(run) == tiny("demo,system=directly", training__steps=6)
    assert cli.main(words) == 0
    logged = [entry["step"] for entry in read_entries(run / "metrics.jsonl") if "split" not in entry]
    assert logged == [*range(1, 7)]


def test_a_full_disk_ends_preparing_in_one_line_and_leaves_what_was_prepared(tmp_path, capsys):
    for number, stories in enumerate((10, 4000)):
        source = tmp_path / f"source{number}" / "mine"
        source.mkdir(parents=True)
        for split in ("train", "test"):
            lines = [f"1 Mary{n} went to {n * 7919}.\n2 Where is Mary{n}?\t{n * 7919}\t1\n" for n in range(stories)]
            (source / f"qa1_{split}.txt").write_text("".join(lines))
    words = ["prepare", "babi", f"--data_dir={tmp_path / 'data'}"]
    assert cli.main([*words, f"--from={tmp_path / 'source0'}"]) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
    capsys.readouterr()
    with no_room(20_000):
        assert cli.main([*words, f"--from={tmp_path / 'source1'}"]) == 2
    said = capsys.readouterr().err
    assert one_line(said) and "cannot write to" in said and "File too large" in said
    assert {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()} == before


def test_a_full_disk_ends_copying_in_one_line_and_leaves_what_was_prepared(tmp_path):
    (tmp_path / "data" / "set").mkdir(parents=True)
    (tmp_path / "data" / "set" / "a").write_text("before")
    written = pytest.raises(MemjaxError, match=r"cannot write to .*data: File too large")
    with no_room(20_000), written as caught, new_folder(tmp_path / "data" / "set") as new:
        (new / "a").write_bytes(bytes(10_000))
        (new / "b").write_bytes(bytes(30_000))
    assert one_line(f"memjax: {caught.value}\n") and [path.name for path in (tmp_path / "data").iterdir()] == ["set"]
    assert (tmp_path / "data" / "set" / "a").read_text() == "before"
    with new_folder(tmp_path / "data" / "set") as new:
        (new / "b").write_text("after")
    assert [path.name for path in (tmp_path / "data").rglob("*")] == ["set", "b"]
