"""From a ConfigDict at the door to typed dataclasses inside. No value has a default here: configs/ says them all."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memjax import tasks
from memjax.errors import MemjaxError, require, unknown
from memjax.settings import check_range, typed
from memjax.tasks import AskedSpec, SequenceSpec

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
    batch_size: int
    microbatches: int
    log_every: int
    validate_every: int
    validate_examples: int
    checkpoint_every: int
    seed: int


@dataclass(frozen=True)
class AskedTrainingConfig(TrainingConfig):
    """Training, after that of a history sampler where one is needed."""

    sampler_steps: int


@dataclass(frozen=True)
class Config:
    """A whole experiment with a memory that is asked, or with a system that reads the stream directly."""

    system: Literal["memory", "directly", "multi_hop"]
    task: AskedSpec
    memory: MemoryConfig
    model: ModelConfig
    rehearsal: RehearsalConfig
    optimizer: OptimizerConfig
    training: AskedTrainingConfig

    @property
    def rehearses(self) -> bool:
        """Whether training has anything but the answer loss."""
        weighted = self.rehearsal.recollection > 0 or self.rehearsal.familiarity > 0
        return self.system == "memory" and self.rehearsal.fragments > 0 and weighted

    @property
    def needs_sampler(self) -> bool:
        """Whether a history sampler is trained first."""
        return self.rehearses and self.rehearsal.sampler == "history"


@dataclass(frozen=True)
class SequenceModelConfig:
    """A language model and its layers (see `memjax.models.language` and the layers' own words for each size).

    window: of attention; the layer lmm has none. gradient_at, chunk, retention: of the memory.
    """

    layer: Literal["attention", "lmm", "mac", "mag", "mal"]
    width: int
    depth: int
    heads: int
    hidden: int
    window: int
    persistent: int
    momentum: bool
    forgetting: bool
    gradient_at: Literal["token", "chunk"]
    chunk: int
    retention: float
    dropout: float
    dtype: Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class SequenceConfig:
    """A whole experiment with sequence layers."""

    system: Literal["sequence"]
    task: SequenceSpec
    model: SequenceModelConfig
    optimizer: OptimizerConfig
    training: TrainingConfig


AnyConfig = Config | SequenceConfig


def from_mapping(mapping: Any) -> AnyConfig:
    """Checks every key, type and size of a config, and returns it typed. Raises `MemjaxError`, in one line."""
    require(isinstance(mapping, Mapping), f"a config must be a group of settings, not {mapping!r}")
    mapping = dict(mapping)
    task = dict(_section(mapping, "task"))
    name = task.pop("name", None)
    if not isinstance(name, str) or name not in tasks.specs:
        raise unknown("config.task.name", str(name), tasks.specs)
    sequences = mapping.get("system") == "sequence"
    if (tasks.specs[name] in SequenceSpec.__args__) != sequences:
        fitting = "sequence" if not sequences else "memory, directly or multi_hop"
        raise MemjaxError(f"config.system for the task {name} must be {fitting}, not {mapping.get('system')!r}")
    if sequences:
        sequence = typed(SequenceConfig, mapping | {"task": typed(tasks.specs[name], task, "config.task")}, "config")
        _check_sequence(sequence)
        return sequence
    memory = dict(_section(mapping, "memory"))
    sizes = {key: value for key, value in memory.items() if key not in ("name", "slots")}
    for key, source in (("width", "model.width"), ("dtype", "model.dtype"), ("segment", "task")):
        require(key not in sizes, f"config.memory.{key} is not a setting of its own: it follows config.{source}")
    for key, size in sizes.items():
        check_range(size, f"config.memory.{key}")
    memory = {key: memory[key] for key in memory if key not in sizes} | {"sizes": sizes}
    mapping |= {"memory": memory, "task": typed(tasks.specs[name], task, "config.task")}
    config = typed(Config, mapping, "config")
    _check(config)
    return config


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


def _at_least(config: AnyConfig, section: str, low: int, *fields: str) -> None:
    for field in fields:
        value = getattr(getattr(config, section), field)
        require(value >= low, f"config.{section}.{field} must be at least {low}, not {value}")


def _check_training(config: AnyConfig) -> None:
    training, clip = config.training, config.optimizer.clip_norm
    _at_least(config, "optimizer", 0, "learning_rate", "warmup_steps", "decay_steps")
    _at_least(
        config, "training", 1, "steps", "batch_size", "microbatches", "log_every", "validate_every",
        "validate_examples", "checkpoint_every",
    )  # fmt: skip
    _at_least(config, "training", 0, "seed")
    require(clip > 0, f"config.optimizer.clip_norm must be above 0, not {clip}")
    require(
        training.batch_size % training.microbatches == 0,
        f"config.training.batch_size {training.batch_size} must be a multiple of microbatches {training.microbatches}",
    )
    width = config.model.width
    _at_least(config, "model", 1, "width")
    require(width <= LARGEST_WIDTH, f"config.model.width must be at most {LARGEST_WIDTH}, not {width}")


def _check_sequence(config: SequenceConfig) -> None:
    model = config.model
    _check_training(config)
    _at_least(config, "model", 1, "depth", "heads", "window", "chunk")
    _at_least(config, "model", 0, "hidden", "persistent")
    require(model.depth <= 1000, f"config.model.depth must be at most 1000, not {model.depth}")
    for name in ("hidden", "window", "chunk"):
        size = getattr(model, name)
        require(size <= LARGEST_WIDTH, f"config.model.{name} must be at most {LARGEST_WIDTH}, not {size}")
    require(
        0 < model.retention <= 1e6, f"config.model.retention must be above 0 and at most 1e6, not {model.retention}"
    )
    remembers = model.layer != "attention"
    for name in ("momentum", "forgetting"):
        require(
            remembers or getattr(model, name),
            f"config.model.{name}=False is for layers with a memory; attention has none",
        )
    require(
        not remembers or model.chunk <= config.task.length or config.task.length < 1,
        f"config.model.chunk {model.chunk} is above config.task.length {config.task.length}; lower the one, or raise "
        "the other",
    )
    require(0 <= model.dropout < 1, f"config.model.dropout must be in [0, 1), not {model.dropout}")
    require(
        model.layer in ("lmm", "mag", "mal") or model.gradient_at == "token",
        f"config.model.gradient_at=chunk is for the layers lmm, mag and mal, not {model.layer}",
    )


def _check(config: Config) -> None:
    model, rehearsal, training = config.model, config.rehearsal, config.training
    _check_training(config)
    _at_least(config, "memory", 1, "slots")
    _at_least(config, "model", 1, "hops")
    _at_least(config, "model", 0, "head_layers")
    _at_least(config, "rehearsal", 1, "layers", "heads")
    _at_least(config, "rehearsal", 0, "recollection", "familiarity", "answer", "fragments", "negatives")
    _at_least(config, "training", 0, "sampler_steps")
    require(model.width % 2 == 0, f"config.model.width must be even (two directions of a GRU), not {model.width}")
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
