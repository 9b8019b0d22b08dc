"""What a disk, a clock or another program does to a run: it goes on from what is whole, and says so.

Slips that were tried: no digest compared; damaged checkpoints not deleted, so that their step could not be saved again;
the step, or the metrics, left out of the digest; only some errors taken for damage, or all of them; links followed.
"""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from oracles.checking import assert_same
from training.test_loop import lines, mesh, run, stepper

from memjax.errors import MemjaxError
from memjax.training import checkpoint
from memjax.training.step import init_state


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of 6 steps with checkpoints at 3 and 6: (folder, state)."""
    folder = tmp_path_factory.mktemp("damage") / "run"
    return folder, jax.device_get(run(folder))


def arrays(checkpoint):
    """The files that hold the numbers of a checkpoint, largest first."""
    files = [path for path in (checkpoint / "state").rglob("d/*") if path.is_file()]
    return sorted(files, key=lambda path: -path.stat().st_size)


def truncate(checkpoint):
    for path in arrays(checkpoint):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove(checkpoint):
    shutil.rmtree(checkpoint / "state")


def empty(checkpoint):
    for path in checkpoint.rglob("*"):
        if path.is_file():
            path.write_bytes(b"")


def alter_the_sum(checkpoint):
    path = checkpoint / "record" / "metadata"
    path.write_text(path.read_text().replace('"digest": "', '"digest": "0'))


def alter_arrays(checkpoint):
    """Another run's numbers, in files that are whole."""
    shutil.rmtree(checkpoint / "state")
    shutil.copytree(checkpoint.parent / "3" / "state", checkpoint / "state")


@pytest.mark.parametrize("damage", [truncate, remove, empty, alter_the_sum, alter_arrays])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(whole, tmp_path, damage, capsys):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    damage(folder / "train" / "6")
    state = run(folder)
    said = capsys.readouterr().err
    assert "checkpoint 6 in" in said and "is damaged" in said and "step 3 takes its place" in said
    assert said.count("\n") == 1
    assert_same(jax.device_get(state), whole[1])
    assert lines(folder) == lines(whole[0])
    # It was saved again: nothing is said any more.
    run(folder)
    assert not capsys.readouterr().err


def test_flipped_bits_in_numbers_are_seen(whole, tmp_path, capsys):
    """Each byte of the largest file once, in steps: the run ends as it should, whatever was flipped."""
    for place in np.linspace(0, 1, 6)[:-1]:
        folder = tmp_path / f"run{place}"
        shutil.copytree(whole[0], folder)
        (largest, *_) = arrays(folder / "train" / "6")
        content = bytearray(largest.read_bytes())
        content[int(place * len(content))] ^= 0x10
        largest.write_bytes(content)
        assert_same(jax.device_get(run(folder)), whole[1])


def test_a_clock_that_goes_back_changes_nothing(whole, tmp_path, monkeypatch):
    folder, now = tmp_path / "run", time.time()
    run(folder, steps=3)
    monkeypatch.setattr(time, "time", lambda: now - 1e6)
    assert_same(jax.device_get(run(folder)), whole[1])
    again = [line for line in lines(folder) if (line["step"], line.get("split")) != (3, "valid")]
    assert again == lines(whole[0])


FULL = """
import resource, signal, sys
from pathlib import Path
from memjax.errors import MemjaxError
from memjax.training import loop, runs
from training.test_loop import run
run(Path(sys.argv[1]), steps=3)
if sys.argv[2] == "checkpoint":
    loop.MetricsLog = lambda *_: runs.NoLog()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # from here on no file has room
try:
    run(Path(sys.argv[1]), steps=6)
except MemjaxError as error:
    print("one line:", error)
"""


@pytest.mark.parametrize("what", ["log", "checkpoint"])
def test_a_full_disk_is_one_line_and_the_run_goes_on_when_there_is_room(whole, tmp_path, what):
    folder = tmp_path / "run"
    program = [sys.executable, "-c", FULL, str(folder), what]
    done = subprocess.run(program, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=120)
    assert "one line: cannot write to" in done.stdout, done.stderr
    assert "Exception in thread" not in done.stderr
    for got, want in zip(*map(jax.tree.leaves, (jax.device_get(run(folder)), whole[1])), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)  # three steps were taken on one device


def test_a_disk_without_room_for_tensorboard_stops_no_run(whole, tmp_path, monkeypatch, capsys):
    """Its writer's thread died of it, and the run waited for ever for room in a queue."""
    write = os.write

    def full(descriptor, data):
        if "tensorboard" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    assert_same(jax.device_get(run(tmp_path / "run")), whole[1])
    assert lines(tmp_path / "run") == lines(whole[0])
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "No space left on device" in said and "without TensorBoard" in said


def test_when_nothing_is_whole_it_is_one_line_and_nothing_is_deleted(whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    for step in ("3", "6"):
        truncate(folder / "train" / step)
    with pytest.raises(MemjaxError, match="damaged or of another model") as caught:
        run(folder)
    assert "\n" not in str(caught.value)
    assert (folder / "train" / "3").exists() and (folder / "train" / "6").exists()


# Every file of a checkpoint, damaged in every way.


def damages(content):
    """(name, what a file holds then, None if it is gone)."""
    size = len(content)
    yield "gone", None
    yield "empty", b""
    yield "half", content[: size // 2]
    yield "without its end", content[:-1]
    yield "longer", content + b"x"
    yield "zeros", bytes(size)
    yield "noise", np.random.default_rng(0).bytes(size)
    for part in range(4):
        flipped = bytearray(content)
        flipped[part * (size - 1) // 3] ^= 0x14
        yield f"flipped bits, {part} of 3", bytes(flipped)


def newest(folder):
    """(step, state) of the newest whole checkpoint in a folder of them, or the one line that there is none."""
    like = init_state({"w": np.linspace(-1, 1, 20, dtype=np.float32)}, stepper()[0])
    try:
        with checkpoint.open_checkpoints(folder) as manager:
            state, _ = checkpoint.restore(manager, like, mesh())
    except MemjaxError as error:
        assert len(str(error).splitlines()) == 1 and str(folder) in str(error)
        return None, None
    return int(state.step), jax.device_get(state)


KINDS = [name for name, _ in damages(bytes(9))]


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_whatever_happens_to_a_file_the_older_checkpoint_takes_its_place_or_it_is_one_line(
    whole, tmp_path, kind, capfd
):
    folder = whole[0] / "train"
    files = [path.relative_to(folder / "6") for path in (folder / "6").rglob("*") if path.is_file()]
    assert len(files) >= 10
    needed = {"record/metadata", "state/_METADATA", "state/manifest.ocdbt"}
    if KINDS[kind] != "longer":  # what stands behind an array is not read
        needed |= {str(file) for file in files if file.parts[:2] == ("state", "d")}
    passed_over = set()
    for number, file in enumerate(files):
        _, content = list(damages((folder / "6" / file).read_bytes()))[kind]
        for steps in (["6"], ["3", "6"]):
            copy = tmp_path / f"{number}-{len(steps)}"
            shutil.copytree(folder, copy)
            for step in steps:
                for path in [copy / step / file] if (copy / step / file).exists() else arrays(copy / step):
                    path.unlink() if content is None else path.write_bytes(content)
            capfd.readouterr()
            step, state = newest(copy)
            said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("memjax: ")]
            assert step in ((6, 3) if len(steps) == 1 else (6, 3, None))
            assert len(said) == (step == 3) and (step == 6) <= (not said)
            if step == 6:
                assert_same(state, whole[1])  # the file is not needed
            passed_over |= {str(file)} if step != 6 else set()
            shutil.rmtree(copy)
    assert passed_over >= needed


def test_swapped_and_copied_steps_are_noticed(whole, tmp_path, capsys):
    swapped, copied = tmp_path / "swapped", tmp_path / "copied"
    for folder in (swapped, copied):
        shutil.copytree(whole[0] / "train", folder)
    for old, new in (("3", "x"), ("6", "3"), ("x", "6")):
        (swapped / old).rename(swapped / new)
    assert newest(swapped) == (None, None)
    shutil.rmtree(copied / "6")
    shutil.copytree(copied / "3", copied / "6")
    assert newest(copied)[0] == 3 and "checkpoint 6" in capsys.readouterr().err


def record(folder, step):
    path = folder / str(step) / "record" / "metadata"
    return path, json.loads(path.read_text())


def test_a_checkpoint_of_an_earlier_version_is_read_and_its_step_compared_too(whole, tmp_path, capsys):
    """Its digest was over the state alone, and had no version."""
    folder = tmp_path / "train"
    shutil.copytree(whole[0] / "train", folder)
    for step in (3, 6):
        path, found = record(folder, step)
        assert found["digest"].startswith("2:")
        state = run_until(step, tmp_path)
        path.write_text(json.dumps(found | {"digest": checkpoint.digest(state._asdict())}))
    step, state = newest(folder)
    assert step == 6 and not capsys.readouterr().err
    assert_same(state, whole[1])
    shutil.rmtree(folder / "6")
    shutil.copytree(folder / "3", folder / "6")
    assert newest(folder)[0] == 3 and "it is that of step 3" in capsys.readouterr().err


def run_until(step, tmp_path):
    return run(tmp_path / f"until-{step}", steps=step)


def test_metrics_of_a_checkpoint_that_are_others_are_noticed(tmp_path, capsys):
    folder = tmp_path / "run"
    run(folder, log_every=5)
    path, found = record(folder / "train", 3)
    assert len(found["unlogged"]) == 3
    shutil.rmtree(folder / "train" / "6")
    for name, unlogged in {"another": [{**entry, "accuracy": 0.5} for entry in found["unlogged"]], "none": 7}.items():
        path.write_text(json.dumps(found | {"unlogged": unlogged}))
        assert newest(folder / "train") == (None, None), name
    del found["unlogged"]
    path.write_text(json.dumps(found))
    assert newest(folder / "train") == (None, None)


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(13, "Permission denied"),
        OSError(24, "Too many open files"),
        ValueError("Error reading local file: Permission denied [os_error_code='13']"),
        RuntimeError("RESOURCE_EXHAUSTED: out of memory"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_cannot_be_read_now_is_no_damage_and_nothing_is_deleted(whole, tmp_path, error, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)

    def refuse(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("orbax.checkpoint.CheckpointManager.restore", refuse)
        passing = isinstance(error, OSError | ValueError)
        with pytest.raises(
            MemjaxError if passing else type(error), match="cannot read checkpoint 6" if passing else None
        ):
            run(folder)
    assert newest(folder / "train")[0] == 6


def test_a_place_of_checkpoints_that_is_a_link_is_refused_by_name(tmp_path):
    for folder in ("out", "place"):
        (tmp_path / folder).mkdir()
    (tmp_path / "place" / "run").symlink_to(tmp_path / "out")
    with pytest.raises(MemjaxError, match="place/run is a link"):
        run(tmp_path / "run", checkpoints=str(tmp_path / "place"))
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("name", ["train", "train/6"])
def test_checkpoints_behind_a_link_are_refused_by_name(whole, tmp_path, name):
    folder, outside = tmp_path / "run", tmp_path / "out"
    shutil.copytree(whole[0], folder)
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)
    before = sorted(path.stat().st_mtime_ns for path in outside.rglob("*"))
    with pytest.raises(MemjaxError, match=f"{name}.* link") as caught:
        run(folder)
    assert "\n" not in str(caught.value)
    assert sorted(path.stat().st_mtime_ns for path in outside.rglob("*")) == before
