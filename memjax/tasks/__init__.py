"""The tasks, behind one contract; `create` makes any of them from its spec."""

from memjax.tasks.babi import Babi, BabiSpec
from memjax.tasks.contract import Batch, Split, Task, TaskShape, check_batch
from memjax.tasks.evidence import Evidence, EvidenceSpec

specs: dict[str, type] = {"babi": BabiSpec, "evidence": EvidenceSpec}
_tasks: dict[type, type] = {BabiSpec: Babi, EvidenceSpec: Evidence}

__all__ = [
    "Babi",
    "BabiSpec",
    "Batch",
    "Evidence",
    "EvidenceSpec",
    "Split",
    "Task",
    "TaskShape",
    "check_batch",
    "create",
    "specs",
]


def create(spec: BabiSpec | EvidenceSpec) -> Task:
    """Makes the task that a spec describes."""
    return _tasks[type(spec)](spec)
