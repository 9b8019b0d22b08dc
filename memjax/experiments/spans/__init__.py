"""Spans in long documents with learned retention: config, losses, scores and rewards."""

from memjax.experiments.spans.span_objective import fifo_blocks
from memjax.experiments.spans.span_scores import held_span, rewards, span_scores, squad_scores
from memjax.experiments.spans.spans_family import FAMILY, build_document_reader, trimmed

__all__ = [
    "FAMILY",
    "build_document_reader",
    "fifo_blocks",
    "held_span",
    "rewards",
    "span_scores",
    "squad_scores",
    "trimmed",
]
