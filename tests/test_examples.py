"""The examples run, and do what they say; they use what is public, and no command line or config."""

import ast
import importlib.util
import math
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))
LINES = 120


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_these_three():
    names = ["serve_memories", "train_rehearsal_memory", "train_titans_language_model"]
    assert [path.stem for path in FILES] == names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_short_and_uses_what_is_public(path):
    text = path.read_text()
    assert text.count("\n") <= LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("memjax"):
            module = importlib.import_module(node.module)
            assert {alias.name for alias in node.names} <= set(module.__all__) | {"streaming"}, ast.unparse(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert not {"absl", "ml_collections", "memjax.config", "memjax.cli"} & {getattr(node, "module", "")}


@pytest.mark.slow
def test_the_rehearsal_memory_learns_where_people_are(capsys):
    assert load("train_rehearsal_memory").main() > 0.9
    assert "by chance 0.25" in capsys.readouterr().out


@pytest.mark.slow
def test_the_language_model_learns_and_writes(capsys):
    example = load("train_titans_language_model")
    assert 1 < example.main() < 15 < len(example.characters) / 5
    printed = capsys.readouterr().out
    assert math.isfinite(float(printed.split("nats a character ")[-1].split()[0]))
    assert "The statement " in printed


def test_states_are_kept_and_nobody_sees_anothers(capsys):
    assert load("serve_memories").main() == 1
    printed = capsys.readouterr().out
    assert "the same answers from the file: True" in printed and "1,000 states" in printed
