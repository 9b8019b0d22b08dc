"""What the README says works: its Python runs, its commands are read, its settings exist."""

import re
import shlex
import tarfile
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from memjax import cli
from memjax.tasks.builders import babi
from memjax.training import compare, experiment, processes

ROOT = Path(__file__).parents[1]
BABI = ROOT.parent / "shared" / "data" / "babi" / "babi_tasks_v1-2_en.tar.gz"
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


SNIPPETS = blocks("python")
COMMANDS = [part for block in blocks("bash") for line in block.splitlines() for part in line.split(" && ")]
ABLATIONS = re.findall(r"^\| `(--config\.\S+)` \|", README, re.MULTILINE)


@pytest.fixture
def configs(monkeypatch):
    """The configs that `memjax train` would have trained, from now on."""
    seen = []

    def prepare(config):
        seen.append(config)
        return SimpleNamespace(label="", task=SimpleNamespace(notes=()))

    monkeypatch.setattr(experiment, "prepare", prepare)
    monkeypatch.setattr(experiment, "train", lambda *arguments: None)
    monkeypatch.setattr(experiment, "evaluate", lambda *arguments: None)
    monkeypatch.setattr(cli, "_write_report", lambda *arguments: None)
    monkeypatch.setattr(processes, "join", lambda **_: None)
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
    babi.prepare(raw.parent, tmp_path / "data")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_python_runs(number, request):
    if 'data_dir="data"' in SNIPPETS[number]:
        request.getfixturevalue("prepared_babi")
    exec(compile(SNIPPETS[number], f"README.md, block {number}", "exec"), {"__name__": "readme"})


def test_the_snippets_show_every_way_in():
    text = "\n".join(SNIPPETS)
    for name in ("from memjax import ops", "RehearsalMemory", "nnx.bridge.ToNNX", "functional(memories.create("):
        assert name in text


@pytest.mark.parametrize("command", COMMANDS)
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
        monkeypatch.setattr(compare, "train_all", lambda plan, console: planned.extend(plan))
        monkeypatch.setattr(compare, "check_all", lambda plan: None)
        assert cli.main(arguments) == 0, capsys.readouterr().err
        assert len(planned) > 1
    elif program == "python":
        text = (ROOT / arguments[0]).read_text()
        assert all(argument.partition("=")[0] in text for argument in arguments[1:])
    elif program == "memjax":
        missing = next(a for a in (a.removeprefix("--from=") for a in arguments[1:]) if "/" in a or ".tar" in a)
        assert cli.main(arguments) == 2
        assert missing in (error := capsys.readouterr().err) and "--" not in error, error
    else:
        assert command == "pytest"


def test_the_two_commands():
    assert {"pip install -e '.[train]'", "memjax train", "pip install -e '.[test]'", "pytest"} <= set(COMMANDS)


@pytest.mark.parametrize("setting", ABLATIONS)
def test_an_ablation_is_one_setting(setting, configs):
    others = {"update_heads": "continual", "momentum": "surprise", "forgetting": "surprise"}
    memory = next((others[name] for name in others if name in setting), "rehearsal")
    source = f"--config=configs/evidence.py:demo,memory={memory}"
    assert cli.main(["train", source]) == 0
    assert cli.main(["train", source, setting]) == 0
    assert configs[0] != configs[1]


def test_the_ablations_are_those_of_the_config_file():
    head = (ROOT / "configs" / "evidence.py").read_text().split('"""')[1]
    assert set(ABLATIONS) == set(re.findall(r"--config\.\S+=\S+", head.split("Ablations")[1]))


def test_its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert "://" in target or (ROOT / target).exists(), target


def test_its_tables_of_results_can_be_filled_in():
    opened = re.findall(r"<!-- (results:\w+) -->", README)
    assert opened and opened == re.findall(r"<!-- /(results:\w+) -->", README)
