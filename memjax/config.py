"""From a ConfigDict at the door to typed dataclasses inside, and back."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from memjax import tasks
from memjax.errors import MemjaxError, require, unknown
from memjax.limits import check
from memjax.schema import (
    ActorCriticConfig,
    AgentConfig,
    AnyConfig,
    AskedTrainingConfig,
    BitsConfig,
    CellConfig,
    Config,
    MemoryConfig,
    MeshConfig,
    ModelConfig,
    NavigatorConfig,
    OptimizerConfig,
    ReaderConfig,
    RehearsalConfig,
    RetentionConfig,
    RetentionTrainingConfig,
    SequenceConfig,
    SequenceModelConfig,
    TrainingConfig,
)
from memjax.settings import check_range, typed

__all__ = [
    "ActorCriticConfig",
    "AgentConfig",
    "AnyConfig",
    "AskedTrainingConfig",
    "BitsConfig",
    "CellConfig",
    "Config",
    "MemoryConfig",
    "MeshConfig",
    "ModelConfig",
    "NavigatorConfig",
    "OptimizerConfig",
    "ReaderConfig",
    "RehearsalConfig",
    "RetentionConfig",
    "RetentionTrainingConfig",
    "SequenceConfig",
    "SequenceModelConfig",
    "TrainingConfig",
    "from_mapping",
    "parse_arg",
    "to_mapping",
]

# The kinds of tasks, the configs that they have, and what config.system may be with them.
_KINDS = (
    (tasks.AskedSpec, Config, ("memory", "directly", "multi_hop")),
    (tasks.SequenceSpec, SequenceConfig, ("sequence",)),
    (tasks.AlgorithmicSpec, BitsConfig, ("cell",)),
    (tasks.EpisodicSpec, RetentionConfig, ("retention",)),
    (tasks.MazeSpec, AgentConfig, ("agent",)),
)


def from_mapping(mapping: Any) -> AnyConfig:
    """Checks every key, type and size of a config, and returns it typed. Raises `MemjaxError`, in one line."""
    require(isinstance(mapping, Mapping), f"a config must be a group of settings, not {mapping!r}")
    mapping = dict(mapping)
    task = dict(_section(mapping, "task"))
    name = task.pop("name", None)
    if not isinstance(name, str) or name not in tasks.specs:
        raise unknown("config.task.name", str(name), tasks.specs)
    spec = tasks.specs[name]
    kind, systems = next((kind, systems) for specs, kind, systems in _KINDS if issubclass(spec, specs))
    if mapping.get("system") in {system for _, other, known in _KINDS for system in known if other is not kind}:
        fitting = " or ".join([", ".join(systems[:-1]), systems[-1]]) if len(systems) > 1 else systems[0]
        raise MemjaxError(f"config.system for the task {name} must be {fitting}, not {mapping.get('system')!r}")
    mapping["task"] = typed(spec, task, "config.task")
    if kind is Config:
        mapping["memory"] = _memory(mapping)
    config = typed(kind, mapping, "config")
    check(config)
    return config


def _memory(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a memory, those that only it has apart."""
    memory = dict(_section(mapping, "memory"))
    sizes = {key: value for key, value in memory.items() if key not in ("name", "slots")}
    for key, source in (("width", "model.width"), ("dtype", "model.dtype"), ("segment", "task")):
        require(key not in sizes, f"config.memory.{key} is not a setting of its own: it follows config.{source}")
    for key, size in sizes.items():
        check_range(size, f"config.memory.{key}")
    return {key: memory[key] for key in memory if key not in sizes} | {"sizes": sizes}


def to_mapping(config: AnyConfig) -> dict[str, Any]:
    """The config as nested plain dicts, from which `from_mapping` makes the same one."""
    mapping = dataclasses.asdict(config)
    name = next(name for name, spec in tasks.specs.items() if type(config.task) is spec)
    mapping["task"] = {"name": name, **mapping["task"]}
    if isinstance(config, Config):
        memory = mapping["memory"]
        mapping["memory"] = memory.pop("sizes") | memory
    return mapping


def parse_arg(arg: str, default: str, **defaults: Any) -> tuple[str, dict[str, Any]]:
    """Reads what follows the colon of `--config=file.py:variant,key=value`: `(variant, values)`.

    >>> parse_arg("rehearsal,task=1", "rehearsal", task=0)
    ('rehearsal', {'task': 1})
    """
    variant, values = None, dict(defaults)
    for part in filter(None, (arg or "").split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            require(variant is None, f"two variants, {variant!r} and {key!r}; give one, then KEY=VALUE")
            variant = key
        elif key not in values:
            raise unknown("config argument", key, values)
        else:
            kind = type(values[key])
            require(kind is not bool or value in ("0", "1"), f"config argument {key}={value!r} must be 0 or 1")
            try:
                values[key] = value == "1" if kind is bool else kind(value)
            except ValueError:
                raise MemjaxError(f"config argument {key}={value!r} must be of type {kind.__name__}") from None
    return variant or default, values


def _section(mapping: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    require(isinstance(mapping.get(key), Mapping), f"config.{key} is missing; see configs/evidence.py for all keys")
    return mapping[key]
