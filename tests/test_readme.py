"""What README and the manual say works: their Python runs, their commands are read, their settings exist."""

import json
import re
import shlex
import tarfile
import tomllib
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from memjax import cli, memories, tasks
from memjax.commands import compare_command, evaluate_command, train_command
from memjax.tasks.builders import babi_records
from memjax.training import experiment

ROOT = Path(__file__).parents[1]
BABI = ROOT.parent / "shared" / "data" / "babi" / "babi_tasks_v1-2_en.tar.gz"
GENERATED = {"api", "notebooks", "plots", "_build"}
MANUAL = sorted(p for p in (ROOT / "docs").rglob("*.md") if p.relative_to(ROOT / "docs").parts[0] not in GENERATED)
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "README.md", *MANUAL)}
README = PAGES["README.md"]


def blocks(language, text):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


SNIPPETS = [
    pytest.param(snippet, id=f"{page}-{number}")
    for page, text in PAGES.items()
    for number, snippet in enumerate(blocks("python", text))
]
COMMANDS = [
    part
    for text in PAGES.values()
    for block in blocks("bash", text)
    for line in block.replace("\\\n", " ").splitlines()  # a command may go on in the next line
    for part in line.split(" && ")
]
ABLATIONS = re.findall(r"^\| `(--config\.\S+)` \|", PAGES["docs/guides/first_run.md"], re.MULTILINE)


@pytest.fixture
def configs(monkeypatch):
    """The configs that `memjax train` would have trained, from now on."""
    seen = []

    def prepare(config):
        seen.append(config)
        return SimpleNamespace(recipe=SimpleNamespace(label="", notes=()), task_name="", task=SimpleNamespace(notes=()))

    monkeypatch.setattr(train_command, "prepare", prepare)
    monkeypatch.setattr(experiment, "train", lambda *arguments: None)
    monkeypatch.setattr(experiment, "evaluate", lambda *arguments, **settings: None)
    monkeypatch.setattr(train_command, "report", lambda *arguments: None)
    monkeypatch.setattr(train_command, "join", lambda *_: None)
    monkeypatch.setattr(train_command, "keep_compiled", lambda folder: None)
    return seen


@pytest.fixture
def prepared_babi(monkeypatch, tmp_path):
    """The folder that snippets run in, with bAbI's first task in `data`."""
    if not BABI.exists():
        pytest.skip("needs the bAbI archive")
    raw = tmp_path / "raw" / "en"
    raw.mkdir(parents=True)
    with tarfile.open(BABI) as archive:
        for info in archive:
            if "/en/qa1_" in info.name:
                (raw / Path(info.name).name).write_bytes(archive.extractfile(info).read())
    babi_records.prepare(raw.parent, tmp_path / "data")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own_registries():
    """What a snippet registers is gone after it."""
    kept = [(registry, dict(registry)) for registry in (memories.registry, tasks.registry)]
    yield
    for registry, entries in kept:
        registry.clear()
        registry.update(entries)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_python_runs(snippet, request, tmp_path, monkeypatch, own_registries):
    monkeypatch.chdir(tmp_path)
    if "memn2n_restarts" in snippet:
        monkeypatch.syspath_prepend(ROOT / "benchmarks")
    if 'data_dir="data"' in snippet:
        request.getfixturevalue("prepared_babi")
    exec(compile(snippet, request.node.name, "exec"), {"__name__": "manual"})


def test_the_snippets_show_every_way_in():
    text = "\n".join(snippet.values[0] for snippet in SNIPPETS)
    for name in ("from memjax import ops", "RehearsalMemory", "nnx.bridge.ToNNX", "functional(memories.create("):
        assert name in text


@pytest.mark.parametrize("command", list(dict.fromkeys(COMMANDS)))
def test_the_commands_are_read(command, request, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # nothing that they name is here
    program, *arguments = shlex.split(command)
    if program == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        (extras,) = re.findall(r"\[(.*)\]", arguments[-1])
        assert set(extras.split(",")) <= set(project["optional-dependencies"])
    elif program == "memjax" and arguments[0] == "train":
        configs = request.getfixturevalue("configs")
        assert cli.main(arguments) == 0, capsys.readouterr().err
        assert len(configs) == 1
    elif program == "memjax" and arguments[0] == "compare":
        planned = []
        monkeypatch.setattr(compare_command, "train_all", lambda plan, console: planned.extend(plan))
        monkeypatch.setattr(compare_command, "check_all", lambda plan: None)
        monkeypatch.setattr(compare_command, "keep_compiled", lambda folder: None)
        assert cli.main(arguments) == 0, capsys.readouterr().err
        assert len(planned) > 1
    elif program == "python":
        text = (ROOT / arguments[0]).read_text()
        assert all(argument.partition("=")[0] in text for argument in arguments[1:])
    elif program == "memjax" and arguments[0] == "list":
        assert cli.main(arguments) == 0 and capsys.readouterr().out
    elif program == "memjax":
        monkeypatch.setattr(evaluate_command, "keep_compiled", lambda folder: None)
        missing = next(a for a in (a.removeprefix("--from=") for a in arguments[1:]) if "/" in a or ".tar" in a)
        assert cli.main(arguments) == 2
        assert missing in (error := capsys.readouterr().err) and "--" not in error, error
    else:
        assert command == "pytest"


def test_the_two_commands():
    ours = {part for block in blocks("bash", README) for line in block.splitlines() for part in line.split(" && ")}
    assert ours == {"pip install -e '.[train]'", "memjax train", "pip install -e '.[test]'", "pytest"}


def test_it_is_short():
    assert README.count("\n") <= 150


def train(monkeypatch, capsys, *arguments):
    """A run as short as can be."""
    monkeypatch.setattr(train_command, "keep_compiled", lambda folder: None)
    short = ("steps=2", "sampler_steps=2", "validate_examples=16", "buckets=1")
    settings = [f"--config.training.{setting}" for setting in short]
    assert cli.main(["train", *arguments, *settings]) == 0, capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("page", "examples"), [("own_embeddings", None), ("own_clicks", 200)])
def test_a_folder_or_a_parquet_file_of_ones_own_is_trained(page, examples, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    guide = PAGES[f"docs/guides/{page}.md"]
    exec(blocks("python", guide)[0], {"__name__": "manual"})
    shown = shlex.split(blocks("bash", guide)[0].splitlines()[0])[2:]
    train(monkeypatch, capsys, *shown)
    (path,) = Path("runs").glob("*/evaluation.json")
    evaluation = json.loads(path.read_text())
    assert evaluation["metrics"]["answers"] == 2 * examples if examples else 10 < evaluation["examples"] < 60
    assert 0 < evaluation["metrics"]["accuracy"] < 1
    exec(blocks("py", guide)[0], {"__name__": "manual"})  # what is done with the run, or the data


@pytest.mark.slow
def test_data_of_ones_own_is_prepared_and_trained(tmp_path, monkeypatch, capsys):
    """The guide's first way, from the Python that writes the files to a run that was tested."""
    monkeypatch.chdir(tmp_path)
    guide = PAGES["docs/guides/own_data.md"]
    exec(blocks("python", guide)[0], {"__name__": "manual"})
    prepare, shown = (shlex.split(line)[1:] for line in blocks("bash", guide)[0].splitlines())
    assert cli.main(prepare) == 0, capsys.readouterr().err
    train(monkeypatch, capsys, *shown[1:])
    evaluation = json.loads(Path("runs/people/evaluation.json").read_text())
    assert evaluation["examples"] == 50
    capsys.readouterr()
    exec(blocks("py", guide)[0], {"__name__": "manual"})
    assert set(capsys.readouterr().out.split()) <= {"kitchen", "garden", "office", "cellar"}


@pytest.mark.slow
def test_what_the_manual_does_with_the_first_run_is_done(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train(monkeypatch, capsys, "--config.task.test=2", "--config.training.batch_size=8")
    for page in ("first_run", "own_code"):
        (snippet,) = blocks("py", PAGES[f"docs/guides/{page}.md"])
        found = {"__name__": "manual", "stream": jnp.zeros((6, 10), int), "mask": jnp.ones((6, 10), bool)}
        exec(snippet, found)
    assert np.isfinite(found["slots"].values).all()


@pytest.mark.slow
def test_a_text_of_ones_own_is_learned_and_goes_on_from_a_prompt(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    guide = PAGES["docs/guides/own_data.md"]
    (command,) = (block for block in blocks("text", guide) if "configs/language.py" in block)
    Path("FOLDER").mkdir()
    Path("FOLDER/mine.txt").write_text("It was the best of times, it was the worst of times. " * 400)
    monkeypatch.setattr(train_command, "keep_compiled", lambda folder: None)
    small = ("model.width=16", "model.depth=1", "task.length=32", "training.batch_size=8", "training.steps=2")
    small += ("optimizer.decay_steps=0", "training.validate_examples=8")
    shown = [*shlex.split(command)[1:], *(f"--config.{setting}" for setting in small)]
    assert cli.main(shown) == 0, capsys.readouterr().err
    capsys.readouterr()
    exec(blocks("py", guide)[1], {"__name__": "manual"})
    assert len(capsys.readouterr().out) == 201  # the line's end, too


def test_calls_are_compiled_as_the_manual_says():
    guide, found = PAGES["docs/guides/streaming.md"], {"__name__": "manual"}
    for snippet in (blocks("python", guide)[0], *blocks("py", guide)):
        exec(snippet, found)
    assert found["logits"].shape == (2, 5)


def test_python_of_the_manual_is_run_by_a_test():
    for page, text in PAGES.items():
        assert not [block for block in blocks("text", text) if re.search(r"^(import|from) ", block, re.MULTILINE)], page
    run_above = {"first_run": 1, "own_code": 1, "own_data": 2, "streaming": 1, "own_embeddings": 1, "own_clicks": 1}
    assert {page: len(blocks("py", text)) for page, text in PAGES.items() if blocks("py", text)} == {
        f"docs/guides/{page}.md": count for page, count in run_above.items()
    }


@pytest.mark.parametrize("setting", ABLATIONS)
def test_an_ablation_is_one_setting(setting, configs):
    others = {"update_heads": "continual", "momentum": "surprise", "forgetting": "surprise"}
    memory = next((others[name] for name in others if name in setting), "rehearsal")
    size = "small" if "scores" in setting else "demo"  # demo has additive scores alone
    source = f"--config=configs/evidence.py:{size},memory={memory}"
    assert cli.main(["train", source]) == 0
    assert cli.main(["train", source, setting]) == 0
    assert configs[0] != configs[1]


def test_the_ablations_are_those_of_the_config_file():
    head = (ROOT / "configs" / "evidence.py").read_text().split('"""')[1]
    assert set(ABLATIONS) == set(re.findall(r"--config\.\S+=\S+", head.split("Ablations")[1]))
