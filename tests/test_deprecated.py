"""Names of the version before still work, and say what they are called now."""

import importlib
import runpy
from pathlib import Path

import pytest

from memjax import MemjaxError, memories, models
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping, resolved

CONFIGS = Path(__file__).parents[1] / "configs"


@pytest.mark.parametrize(
    ("room", "old", "new"), [(memories, "RetentionMemory", "EvictionMemory"), (models, "AskedMemory", "MemoryModel")]
)
def test_an_old_name_is_the_new_class_with_a_warning(room, old, new):
    with pytest.warns(DeprecationWarning, match=f"{old} is called {room.__name__}.{new} now"):
        found = getattr(room, old)
    assert found is getattr(room, new)
    assert old not in room.__all__ and new in room.__all__
    with pytest.raises(AttributeError, match=f"{room.__name__}' has no attribute '{old}s'"):
        getattr(room, f"{old}s")


@pytest.mark.parametrize("name", models.MOVED)
def test_what_builds_a_model_of_a_config_is_still_found_where_it_was(name):
    place = models.MOVED[name]
    with pytest.warns(DeprecationWarning, match=f"memjax.models.{name} is {place}.{name} now"):
        assert getattr(models, name) is getattr(importlib.import_module(place), name)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("rehearsal", {"segment": 3, "layers": 1, "heads": 2}),
        ("continual", {"segment": 3, "layers": 1, "heads": 2, "update_heads": 2}),
        ("stm", {"memory_width": 4}),
        ("surprise", {"segment": 3, "layers": 1, "heads": 2}),
    ],
)
def test_the_time_constant_of_a_memory_is_still_known_as_retention(name, own):
    sizes = {"slots": 4, "width": 8, **own}
    expected = memories.create(name, **sizes, time_constant=7.0)
    with pytest.warns(DeprecationWarning, match="retention is called time_constant now"):
        assert memories.create(name, **sizes, retention=7.0) == expected
    sizes["num_slots"] = sizes.pop("slots")
    with pytest.warns(DeprecationWarning, match=f"{type(expected).__name__}: retention is called time_constant now"):
        assert memories.registry[name](**sizes, retention=7.0) == expected
    with pytest.raises(MemjaxError, match="retention is called time_constant now; give time_constant alone"):
        memories.registry[name](**sizes, retention=7.0, time_constant=7.0)


@pytest.mark.parametrize(
    ("file", "arg", "section"),
    [("evidence", "demo", "memory"), ("evidence", "demo,memory=stm", "memory"), ("recall", "lmm", "model")],
)
def test_a_config_that_says_retention_is_read_as_of_today(file, arg, section):
    mapping = resolved(runpy.run_path(str(CONFIGS / f"{file}.py"))["get_config"](arg).to_dict())
    expected = from_mapping(mapping)
    own = dict(mapping[section])
    old = mapping | {section: {"retention": own.pop("time_constant"), **own}}
    assert from_mapping(old) == expected and resolved(old) == resolved(mapping)
    with pytest.raises(MemjaxError, match=f"config.{section}.retention is called time_constant now"):
        from_mapping(mapping | {section: {**mapping[section], "retention": 3.0}})
    changed = {**old[section], "retention": -1.0}
    with pytest.raises(MemjaxError, match="time_constant must be above 0 and at most 1e6, not -1"):
        prepare(from_mapping(old | {section: changed}))
