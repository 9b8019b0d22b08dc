"""What is written is whole or not there, and never lands behind a link; what is read says so when it is damaged.

Slips that were tried: the file renamed before it is on the disk; a temporary file left, or its name known; a link
followed; the sum not compared; steps of any size; the next event file over the one before.
"""

import contextlib
import errno
import json
import math
import os
import resource
import signal
import stat
import time

import pytest

from memjax import files, program
from memjax.errors import MemjaxError
from memjax.files import json_text, open_own, own_folder, read_entries, read_object, replace_folder, replacing, writing
from memjax.reporting import load_run
from memjax.tasks.builders.new_folder import new_folder
from memjax.training.runs import MetricsLog, locked, write_json
from memjax.training.tensorboard import Events


def refused(function, *arguments):
    with pytest.raises(MemjaxError) as caught:
        function(*arguments)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def write(path, content):
    with replacing(path) as file:
        file.write(content)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# The writer.


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path):
    for content in (b"old", b"new" * 10_000):
        write(tmp_path / "a", content)
        assert (tmp_path / "a").read_bytes() == content and names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, MemjaxError("x")], ids=str)
def test_what_breaks_off_leaves_the_old_file(error, tmp_path):
    write(tmp_path / "a", b"old")
    with pytest.raises(type(error) if isinstance(error, Exception) else error), replacing(tmp_path / "a") as file:
        file.write(b"half")
        raise error
    assert (tmp_path / "a").read_bytes() == b"old" and names(tmp_path) == ["a"]


def test_it_is_on_the_disk_before_it_is_renamed_and_its_folder_after(tmp_path, monkeypatch):
    order, sync, replace = [], os.fsync, os.replace

    def synced(descriptor):
        order.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.fstat(descriptor).st_size)
        sync(descriptor)

    def renamed(*arguments, **options):
        order.append("renamed")
        replace(*arguments, **options)

    monkeypatch.setattr(files.os, "fsync", synced)
    monkeypatch.setattr(files.os, "replace", renamed)
    write(tmp_path / "a", b"12345")
    assert order == [5, "renamed", "folder"]


@contextlib.contextmanager
def room(size):
    """No file grows beyond so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_without_room_it_is_one_line_and_the_old_file_stays(tmp_path):
    write(tmp_path / "a", b"old")
    with room(1000):
        assert "cannot write to" in refused(write, tmp_path / "a", b"new" * 1000)
    assert (tmp_path / "a").read_bytes() == b"old" and names(tmp_path) == ["a"]


@pytest.mark.parametrize("path", ["no/a", "", "a\0b", "a\udcff" * 200], ids=["no folder", "empty", "NUL", "long"])
def test_a_name_that_cannot_be_is_one_line(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(write, files.Path(path), b"x")
    assert names(tmp_path) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT], ids=["full", "quota"])
@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_what_tensorstore_says_of_a_full_disk_is_one_line(kind, code, tmp_path):
    lock = f'"{tmp_path}/0.__lock": Failed to write 351821 bytes to file 4'
    said = f"Error writing local file: Failed writing: {lock}: {os.strerror(code)} [os_error_code='{code}']\nmore"
    with pytest.raises(MemjaxError) as caught, writing(tmp_path):
        raise kind(said)
    advice = "give another folder, or make room"
    assert str(caught.value) == f"cannot write to {tmp_path}: {os.strerror(code)}; {advice}"
    with pytest.raises(RuntimeError, match="a bug"), writing(tmp_path):
        raise RuntimeError("a bug")


def test_a_folder_takes_the_place_of_another_or_nothing_changes(tmp_path, monkeypatch):
    synced, sync = [], os.fsync
    monkeypatch.setattr(files.os, "fsync", lambda d: (synced.append(os.fstat(d).st_ino), sync(d)))
    for name in ("a", "b"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").write_text(name)
    replace_folder(tmp_path / "a", tmp_path / "there", tmp_path / "old")
    assert not (tmp_path / "old").exists() and (tmp_path / "there" / "deep" / "file").read_text() == "a"
    paths = [tmp_path, tmp_path / "there", *(tmp_path / "there").rglob("*")]
    assert {path.stat().st_ino for path in paths} <= set(synced)
    rename = files.Path.rename

    def refuse(path, target):
        if path.name == "b":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(files.Path, "rename", refuse)
        with pytest.raises(OSError):
            replace_folder(tmp_path / "b", tmp_path / "there", tmp_path / "old")
    assert (tmp_path / "there" / "deep" / "file").read_text() == "a" and not (tmp_path / "old").exists()
    replace_folder(tmp_path / "b", tmp_path / "there", tmp_path / "old")
    assert (tmp_path / "there" / "deep" / "file").read_text() == "b"
    assert (tmp_path / "old" / "deep" / "file").read_text() == "a"


@pytest.mark.parametrize("at", ["there", "b"])
def test_a_folder_that_is_replaced_is_not_lost_at_a_ctrl_c(tmp_path, monkeypatch, at):
    for name in ("there", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    rename = files.Path.rename

    def interrupted(path, target):
        rename(path, target)
        if path.name == at:
            raise KeyboardInterrupt
        return target

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files.Path, "rename", interrupted)
        replace_folder(tmp_path / "b", tmp_path / "there", tmp_path / "old")
    assert (tmp_path / "there" / "file").read_text() == at


def test_what_is_prepared_leaves_nothing_half_written_when_it_is_asked_to_stop(tmp_path):
    before = signal.signal(signal.SIGTERM, program.terminate)
    try:
        with pytest.raises(program.Terminated), new_folder(tmp_path / "data") as new:
            (new / "file").write_text("half")
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert names(tmp_path) == []


# Links, devices, and what somebody else has put there.

PLANTED = {
    "link": lambda path, target: path.symlink_to(target),
    "dangling link": lambda path, target: path.symlink_to(target.with_name("nothing")),
    "device": lambda path, target: path.symlink_to("/dev/null"),
    "pipe": lambda path, target: os.mkfifo(path),
    "folder": lambda path, target: path.mkdir(),
}


@pytest.fixture(params=PLANTED)
def planted(request, tmp_path):
    """`(path, target)`: the path is no regular file, and may lead to the target, which stays as it is."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
    target = outside / "mine"
    target.write_bytes(b"mine")
    path = inside / "planted"
    PLANTED[request.param](path, target)
    before = path.lstat()
    yield path
    assert target.read_bytes() == b"mine" and names(outside) == ["mine"] and names(inside) == ["planted"]
    assert (path.lstat().st_mode, path.lstat().st_ino) == (before.st_mode, before.st_ino)


def test_what_is_no_regular_file_is_neither_replaced_nor_opened(planted):
    for act in (write, lambda path, _: open_own(path, os.O_RDWR), lambda path, _: write_json(path, {"x": 1})):
        message = refused(act, planted, b"x")
        assert str(planted) in message and "not a file of ours" in message


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "tensorboard", "tensorboard/train"])
def test_nothing_of_a_run_is_written_through_a_link(name, tmp_path):
    run, outside = tmp_path / "run", tmp_path / "out"
    (run / name).parent.mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text("")
    (run / name).symlink_to(outside if "tensorboard" in name else outside / "file")

    def train():
        with locked(run), contextlib.closing(MetricsLog(run, "train")) as log:
            log.write(1, {"loss": 1.0})

    message = refused(train)
    assert str(run / name) in message and "link" in message
    assert names(outside) == ["file"] and not (outside / "file").read_text()


def test_a_temporary_file_is_new_and_has_a_name_that_nobody_knows(tmp_path, monkeypatch):
    seen = []
    for _ in range(2):
        with replacing(tmp_path / "a"):
            seen += [name for name in names(tmp_path) if name != "a"]
    assert len(set(seen)) == 2
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "known")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".a.known.tmp").symlink_to(tmp_path / "mine")
    refused(write, tmp_path / "a", b"x")
    assert (tmp_path / "mine").read_text() == "mine" and (tmp_path / ".a.known.tmp").is_symlink()


def test_a_folder_that_is_a_link_is_refused_by_its_name(tmp_path):
    (tmp_path / "out").mkdir()
    assert own_folder(tmp_path, "a", "b").is_dir() and own_folder(tmp_path, "a", "b").is_dir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    assert str(tmp_path / "link") in refused(own_folder, tmp_path, "link", "b")
    assert own_folder(tmp_path / "link", "b").is_dir()  # the first is the user's own choice
    assert names(tmp_path / "out") == ["b"]


# TensorBoard's files.


def events(folder):
    """What TensorBoard reads from a folder: (step, {name: value}) of each event but the first."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    found = []
    for path in sorted(folder.iterdir()):
        content, own = path.read_bytes(), []
        while content:
            length = int.from_bytes(content[:8], "little")
            data, end = content[12 : 12 + length], content[12 + length : 16 + length]
            assert int.from_bytes(content[8:12], "little") == masked_crc32c(content[:8])
            assert int.from_bytes(end, "little") == masked_crc32c(data)
            own.append(Event.FromString(data))
            content = content[16 + length :]
        assert own[0].file_version == "brain.Event:2" and ".tfevents." in path.name
        found += [(e.step, {value.tag: value.simple_value for value in e.summary.value}) for e in own[1:]]
    return found


def test_tensorboard_reads_what_was_logged(tmp_path):
    with contextlib.closing(MetricsLog(tmp_path, "train")) as log:
        for step in (1, 2):
            log.write(step, {"loss": step / 2, "many": {"x": 1.0}})
        log.write(2, {"split": "valid", "loss": 0.25})
    expected = [(1, {"loss": 0.5}), (2, {"loss": 1.0}), (2, {"valid/loss": 0.25})]
    assert events(tmp_path / "tensorboard" / "train") == expected
    MetricsLog(tmp_path, "train").close()  # in the same second: in a file of its own
    assert (
        events(tmp_path / "tensorboard" / "train") == expected and len(names(tmp_path / "tensorboard" / "train")) == 2
    )


def test_on_the_first_error_tensorboard_is_given_up_in_a_line(tmp_path, capsys):
    with room(100), contextlib.closing(Events(tmp_path, "train")) as log:
        for step in range(10):
            log.write(step, {"loss": 1.0})
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "goes on without TensorBoard" in said and str(tmp_path) in said
    (tmp_path / "no").write_text("")
    Events(tmp_path / "no", "train").write(1, {"loss": 1.0})
    assert capsys.readouterr().err.count("\n") == 1


# Reading.


def test_an_object_comes_back_and_damage_of_any_byte_is_noticed(tmp_path):
    value = {"b": [1, 2.5, None], "a": {"x": "é\udcff", "y": True}, "step": 12}
    path = tmp_path / "config.json"
    write_json(path, value)
    assert read_object(path) == value
    assert list(json.loads(path.read_text()))[-1] == "sha256"
    good = path.read_bytes()
    for place in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            path.write_bytes(bad)
            try:
                found = read_object(path)
            except MemjaxError as error:
                assert str(path) in str(error) and len(str(error).splitlines()) == 1
            else:
                # Another space between the parts, or the key of the sum itself: then it is no key of a run.
                assert {key: found.get(key) for key in value} == value


def test_an_object_without_a_sum_is_read_and_one_changed_by_hand_says_what_to_do(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"x": 1}')
    assert read_object(path) == {"x": 1}
    path.write_text(json_text({"x": 1}, summed=True).replace("1,", "2,", 1))
    assert "remove the key sha256" in refused(read_object, path)


@pytest.mark.parametrize("step", ["1e300", "-1", "1.5", "NaN", "Infinity", "1e999", "9" * 400, "2147483648", "true"])
def test_a_step_that_cannot_be_is_one_line_wherever_it_is_read(step, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "metrics.jsonl").write_text(f'{{"phase": "train", "step": {step}, "loss": 1.0}}\n')
    for read in (lambda: read_entries(tmp_path / "metrics.jsonl"), lambda: load_run(tmp_path)):
        assert "line 1 has no phase or no step" in refused(read)


@pytest.mark.parametrize("number", ["1e300", "-1e300", "NaN", "1e999", "9" * 400])
def test_numbers_of_any_size_are_read_as_numbers(number, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    line = f'{{"phase": "train", "step": 1, "loss": {number}, "seconds": {number}}}\n'
    (tmp_path / "metrics.jsonl").write_text(line)
    (loss,) = load_run(tmp_path).curves["train"]["loss"].values
    assert math.isnan(loss)
    with contextlib.closing(MetricsLog(tmp_path, "train")) as log:
        seconds = log.truncate(1)
        assert math.isfinite(seconds)
        log.write(2, {"seconds": seconds + 1})
