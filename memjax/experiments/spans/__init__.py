"""Spans in long documents with learned retention: config, losses, scores and rewards."""

from memjax.experiments.spans.span_objective import (
    base_objective,
    fifo_blocks,
    measure_reader,
    measure_whole,
    spans_objective,
    whole_objective,
)
from memjax.experiments.spans.span_scores import held_span, rewards, rollout, span_scores, squad_scores
from memjax.experiments.spans.spans_family import (
    FAMILY,
    SpanReaderConfig,
    SpansConfig,
    build_document_reader,
    trimmed,
)

__all__ = [
    "FAMILY",
    "SpanReaderConfig",
    "SpansConfig",
    "base_objective",
    "build_document_reader",
    "fifo_blocks",
    "held_span",
    "measure_reader",
    "measure_whole",
    "rewards",
    "rollout",
    "span_scores",
    "spans_objective",
    "squad_scores",
    "trimmed",
    "whole_objective",
]
