"""The parts that the configs of all families have: how a run is optimized, how long it is, which devices it uses."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from memjax.checks import at_least, at_most, check_multiple
from memjax.errors import require

LARGEST_BATCH = 2**20


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam with clipped gradients: linear warm-up, constant, then a linear fall to 0.

    Attributes:
        learning_rate: between warm-up and fall.
        warmup_steps: of the rise from 0; 0 for none.
        decay_steps: the last ones, of the fall to 0; 0 for none. In a phase of fewer steps the rate falls from its
            first on as if so many were to come, and does not reach 0.
        clip_norm: the largest norm of all gradients together.

    Raises:
        MemjaxError: for what is out of range.
    """

    learning_rate: float = 1e-3
    warmup_steps: int = 100
    decay_steps: int = 0
    clip_norm: float = 1.0

    def __post_init__(self):
        at_least(self, 0, "learning_rate", "warmup_steps", "decay_steps")
        require(self.clip_norm > 0, f"clip_norm must be above 0, not {self.clip_norm}")


@dataclass(frozen=True)
class TrainingConfig:
    """How long, in what pieces, and how often to look.

    Attributes:
        steps: of the last phase.
        batch_size: examples of a step, on all devices together.
        microbatches: into how many parts a batch is split, one after another.
        log_every: after how many steps their mean is logged.
        validate_every: after how many steps it is validated.
        validate_examples: how many, spread evenly over the split; all, if it has no more.
        checkpoint_every: after how many steps a checkpoint is saved.
        checkpoints: where they lie, as `gs://bucket/folder`, each run's in a folder of its name; "": in the run folder.
        keep: with which parameters a run is tested and used: "newest", or "best", those with which a validation of the
            last phase had its best result, the first of the report that validations have, or else the smallest loss; of
            equal ones the earliest.
        seed: of parameters, the order of examples and all that is drawn in training.

    Raises:
        MemjaxError: for what is out of range, and for microbatches that do not divide a batch.
    """

    steps: int
    batch_size: int = 32
    microbatches: int = 1
    log_every: int = 10
    validate_every: int = 100
    validate_examples: int = 256
    checkpoint_every: int = 100
    checkpoints: str = ""
    keep: Literal["newest", "best"] = "newest"
    seed: int = 0

    def __post_init__(self):
        at_least(
            self, 1, "steps", "batch_size", "microbatches", "log_every", "validate_every", "validate_examples",
            "checkpoint_every",
        )  # fmt: skip
        at_least(self, 0, "seed")
        at_most(self, LARGEST_BATCH, "batch_size")
        check_multiple(self, "batch_size", "microbatches")


@dataclass(frozen=True)
class MeshConfig:
    """Devices along each axis; one may be -1, all the rest. Where a run is computed: no part of what it computes.

    Attributes:
        data: rows of a batch are split over it.
        fsdp: rows of a batch are split over it too, and parameters are kept in parts.
        sequence: segments of the stream are split over it, while they are encoded.
        model: heads, hidden units and words are split over it.

    Raises:
        MemjaxError: for a size that is neither -1 nor at least 1, and for -1 twice.
    """

    data: int = -1
    fsdp: int = 1
    sequence: int = 1
    model: int = 1

    def __post_init__(self):
        sizes = dataclasses.asdict(self)
        for axis, size in sizes.items():
            require(size == -1 or size >= 1, f"{axis} must be at least 1, or -1 for the rest, not {size}")
        rest = [axis for axis, size in sizes.items() if size == -1]
        require(
            len(rest) < 2, f"{' and '.join(rest)} cannot be -1 at once: one axis may be; data is -1 unless it is set"
        )
