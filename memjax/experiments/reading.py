"""From nested mappings to the config of a family and back, and the config that a run folder holds."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memjax import memories, tasks
from memjax.config import plain, typed
from memjax.errors import MemjaxError, require, unknown
from memjax.experiments import Family, families
from memjax.training import runs

PLUGIN = "; a task of another package: name its module with --plugin=MODULE"


def from_mapping(mapping: Any) -> Any:
    """Checks every key, type and size of a config, and returns it typed.

    Raises:
        MemjaxError: for whatever does not fit, in one line.
    """
    require(isinstance(mapping, Mapping), f"a config must be a group of settings, not {mapping!r}")
    mapping = {key: value for key, value in mapping.items() if key != "plugins"}
    require(isinstance(mapping.get("task"), Mapping), "config.task is missing; see configs/evidence.py for all keys")
    task = dict(mapping["task"])
    name = task.pop("name", None)
    if not isinstance(name, str) or name not in tasks.registry:
        raise MemjaxError(f"{unknown('config.task.name', str(name), tasks.registry)}{PLUGIN}")
    entry = tasks.registry[name]
    family = family_of(name)
    others = {system for other in families.values() if other is not family for system in other.systems}
    system = mapping.get("system")
    if isinstance(system, str) and system in others - set(family.systems):
        *most, last = family.systems
        fitting = f"{', '.join(most)} or {last}" if most else last
        raise MemjaxError(f"config.system for the task {name} must be {fitting}, not {system!r}")
    mapping["task"] = typed(entry.spec, task, "config.task")
    config = typed(family.config, mapping, "config")
    family.check(config)
    return config


def to_mapping(config: Any) -> dict[str, Any]:
    """The config as nested plain dicts, from which `from_mapping` makes the same one."""
    mapping = plain(config)
    return mapping | {"task": {"name": tasks.name_of(config.task), **mapping["task"]}}


def resolved(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that any version has written, as this version writes them: with the defaults of what is new."""
    return to_mapping(from_mapping(settings))


def family_of(task_name: str) -> Family:
    """The family of a task.

    Raises:
        MemjaxError: for a family that there is not.
    """
    name = tasks.registry[task_name].family
    if name not in families:
        raise unknown(f"family of the task {task_name}", name, families)
    return families[name]


def read_config(folder: Path) -> Any:
    """The config of a run folder, typed."""
    settings, path = runs.read_settings(folder), Path(folder) / "config.json"
    missing = [name for name in _plugins(settings) if name not in sys.modules]
    give = " ".join(f"--plugin={name}" for name in missing)
    needs = f"{folder} needs what {', '.join(missing)} brings: give {give}"
    try:
        config = from_mapping(settings)
    except MemjaxError as error:
        other = f"{path} is no config of this version ({error}); mend it, or give another run"
        raise MemjaxError(needs if missing else other) from None
    # A memory's name is looked up when it is made: the config of a system without memory may have any.
    known = not hasattr(config, "memory") or config.memory.name in memories.registry
    require(known or not missing, needs)
    return config


def _plugins(settings: Mapping[str, Any]) -> list[str]:
    """The modules that a run folder names. They are shown to the user, and never imported from here."""
    names = settings.get("plugins")
    return [name for name in names if isinstance(name, str) and name.isprintable()] if isinstance(names, list) else []


def plugins_of(config: Any) -> tuple[str, ...]:
    """The modules, outside of memjax, of the task, the memory and the family of a config."""
    name = tasks.name_of(config.task)
    entry, family = tasks.registry[name], family_of(name)
    brought = [entry.spec, entry.make, family.config, family.make]
    if hasattr(config, "memory") and config.memory.name in memories.registry:
        brought.append(memories.registry[config.memory.name])
    modules = dict.fromkeys(getattr(each, "__module__", "") for each in brought)
    return tuple(module for module in modules if module.partition(".")[0] != "memjax")
