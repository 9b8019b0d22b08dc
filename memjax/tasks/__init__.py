"""The tasks, behind five contracts: streams asked at the end or on the way, tokens, bits, mazes. `create` makes any."""

from typing import overload

from memjax.tasks.algorithmic import Algorithmic, AlgorithmicSpec, BitsShape, BitsTask
from memjax.tasks.babi import Babi, BabiSpec
from memjax.tasks.contract import Batch, Split, Task, TaskShape, check_batch
from memjax.tasks.episodic import EpisodeShape, Episodic, EpisodicSpec
from memjax.tasks.evidence import Evidence, EvidenceSpec
from memjax.tasks.language import Language, LanguageSpec
from memjax.tasks.maze import MazeShape, MazeSpec, MazeTask
from memjax.tasks.needle import Needle, NeedleSpec
from memjax.tasks.recall import Recall, RecallSpec
from memjax.tasks.sequence import SequenceShape, SequenceTask

AskedSpec = BabiSpec | EvidenceSpec
SequenceSpec = LanguageSpec | NeedleSpec | RecallSpec
AnyTask = Task | SequenceTask | BitsTask | Episodic | MazeTask

specs: dict[str, type] = {
    "algorithmic": AlgorithmicSpec,
    "babi": BabiSpec,
    "episodic": EpisodicSpec,
    "evidence": EvidenceSpec,
    "language": LanguageSpec,
    "maze": MazeSpec,
    "needle": NeedleSpec,
    "recall": RecallSpec,
}
_tasks: dict[type, type] = {
    AlgorithmicSpec: Algorithmic,
    BabiSpec: Babi,
    EpisodicSpec: Episodic,
    EvidenceSpec: Evidence,
    LanguageSpec: Language,
    MazeSpec: MazeTask,
    NeedleSpec: Needle,
    RecallSpec: Recall,
}

__all__ = [
    "Algorithmic",
    "AlgorithmicSpec",
    "AnyTask",
    "AskedSpec",
    "Babi",
    "BabiSpec",
    "Batch",
    "BitsShape",
    "BitsTask",
    "EpisodeShape",
    "Episodic",
    "EpisodicSpec",
    "Evidence",
    "EvidenceSpec",
    "Language",
    "LanguageSpec",
    "MazeShape",
    "MazeSpec",
    "MazeTask",
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


@overload
def create(spec: AlgorithmicSpec) -> BitsTask: ...


@overload
def create(spec: EpisodicSpec) -> Episodic: ...


@overload
def create(spec: MazeSpec) -> MazeTask: ...


def create(spec: AskedSpec | SequenceSpec | AlgorithmicSpec | EpisodicSpec | MazeSpec) -> AnyTask:
    """Makes the task that a spec describes."""
    return _tasks[type(spec)](spec)
