"""Real processes: two that train as one, runs that are killed at any moment, caches and traces that are written.

Slips that were tried: a checkpoint that holds the list of metrics itself, to which the loop adds while it is saved
(found by the killed runs).
"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from training.tiny import CONFIGS, TINY, flags, tiny

from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.tasks.builders import babi_records
from memjax.training import experiment, processes
from memjax.training.processes import join

SIZES = {"rehearsal.sampler": "random", "training.steps": 6, "training.checkpoint_every": 2, "training.batch_size": 8}


def command(folder, *extra, sizes=TINY, **changes):
    settings = flags(sizes) + flags(SIZES) + flags({}, **changes)
    return [sys.executable, "-m", "memjax.cli", "train", f"--run={folder}", *settings, *extra]


def environment(devices):
    return os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}",
        "MPLBACKEND": "agg",
    }


def start(folder, *extra, devices=8, **changes):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command(folder, *extra, **changes), env=environment(devices), **pipes)


def finish(process, status=0):
    output, _ = process.communicate(timeout=300)
    assert process.returncode == status, output
    return output


def start_two(*folders, extra=(), second=(), **changes):
    """Two processes, and what the second is told besides."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    both = [f"--coordinator=localhost:{port}", "--num_processes=2", *extra]
    own = [["--process_id=0"], ["--process_id=1", *second]]
    return [start(folders[i % len(folders)], *both, *own[i], devices=4, **changes) for i in range(2)]


def log(folder):
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    others = ("seconds", "tags", "devices")
    return [{name: value for name, value in entry.items() if name not in others} for entry in entries]


def assert_logs_alike(folder, other, rtol):
    ours, theirs = log(folder), log(other)
    assert len(ours) == len(theirs)
    for got, want in zip(ours, theirs, strict=True):
        assert got.keys() == want.keys()
        for name, value in want.items():
            if isinstance(value, float):
                np.testing.assert_allclose(got[name], value, rtol=rtol, atol=1e-6)
            else:
                assert got[name] == value


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return f"--compile_cache={tmp_path_factory.mktemp('cache')}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, cache):
    """A run of one process with 8 devices: its folder."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    finish(start(folder, cache, "--profile"))
    return folder


@pytest.fixture(scope="module")
def by_two(tmp_path_factory):
    """The same run by two processes with 4 devices each, parameters cut over both: folder and outputs."""
    folder = tmp_path_factory.mktemp("two") / "run"
    processes = start_two(folder, mesh__data=2, mesh__fsdp=4)
    return folder, [finish(process) for process in processes]


def test_two_processes_train_as_one(whole, by_two):
    folder, outputs = by_two
    assert_logs_alike(folder, whole, rtol=2e-4)
    ours, theirs = (json.loads((f / "evaluation.json").read_text()) for f in (folder, whole))
    assert ours["examples"] == theirs["examples"] and ours["step"] == theirs["step"] == 6
    np.testing.assert_allclose(ours["metrics"]["answer_loss"], theirs["metrics"]["answer_loss"], rtol=1e-3)
    assert "report:" in outputs[0] and "report:" not in outputs[1]
    assert (folder / "report.html").exists()


@pytest.mark.parametrize(("devices", "mesh"), [(8, {"mesh__fsdp": 2}), (1, {})])
def test_what_two_processes_saved_one_goes_on_with(whole, by_two, tmp_path, devices, mesh):
    folder = tmp_path / "run"
    subprocess.run(["cp", "-r", by_two[0], folder], check=True)
    subprocess.run(["rm", "-r", folder / "train" / "6", folder / "evaluation.json"], check=True)
    finish(start(folder, devices=devices, **mesh))
    assert_logs_alike(folder, whole, rtol=2e-4)
    trained_on = json.loads((folder / "evaluation.json").read_text())["trained_on"]
    assert trained_on == {8: "8 x cpu", 1: "8 x cpu, then 1 x cpu"}[devices]


@pytest.fixture(scope="module")
def unequal(tmp_path_factory):
    """Arguments and sizes that train on all of two tasks, of stories of 1 to 9 sentences, in two buckets."""
    folder = tmp_path_factory.mktemp("unequal")
    raw = folder / "raw" / "mine"
    raw.mkdir(parents=True)
    for task, split in ((task, split) for task in (1, 2) for split in ("train", "test")):
        lines = []
        for story in range(60):
            length = 1 + story * task % 9 * (story % 3) // 2
            lines += [f"{i + 1} Mary moved to the {('hall', 'garden')[(i + story) % 2]}." for i in range(length)]
            lines.append(f"{length + 1} Where is Mary?\t{('hall', 'garden')[(length - 1 + story) % 2]}\t{length}")
        (raw / f"qa{task}_made_{split}.txt").write_text("\n".join(lines) + "\n")
    babi_records.prepare(raw, folder)
    sizes = {path: size for path, size in TINY.items() if not path.startswith("task.")} | {"training.buckets": 2}
    return [f"--config={CONFIGS / 'babi.py'}:joint,folder=mine", f"--data_dir={folder}"], sizes


def test_two_processes_and_a_resumed_run_take_the_same_buckets(unequal, tmp_path):
    extra, sizes = unequal
    whole, two, again = (tmp_path / name / "run" for name in ("whole", "two", "again"))
    finish(start(whole, *extra, sizes=sizes))
    for process in start_two(two, extra=extra, sizes=sizes):
        finish(process)
    assert_logs_alike(two, whole, rtol=5e-3)  # other rows in a batch would show in every figure
    subprocess.run(["cp", "-r", two.parent, again.parent], check=True)
    subprocess.run(["rm", "-r", again / "train" / "6", again / "evaluation.json"], check=True)
    finish(start(again, *extra, sizes=sizes, devices=2))
    assert_logs_alike(again, two, rtol=2e-4)
    found = [json.loads((folder / "evaluation.json").read_text()) for folder in (whole, two, again)]
    assert [each["metrics"]["examples"] for each in found] == [120] * 3
    assert all(set(each["metrics"]["tags"]["task"]) == {"1", "2"} for each in found)
    for each in found[1:]:
        np.testing.assert_allclose(each["metrics"]["answer_loss"], found[0]["metrics"]["answer_loss"], rtol=1e-3)


def test_processes_that_share_no_run_folder_share_their_checkpoints(whole, tmp_path):
    first, second = tmp_path / "a" / "run", tmp_path / "b" / "run"
    place = {"training__checkpoints": str(tmp_path / "place")}
    for process in start_two(first, second, **place, mesh__fsdp=2):
        finish(process)
    assert_logs_alike(first, whole, rtol=2e-4)
    assert names(tmp_path / "place" / "run" / "train") == {"4", "6"} and not second.exists()
    # A machine that was taken away: its run folder is lost, its checkpoints are not.
    third = tmp_path / "c" / "run"
    assert "another config" in finish(start(third, **place, training__seed=1), 2) and not third.exists()
    subprocess.run(["rm", "-r", tmp_path / "place" / "run" / "train" / "6"], check=True)
    finish(start(third, **place))
    assert [entry["step"] for entry in log(third)] == [5, 6, 6]
    assert log(third)[-1].keys() == log(first)[-1].keys() and (third / "evaluation.json").exists()


def test_a_step_is_profiled(whole):
    assert list((whole / "profile" / "train").rglob("*.xplane.pb"))


def test_compiled_programs_are_kept(whole, cache):
    assert names(Path(cache.partition("=")[2]))


def test_a_run_that_another_has_is_refused_by_all_processes(whole, tmp_path):
    first = start(whole, training__seed=1)
    assert "another config" in finish(first, 2)
    for process in start_two(whole, training__seed=1):
        assert "another config" in finish(process, 2)


def test_processes_that_share_nothing_are_all_told_so(tmp_path):
    folders = tmp_path / "a" / "run", tmp_path / "b" / "run"
    for process in start_two(*folders):
        assert "not every process sees what the first one writes" in finish(process, 2)
    assert not any(folder.exists() for folder in folders)


def test_processes_of_another_config_are_all_told_so(tmp_path):
    for changes, words in (
        (["--config.optimizer.learning_rate=0.1"], "config.optimizer.learning_rate is 0.1 here and 0.001 in the first"),
        (["--config.training.steps=9"], "config.training.steps is 9 here and 6 in the first process"),
        (["--config.training.batchsize=8"], "did you mean"),
    ):
        first, second = (finish(process, 2) for process in start_two(tmp_path / "run", second=changes))
        for output, begin in ((first, "memjax: process 1: "), (second, "memjax: ")):
            *_, told = (line for line in output.splitlines() if line.startswith("memjax: "))  # before it: "waiting for"
            assert told.startswith(begin) and words in told and "Traceback" not in output, output
        assert not (tmp_path / "run").exists()


def test_a_process_of_other_data_is_told_so(monkeypatch):
    """As the second of two that the first one has told of what it has."""
    made = prepare(tiny())

    def first(own):
        return own | {"data": own["data"] | {"train": "0" * 16}}

    monkeypatch.setattr(experiment.jax, "process_count", lambda: 2)
    monkeypatch.setattr(experiment, "everywhere", lambda action: action())
    monkeypatch.setattr(experiment, "of_first", lambda own: own)
    experiment.require_alike(made)
    monkeypatch.setattr(experiment, "of_first", first)
    with pytest.raises(MemjaxError, match="its data is another than that of the first process"):
        experiment.require_alike(made)


@pytest.mark.slow
def test_processes_that_are_stopped_between_two_phases_stop_there_and_go_on(tmp_path):
    settings = {"rehearsal__sampler": "history", "training__sampler_steps": 4, "training__steps": 200}
    processes = start_two(tmp_path / "run", **settings)
    seen = []
    while not any("train: compiling" in line for line in seen):
        seen.append(processes[0].stdout.readline())
        assert seen[-1], "".join(seen)
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        output = finish(process, 143)
    assert "is saved, and the same command goes on from there" in output
    saved = [int(name) for name in names(tmp_path / "run" / "train") if name.isdigit()]
    assert saved and max(saved) < 100


@pytest.mark.slow
def test_where_the_disk_of_the_first_process_is_full_both_end_and_it_says_so(tmp_path):
    processes = start_two(tmp_path / "run", training__steps=2000)
    while not any(name.isdigit() for name in names(tmp_path / "run" / "train")):
        assert processes[0].poll() is None
        time.sleep(0.1)
    resource.prlimit(processes[0].pid, resource.RLIMIT_FSIZE, (2000, 2000))
    assert "cannot write to" in finish(processes[0], 2)
    processes[1].communicate(timeout=200)
    assert processes[1].returncode not in (None, 0)


def test_a_port_that_is_taken_is_one_line():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(MemjaxError, match=f"port {port} of --coordinator: .*; give another port"):
            join(coordinator=f"localhost:{port}", num_processes=2, process_id=0)


def test_a_first_process_that_never_comes_is_one_line(capsys, monkeypatch):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(processes, "COMING", 1)
    with pytest.raises(MemjaxError, match=f"no process is at --coordinator=localhost:{port}"):
        join(coordinator=f"localhost:{port}", num_processes=2, process_id=1)
    assert capsys.readouterr().err.count("waiting for the first process") == 1


@pytest.mark.parametrize("where", ["localhost", "localhost:abc", ":80", "localhost:0", "localhost:99999"])
def test_a_coordinator_that_cannot_be_is_one_line(where):
    with pytest.raises(MemjaxError, match="must be HOST:PORT"):
        join(coordinator=where, num_processes=2, process_id=0)


@pytest.mark.parametrize("given", [["--num_processes=2"], ["--coordinator=localhost:1", "--process_id=0"]])
def test_half_of_what_processes_need_is_one_line(tmp_path, given):
    output = finish(start(tmp_path / "run", *given), 2)
    assert "belong together" in output and output.strip().count("\n") == 0
    assert not (tmp_path / "run").exists()


# A run with a loss that compiles at once, which saves every third step: half of its time is saving.
LONG = """
import sys
from pathlib import Path
from memjax.errors import Preempted
from training.test_loop import run
print("ready", flush=True)
try:
    run(Path(sys.argv[1]), steps=120, log_every=2, validate_every=5, checkpoint_every=3)
except Preempted:
    sys.exit(143)
"""


def start_long(folder):
    program, pipe = [sys.executable, "-c", LONG, str(folder)], subprocess.PIPE
    return subprocess.Popen(program, env=environment(1), cwd=Path(__file__).parents[1], stdout=pipe, text=True)


def names(folder):
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def last_digest(folder):
    """The step of the newest checkpoint, and the digest of all bits of its parameters and moments."""
    newest = max(int(name) for name in names(folder / "train") if name.isdigit())
    return newest, json.loads((folder / "train" / str(newest) / "record" / "metadata").read_text())["digest"]


@pytest.mark.parametrize("kill", ["SIGKILL", "SIGTERM"])
def test_a_run_killed_at_random_moments_ends_as_an_undisturbed_one(tmp_path, kill):
    """Twenty moments, of two kinds: ten each."""
    assert start_long(tmp_path / "whole").wait(timeout=200) == 0
    folder, rng, kills, saving = tmp_path / "run", np.random.default_rng(1), 0, 0
    while kills < 10:
        process = start_long(folder)
        assert process.stdout.readline() == "ready\n"
        steps = folder / "train"
        seen, deadline = names(steps), time.monotonic() + 60
        # First a new checkpoint, or the beginning of one, so that there is progress; then any moment.
        while time.monotonic() < deadline and not names(steps) - seen:
            time.sleep(0.002)
        time.sleep(float(rng.uniform(0, 0.15)))
        saving += any("tmp" in name for name in names(steps))
        assert process.poll() is None, "the run was over too soon to be killed"
        process.send_signal(signal.Signals[kill])
        assert process.wait(timeout=60) in (-signal.Signals[kill], 143)
        kills += 1
    assert start_long(folder).wait(timeout=200) == 0
    assert saving, "none was killed while saving"
    assert last_digest(folder) == last_digest(tmp_path / "whole")
    assert log(folder) == log(tmp_path / "whole")
