"""Sequences of tokens: their config, models, loss and measures."""

from memjax.experiments.sequence.sequence_config import (
    LAYERS,
    SequenceConfig,
    SequenceModelConfig,
    build_sequence,
)
from memjax.experiments.sequence.sequence_family import FAMILY, sequence_report
from memjax.experiments.sequence.sequence_objective import (
    asked_places,
    init_sequence,
    measure_sequence,
    sequence_objective,
)

__all__ = [
    "FAMILY",
    "LAYERS",
    "SequenceConfig",
    "SequenceModelConfig",
    "asked_places",
    "build_sequence",
    "init_sequence",
    "measure_sequence",
    "sequence_objective",
    "sequence_report",
]
