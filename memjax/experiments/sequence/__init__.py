"""Sequences of tokens: their config, models, loss and measures."""

from memjax.experiments.sequence.sequence_config import LAYERS, build_sequence
from memjax.experiments.sequence.sequence_family import FAMILY, sequence_report
from memjax.experiments.sequence.sequence_objective import measure_sequence, sequence_objective

__all__ = ["FAMILY", "LAYERS", "build_sequence", "measure_sequence", "sequence_objective", "sequence_report"]
