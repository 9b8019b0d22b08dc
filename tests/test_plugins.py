"""What other packages bring: all three groups of entry points, and a family whose module a run folder names."""

import importlib
import json
import sys
from importlib.metadata import EntryPoint

import pytest
from training.tiny import mapping

from memjax import MemjaxError, memories, plugins, register_family, tasks
from memjax.experiments import families
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping, read_config

MODULES = {
    "their_memory": """
import memjax
from memjax.memories import RehearsalMemory

@memjax.register_memory("theirs")
class Theirs(RehearsalMemory):
    pass
""",
    "their_task": """
import memjax
from memjax.tasks import Evidence, EvidenceSpec

class TheirSpec(EvidenceSpec):
    pass

memjax.register_task("theirs", TheirSpec, Evidence, family="theirs")
""",
    "their_recipe": """
from memjax.experiments import families

def make(config, task):
    return families["stream_qa"].make(config, task)
""",
    "their_family": """
import memjax
from memjax.experiments import families
from memjax.experiments.stream_qa import StreamQAConfig
from their_recipe import make

class TheirConfig(StreamQAConfig):
    pass

memjax.register_family(families["stream_qa"]._replace(name="theirs", config=TheirConfig, make=make))
""",
    "their_mistake": "1 / 0",
}
REGISTRIES = (memories.registry, tasks.registry, families)


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """Modules that can be imported, for one test."""
    for name, code in MODULES.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    before = [dict(registry) for registry in REGISTRIES]
    yield
    for registry, entries in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(entries)
    for name in MODULES:
        sys.modules.pop(name, None)


def test_each_group_of_entry_points_is_imported_and_one_that_fails_is_left_out(theirs, monkeypatch, capsys):
    brought = [("memories", "their_mistake"), ("memories", "their_memory"), ("tasks", "their_task")]
    points = [EntryPoint(module, module, f"memjax.{room}") for room, module in [*brought, ("families", "their_family")]]
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point for point in points if point.group == group])
    plugins.load_installed()
    assert all("theirs" in registry for registry in REGISTRIES)
    told = "the plugin their_mistake of memjax.memories cannot be imported (ZeroDivisionError: division by zero)"
    assert capsys.readouterr().err == f"memjax: {told}; left out\n"


def test_a_run_names_the_modules_of_a_family_too(theirs, tmp_path):
    for name in ("their_task", "their_family"):
        importlib.import_module(name)
    settings = prepare(from_mapping(mapping(task__name="theirs"))).settings
    assert settings["plugins"] == ["their_task", "their_family", "their_recipe"]
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert type(read_config(tmp_path)) is families["theirs"].config
    del families["theirs"], sys.modules["their_family"]
    with pytest.raises(MemjaxError, match=r"needs what their_family brings: give --plugin=their_family$"):
        read_config(tmp_path)


def test_a_family_takes_the_place_of_none_but_itself(theirs):
    first = importlib.import_module("their_family").TheirConfig
    again = importlib.reload(sys.modules["their_family"]).TheirConfig
    assert families["theirs"].config is again is not first
    maze = families["maze"]
    stranger = type("MazeConfig", (maze.config,), {"__module__": "elsewhere"})
    assert stranger.__qualname__ == maze.config.__qualname__
    with pytest.raises(MemjaxError, match="there is a family 'maze' already; give yours another name"):
        register_family(maze._replace(config=stranger))
    assert families["maze"] is maze
