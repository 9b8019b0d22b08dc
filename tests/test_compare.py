"""`memjax compare`: several memories in turn, resumable, in one table."""

import json

import pytest
from test_cli import EVIDENCE, RECALL, call, files, refused
from training.test_spans_runs import SIZES as SPANS
from training.test_spans_runs import tales
from training.tiny import CONFIGS, TINY, config_file, flags

from memjax import memories
from memjax.errors import TOO_LARGE, MemjaxError
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import read_config
from memjax.files import read_object
from memjax.training import experiment, runs
from memjax.training.data_digests import data_digests

KEPT = {path: value for path, value in TINY.items() if path not in ("memory.layers", "memory.heads")}
SIZES = flags(KEPT, memory__slots=4)  # a multiple of the blocks of dmsdnc
TWO = "--memories=dnc,ntm"


@pytest.fixture
def untrained(monkeypatch):
    """Training leaves what a trained run leaves, at once; the folders in the order in which they were trained."""
    trained = []

    def evaluate(prepared, folder):
        trained.append(folder.name)
        metrics = {"accuracy": 0.5, "diverged": 0}
        found = {"metrics": metrics, "step": prepared.config.training.steps, "parameters": 10, "state_bytes": 2048}
        (folder / "evaluation.json").write_text(json.dumps(found))

    def open_run(prepared, folder, console):
        runs.open_run(prepared.settings, prepared.resolved, folder)

    monkeypatch.setattr(experiment, "train", open_run)
    monkeypatch.setattr(experiment, "evaluate", evaluate)
    return trained


@pytest.mark.slow
def test_runs_are_trained_in_turn_and_finished_ones_are_not_run_again(capsys, tmp_path):
    command = ["compare", EVIDENCE, TWO, "--rehearsal=without", *SIZES, f"--run={tmp_path}"]
    status, out, err = call(capsys, *command)
    assert status == 0, err
    assert "dnc without rehearsal" in out and "ntm without rehearsal" in out
    found = read_object(tmp_path / "comparison.json")
    assert set(found) == {"dnc without rehearsal", "ntm without rehearsal"}
    for row in found.values():
        assert 0 <= row["accuracy"][0] <= 1 and row["seconds_per_step"] > 0
    # The DNC has its links, the NTM none.
    assert found["dnc without rehearsal"]["state_bytes"] > found["ntm without rehearsal"]["state_bytes"]
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Comparison</h2>" in page
    assert "dnc-without-rehearsal-0" in page and "ntm-without-rehearsal-0" in page
    before = {name: time for name, time in files(tmp_path).items() if "-0/" in name}
    status, out, _ = call(capsys, *command)
    assert status == 0 and out.count("finished") == 2
    assert {name: time for name, time in files(tmp_path).items() if "-0/" in name} == before


def test_every_memory_with_and_without_rehearsal_and_all_seeds(capsys, tmp_path, untrained):
    status, out, err = call(capsys, "compare", EVIDENCE, "--seeds=2", *SIZES, f"--run={tmp_path}")
    assert status == 0, err
    rows = [name + kind for name in memories.registry for kind in ("", "-without-rehearsal")]
    assert untrained == [f"{row}-{seed}" for row in rows for seed in (0, 1)]
    for name in memories.registry:
        config = json.loads((tmp_path / f"{name}-without-rehearsal-1" / "config.json").read_text())
        assert config["memory"]["name"] == name and config["training"]["seed"] == 1
        assert config["rehearsal"]["fragments"] == 0
    assert "50.0 ± 0.0" in out


def test_two_comparisons_have_a_folder_each(capsys, tmp_path, untrained, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source, names in ((EVIDENCE, "--of=dnc"), (RECALL, "--of=lmm")):
        kinds = ["--rehearsal=without"] if source == EVIDENCE else []
        status, _, err = call(capsys, "compare", source, names, *kinds)
        assert status == 0, err
    found = {path.parent.name: list(read_object(path)) for path in tmp_path.glob("runs/*/comparison.json")}
    assert sorted(found.values()) == [["dnc without rehearsal"], ["lmm"]]
    assert all(name.startswith("compared-") for name in found)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemjaxError("the loss is not finite"), "the loss is not finite"),
        (MemoryError(), TOO_LARGE),
        (RuntimeError("RESOURCE_EXHAUSTED: out of memory"), TOO_LARGE),
        (RuntimeError("INTERNAL: Error dispatching computation: Out of memory allocating 9 bytes."), TOO_LARGE),
    ],
    ids=["loss", "memory", "device", "cpu"],
)
def test_a_run_that_fails_does_not_stop_the_others(capsys, tmp_path, untrained, monkeypatch, error, words):
    plain = experiment.train

    def train(prepared, folder, console):
        if folder.name == "dnc-0":
            raise error
        plain(prepared, folder, console)

    monkeypatch.setattr(experiment, "train", train)
    err = refused(capsys, "compare", EVIDENCE, TWO, *SIZES, f"--run={tmp_path}")
    assert err == f"memjax: not finished: dnc, seed 0 ({words})\n"
    assert untrained == ["dnc-without-rehearsal-0", "ntm-0", "ntm-without-rehearsal-0"]
    assert "dnc" not in json.loads((tmp_path / "comparison.json").read_text())


def test_where_nothing_comes_of_any_run_no_folder_is_left(capsys, tmp_path, monkeypatch):
    def train(prepared, folder, console):
        folder.parent.mkdir(parents=True)
        raise MemjaxError("the loss is not finite")

    monkeypatch.setattr(experiment, "train", train)
    command = ["compare", EVIDENCE, "--of=ntm", "--rehearsal=with", *SIZES, f"--run={tmp_path / 'runs'}"]
    refused(capsys, *command)
    assert not (tmp_path / "runs").exists()


def test_another_error_is_not_passed_over(capsys, tmp_path, untrained, monkeypatch):
    def train(prepared, folder, console):
        raise RuntimeError("a bug")

    monkeypatch.setattr(experiment, "train", train)
    with pytest.raises(RuntimeError, match="a bug"):
        call(capsys, "compare", EVIDENCE, TWO, *SIZES, f"--run={tmp_path}")


def test_what_the_folder_holds_of_another_config_is_not_in_the_table(capsys, tmp_path, untrained):
    command = ["compare", EVIDENCE, "--memories=ntm", "--rehearsal=with", *SIZES, f"--run={tmp_path}"]
    assert call(capsys, *command)[0] == 0
    (tmp_path / "ntm-0" / "train" / "4").mkdir(parents=True)  # a checkpoint: now a run is what it is
    before = files(tmp_path)
    err = refused(capsys, *command, "--config.optimizer.learning_rate=0.5")
    assert "another config" in err and files(tmp_path) == before


def test_a_run_that_was_trained_on_other_devices_is_finished(capsys, tmp_path, untrained):
    command = ["compare", EVIDENCE, "--memories=ntm", "--rehearsal=with", *SIZES, f"--run={tmp_path}"]
    assert call(capsys, *command)[0] == 0
    status, out, err = call(capsys, *command, "--config.mesh.data=1", "--config.mesh.model=-1")
    assert status == 0 and "ntm, seed 0: finished" in out and "report:" in out, err
    assert untrained == ["ntm-0"]


def test_what_another_comparison_has_finished_meanwhile_did_not_fail(capsys, tmp_path, untrained, monkeypatch):
    train = experiment.train

    def busy(prepared, folder, console):
        train(prepared, folder, console)
        experiment.evaluate(prepared, folder)
        raise MemjaxError("it is being trained by another process")

    monkeypatch.setattr(experiment, "train", busy)
    status, _, err = call(
        capsys, "compare", EVIDENCE, "--memories=ntm", "--rehearsal=with", *SIZES, f"--run={tmp_path}"
    )
    assert (status, err) == (0, "")


def test_a_damaged_run_is_tested_again_and_hides_no_other(capsys, tmp_path, untrained):
    command = ["compare", EVIDENCE, TWO, "--rehearsal=with", *SIZES, f"--run={tmp_path}"]
    assert call(capsys, *command)[0] == 0
    (tmp_path / "ntm-0" / "evaluation.json").write_text("{")
    status, out, err = call(capsys, *command)
    assert status == 0, err
    assert untrained == ["dnc-0", "ntm-0", "ntm-0"] and out.count("finished") == 1


def test_sizes_that_cannot_be_are_found_before_anything_is_written(capsys, tmp_path):
    arguments = ["--memories=ntm,dmsdnc", *SIZES, "--config.memory.slots=7", f"--run={tmp_path / 'runs'}"]
    assert "dmsdnc: config.memory: slots 7 must be a multiple of blocks 2" in refused(
        capsys, "compare", EVIDENCE, *arguments
    )
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--memories=dcn"], ["unknown memory 'dcn'", "did you mean 'dnc'?"]),
        (["--of="], ["--of= is empty"]),
        (["--seeds=0"], ["seeds"]),
        (["--rehearsal=maybe"], ["rehearsal", "both"]),
        (["--config.memory.layers=1"], ["layers", "rehearsal"]),
        (["--config.training.seed=5"], ["compare sets config.training.seed itself", "--seeds"]),
        (["-config.training.seed=5"], ["compare sets config.training.seed itself"]),
        (["--config.training.seed", "5"], ["compare sets config.training.seed itself"]),
        (["--config.memory.name=dnc"], ["--of"]),
        (["--config.rehearsal.fragments=0"], ["say --rehearsal=without"]),
        (["more"], ["takes no 'more'"]),
        ([RECALL], ["two configs"]),
    ],
    ids=str,
)
def test_what_a_user_can_get_wrong_is_one_line(capsys, tmp_path, arguments, words):
    err = refused(capsys, "compare", EVIDENCE, *arguments, f"--run={tmp_path}")
    for word in words:
        assert word in err
    assert not list(tmp_path.iterdir())


def test_what_compare_sets_itself_is_refused_behind_the_colon_too(capsys, tmp_path):
    for argument in ("seed=5", "memory=ntm"):
        err = refused(capsys, "compare", f"{EVIDENCE},{argument}", TWO, f"--run={tmp_path / 'runs'}")
        assert f"compare sets {argument.partition('=')[0]}= itself" in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arg", "memory"),
    [("stm,task=1", "stm"), ("stm,task=1,memory=dnc", "dnc"), ("task=1,memory=dnc", "dnc"), ("joint,memory=dnc", "dnc"),
     ("joint", "rehearsal"), ("multi_hop", "rehearsal")],
)  # fmt: skip
def test_of_a_variant_and_a_memory_of_babi_the_memory_counts(arg, memory):
    assert config_file("babi")(arg).memory.name == memory


def test_a_config_file_that_heeds_no_memory_or_seed_is_refused(capsys, tmp_path):
    path = tmp_path / "deaf.py"
    own = CONFIGS / "evidence.py"
    path.write_text(
        f"import runpy\nget = runpy.run_path({str(own)!r})['get_config']\n"
        "def get_config(arg=''):\n    return get('demo,memory=ntm')\n"
    )
    err = refused(capsys, "compare", f"--config={path}", "--of=dnc", *SIZES, f"--run={tmp_path / 'runs'}")
    assert "takes no account of memory=dnc: it has ntm" in err
    err = refused(capsys, "compare", f"--config={path}", "--of=ntm", "--seeds=2", *SIZES, f"--run={tmp_path / 'runs'}")
    assert "takes no account of seed=1: it has 0" in err


def test_what_is_noted_of_any_seed_is_said(capsys, tmp_path, untrained):
    command = ["compare", EVIDENCE, "--of=ntm", "--rehearsal=with", "--seeds=2", *SIZES, f"--run={tmp_path}"]
    assert call(capsys, *command)[0] == 0
    path = tmp_path / "ntm-1" / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"notes": ["on 4 of 12 examples the memory diverged"]}))
    _, out, _ = call(capsys, *command)
    assert "note: ntm-1: on 4 of 12 examples the memory diverged" in out
    assert "ntm-1: on 4 of 12 examples the memory diverged" in (tmp_path / "report.html").read_text()


def test_finished_runs_of_other_data_are_in_no_mean(capsys, tmp_path, untrained):
    command = ["compare", EVIDENCE, "--of=ntm", "--rehearsal=with", *SIZES, f"--run={tmp_path}"]
    assert call(capsys, *command)[0] == 0
    digests = data_digests(prepare(read_config(tmp_path / "ntm-0")))
    runs.write_json(tmp_path / "ntm-0" / "data.json", digests)
    assert call(capsys, *command)[0] == 0
    runs.write_json(tmp_path / "ntm-0" / "data.json", digests | {"train": "0" * 16})
    err = refused(capsys, *command, "--seeds=2")
    assert "ntm: this is not the data with which the run began to learn (train is another)" in err
    assert untrained == ["ntm-0"]


def test_an_empty_folder_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--run= is empty" in refused(capsys, "compare", EVIDENCE, "--run=")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "rows", "setting"),
    [
        (f"{RECALL}:lmm", ["attention", "mag"], "layer"),
        ("--config=configs/needle.py:lmm", ["lmm", "mal"], "layer"),
        ("--config=configs/algorithmic.py:copy", ["dnc", "nutm"], "cell"),
        ("--config=configs/retention.py:noisy", ["fifo", "st"], "policy"),
        ("--config=configs/maze.py:imaze", ["lru", "st"], "policy"),
    ],
)
def test_every_family_compares_what_it_has(capsys, tmp_path, untrained, source, rows, setting):
    small = [f"--config.task.{split}=8" for split in ("train", "valid", "test")] + ["--config.training.batch_size=8"]
    assert_compared(capsys, tmp_path, untrained, [source, *small], rows, setting)


def test_policies_over_spans_are_compared(capsys, tmp_path, untrained):
    (tmp_path / "data").mkdir()
    arguments = ["--config=configs/spans.py:fairytales", *flags(SPANS), f"--data_dir={tales(tmp_path / 'data')}"]
    assert_compared(capsys, tmp_path / "runs", untrained, arguments, ["fifo", "im"], "policy")


def assert_compared(capsys, folder, untrained, arguments, rows, setting):
    """Two seeds of each row are trained; there is no rehearsal."""
    arguments = [*arguments, f"--of={','.join(rows)}", "--seeds=2", f"--run={folder}"]
    status, out, err = call(capsys, "compare", *arguments)
    assert status == 0, err
    assert out.startswith("4 runs in ")
    assert untrained == [f"{row}-{seed}" for row in rows for seed in (0, 1)]
    for row in rows:
        config = json.loads((folder / f"{row}-1" / "config.json").read_text())
        assert config["model"][setting] == row and config["training"]["seed"] == 1
    assert "--rehearsal is for memories" in refused(capsys, "compare", *arguments, "--rehearsal=with")
