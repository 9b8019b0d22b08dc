"""Stream QA: its config, models, losses and measures."""

from memjax.experiments.stream_qa.answer_measures import cut_to, measure_answer, trimmed
from memjax.experiments.stream_qa.rehearsal_objective import (
    answer_objective,
    init_params,
    of_other_rows,
    rehearsal_objective,
)
from memjax.experiments.stream_qa.shown_slots import slots_read
from memjax.experiments.stream_qa.slot_measures import (
    changes_by_segment,
    memorized,
    read_examples,
    recollected_by_age,
    slot_changes,
    slot_cosines,
)
from memjax.experiments.stream_qa.stream_qa_config import RehearsalConfig, StreamQAConfig
from memjax.experiments.stream_qa.stream_qa_family import FAMILY
from memjax.experiments.stream_qa.stream_qa_models import build, build_sampler

__all__ = [
    "FAMILY",
    "RehearsalConfig",
    "StreamQAConfig",
    "answer_objective",
    "build",
    "build_sampler",
    "changes_by_segment",
    "cut_to",
    "init_params",
    "measure_answer",
    "memorized",
    "of_other_rows",
    "read_examples",
    "recollected_by_age",
    "rehearsal_objective",
    "slot_changes",
    "slot_cosines",
    "slots_read",
    "trimmed",
]
