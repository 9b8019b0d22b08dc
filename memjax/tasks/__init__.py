"""The tasks, behind two contracts: streams that are asked, and sequences. `create` makes any of them from its spec."""

from typing import overload

from memjax.tasks.babi import Babi, BabiSpec
from memjax.tasks.contract import Batch, Split, Task, TaskShape, check_batch
from memjax.tasks.evidence import Evidence, EvidenceSpec
from memjax.tasks.language import Language, LanguageSpec
from memjax.tasks.needle import Needle, NeedleSpec
from memjax.tasks.recall import Recall, RecallSpec
from memjax.tasks.sequence import SequenceShape, SequenceTask

AskedSpec = BabiSpec | EvidenceSpec
SequenceSpec = LanguageSpec | NeedleSpec | RecallSpec

specs: dict[str, type] = {
    "babi": BabiSpec,
    "evidence": EvidenceSpec,
    "language": LanguageSpec,
    "needle": NeedleSpec,
    "recall": RecallSpec,
}
_tasks: dict[type, type] = {
    BabiSpec: Babi,
    EvidenceSpec: Evidence,
    LanguageSpec: Language,
    NeedleSpec: Needle,
    RecallSpec: Recall,
}

__all__ = [
    "AskedSpec",
    "Babi",
    "BabiSpec",
    "Batch",
    "Evidence",
    "EvidenceSpec",
    "Language",
    "LanguageSpec",
    "Needle",
    "NeedleSpec",
    "Recall",
    "RecallSpec",
    "SequenceShape",
    "SequenceSpec",
    "SequenceTask",
    "Split",
    "Task",
    "TaskShape",
    "check_batch",
    "create",
    "specs",
]


@overload
def create(spec: AskedSpec) -> Task: ...


@overload
def create(spec: SequenceSpec) -> SequenceTask: ...


def create(spec: AskedSpec | SequenceSpec) -> Task | SequenceTask:
    """Makes the task that a spec describes."""
    return _tasks[type(spec)](spec)
