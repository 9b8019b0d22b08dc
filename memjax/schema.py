"""What a config holds, typed. No value has a default here: configs/ says them all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memjax.tasks import AlgorithmicSpec, AskedSpec, EpisodicSpec, MazeSpec, SequenceSpec

Policy = Literal["fifo", "im", "lifo", "lru", "s", "shuffled_s", "shuffled_st", "st", "uniform"]


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
    """How long, in what pieces, and how often to look. A batch is split into `microbatches`, one after another.

    checkpoints: where they lie, as `gs://bucket/folder`, each run's in a folder of its name; "": in the run folder.
    """

    steps: int
    batch_size: int
    microbatches: int
    log_every: int
    validate_every: int
    validate_examples: int
    checkpoint_every: int
    checkpoints: str
    seed: int


@dataclass(frozen=True)
class AskedTrainingConfig(TrainingConfig):
    """Training, after that of a history sampler where one is needed."""

    sampler_steps: int


@dataclass(frozen=True)
class MeshConfig:
    """Devices along each axis; one may be -1, all the rest. Where a run is computed: no part of what it computes.

    data, fsdp: rows of a batch are split over both; parameters are kept in parts over fsdp. model: heads, hidden units,
    words. sequence: segments of the stream, while they are encoded.
    """

    data: int
    fsdp: int
    sequence: int
    model: int


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
    mesh: MeshConfig

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

    window: of attention; the layer lmm has none. gradient_at, chunk, retention: of the memory. memn2n is a model of its
    own: depth is its hops, window its memory.
    """

    layer: Literal["attention", "lmm", "mac", "mag", "mal", "memn2n"]
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
    mesh: MeshConfig


@dataclass(frozen=True)
class CellConfig:
    """An RNN cell with a memory of rows; programs: of the nutm, which alone has more than one."""

    cell: Literal["dnc", "ntm", "nutm"]
    rows: int
    memory_width: int
    read_heads: int
    hidden: int
    programs: int
    dtype: Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class BitsConfig:
    """A whole experiment with an RNN cell on a task of bits."""

    system: Literal["cell"]
    task: AlgorithmicSpec
    model: CellConfig
    optimizer: OptimizerConfig
    training: TrainingConfig
    mesh: MeshConfig


@dataclass(frozen=True)
class ReaderConfig:
    """A memory network on a buffer of `entries`, and what says which of them goes (`memjax.models.StreamReader`)."""

    width: int
    hops: int
    entries: int
    policy: Policy
    nop: bool


@dataclass(frozen=True)
class NavigatorConfig:
    """An agent that acts on what it sees and on `entries` of its views (`memjax.models.Navigator`)."""

    base: Literal["frmqn", "mqn"]
    width: int
    entries: int
    policy: Policy
    nop: bool


@dataclass(frozen=True)
class ActorCriticConfig:
    """gamma, lambda, and the weights of entropy and of the value's error (`memjax.training.actor_critic`)."""

    discount: float
    trace: float
    entropy: float
    value: float


@dataclass(frozen=True)
class RetentionTrainingConfig(TrainingConfig):
    """Training, after `base_steps` under FIFO. reward: what an eviction is rewarded for (`memjax.training.rewards`)."""

    base_steps: int
    reward: Literal["answers", "facts"]


@dataclass(frozen=True)
class RetentionConfig:
    """A whole experiment with a policy over a buffer."""

    system: Literal["retention"]
    task: EpisodicSpec
    model: ReaderConfig
    actor_critic: ActorCriticConfig
    optimizer: OptimizerConfig
    training: RetentionTrainingConfig
    mesh: MeshConfig


@dataclass(frozen=True)
class AgentConfig:
    """A whole experiment with an agent in mazes."""

    system: Literal["agent"]
    task: MazeSpec
    model: NavigatorConfig
    actor_critic: ActorCriticConfig
    optimizer: OptimizerConfig
    training: TrainingConfig
    mesh: MeshConfig


AnyConfig = Config | SequenceConfig | BitsConfig | RetentionConfig | AgentConfig
