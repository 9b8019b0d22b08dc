"""The config of stream QA: a memory that is asked, or a system that reads the stream directly."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memjax import memories
from memjax.checks import at_least, check_counts, check_penalties, check_scales, check_shares, check_widths
from memjax.config import MeshConfig, OptimizerConfig, TrainingConfig
from memjax.config.typed import check_range, setting, typed
from memjax.deprecated import new_names
from memjax.errors import require
from memjax.experiments.family import DtypeName
from memjax.memories.memory_registry import size_fields
from memjax.typing import ReadScores

SystemName = Literal[
    "memory",
    "directly",
    "multi_hop",
    "as_reader",
    "e2e_mn",
    "multi_stream",
    "msan",
    "e_vqa",
    "e_mn",
    "e_sa",
    "hcrn",
    "gru4rec",
    "caser",
    "rum",
    "rum_features",
    "dien",
    "sasrec",
]
# What a memory takes from elsewhere in the config.
ELSEWHERE = {"width": "model.width", "dtype": "model.dtype", "segment": "task"}


@dataclass(frozen=True)
class MemoryConfig:
    """Which memory, and its sizes; width, segment and dtype come from elsewhere.

    Attributes:
        name: of the registry.
        slots: K.
        sizes: those that only it has, by their names.
    """

    name: str
    slots: int
    sizes: Mapping[str, Any]

    def __post_init__(self):
        at_least(self, 1, "slots")

    @classmethod
    def read(cls, mapping: Any, path: str) -> "MemoryConfig":
        """From one group of settings.

        Args:
            mapping: with those of the memory's own; what is left out is its class's default.
            path: of the group, for errors.

        Raises:
            MemjaxError: for what does not fit.
        """
        require(isinstance(mapping, Mapping), f"{path} must be a group of settings, not {mapping!r}")
        sizes = {key: value for key, value in mapping.items() if key not in ("name", "slots")}
        for key, source in ELSEWHERE.items():
            require(key not in sizes, f"{path}.{key} is not a setting of its own: it follows config.{source}")
        for key, size in sizes.items():
            check_range(size, f"{path}.{key}")
        name = mapping.get("name")
        if isinstance(name, str) and name in memories.registry:
            with setting(path):
                sizes = own_defaults(name) | new_names(memories.registry[name], sizes)
        common = {key: mapping[key] for key in ("name", "slots") if key in mapping}
        return typed(cls, common | {"sizes": sizes}, path)

    def plain(self) -> dict[str, Any]:
        """One group again, as `read` takes it."""
        return {**self.sizes, "name": self.name, "slots": self.slots}


def own_defaults(name: str) -> dict[str, Any]:
    """The sizes of a memory's own that have a default."""
    own = {size: field.default for size, field in size_fields(memories.registry[name]).items() if size not in ELSEWHERE}
    return {size: default for size, default in own.items() if default is not dataclasses.MISSING}


@dataclass(frozen=True)
class ModelConfig:
    """What stands around the memory.

    Attributes:
        width: of items, slots and queries; even.
        hops: of the reader.
        head_layers: hidden layers before the logits, of a task whose answers are classes or clicks.
        dtype: of the products; parameters and state stay float32.
        item_scale: how many times larger than their embeddings items come into memory and rehearser; `sqrt(width)`
            gives their numbers size 1.
        query_scale: how many times larger than their embeddings a memory's reader takes questions, and candidates that
            are texts; those that are items come as the items.
        read_scores: by which a memory's reader chooses slots; "additive", as printed, or "dot", dot products (ours).
        words: of a task whose questions and candidates are texts of the stream's words: "own" embeddings of the stream,
            the questions and the candidates; one that is "shared"; or one that is "fixed", of vectors that the task
            makes of its texts, and not trained.
        embeddings: of items and questions, where the training of a memory begins: "random", or as the history "sampler"
            has learned them. The sampler is trained first then, whether it draws fragments or not.
        dropout: of SASRec, the share of items, and of what a block adds, that training zeroes.
    """

    width: int = 64
    hops: int = 2
    head_layers: int = 0
    dtype: DtypeName = "float32"
    item_scale: float = 1.0
    query_scale: float = 1.0
    read_scores: ReadScores = "additive"
    words: Literal["own", "shared", "fixed"] = "own"
    embeddings: Literal["random", "sampler"] = "random"
    dropout: float = 0.2  # as published for MovieLens-1M

    def __post_init__(self):
        check_widths(self, "width")
        check_shares(self, "dropout")
        check_counts(self, 1, "hops")
        check_counts(self, 0, "head_layers")
        check_scales(self, "item_scale", "query_scale")
        require(self.width % 2 == 0, f"width must be even (two directions of a GRU), not {self.width}")


@dataclass(frozen=True)
class RehearsalConfig:
    """Weights of the three losses, what is rehearsed, and by what.

    By default as in Rehearsal Memory, but for the random sampler, which needs no training, and layers that fit a CPU.

    Attributes:
        recollection: the weight of its loss.
        familiarity: the weight of its loss.
        answer: the weight of the answer's loss.
        answer_after: in how many steps at the beginning the answer's loss has no weight, so that rehearsal comes first.
        anneal_steps: in how many steps the weights of recollection and familiarity fall to 0, linearly from the first
            step on; 0 for weights that stay.
        balance: how many times as hard as the answer rehearsal pulls at the slots of each example (the norm of their
            gradient), whatever the losses weigh; 0 for as hard as it does.
        fragments: how many of each stream are rehearsed, 0 for no rehearsal; even with the history sampler.
        mask_ratio: the share of a fragment's items that is hidden, in (0, 1).
        sampler: "history", which is trained first and draws half of the fragments from each half of the stream; or
            "random", from anywhere.
        deterministic: whether the history sampler takes the highest scores, and does not draw.
        negatives: from how many drawn items a hidden one is told; 0 for all items.
        among: where these are drawn from: the "vocabulary", or the same "stream"; vectors have no vocabulary.
        layers: of the rehearser.
        heads: of the rehearser, of which `width` is a multiple.
        norm_slots: whether there is LayerNorm on the slots in the rehearser.
        position_std: the standard deviation of the rehearser's positions at the start, before `model.item_scale`.
        tied: whether what the rehearser says of a hidden item is compared with the items' embeddings as it is (Eq. 3),
            with no matrix between.
    """

    recollection: float = 1.0
    familiarity: float = 0.5
    answer: float = 1.0
    answer_after: int = 0
    anneal_steps: int = 0
    balance: float = 0.0
    fragments: int = 6
    mask_ratio: float = 0.5
    sampler: Literal["history", "random"] = "random"
    deterministic: bool = False
    negatives: int = 0
    among: Literal["vocabulary", "stream"] = "vocabulary"
    layers: int = 2
    heads: int = 4
    norm_slots: bool = False
    position_std: float = 0.02
    tied: bool = False

    def __post_init__(self):
        check_counts(self, 1, "layers")
        at_least(self, 1, "heads")
        at_least(self, 0, "recollection", "familiarity", "answer", "answer_after", "anneal_steps")
        at_least(self, 0, "fragments", "negatives")
        check_penalties(self, "balance")
        check_scales(self, "position_std")


@dataclass(frozen=True)
class StreamQATrainingConfig(TrainingConfig):
    """`TrainingConfig`, and what stands here.

    Attributes:
        sampler_steps: of the phase before, of the history sampler where one is needed.
        buckets: into how many the examples are sorted by the lengths of their streams, each with a shape of its own to
            compile; there are no more than there are lengths. 1 for none, as tasks without `lengths` want it.
    """

    sampler_steps: int = 0
    buckets: int = 1

    def __post_init__(self):
        super().__post_init__()
        check_counts(self, 1, "buckets")
        at_least(self, 0, "sampler_steps")


@dataclass(frozen=True)
class StreamQAConfig:
    """A whole experiment with a memory that is asked, or with a system that reads the stream directly.

    Attributes:
        system: what is trained; a memory, or one that reads the stream directly.
        task: its spec.
        memory: which one.
        training: how long, and how often to look.
        model: what stands around the memory.
        rehearsal: what training has besides.
        optimizer: the learning rate and what goes with it.
        mesh: the devices.
    """

    system: SystemName
    task: Any
    memory: MemoryConfig
    training: StreamQATrainingConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    rehearsal: RehearsalConfig = field(default_factory=RehearsalConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)

    @property
    def rehearses(self) -> bool:
        """Whether training has anything but the answer loss."""
        weighted = self.rehearsal.recollection > 0 or self.rehearsal.familiarity > 0
        return self.system == "memory" and self.rehearsal.fragments > 0 and weighted

    @property
    def draws_by_history(self) -> bool:
        """Whether a history sampler draws what is rehearsed."""
        return self.rehearses and self.rehearsal.sampler == "history"

    @property
    def begins_learned(self) -> bool:
        """Whether a memory begins with the embeddings of the history sampler."""
        return self.system == "memory" and self.model.embeddings == "sampler"

    @property
    def needs_sampler(self) -> bool:
        """Whether a history sampler is trained first."""
        return self.draws_by_history or self.begins_learned


def check_stream_qa(config: StreamQAConfig) -> None:
    """Raises `MemjaxError` for sections that contradict each other."""
    model, rehearsal, training = config.model, config.rehearsal, config.training
    require(
        config.system == "sasrec" or model.dropout == ModelConfig.dropout,
        f"config.model.dropout is for config.system=sasrec alone, not {config.system}",
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
            rehearsal.answer_after < training.steps or rehearsal.answer == 0,
            f"config.rehearsal.answer_after {rehearsal.answer_after} is not below config.training.steps "
            f"{training.steps}: answers would never be learned; give fewer, or config.rehearsal.answer=0",
        )
        require(
            not rehearsal.balance
            or (rehearsal.answer > 0 and not rehearsal.answer_after and not rehearsal.anneal_steps),
            "config.rehearsal.balance makes rehearsal pull as hard as the answer does, at every step: give it 0, or "
            "config.rehearsal.answer above 0, answer_after=0 and anneal_steps=0",
        )
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
        require(
            rehearsal.among == "vocabulary" or rehearsal.negatives > 0,
            "config.rehearsal.negatives must be above 0 with config.rehearsal.among=stream: 30 in Rehearsal Memory",
        )
    if config.needs_sampler:
        why = "rehearsal.sampler=history" if config.draws_by_history else "model.embeddings=sampler"
        require(training.sampler_steps > 0, f"config.training.sampler_steps must be above 0 with config.{why}")
