"""The command line: a whole run end to end, and one line for whatever a user can get wrong."""

import ast
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import jax
import pytest
from training.tiny import CONFIGS, TINY, flags, mapping, tiny

import memjax
from memjax import cli, memories, program, tasks
from memjax.commands import evaluate_command, list_command
from memjax.commands.evaluate_command import _changed, evaluation_file
from memjax.commands.train_command import yardsticks
from memjax.config.overrides import override
from memjax.errors import MemjaxError
from memjax.experiments.conversation import Conversation
from memjax.experiments.prepare import trained_model
from memjax.experiments.reading import from_mapping, read_config, to_mapping
from memjax.files import read_entries, read_object
from memjax.training import compile_cache, experiment, runs

EVIDENCE = f"--config={CONFIGS / 'evidence.py'}:demo"
RECALL = f"--config={CONFIGS / 'recall.py'}"
BABI = f"--config={CONFIGS / 'babi.py'}"
BABI_TINY = {path: value for path, value in TINY.items() if not path.startswith("task.")} | {"training.steps": 2}
STORY = """\
1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Mary went to the hallway.
5 Where is Mary? \thallway\t4
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Everything that a command writes without being told where is under `here`, which starts empty."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def files(folder):
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def call(capsys, *arguments):
    """(exit status, standard output, standard error)."""
    capsys.readouterr()
    status = cli.main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def refused(capsys, *arguments):
    """The one line that a command says when it refuses."""
    status, _, err = call(capsys, *arguments)
    assert status == 2, err
    assert err.startswith("memjax: ") and err.endswith("\n") and err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


# A run from beginning to end.


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a tiny run, trained, tested and reported by one command."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert cli.main(["train", EVIDENCE, *flags(), f"--run={folder}"]) == 0
    return folder


def test_training_leaves_a_whole_run(trained):
    assert {"config.json", "metrics.jsonl", "evaluation.json", "report.html"} <= {
        path.name for path in trained.iterdir()
    }
    assert list(trained.rglob("*.png"))
    for phase, steps in (("sampler", 2), ("train", 4)):
        assert (trained / phase / str(steps)).is_dir()
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    logged = [(line["phase"], line["step"]) for line in lines if "split" not in line]
    assert logged == [("sampler", 1), ("sampler", 2), ("train", 1), ("train", 2), ("train", 3), ("train", 4)]
    evaluation = json.loads((trained / "evaluation.json").read_text())
    assert (evaluation["split"], evaluation["step"], evaluation["examples"]) == ("test", 4, 36)
    assert evaluation["metrics"]["examples"] == evaluation["sampler"]["examples"] == 36
    assert evaluation["state_bytes"] == (3 * 16 + 4 * 16 + 4) * 4  # slots, and the items of the context with their mask
    page = (trained / "report.html").read_text()
    assert "<html" in page and "data:image/png" in page and 'src="http' not in page


def test_the_same_command_again_finishes_at_once_and_changes_no_training(trained, capsys, monkeypatch):
    before = files(trained)
    monkeypatch.setattr("memjax.training.step.make_optimizer", None)  # nothing may be made for a step in vain
    log = (trained / "metrics.jsonl").read_text()
    status, out, err = call(capsys, "train", EVIDENCE, *flags(), f"--run={trained}")
    assert status == 0 and "report:" in out, err
    assert (trained / "metrics.jsonl").read_text() == log
    kept = {path for path in before if path.startswith(("train/", "sampler/")) or path == "config.json"}
    assert {path: files(trained)[path] for path in kept} == {path: before[path] for path in kept}


def test_evaluating_a_run_again_gives_the_same_figures(trained, capsys):
    before = read_object(trained / "evaluation.json")
    status, out, err = call(capsys, "evaluate", trained)
    assert status == 0 and "rehearsal memory" in out, err
    after = read_object(trained / "evaluation.json")
    assert before | {"seconds": 0} == after | {"seconds": 0}


def test_another_evaluation_stands_beside_the_first_and_not_over_it(trained, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    first = (folder / "evaluation.json").read_bytes()
    for arguments, file, examples in (
        (["--split=valid"], "evaluation-valid.json", 24),
        (["--config.task.test=2"], "evaluation-test-2.json", 24),
    ):
        status, _, err = call(capsys, "evaluate", folder, *arguments)
        assert status == 0, err
        found = json.loads((folder / file).read_text())
        assert found["examples"] == examples and found["step"] == 4
        assert found["split"] == ("valid" if "valid" in file else "test")
    assert (folder / "evaluation.json").read_bytes() == first
    message = refused(capsys, "evaluate", folder, "--config.model.width=32")
    assert "--config.model.width=32: a run is tested as it was trained" in message
    assert "did you mean 'config.task.test'?" in refused(capsys, "evaluate", folder, "--config.task.tests=2")
    assert "needs no data" in refused(capsys, "evaluate", folder, "--data_dir=data")
    message = refused(capsys, "evaluate", folder, "--config.task.queries=5")
    assert "these settings of the task make another model" in message and "delete" not in message


def test_a_run_is_not_tested_on_what_it_was_trained_on():
    config = from_mapping(mapping("noisy", file="retention", sizes={}))
    assert _changed(config, ["--config.task.test=7"], None).task.test == 7
    for name in ("train", "valid"):  # episodes are numbered through
        with pytest.raises(MemjaxError, match=f"config.task.{name} decides which examples are for training"):
            _changed(config, [f"--config.task.{name}=100"], None)


def test_a_setting_with_the_name_of_a_method_is_one_line():
    with pytest.raises(MemjaxError, match=r"--config\.task\.items cannot be given: a ConfigDict has a method"):
        override({"task": {"items": 3}}, ["--config.task.items=4"], lambda settings, name: None)


def test_every_way_to_evaluate_a_run_has_a_file_of_its_own():
    ways = [
        ("test", None, []), ("valid", None, []), ("test", "valid", []), ("test", "a/data", []), ("test", "b/data", []),
        ("test", None, ["--config.task.x=1,2"]), ("test", None, ["--config.task.x=1_2"]),
        ("test", None, [f"--config.task.x={'1' * 200}"]), ("test", None, [f"--config.task.x={'1' * 201}"]),
    ]  # fmt: skip
    files = [evaluation_file(*way) for way in ways]
    assert len(set(files)) == len(ways) and all(len(file) < 120 for file in files)
    assert files[:2] == ["evaluation.json", "evaluation-valid.json"]
    assert files == [evaluation_file(*way) for way in ways]


def test_what_an_evaluation_tells_of_single_examples_and_of_itself(trained):
    evaluation = json.loads((trained / "evaluation.json").read_text())
    shown, confusions = evaluation["examples_shown"], evaluation["confusions"]
    assert len(shown) == 36 and {tuple(sorted(each)) for each in shown} == {
        ("answer", "prediction", "question", "tags")
    }
    correct = sum(each["answer"] == each["prediction"] for each in shown)
    assert correct / 36 == pytest.approx(evaluation["metrics"]["accuracy"])
    assert sum(n for row in confusions.values() for n in row.values()) == 36
    assert sum(row.get(answer, 0) for answer, row in confusions.items()) == correct
    assert evaluation["versions"]["jax"] == jax.__version__ and evaluation["report"]["columns"]
    assert evaluation["devices"] == evaluation["trained_on"] == f"{jax.device_count()} x cpu"


def test_a_run_that_came_from_elsewhere_still_says_where_it_was_trained(trained, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    logged = [line for line in lines if line["phase"] == "train" and "split" not in line]
    assert all(line["devices"] == "8 x cpu" for line in logged)
    for others, told in ((logged[:1], "1 x TPU v5e, then 8 x cpu"), (logged, "1 x TPU v5e")):
        for line in others:
            line["devices"] = "1 x TPU v5e"
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert call(capsys, "evaluate", folder)[0] == 0
        evaluation = read_object(folder / "evaluation.json")
        assert (evaluation["trained_on"], evaluation["devices"]) == (told, "8 x cpu")


def test_compiled_programs_are_kept_in_the_users_cache_unless_they_are_not_to_be(tmp_path, monkeypatch):
    kept = {}
    monkeypatch.setattr(jax.config, "update", kept.__setitem__)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compile_cache, "already", lambda: None)
    compile_cache.keep_compiled(None)
    assert kept["jax_compilation_cache_max_size"] > 0 and importlib.util.find_spec("filelock")  # JAX locks it with that
    place = Path(kept["jax_compilation_cache_dir"])
    assert place.is_dir() and place.is_relative_to(tmp_path / "memjax" / "compiled")
    kept.clear()
    compile_cache.keep_compiled("off")
    assert kept == {"jax_enable_compilation_cache": False}
    kept.clear()
    monkeypatch.setattr(compile_cache, "already", lambda: "elsewhere")
    compile_cache.keep_compiled(None)
    assert not kept
    compile_cache.keep_compiled(str(tmp_path / "mine"))
    assert kept["jax_compilation_cache_dir"] == str(tmp_path / "mine") and (tmp_path / "mine").is_dir()


def test_a_command_says_that_it_compiles_before_it_does(tmp_path, capsys, monkeypatch):
    def stopped(*_):
        raise MemjaxError("stopped")

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        module = "memjax.training.phase"
        patch.setattr(f"{module}.make_step", lambda *_: patch.setattr(f"{module}.initial_state", stopped))
        status, out, err = call(capsys, "train", EVIDENCE, *flags(), f"--run={run}")
    assert (status, out.splitlines()[-1], err) == (2, "sampler: compiling ...", "memjax: stopped\n")
    run.mkdir()
    (run / "config.json").write_text(json.dumps(to_mapping(tiny())))
    monkeypatch.setattr(evaluate_command, "prepare", stopped)
    assert call(capsys, "evaluate", run) == (2, f"{run}: compiling ...\n", "memjax: stopped\n")


def test_reports_stand_side_by_side(trained, tmp_path, capsys):
    shutil.copytree(trained, tmp_path / "other")
    status, out, err = call(capsys, "report", trained, tmp_path / "other", f"--out={tmp_path / 'out'}")
    assert status == 0 and "report:" in out, err
    page = (tmp_path / "out" / "report.html").read_text()
    assert "other" in page and "run" in page


def test_the_folder_of_a_comparison_stands_for_all_runs_in_it(trained, tmp_path, capsys):
    for name in ("dnc-0", "dnc-1"):
        shutil.copytree(trained, tmp_path / "compared" / name)
    (tmp_path / "compared" / "plots").mkdir()
    status, out, err = call(capsys, "report", tmp_path / "compared", f"--out={tmp_path / 'out'}")
    assert status == 0 and "dnc-0" in out and "dnc-1" in out, err
    assert "there is no such folder" in refused(capsys, "report", tmp_path / "none")


def test_without_a_terminal_no_name_is_folded(trained, tmp_path, capsys):
    folder = tmp_path / "a-run-with-a-name-as-long-as-they-come-from-a-config-and-its-variant"
    shutil.copytree(trained, folder)
    status, out, err = call(capsys, "report", folder)
    assert status == 0 and out.splitlines()[2].startswith(f"{folder.name} "), err


def test_another_config_in_the_same_folder_is_refused(trained, capsys):
    before = files(trained)
    message = refused(capsys, "train", EVIDENCE, *flags(training__seed=5), f"--run={trained}")
    assert "another config" in message and "--run" in message
    assert files(trained) == before


def test_a_checkpoint_of_another_model_is_refused(trained, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    config = read_object(folder / "config.json")
    config["memory"]["slots"] = 4
    (folder / "config.json").write_text(json.dumps(config))
    before = files(folder)
    assert "another model" in refused(capsys, "evaluate", folder)
    message = refused(capsys, "train", EVIDENCE, *flags(memory__slots=4), f"--run={folder}")
    assert "another model" in message
    changed = {path for path, time in files(folder).items() if before.get(path) != time}
    assert not {path for path in changed if "tensorboard" not in path and path not in ("metrics.jsonl", ".lock")}
    assert (folder / "metrics.jsonl").read_text() == (trained / "metrics.jsonl").read_text()


def test_babi_from_text_to_a_trained_run(tmp_path, here, capsys, monkeypatch):
    raw = tmp_path / "tasks" / "mine"
    raw.mkdir(parents=True)
    for split in ("train", "test"):
        (raw / f"qa1_single_{split}.txt").write_text(STORY * 10)
    status, out, err = call(capsys, "prepare", "babi", f"--from={raw.parent}", "--data_dir=data")
    assert status == 0 and "mine" in out, err
    assert {path.name for path in here.iterdir()} == {"data"}
    config = f"{BABI}:directly,task=1,folder=mine"
    status, out, err = call(capsys, "train", config, *flags(BABI_TINY), "--data_dir=data")
    assert status == 0, err
    (folder,) = (here / "runs").iterdir()
    config = f"{BABI}:rehearsal,task=1,folder=mine"
    sizes = flags(BABI_TINY | {"rehearsal.sampler": "random"})
    assert call(capsys, "train", config, *sizes, "--data_dir=data", f"--run={folder.with_name('talk')}")[0] == 0
    evaluation = json.loads((folder / "evaluation.json").read_text())
    assert (evaluation["task"], evaluation["step"], evaluation["examples"]) == ("babi", 2, 20)
    assert json.loads((folder / "config.json").read_text())["task"]["folder"] == "mine"
    assert {shown["question"] for shown in evaluation["examples_shown"]} == {"where is mary"}
    assert {shown["answer"] for shown in evaluation["examples_shown"]} == {"bathroom", "hallway"}
    talk = Conversation(folder.with_name("talk"))
    talk.tell("Mary moved to the bathroom.", "John went to the hallway.")
    first = talk.ask("Where is Mary?")
    by_story = [
        shown["prediction"] for shown in read_object(folder.with_name("talk") / "evaluation.json")["examples_shown"]
    ]
    assert first == by_story[0]
    talk.tell("Mary went to the hallway.")
    assert talk.ask("where is mary") == by_story[1]
    talk.forget()
    capsys.readouterr()
    assert talk.ask("Where is Xerxes?") in ("bathroom", "hallway")
    assert "1 of these words is none that the model was trained with" in capsys.readouterr().err
    for sentence, words in (("...", "no word"), ("mary " * 30, "the longest of the data has")):
        with pytest.raises(MemjaxError, match=words):
            talk.tell(sentence)
    with pytest.raises(MemjaxError, match="is no run of a memory"):
        Conversation(folder)
    # Another working directory finds the data; other data of the task is taken if it has the same words.
    monkeypatch.chdir(tmp_path)
    assert call(capsys, "evaluate", folder)[0] == 0
    for words, fits in (("bathroom", True), ("bedroom", False)):
        (raw / "qa1_single_test.txt").write_text(STORY * 3)
        (raw / "qa1_single_train.txt").write_text(STORY.replace("bathroom", words) * 10)
        assert call(capsys, "prepare", "babi", f"--from={raw.parent}", f"--data_dir={words}")[0] == 0
        evaluated = "evaluate", folder, f"--data_dir={words}"
        if fits:
            assert call(capsys, *evaluated)[0] == 0
            (file,) = folder.glob("evaluation-bathroom-*.json")
            assert read_object(file)["examples"] == 6
            assert read_object(folder / "evaluation.json")["examples"] == 20
        else:
            assert "the vocabulary of this data is another" in refused(capsys, *evaluated)
    # What lies there is another now than when it learned: told in the notes and when it goes on, and refused where its
    # numbers would mean other words, also where the data that it learned from is not here any more.
    for train, told in (
        (STORY.replace("Mary moved", "John moved"), "this is not the data with which the run began to learn (train"),
        (STORY.replace("bathroom", "bedroom"), None),
    ):
        shutil.rmtree(here / "data")
        (raw / "qa1_single_train.txt").write_text(train * 10)
        assert call(capsys, "prepare", "babi", f"--from={raw.parent}", f"--data_dir={here / 'data'}")[0] == 0
        if told:
            assert call(capsys, "evaluate", folder)[0] == 0
            assert told in " ".join(read_object(folder / "evaluation.json")["notes"])
        else:
            assert "would mean something else" in refused(capsys, "evaluate", folder)
            resumed = "train", f"{BABI}:directly,task=1,folder=mine", *flags(BABI_TINY), f"--data_dir={here / 'data'}"
            assert "would mean something else" in refused(capsys, *resumed, f"--run={folder}")
            with pytest.raises(MemjaxError, match="would mean something else"):
                Conversation(folder.with_name("talk"))
    shutil.rmtree(here / "data")
    assert "would mean something else" in refused(capsys, "evaluate", folder, f"--data_dir={tmp_path / 'bedroom'}")
    moved = Conversation(folder.with_name("talk"), tmp_path / "bathroom")
    moved.tell("Mary moved to the bathroom.", "John went to the hallway.")
    assert moved.ask("Where is Mary?") == first
    assert trained_model(folder.with_name("talk"), tmp_path / "bathroom")[1].keys() == {"params"}


# Bad input.


@pytest.fixture
def untrained(monkeypatch):
    """Nothing may come as far as training: it would take minutes to find that out."""

    def train(*_):
        raise AssertionError("the command trains")

    monkeypatch.setattr(experiment, "train", train)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "did you mean 'train'?"),
        (["train", "--runs=x"], "runs"),
        (["train", EVIDENCE, "--training.steps=3"], "did you mean --config.training.steps?"),
        (["train", EVIDENCE, "--steps=3"], "unknown option --steps; did you mean --config.training.steps?"),
        (["train", EVIDENCE, "--layers=3"], "did you mean --config.memory.layers or --config.rehearsal.layers?"),
        (["train", "configs/evidence.py:demo"], "write --config=configs/evidence.py:demo"),
        (["train", EVIDENCE, "--seeds=3"], "memjax compare --seeds=N"),
        (["train", EVIDENCE, "--plugin"], "write --plugin=MODULE"),
        (["train", EVIDENCE, "--plugin=no.such"], "--plugin=no.such cannot be imported"),
        (["train", "extra"], "extra"),
        (["train", EVIDENCE, "--run="], "--run= is empty"),
        (["train", EVIDENCE, "--data_dir=data"], "needs no data"),
        (["train", EVIDENCE, f"{EVIDENCE},seed=1"], "two configs"),
        (["train", f"{EVIDENCE},discrete=2"], "must be 0 or 1"),
        (["train", RECALL, "--config.memory.momentum=False"], "did you mean 'config.model.momentum'"),
        (["train", EVIDENCE, "--config.memory=rehearsal"], "--config.memory.KEY=VALUE with one of"),
        (["train", EVIDENCE, "--config.memory.update_heads=1"], "a size of memory=continual"),
        (["train", EVIDENCE, "--config.memory.heads=0"], "config.memory: heads"),
        (["train", "--config=nowhere.py"], "no config file nowhere.py"),
        (["train", f"--config={CONFIGS.parent / 'README.md'}"], "README.md names no .py file"),
        (["train", "--config="], "--config= names no .py file"),
        (["train", f"{EVIDENCE}o"], "did you mean 'demo'?"),
        (["train", f"{EVIDENCE},sed=1"], "did you mean 'seed'?"),
        (["train", f"{EVIDENCE},seed=one"], "must be of type int"),
        (["train", f"{EVIDENCE},system=direct"], "did you mean 'directly'?"),
        (["train", f"{EVIDENCE},memory=rehersal"], "did you mean 'rehearsal'?"),
        (["train", EVIDENCE, "--config.training.stepz=3"], "did you mean 'config.training.steps'?"),
        (["train", EVIDENCE, "--config.trainin.steps=3"], "did you mean 'config.training.steps'?"),
        (["train", EVIDENCE, "--config.training.steps=many"], "many"),
        (["train", EVIDENCE, "--config.training.steps=1.5"], "1.5"),
        (["train", EVIDENCE, "--config.rehearsal.deterministic=maybe"], "maybe"),
        (["train", EVIDENCE, "--config.rehearsal.sampler=histry"], "did you mean 'history'?"),
        (["train", EVIDENCE, "--config.training.steps=0"], "training.steps"),
        (["train", EVIDENCE, "--config.memory.slots=0"], "slots"),
        (["train", EVIDENCE, "--config.memory.heads=3"], "heads 3"),
        (["train", EVIDENCE, "--config.memory.encoder=gro"], "did you mean 'gru'?"),
        (["train", EVIDENCE, "--config.model.width=63"], "width"),
        (["train", EVIDENCE, "--config.task.facts=7"], "config.task.facts 7"),
        (["train", EVIDENCE, "--config.task.length=3"], "task.length 3"),
        (["train", EVIDENCE, "--config.task.seed=-1"], "task.seed"),
        (["train", EVIDENCE, "--config.training.batch_size=12"], "multiple of 8, the devices"),
        (["train", f"{BABI}:rehersal"], "did you mean 'rehearsal'?"),
        (["train", f"{BABI}:rehearsal", "--data_dir=nothing"], "memjax prepare babi"),
        (["evaluate"], "name at least one run folder"),
        (["evaluate", "nowhere"], "nowhere is not a run: it has no config.json"),
        (["report"], "name at least one run folder"),
        (["report", "nowhere"], "nowhere"),
        (["prepare"], "memjax prepare babi"),
        (["prepare", "squad", "--from=x"], "memjax prepare babi"),
        (["prepare", "babi"], "tasks_1-20_v1-2.tar.gz of Weston et al."),
        (["prepare", "babi", "--from="], "memjax prepare babi --from=ARCHIVE"),
        (["prepare", "babi", "--from=nowhere.tar.gz"], "nowhere.tar.gz"),
        (["prepare", "babi", "--from=.", "--extra=x"], "FOLDER_NAME=FILE"),
    ],
    ids=lambda x: " ".join(x[-2:])[-60:] if isinstance(x, list) else "",
)
def test_bad_input_is_one_line_and_leaves_nothing(arguments, words, here, capsys, untrained):
    assert words in refused(capsys, *arguments)
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("this is no Python", "SyntaxError"),
        ("x = 1", "has no function get_config"),
        ("import nothere", "nothere"),
    ],
)
def test_a_config_file_that_is_none_is_one_line(text, words, tmp_path, here, capsys, untrained):
    (tmp_path / "config.py").write_text(text)
    assert words in refused(capsys, "train", f"--config={tmp_path / 'config.py'}")
    assert not list(here.iterdir())


def test_a_run_folder_below_a_file_is_one_line(tmp_path, here, capsys):
    (tmp_path / "file").write_text("mine")
    for run in (tmp_path / "file", tmp_path / "file" / "run", Path("/proc/memjax")):
        message = refused(capsys, "train", EVIDENCE, *flags(), f"--run={run}")
        assert "cannot write to" in message and str(run) in message
    assert (tmp_path / "file").read_text() == "mine" and not list(here.iterdir())


@pytest.mark.parametrize("kind", ["text", "empty", "truncated", "no bAbI in it", "another file in it"])
def test_what_is_not_babi_is_one_line_and_nothing_is_prepared(kind, tmp_path, here, capsys):
    source, member = tmp_path / "tasks.tar.gz", tmp_path / "qa1_x_train.txt"
    member.write_text("once upon a time\n" if kind == "another file in it" else STORY * 200)
    with tarfile.open(source, "w:gz") as archive:
        archive.add(member, "tasks/readme.md" if kind == "no bAbI in it" else "tasks/en/qa1_x_train.txt")
    if kind == "text":
        source.write_text("no archive at all\n" * 100)
    elif kind == "empty":
        source.write_bytes(b"")
    elif kind == "truncated":
        source.write_bytes(source.read_bytes()[:-200])
    assert "tasks.tar.gz" in refused(capsys, "prepare", "babi", f"--from={source}", "--data_dir=data")
    assert not files(here)


def test_a_run_that_was_never_trained_is_one_line(tmp_path, trained, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(trained / "config.json", folder)
    assert "no checkpoint" in refused(capsys, "evaluate", folder)
    assert [path.name for path in folder.iterdir()] == ["config.json"]


def test_a_half_trained_yardstick_stands_in_no_table(tmp_path, trained):
    other = tmp_path / "directly"
    other.mkdir()
    config = read_object(trained / "config.json") | {"system": "directly"}
    (other / "config.json").write_text(json.dumps(config))
    for step, found in ((3, []), (4, [other])):
        (other / "evaluation.json").write_text(json.dumps({"step": step, "metrics": {}}))
        assert yardsticks(tmp_path / "run", read_config(trained)) == found
    (other / "metrics.jsonl").write_text("what is damaged there is not this run's matter\n")
    assert yardsticks(tmp_path / "run", read_config(trained)) == []


@pytest.mark.parametrize("name", ["config.json", "evaluation.json"])
def test_a_damaged_run_is_one_line(name, tmp_path, trained, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    (folder / name).write_text('{"task": ')
    assert f"{name} is damaged" in refused(capsys, "report", folder)
    if name == "config.json":
        assert f"{name} is damaged" in refused(capsys, "evaluate", folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"[]", "list, not an object"), (b'{"x": "\xff"}', "is damaged"), (b"{}", "config.task is missing")],
    ids=str,
)
def test_a_config_of_a_run_that_is_none_names_the_file(content, words, tmp_path, capsys):
    (tmp_path / "config.json").write_bytes(content)
    message = refused(capsys, "evaluate", tmp_path)
    assert words in message and str(tmp_path / "config.json") in message and "delete" not in message


@pytest.mark.parametrize("line", [b"[1]", b"\xff\xfe", b"hello", b'{"phase": "train"}'], ids=str)
def test_a_damaged_log_is_one_line_for_training_too_and_stays_as_it_is(line, tmp_path, trained, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    damaged = line + b"\n" + (folder / "metrics.jsonl").read_bytes()
    (folder / "metrics.jsonl").write_bytes(damaged)
    for arguments in (["train", EVIDENCE, *flags(), f"--run={folder}"], ["report", folder]):
        assert "metrics.jsonl is damaged: line 1 " in refused(capsys, *arguments)
    assert (folder / "metrics.jsonl").read_bytes() == damaged


def test_what_is_not_finite_is_one_line_that_names_step_and_part(tmp_path, capsys):
    changes = {"optimizer__learning_rate": 1e30, "training__validate_every": 4, "training__log_every": 4}
    config = [EVIDENCE + ",system=directly", *flags(**changes, training__checkpoint_every=1)]
    message = refused(capsys, "train", *config, f"--run={tmp_path / 'run'}")
    assert "train step 1: param_norm is not finite" in message and "no checkpoint" in message
    assert not (tmp_path / "run" / "evaluation.json").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"training__batch_size": 128},
        {"task__facts": 2, "task__groups": 1, "task__answers": 2, "task__evidence": 1, "task__length": 40},
    ],
    ids=["fewer examples than a batch", "no stream possible"],
)
def test_sizes_that_cannot_be_trained_leave_nothing(changes, here, capsys):
    refused(capsys, "train", EVIDENCE + ",system=directly", *flags(**changes), "--run=run")
    assert not list(here.iterdir())


@pytest.mark.parametrize("place", ["nothing://x", "/proc/nothing", "gs://bucket"])
def test_checkpoints_that_cannot_be_reached_are_one_line_and_leave_nothing(place, here, capsys, trained, tmp_path):
    if place.startswith("gs") and importlib.util.find_spec("gcsfs"):
        pytest.skip("of an environment without gcsfs")
    message = refused(capsys, "train", EVIDENCE, *flags(training__checkpoints=place), "--run=run")
    assert place in message and ("cannot reach checkpoints" in message or "cannot write to" in message)
    assert not list(here.iterdir())
    shutil.copytree(trained, here / "run")
    config = read_object(here / "run" / "config.json")
    config["training"]["checkpoints"] = place
    (here / "run" / "config.json").write_text(json.dumps(config))
    assert place in refused(capsys, "evaluate", "run")


def test_a_run_that_was_renamed_does_not_begin_again_without_its_checkpoints(here, capsys):
    settings = [EVIDENCE, *flags(training__checkpoints="place")]
    assert cli.main(["train", *settings, "--run=run"]) == 0
    (here / "run").rename(here / "other")
    before = sorted(path.name for path in (here / "other").iterdir())
    message = refused(capsys, "train", *settings, "--run=other")
    assert "its checkpoints are not in" in message and "place/other" in message
    assert sorted(path.name for path in (here / "other").iterdir()) == before and not (here / "place/other").exists()
    (here / "place/run").rename(here / "place/other")
    assert cli.main(["train", *settings, "--run=other"]) == 0


def test_a_place_of_checkpoints_is_one_runs_at_a_time(here, capsys):
    settings = [EVIDENCE, *flags(training__checkpoints="place")]
    (here / "place" / "run").mkdir(parents=True)
    with runs.locked(here / "place" / "run"):
        assert "place/run is being trained by another process" in refused(capsys, "train", *settings, "--run=a/run")
    assert not (here / "a" / "run").exists()


@pytest.mark.parametrize("command", [("train", EVIDENCE), ("compare", "--of=none"), ("evaluate", "run")], ids=" ".join)
def test_a_folder_of_compiled_programs_that_cannot_be_made_is_one_line(command, here, capsys):
    assert "cannot write to /proc/nothing" in refused(capsys, *command, "--compile_cache=/proc/nothing")
    assert "--compile_cache= is empty" in refused(capsys, *command, "--compile_cache=")


@pytest.mark.parametrize("changes", [{"task__segment": 10**9}, {"model__width": 2**20}], ids=str)
def test_what_does_not_fit_into_memory_is_one_line_and_leaves_nothing(changes, here, capsys):
    message = refused(capsys, "train", EVIDENCE + ",system=directly", *flags(**changes), "--run=run")
    assert "does not fit into memory; lower config." in message
    assert not list(here.iterdir())


def test_another_failure_of_jax_is_not_taken_for_a_lack_of_memory(here, monkeypatch):
    def fail(*_):
        raise RuntimeError("INTERNAL: something else")

    monkeypatch.setattr(experiment, "run_phase", fail)
    with pytest.raises(RuntimeError, match="something else"):
        cli.main(["train", EVIDENCE, *flags(), "--run=run"])
    assert not list(here.iterdir())


def test_an_interruption_says_how_to_go_on(here, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "train", interrupted)
    status, _, err = call(capsys, "train", EVIDENCE, *flags())
    assert status == 130 and err.count("\n") == 1 and "the same command goes on" in err


@pytest.mark.slow
def test_an_interruption_while_compiling_ends_the_process_cleanly(tmp_path):
    command = [sys.executable, "-m", "memjax.cli", "train", EVIDENCE, *flags(), f"--run={tmp_path / 'run'}"]
    alone = os.environ | {"PYTHONUNBUFFERED": "1", "JAX_PLATFORMS": "cpu"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=alone, **pipes)
    assert "in " in process.stdout.readline()  # the system is named, then it compiles
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    # Of a step that runs by then, a first line says that it is saved.
    assert process.returncode == 130 and "the same command goes on" in err.splitlines()[-1], err
    assert all(line.startswith("memjax: interrupted") for line in err.splitlines()), err


@pytest.mark.slow
def test_a_run_that_is_terminated_saves_first_and_the_same_command_goes_on(tmp_path):
    sizes = flags(training__steps=100_000, training__checkpoint_every=100_000, training__validate_every=100_000)
    run = tmp_path / "run"
    command = [sys.executable, "-m", "memjax.cli", "train", EVIDENCE, *sizes, f"--run={run}"]
    alone = os.environ | {"PYTHONUNBUFFERED": "1", "JAX_PLATFORMS": "cpu"}
    for _ in range(2):
        steps = len(read_entries(run / "metrics.jsonl"))
        process = subprocess.Popen(command, env=alone, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(read_entries(run / "metrics.jsonl")) < steps + 10:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 143 and err.count("\n") == 1 and "is saved, and the same command" in err, err
    logged = [entry["step"] for entry in read_entries(run / "metrics.jsonl") if entry["phase"] == "train"]
    assert logged == list(range(1, len(logged) + 1))
    assert f"step {logged[-1]} is saved" in err


def test_help_says_what_there_is(capsys):
    for arguments in ([], ["--help"], ["help"]):
        status, out, err = call(capsys, *arguments)
        assert status == 0 and not err
        assert all(f"memjax {command} " in out for command in cli.COMMANDS)
    for command in cli.COMMANDS:
        for flag in ("--help", "-h"):
            status, out, err = call(capsys, command, flag)
            assert status == 0 and not err and out.startswith(f"memjax {command} ")


def test_what_there_is_is_listed(capsys):
    status, out, err = call(capsys, "list")
    assert status == 0 and not err
    for name in (*memories.registry, *tasks.registry, "configs/evidence.py:small"):
        assert name in out
    assert "update_heads=4" in out and "arrangement" in out
    assert "evidence.py" not in call(capsys, "list", "memories")[1]
    assert "memjax list takes configs, memories, tasks" in refused(capsys, "list", "memory")


def test_what_stands_behind_a_listed_command_are_its_flags(capsys):
    for file in (Path(memjax.__file__).parents[1] / "configs").glob("*.py"):
        for line in (ast.get_docstring(ast.parse(file.read_text())) or "").splitlines():
            if line.strip().startswith("memjax train "):
                words = line.strip().partition("  ")[0].split()[2:]
                assert words and all(word.startswith("--") for word in words), line


@pytest.mark.parametrize("stop", [KeyboardInterrupt, program.Terminated])
def test_what_does_not_go_on_is_not_said_to(here, capsys, monkeypatch, stop):
    def stopped(*_):
        raise stop

    monkeypatch.setattr(list_command, "make_console", stopped)
    status, _, err = call(capsys, "list")
    assert status == {KeyboardInterrupt: 130, program.Terminated: 143}[stop]
    assert err.endswith("; the same command begins again\n") and err.count("\n") == 1


def test_a_folder_that_cannot_be_written_to_is_told_before_anything_is_tested(trained, capsys, monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(runs.tempfile, "NamedTemporaryFile", refuse)
    monkeypatch.setattr(experiment, "evaluate", None)
    assert "cannot write to" in refused(capsys, "evaluate", trained)


@pytest.mark.parametrize("command", ["--help", "--version"])
def test_a_reader_that_leaves_early_gets_no_traceback(command):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-m", "memjax.cli", command], **pipes)
    process.stdout.close()
    err = process.stderr.read()
    assert (process.wait(timeout=60), err) == (141, "")


def test_the_version_is_told(capsys):
    assert call(capsys, "--version") == (0, f"{memjax.__version__}\n", "")


def test_without_a_config_the_demo_is_trained(here, monkeypatch, capsys):
    seen = []

    def train(prepared, folder, console, profile):
        seen.append((prepared.config, folder))
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "train", train)
    monkeypatch.setattr(sys, "argv", ["memjax", "train", "--config.training.steps=7"])
    assert cli.main() == 130
    ((config, folder),) = seen
    assert config.task.facts == 100 and config.training.steps == 7
    assert folder.parts[0] == "runs"
