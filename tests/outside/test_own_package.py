"""A package of somebody else's, as docs/guides/own_task.md has it: built, installed, and used outside of the clone."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "own_task.md").read_text()
SMALL = [
    "--config.training.steps=4", "--config.training.batch_size=8", "--config.training.log_every=2",
    "--config.training.validate_every=4", "--config.training.checkpoint_every=2", "--config.task.train=32",
    "--config.task.test=16", "--config.model.width=16", "--config.rehearsal.layers=1",
]  # fmt: skip
pytestmark = pytest.mark.slow


def block(language, words):
    """The code of the guide in this language that has these words."""
    found = [code for code in re.findall(rf"```{language}\n(.*?)```", GUIDE, re.S) if words in code]
    assert len(found) == 1, words
    return found[0]


def wheel(folder):
    """The guide's package as a wheel, made by hand: nothing has to be fetched to build it."""
    project = block("toml", "[project]")
    name, version = (re.search(rf'^{key} = "(.*)"', project, re.M)[1] for key in ("name", "version"))
    group, entries = re.search(r'\[project.entry-points."(.*?)"\]\n(.*)', project, re.S).groups()
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    files = {
        "my_memories.py": block("python", "register_task"),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[{group}]\n{entries.replace(chr(34), '')}",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A folder away from the clone, with the guide's config, and the package installed in a place of its own."""
    folder = tmp_path_factory.mktemp("outside")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder / "site"]
    subprocess.run([*pip, wheel(folder)], check=True)
    (folder / "work").mkdir()
    (folder / "work" / "counting.py").write_text(block("python", "get_config"))
    return folder


def memjax(outside, *arguments, installed=True):
    """(exit status, standard output, standard error) of a command, in the folder of the config."""
    places = [str(outside / "site")] if installed else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*places, str(ROOT)]), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "memjax.cli", *map(str, arguments)]
    done = subprocess.run(command, cwd=outside / "work", env=environment, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def trained(outside):
    status, out, err = memjax(outside, "train", "--config=counting.py:sums", *SMALL)
    assert status == 0, err
    assert "sums memory on counting" in out
    return outside / "work" / "runs" / "counting-sums"


def test_the_package_with_its_config_is_at_most_60_lines_of_code():
    code = block("toml", "[project]") + block("python", "register_task") + block("python", "get_config")
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 60


def test_an_installed_package_is_trained_tested_and_reported(outside, trained):
    settings = json.loads((trained / "config.json").read_text())
    assert settings["plugins"] == ["my_memories"]
    assert settings["task"]["name"] == "counting" and settings["memory"]["name"] == "sums"
    assert settings["optimizer"]["clip_norm"] == 1.0  # a default, written down
    evaluation = json.loads((trained / "evaluation.json").read_text())
    assert (evaluation["step"], evaluation["examples"]) == (4, 16)
    assert {shown["answer"] for shown in evaluation["examples_shown"]} <= set("0123")
    # A report imports nothing: it needs the package neither installed nor named.
    status, out, err = memjax(outside, "report", trained, installed=False)
    assert status == 0 and "sums memory" in out, err


def test_its_run_goes_on_where_it_was(outside, trained):
    longer = [*SMALL[1:], "--config.training.steps=6"]
    status, _, err = memjax(outside, "train", "--config=counting.py:sums", *longer)
    assert status == 0 and "config.training.steps is 6 now, it was 4" in err
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "split" not in line] == [2, 4, 6]


def test_a_run_folder_imports_nothing_by_itself_and_says_which_module_to_name(outside, trained):
    for installed in (True, False):
        status, _, err = memjax(outside, "evaluate", trained, installed=installed)
        assert status == 2 and err.count("\n") == 1
        assert "needs what my_memories brings: give --plugin=my_memories" in err and "delete" not in err
    status, out, err = memjax(outside, "evaluate", trained, "--plugin=my_memories")
    assert status == 0 and "sums memory" in out, err


def test_without_the_package_a_config_says_that_a_module_may_be_missing(outside):
    status, _, err = memjax(outside, "train", "--config=counting.py:sums", installed=False)
    assert status == 2 and err.count("\n") == 1 and "--plugin=MODULE" in err


def test_it_is_compared_with_memories_of_memjax(outside):
    arguments = ["--of=sums,memn2n", "--rehearsal=without", "--run=compared"]
    status, out, err = memjax(outside, "compare", "--config=counting.py", *arguments, *SMALL)
    assert status == 0, err
    assert "sums without rehearsal" in out and "memn2n without rehearsal" in out


def test_a_module_that_is_not_installed_is_named(outside, tmp_path):
    (tmp_path / "my_memories.py").write_text(block("python", "register_task"))
    (tmp_path / "counting.py").write_text(block("python", "get_config"))
    place = type(outside)(tmp_path)
    (place / "work").mkdir()
    (place / "work" / "my_memories").mkdir()
    for file in ("my_memories.py", "counting.py"):
        shutil.copy(place / file, place / "work" / "my_memories" / file)
    status, _, err = memjax(place, "list", "tasks", "--plugin=my_memories", installed=False)
    assert status == 2 and "is a folder without an __init__.py" in err and err.count("\n") == 1
    for file in ("my_memories.py", "counting.py"):
        (place / file).rename(place / "work" / file)
    status, out, err = memjax(place, "list", "tasks", "memories", "--plugin=my_memories", installed=False)
    assert status == 0 and "counting" in out and "sums" in out, err
