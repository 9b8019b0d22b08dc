"""What disks, terminals and strangers' files do to the program: one line, no traceback, and nothing is lost.

Others of the kind: `test_files.py` (the writer, links, sums), `test_archives.py` (bombs), `training/test_damage.py`
(checkpoints, full disks), `training/test_signals.py` (Ctrl-C). Slips that were tried: sizes compared after the bytes
are read; the standard streams not guarded; a path taken for markup; one Ctrl-C for two.
"""

import ctypes
import io
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_streaming import made
from training.tiny import CONFIGS, flags, tiny

from memjax import cli, program, streaming
from memjax.errors import MemjaxError
from memjax.files import read_entries
from memjax.reporting import load_run, print_table, write_report
from memjax.training import runs
from memjax.training.checkpoint import open_checkpoints

DIRECTLY = f"--config={CONFIGS / 'evidence.py'}:demo,system=directly"  # compiles in the least time
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
ALONE = os.environ | {"PYTHONUNBUFFERED": "1", "JAX_PLATFORMS": "cpu"}


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
    np.savez(buffer, **{streaming._name(place): leaf for place, leaf in jax.tree.leaves_with_path(states)})
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
    print_table([run], cli._console())
    assert "red] $x_$ :car: ?" in capsys.readouterr().out
    page = write_report([run])
    assert (
        page.parent == folder and "red] $x_$ :car:" in page.read_text() and len(list((folder / "plots").iterdir())) > 1
    )


# The program, on whatever it is given.


def command(*arguments):
    return [sys.executable, "-m", "memjax.cli", *map(str, arguments)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny run in a folder whose path is markup to a console; and its settings."""
    folder = tmp_path_factory.mktemp("faults") / "[" / "red] :car: é"
    sizes = flags(training__steps=2)
    assert cli.main(["train", DIRECTLY, *sizes, f"--run={folder}"]) == 0
    return folder, sizes


def test_a_path_is_printed_as_it_is(trained, capsys):
    folder, sizes = trained
    assert cli.main(["train", DIRECTLY, *sizes, f"--run={folder}"]) == 0
    out = capsys.readouterr().out
    assert f" in {folder}\n" in out and f"report: {folder}/report.html\n" in out


def test_checkpoints_cannot_lie_in_a_folder_whose_name_is_no_text(tmp_path):
    assert "is no name in UTF-8" in refused(open_checkpoints, tmp_path / "\udcff" / "train")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_terminal_without_the_characters_gets_others(trained):
    ascii = ALONE | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command("report", trained[0]), env=ascii, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"[/red] :car: \\xe9/report.html" in done.stdout and done.stdout.isascii()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full")
def test_a_full_standard_output_is_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command("--help"), env=ALONE, stdout=full, stderr=subprocess.PIPE, text=True)
        said_nothing = subprocess.run(command("trian"), env=ALONE, stdout=full, stderr=full)
    assert done.returncode == 2 and one_line(done.stderr) and "cannot print: No space left on device" in done.stderr
    assert said_nothing.returncode == 2


def test_a_closed_standard_output_is_one_line_and_gets_nothing_of_ours():
    words = " ".join([sys.executable, "-m", "memjax.cli", "--help"])
    done = subprocess.run(["sh", "-c", f"{words} >&-"], env=ALONE, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "") and one_line(done.stderr) and "closed" in done.stderr
    script = (
        f"import os; os.close(0); from memjax import program; program.guard_streams(); print(os.open({__file__!r}, 0))"
    )
    done = subprocess.run([sys.executable, "-c", script], env=ALONE, capture_output=True, text=True)
    assert int(done.stdout) > 2, done.stderr  # what is opened next is no standard stream


@pytest.mark.parametrize("platform", ["cuda", "nonsense"])
def test_an_accelerator_that_is_not_here_is_one_line(platform, tmp_path):
    if platform == "cuda" and any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("there is one")
    started = command("train", DIRECTLY, f"--run={tmp_path / 'run'}")
    done = subprocess.run(started, env=ALONE | {"JAX_PLATFORMS": platform}, capture_output=True, text=True)
    assert done.returncode == 2 and one_line(done.stderr), done.stderr
    assert f"JAX_PLATFORMS={platform}" in done.stderr and "JAX_PLATFORMS=cpu" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_ctrl_c_while_it_is_imported_is_one_line(tmp_path):
    """JAX's import takes seconds: here it takes for ever."""
    (tmp_path / "jax.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(600)\n")
    paths = os.pathsep.join([str(tmp_path), str(Path(cli.__file__).parents[1])])
    process = subprocess.Popen(command("--help"), env=ALONE | {"PYTHONPATH": paths}, cwd=tmp_path, **PIPES)
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and one_line(err) and "interrupted" in err, err


def test_a_program_that_uses_the_library_keeps_its_own_ctrl_c():
    script = "import signal, memjax; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    start = [sys.executable, "-c", f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {script}"]
    assert subprocess.run(start, env=ALONE, capture_output=True, text=True).stdout == "True\n"


BUSY = """
import hashlib, signal
from memjax import program
signal.signal(signal.SIGINT, lambda *_: None)
program.leave_at_the_second_interrupt()
print("busy", flush=True)
hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2**31 - 1)  # as XLA compiles: no signal is looked at for minutes
"""


def test_a_second_ctrl_c_leaves_at_once_wherever_it_is():
    process = subprocess.Popen([sys.executable, "-c", BUSY], env=ALONE, **PIPES)
    assert process.stdout.readline() == "busy\n"
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "") and one_line(err)


def test_a_thread_that_fails_behind_a_save_says_nothing(capsys, monkeypatch):
    """TensorStore's threads call back into a loop that is closed by then."""

    @ctypes.CFUNCTYPE(None)
    def closed():
        raise RuntimeError("Event loop is closed")

    @ctypes.CFUNCTYPE(None)
    def another():
        raise RuntimeError("another")

    log = logging.getLogger("asyncio")
    monkeypatch.setattr(log, "level", log.level)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    program.quiet_threads()
    assert not log.isEnabledFor(logging.ERROR)  # "Future exception was never retrieved"
    for call, hidden in ((closed, True), (another, False)):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert (capsys.readouterr().err == "") == hidden
        call()
        assert "RuntimeError" in capsys.readouterr().err


@pytest.mark.slow
def test_a_ctrl_c_in_the_midst_of_training_saves_and_says_which_step(tmp_path):
    sizes = flags(training__steps=100_000, training__checkpoint_every=100_000, training__validate_every=100_000)
    run = tmp_path / "run"
    process = subprocess.Popen(command("train", DIRECTLY, *sizes, f"--run={run}"), env=ALONE, **PIPES)
    while not [entry for entry in read_entries(run / "metrics.jsonl") if entry["phase"] == "train"]:
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    first, last = err.splitlines()
    assert process.returncode == 130 and "Ctrl-C again leaves at once" in first
    with open_checkpoints(run / "train", create=False) as manager:
        assert last.startswith(
            f"memjax: interrupted; train step {manager.latest_step()} is saved, and the same command"
        )
    logged = [entry["step"] for entry in read_entries(run / "metrics.jsonl") if entry["phase"] == "train"]
    assert manager.latest_step() == logged[-1]


def test_a_full_disk_ends_a_run_in_one_line_and_it_resumes_after_room_is_made(tmp_path, capsys):
    run, before = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE)
    words = ["train", DIRECTLY, *flags(training__steps=6), f"--run={run}"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (2500, before[1]))  # more than the config has
    try:
        status = cli.main(words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    *remarks, last = capsys.readouterr().err.splitlines()
    assert status == 2 and last.startswith(f"memjax: cannot write to {run}"), (remarks, last)
    assert all("without TensorBoard" in line for line in remarks)
    assert runs.read_config(run) == tiny("demo,system=directly", training__steps=6)
    assert cli.main(words) == 0
    logged = [entry["step"] for entry in read_entries(run / "metrics.jsonl") if "split" not in entry]
    assert logged == [*range(1, 7)]
