"""From a ConfigDict at the door to typed dataclasses inside. No value has a default here: configs/ says them all."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memjax import tasks
from memjax.errors import MemjaxError, require, unknown
from memjax.tasks import BabiSpec, EvidenceSpec

LARGEST_INT = 2**31 - 1
LARGEST_FLOAT = 3e38  # of float32, in which everything is computed
LARGEST_WIDTH = 2**20  # far more than fits; the square of a larger one ends the process in XLA


@dataclass(frozen=True)
class MemoryConfig:
    """Which memory, its K, and the sizes that only it has. Width, segment and dtype come from elsewhere."""

    name: str
    slots: int
    sizes: Mapping[str, Any]


@dataclass(frozen=True)
class ModelConfig:
    """What stands around the memory. dtype is that of computation; parameters and state stay float32.

    head_layers: hidden layers before the logits, of a task whose answers are classes.
    """

    width: int
    hops: int
    head_layers: int
    dtype: Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class RehearsalConfig:
    """Weights of the three losses, what is rehearsed, and by what. fragments=0: no rehearsal. negatives=0: all items.

    norm_slots: LayerNorm on the slots in the rehearser.
    """

    recollection: float
    familiarity: float
    answer: float
    fragments: int
    mask_ratio: float
    sampler: Literal["history", "random"]
    deterministic: bool
    negatives: int
    layers: int
    heads: int
    norm_slots: bool


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam with clipped gradients: linear warm-up, constant, then a linear fall to 0 over the last `decay_steps`."""

    learning_rate: float
    warmup_steps: int
    decay_steps: int
    clip_norm: float


@dataclass(frozen=True)
class TrainingConfig:
    """How long, in what pieces, and how often to look. A batch is split into `microbatches`, one after another."""

    steps: int
    sampler_steps: int
    batch_size: int
    microbatches: int
    log_every: int
    validate_every: int
    validate_examples: int
    checkpoint_every: int
    seed: int


@dataclass(frozen=True)
class Config:
    """A whole experiment."""

    system: Literal["memory", "directly", "multi_hop"]
    task: BabiSpec | EvidenceSpec
    memory: MemoryConfig
    model: ModelConfig
    rehearsal: RehearsalConfig
    optimizer: OptimizerConfig
    training: TrainingConfig

    @property
    def rehearses(self) -> bool:
        """Whether training has anything but the answer loss."""
        weighted = self.rehearsal.recollection > 0 or self.rehearsal.familiarity > 0
        return self.system == "memory" and self.rehearsal.fragments > 0 and weighted

    @property
    def needs_sampler(self) -> bool:
        """Whether a history sampler is trained first."""
        return self.rehearses and self.rehearsal.sampler == "history"


def from_mapping(mapping: Any) -> Config:
    """Checks every key, type and size of a config, and returns it typed. Raises `MemjaxError`, in one line."""
    require(isinstance(mapping, Mapping), f"a config must be a group of settings, not {mapping!r}")
    mapping = dict(mapping)
    task = dict(_section(mapping, "task"))
    name = task.pop("name", None)
    if not isinstance(name, str) or name not in tasks.specs:
        raise unknown("config.task.name", str(name), tasks.specs)
    memory = dict(_section(mapping, "memory"))
    sizes = {key: value for key, value in memory.items() if key not in ("name", "slots")}
    for key, source in (("width", "model.width"), ("dtype", "model.dtype"), ("segment", "task")):
        require(key not in sizes, f"config.memory.{key} is not a setting of its own: it follows config.{source}")
    for key, size in sizes.items():
        _check_range(size, f"config.memory.{key}")
    memory = {key: memory[key] for key in memory if key not in sizes} | {"sizes": sizes}
    mapping |= {"memory": memory, "task": _typed(tasks.specs[name], task, "config.task")}
    config = _typed(Config, mapping, "config")
    _check(config)
    return config


def to_mapping(config: Config) -> dict[str, Any]:
    """The config as nested plain dicts, from which `from_mapping` makes the same one."""
    mapping = dataclasses.asdict(config)
    name = next(name for name, spec in tasks.specs.items() if type(config.task) is spec)
    memory = mapping["memory"]
    return mapping | {"task": {"name": name, **mapping["task"]}, "memory": memory.pop("sizes") | memory}


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


def _typed(cls: type, mapping: Any, path: str) -> Any:
    require(isinstance(mapping, Mapping), f"{path} must be a group of settings, not {mapping!r}")
    hints = typing.get_type_hints(cls)
    for key in mapping:
        if key not in hints:
            raise unknown("setting", f"{path}.{key}", [f"{path}.{known}" for known in hints])
    missing = [key for key in hints if key not in mapping]
    require(not missing, f"{path} lacks {', '.join(missing)}")
    return cls(**{key: _value(hint, mapping[key], f"{path}.{key}") for key, hint in hints.items()})


def _value(hint: Any, value: Any, path: str) -> Any:
    if typing.get_origin(hint) is Literal:
        if value not in typing.get_args(hint):
            raise unknown(f"value of {path}", value, typing.get_args(hint))
        return value
    if dataclasses.is_dataclass(hint):
        return _typed(typing.cast(type, hint), value, path)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        _check_range(value, path, LARGEST_FLOAT)
        value = float(value)
    if hint in (int, float, str, bool):
        wrong = not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)
        require(not wrong, f"{path} must be of type {hint.__name__}, not {value!r}")
        require(hint is not float or math.isfinite(value), f"{path} must be finite, not {value!r}")
        _check_range(value, path)
    return value


def _check_range(value: Any, path: str, limit: float | None = None) -> None:
    if isinstance(value, (int, float)):
        limit = limit or (LARGEST_INT if isinstance(value, int) else LARGEST_FLOAT)
        require(abs(value) <= limit, f"{path} must be between {-limit} and {limit}, not {value}")


def _check(config: Config) -> None:
    model, rehearsal, optimizer, training = config.model, config.rehearsal, config.optimizer, config.training

    def at_least(section: Any, name: str, low: int, *fields: str) -> None:
        for field in fields:
            value = getattr(section, field)
            require(value >= low, f"config.{name}.{field} must be at least {low}, not {value}")

    at_least(config.memory, "memory", 1, "slots")
    at_least(model, "model", 1, "width", "hops")
    at_least(model, "model", 0, "head_layers")
    at_least(rehearsal, "rehearsal", 1, "layers", "heads")
    at_least(rehearsal, "rehearsal", 0, "recollection", "familiarity", "answer", "fragments", "negatives")
    at_least(optimizer, "optimizer", 0, "learning_rate", "warmup_steps", "decay_steps")
    at_least(
        training, "training", 1, "steps", "batch_size", "microbatches", "log_every", "validate_every",
        "validate_examples", "checkpoint_every",
    )  # fmt: skip
    at_least(training, "training", 0, "sampler_steps", "seed")
    require(optimizer.clip_norm > 0, f"config.optimizer.clip_norm must be above 0, not {optimizer.clip_norm}")
    require(model.width <= LARGEST_WIDTH, f"config.model.width must be at most {LARGEST_WIDTH}, not {model.width}")
    require(model.width % 2 == 0, f"config.model.width must be even (two directions of a GRU), not {model.width}")
    require(
        training.batch_size % training.microbatches == 0,
        f"config.training.batch_size {training.batch_size} must be a multiple of microbatches {training.microbatches}",
    )
    require(
        config.system != "memory" or model.width % rehearsal.heads == 0,
        f"config.model.width {model.width} must be a multiple of config.rehearsal.heads {rehearsal.heads}",
    )
    require(
        config.system != "memory" or config.rehearses or rehearsal.answer > 0,
        "no loss is left to train with; give config.rehearsal.answer, recollection or familiarity a weight above 0",
    )
    if config.rehearses:
        require(
            0 < rehearsal.mask_ratio < 1, f"config.rehearsal.mask_ratio must be in (0, 1), not {rehearsal.mask_ratio}"
        )
        require(
            training.batch_size > 1, "config.training.batch_size must be above 1: negatives come from other streams"
        )
        require(
            rehearsal.sampler == "random" or rehearsal.fragments % 2 == 0,
            f"config.rehearsal.fragments must be even with the history sampler, not {rehearsal.fragments}",
        )
    if config.needs_sampler:
        require(training.sampler_steps > 0, "config.training.sampler_steps must be above 0 with the history sampler")
