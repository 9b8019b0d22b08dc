"""The program, on whatever it is given to print on, and when it is interrupted: one line, no traceback.

Slips that were tried: a path taken for markup; characters that the terminal lacks; a closed stream not told of; an
accelerator that is not here; one Ctrl-C for two, or three; a Ctrl-C while it is imported not caught.
"""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import pytest
from training.tiny import CONFIGS, flags

from memjax import cli, program
from memjax.errors import MemjaxError
from memjax.files import read_entries
from memjax.training.checkpoint import open_checkpoints

DIRECTLY = f"--config={CONFIGS / 'evidence.py'}:demo,system=directly"  # compiles in the least time
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
ALONE = os.environ | {"PYTHONUNBUFFERED": "1", "JAX_PLATFORMS": "cpu"}


def one_line(text):
    """Whether it is one line of ours."""
    return text.startswith("memjax: ") and text.count("\n") == 1 and text.endswith("\n")


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


@pytest.mark.parametrize("name", ["a[b]", "a**b", "a*", "what?"])
def test_checkpoints_cannot_lie_in_a_folder_whose_name_is_a_pattern(tmp_path, name):
    with pytest.raises(MemjaxError, match=r"in its path, and no checkpoint can lie there; give another"):
        open_checkpoints(tmp_path / name / "train")
    assert not list(tmp_path.iterdir())


def test_checkpoints_cannot_lie_in_a_folder_whose_name_is_no_text(tmp_path):
    with pytest.raises(MemjaxError, match="is no name in UTF-8"):
        open_checkpoints(tmp_path / "\udcff" / "train")
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


def test_a_command_without_what_it_needs_says_what_to_install():
    program = "import sys; sys.modules['ml_collections'] = None; from memjax import cli; cli.run()"
    for command in ("train", "evaluate", "list"):
        done = subprocess.run([sys.executable, "-c", program, command], env=ALONE, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"memjax: {command} needs ml_collections: pip install 'memjax[train]'\n"


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


def test_an_interrupt_that_is_not_meant_for_it_stays_ignored():
    """As of what a script starts with "&"."""
    code = "from memjax import cli; cli.main = lambda: print(repr(cli.signal.getsignal(2))) or 0; cli.run()"
    for before, stays in ((signal.SIG_IGN, True), (signal.SIG_DFL, False)):
        start = lambda before=before: signal.signal(signal.SIGINT, before)  # noqa: E731
        done = subprocess.run([sys.executable, "-c", code], **PIPES, env=ALONE, preexec_fn=start, check=True)
        assert ("SIG_IGN" in done.stdout) == stays and ("_interrupt" in done.stdout) != stays
