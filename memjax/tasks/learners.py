"""Learners: will this student solve this problem? A stream of solved and unsolved problems, asked on the way."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from memjax.checks import at_least, at_most
from memjax.tasks.learner_log import ASSISTMENTS, STATICS, LearnerLog, read_learners
from memjax.tasks.parts import Parts
from memjax.tasks.stream_task import Batch, Split, TaskShape, check_indices
from memjax.typing import SPLITS

FOLDS = 5
LONGEST = 2**16  # steps: more is a mistake


@dataclass(frozen=True)
class LearnersSpec:
    """The settings of `Learners`.

    Attributes:
        file: "assist2017", five files assist2017_fold1.csv.gz and so on, or "statics2011", statics2011.tar.gz.
        fold: which of the five is held out, from 1 to 5.
        length: the most steps of a stream, at most 65536; a student who has more is read afresh after each `length`.
        segment: N, and how many problems are asked each time.
        data_dir: the folder of the files.
        divides: settings that decide which examples are in which split.

    Raises:
        MemjaxError: for what is out of range.
    """

    divides: ClassVar = ("fold",)
    file: Literal["assist2017", "statics2011"]
    fold: int
    length: int
    segment: int
    data_dir: str

    def __post_init__(self):
        at_least(self, 1, "fold", "length", "segment")
        at_most(self, FOLDS, "fold")
        at_most(self, LONGEST, "length")
        at_most(self, self.length, "segment")


class Learners:
    """A student's steps, asked before each segment about all of its problems: implements `memjax.tasks.Task`.

    An item is a step: a problem, its skill, and whether it was solved; its embedding is the sum of these three, or of
    two where skills are not told. A question is a problem with its skill, the answer whether it is solved. All
    problems of a segment are asked before any of it is read: with `segment` 1 each step is predicted from all that came
    before it, which is the protocol of the field; with 20, from slots that are up to 20 steps old. Every step is asked
    once, the first ones too, of which nothing is known but how hard their problems are.

    assist2017: fold f is the test split, fold f + 1 (after 5 comes 1) is valid, and the others train, as the folds of
    arghosh/AKT are, from whose files they come. statics2011: one test split for all folds, and train and valid of fold
    f, as in jennyzhang0215/DKVMN.

    Attributes:
        spec: its settings.
        shape: of its batches; `half` says of each question whether its step is in the earlier half of its stream.
        notes: how many students were read afresh on the way.

    Raises:
        MemjaxError: for a file that is missing or damaged.

    ::

        Learners(LearnersSpec("assist2017", 1, 3060, 20, data_dir="data")).examples("train", np.arange(32))
    """

    def __init__(self, spec: LearnersSpec):
        self.spec = spec
        logs = _read(spec)
        every = [np.concatenate([getattr(log, name) for log in logs.values()]) for name in ("problems", "skills")]
        pairs, rows = np.unique(np.stack(every, axis=1), axis=0, return_inverse=True)
        queries = dict(zip(logs, np.split(rows.ravel(), np.cumsum([len(log.right) for log in logs.values()])[:-1])))
        parts, items = _parts(pairs)
        self._items: dict[Split, np.ndarray] = {}
        self._begin: dict[Split, np.ndarray] = {}
        self._count: dict[Split, np.ndarray] = {}
        self._student: dict[Split, np.ndarray] = {}
        cut = 0
        for split, log in logs.items():
            self._items[split] = 2 * queries[split] + log.right
            begins = [np.arange(begin, end, spec.length) for begin, end in zip(log.begin, log.begin[1:])]
            ends = np.concatenate([np.append(begin[1:], end) for begin, end in zip(begins, log.begin[1:], strict=True)])
            self._begin[split] = np.concatenate(begins)
            self._student[split] = np.repeat(np.arange(len(begins)), [len(begin) for begin in begins])
            self._count[split] = ends - self._begin[split]
            cut += sum(len(begin) > 1 for begin in begins)
        students = sum(len(log.begin) - 1 for log in logs.values())
        told = f"{cut:,} of {students:,} students have more than {spec.length:,} steps: read afresh after each so many"
        self.notes = (told,) if cut else ()

        segments = -(-max(int(counts.max()) for counts in self._count.values()) // spec.segment)
        self.shape = TaskShape(
            items=len(items),
            segments=segments,
            segment=spec.segment,
            queries=len(pairs),
            query_words=None,
            answer="click",
            classes=2,
            tags={"half": ("early", "later")},
            questions=(segments, spec.segment),
            item_parts=items,
            query_parts=parts,
        )

    def size(self, split: Split) -> int:
        """How many streams."""
        return len(self._begin[split])

    def lengths(self, split: Split) -> np.ndarray:
        """How many segments each stream has."""
        return -(-self._count[split] // self.spec.segment)

    def groups(self, split: Split) -> np.ndarray:
        """The student of each stream."""
        return self._student[split]

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        indices = check_indices(indices, self.size(split), split)
        begin, count = self._begin[split][indices, None], self._count[split][indices, None]
        places = np.arange(self.shape.segments * self.spec.segment)
        mask = places < count
        axes = (len(indices), self.shape.segments, self.spec.segment)
        stream = (self._items[split][np.where(mask, begin + places, 0)] * mask).astype(np.int32).reshape(axes)
        return {
            "stream": stream,
            "mask": mask.reshape(axes),
            "after": np.broadcast_to(np.arange(axes[1], dtype=np.int32), axes[:2]),
            "query": stream // 2,
            "label": stream % 2,
            "asked": mask.reshape(axes),
            "half": (mask & (2 * places >= count)).astype(np.int32).reshape(axes),
        }


def _read(spec: LearnersSpec) -> dict[Split, LearnerLog]:
    folder = Path(spec.data_dir)
    if spec.file == "statics2011":
        archive, names = folder / "statics2011.tar.gz", (f"train{spec.fold}", f"valid{spec.fold}", "test")
        members = [f"kt_statics2011/STATICS_{name}.csv" for name in names]
        return {split: read_learners(archive, STATICS, name) for split, name in zip(SPLITS, members, strict=True)}
    folds = [(spec.fold + later) % FOLDS + 1 for later in range(FOLDS)]  # valid, three of train, test
    logs = [read_learners(folder / f"assist2017_fold{fold}.csv.gz", ASSISTMENTS) for fold in folds]
    return {"train": _joined(logs[1:-1]), "valid": logs[0], "test": logs[-1]}


def _joined(logs: list[LearnerLog]) -> LearnerLog:
    """The students of some files as of one."""
    counts = np.concatenate([np.diff(log.begin) for log in logs])
    problems, skills, right = (
        np.concatenate([getattr(log, name) for log in logs]) for name in ("problems", "skills", "right")
    )
    return LearnerLog(problems, skills, right, np.append(0, counts.cumsum()))


def _parts(pairs: np.ndarray) -> tuple[Parts, Parts]:
    """The parts of questions and of items: all problems, then skills if there are several, then the two outcomes."""
    told = pairs.T if len(set(pairs[:, 1])) > 1 else pairs.T[:1]
    columns = [np.unique(column, return_inverse=True)[1] for column in told]
    sizes = [int(column.max()) + 1 for column in columns]
    first = np.cumsum([0, *sizes])
    asked = np.stack([column + start for column, start in zip(columns, first)], axis=1)
    outcome = np.tile(first[-1] + np.arange(2), len(asked))
    count = int(first[-1]) + 2
    return Parts(asked, count), Parts(np.column_stack([np.repeat(asked, 2, axis=0), outcome]), count)
