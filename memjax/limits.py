"""Which configs cannot be: sizes and weights that contradict themselves or each other, each one line."""

import dataclasses
from functools import singledispatch

from memjax.errors import require
from memjax.schema import AgentConfig, AnyConfig, BitsConfig, Config, RetentionConfig, SequenceConfig

LARGEST_WIDTH = 2**20  # far more than fits; the square of a larger one ends the process in XLA
LARGEST_BATCH = 2**20
LARGEST_COUNT = 100  # of what is traced and compiled one by one: 1,000 take minutes, and a slip of the hand for ever


@singledispatch
def check(config: AnyConfig) -> None:
    """Raises `MemjaxError` for a config that cannot be run."""
    raise TypeError(f"{type(config).__name__} is no config")


def _at_least(config: AnyConfig, section: str, low: int, *fields: str) -> None:
    for field in fields:
        value = getattr(getattr(config, section), field)
        require(value >= low, f"config.{section}.{field} must be at least {low}, not {value}")


def _counts(config: AnyConfig, section: str, low: int, *fields: str) -> None:
    _at_least(config, section, low, *fields)
    for field in fields:
        count = getattr(getattr(config, section), field)
        require(count <= LARGEST_COUNT, f"config.{section}.{field} must be at most {LARGEST_COUNT}, not {count}")


def _check_training(config: AnyConfig) -> None:
    training, clip = config.training, config.optimizer.clip_norm
    _at_least(config, "optimizer", 0, "learning_rate", "warmup_steps", "decay_steps")
    _at_least(
        config, "training", 1, "steps", "batch_size", "microbatches", "log_every", "validate_every",
        "validate_examples", "checkpoint_every",
    )  # fmt: skip
    _at_least(config, "training", 0, "seed")
    sizes = dataclasses.asdict(config.mesh)
    for axis, size in sizes.items():
        require(size == -1 or size >= 1, f"config.mesh.{axis} must be at least 1, or -1 for the rest, not {size}")
    rest = [axis for axis, size in sizes.items() if size == -1]
    require(len(rest) < 2, f"config.mesh: one axis may be -1, not {' and '.join(rest)}; data is -1 unless it is set")
    require(
        config.mesh.sequence == 1 or isinstance(config, Config),
        f"config.mesh.sequence is for streams that are encoded segment by segment; for this task it must be 1, not "
        f"{config.mesh.sequence}",
    )
    require(
        training.batch_size <= LARGEST_BATCH,
        f"config.training.batch_size must be at most {LARGEST_BATCH}, not {training.batch_size}",
    )
    require(clip > 0, f"config.optimizer.clip_norm must be above 0, not {clip}")
    require(
        training.batch_size % training.microbatches == 0,
        f"config.training.batch_size {training.batch_size} must be a multiple of microbatches {training.microbatches}",
    )


def _widths(config: AnyConfig, *fields: str) -> None:
    _at_least(config, "model", 1, *fields)
    for field in fields:
        width = getattr(config.model, field)
        require(width <= LARGEST_WIDTH, f"config.model.{field} must be at most {LARGEST_WIDTH}, not {width}")


@check.register
def _check_bits(config: BitsConfig) -> None:
    model = config.model
    _check_training(config)
    _widths(config, "rows", "memory_width", "hidden", "programs")
    _counts(config, "model", 1, "read_heads")
    require(
        model.cell == "nutm" or model.programs == 1,
        f"config.model.programs={model.programs} is for the cell nutm; the {model.cell} has one program",
    )


@check.register
def _check_retention(config: RetentionConfig) -> None:
    _check_training(config)
    _widths(config, "width", "entries")
    _counts(config, "model", 1, "hops")
    _at_least(config, "training", 0, "base_steps")
    _check_actor_critic(config)


@check.register
def _check_agent(config: AgentConfig) -> None:
    _check_training(config)
    _widths(config, "width", "entries")
    _check_actor_critic(config)


def _check_actor_critic(config: RetentionConfig | AgentConfig) -> None:
    for name in ("discount", "trace"):
        value = getattr(config.actor_critic, name)
        require(0 <= value <= 1, f"config.actor_critic.{name} must be in [0, 1], not {value}")
    _at_least(config, "actor_critic", 0, "entropy", "value")


@check.register
def _check_sequence(config: SequenceConfig) -> None:
    model = config.model
    _check_training(config)
    _widths(config, "width")
    _counts(config, "model", 1, "depth")
    _at_least(config, "model", 1, "heads", "window", "chunk")
    _at_least(config, "model", 0, "hidden", "persistent")
    for name in ("hidden", "window", "chunk"):
        size = getattr(model, name)
        require(size <= LARGEST_WIDTH, f"config.model.{name} must be at most {LARGEST_WIDTH}, not {size}")
    require(
        0 < model.retention <= 1e6, f"config.model.retention must be above 0 and at most 1e6, not {model.retention}"
    )
    remembers = model.layer not in ("attention", "memn2n")
    for name in ("momentum", "forgetting"):
        require(
            remembers or getattr(model, name),
            f"config.model.{name}=False is for layers with a surprise memory; {model.layer} has none",
        )
    require(
        not remembers or model.chunk <= config.task.length or config.task.length < 1,
        f"config.model.chunk {model.chunk} is above config.task.length {config.task.length}; lower the one, or raise "
        "the other",
    )
    for name, only in (("heads", 1), ("hidden", 0), ("persistent", 0)):
        require(
            model.layer != "memn2n" or getattr(model, name) == only,
            f"config.model.{name} must be {only} for memn2n, which has none, not {getattr(model, name)}",
        )
    require(0 <= model.dropout < 1, f"config.model.dropout must be in [0, 1), not {model.dropout}")
    require(
        model.layer in ("lmm", "mag", "mal") or model.gradient_at == "token",
        f"config.model.gradient_at=chunk is for the layers lmm, mag and mal, not {model.layer}",
    )


@check.register
def _check_asked(config: Config) -> None:
    model, rehearsal, training = config.model, config.rehearsal, config.training
    _check_training(config)
    _widths(config, "width")
    _at_least(config, "memory", 1, "slots")
    _counts(config, "model", 1, "hops")
    _counts(config, "model", 0, "head_layers")
    _counts(config, "rehearsal", 1, "layers")
    _at_least(config, "rehearsal", 1, "heads")
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
