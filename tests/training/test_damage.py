"""What a disk, a clock or another program does to a run: it goes on from what is whole, and says so.

Slips that were tried: no digest compared; damaged checkpoints not deleted, so that their step could not be saved again.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from oracles.checking import assert_same
from training.test_loop import lines, run

from memjax.errors import MemjaxError


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
    for got, want in zip(*map(jax.tree.leaves, (jax.device_get(run(folder)), whole[1])), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)  # three steps were taken on one device


def test_when_nothing_is_whole_it_is_one_line_and_nothing_is_deleted(whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    for step in ("3", "6"):
        truncate(folder / "train" / step)
    with pytest.raises(MemjaxError, match="damaged or of another model") as caught:
        run(folder)
    assert "\n" not in str(caught.value)
    assert (folder / "train" / "3").exists() and (folder / "train" / "6").exists()
