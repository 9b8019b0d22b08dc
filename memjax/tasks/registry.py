"""The tasks by their names: which settings each has, what makes it, and the family of experiments that it is for."""

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, NamedTuple

from memjax.errors import MemjaxError, require
from memjax.tasks.algorithmic import Algorithmic, AlgorithmicSpec
from memjax.tasks.babi import Babi, BabiSpec
from memjax.tasks.babilong import Babilong, BabilongSpec, BabilongStream, BabilongStreamSpec
from memjax.tasks.clicks import Clicks, ClicksSpec
from memjax.tasks.dialogues import Dialogues, DialoguesSpec
from memjax.tasks.episodic import Episodic, EpisodicSpec
from memjax.tasks.evidence import Evidence, EvidenceSpec
from memjax.tasks.file_task import FileTask, FileTaskSpec
from memjax.tasks.language import Language, LanguageSpec
from memjax.tasks.learners import Learners, LearnersSpec
from memjax.tasks.maze_task import MazeSpec, MazeTask
from memjax.tasks.mqar import Mqar, MqarSpec
from memjax.tasks.needle import Needle, NeedleSpec
from memjax.tasks.recall import Recall, RecallSpec
from memjax.tasks.spans import Spans, SpansSpec
from memjax.tasks.stories import Stories, StoriesSpec
from memjax.tasks.video import Video, VideoSpec


class Entry(NamedTuple):
    """A task of the registry.

    Attributes:
        spec: the dataclass of its settings.
        make: the task of a spec.
        family: the name of its experiments.
    """

    spec: type
    make: Callable[[Any], Any]
    family: str


registry: dict[str, Entry] = {
    "algorithmic": Entry(AlgorithmicSpec, Algorithmic, "algorithmic"),
    "babi": Entry(BabiSpec, Babi, "stream_qa"),
    "babilong": Entry(BabilongSpec, Babilong, "sequence"),
    "babilong_stream": Entry(BabilongStreamSpec, BabilongStream, "stream_qa"),
    "clicks": Entry(ClicksSpec, Clicks, "stream_qa"),
    "dialogues": Entry(DialoguesSpec, Dialogues, "stream_qa"),
    "episodic": Entry(EpisodicSpec, Episodic, "retention"),
    "evidence": Entry(EvidenceSpec, Evidence, "stream_qa"),
    "files": Entry(FileTaskSpec, FileTask, "stream_qa"),
    "language": Entry(LanguageSpec, Language, "sequence"),
    "learners": Entry(LearnersSpec, Learners, "stream_qa"),
    "maze": Entry(MazeSpec, MazeTask, "maze"),
    "mqar": Entry(MqarSpec, Mqar, "sequence"),
    "needle": Entry(NeedleSpec, Needle, "sequence"),
    "recall": Entry(RecallSpec, Recall, "sequence"),
    "spans": Entry(SpansSpec, Spans, "spans"),
    "stories": Entry(StoriesSpec, Stories, "stream_qa"),
    "video": Entry(VideoSpec, Video, "stream_qa"),
}


def register_task(name: str, spec: type, task: Callable[[Any], Any] | None = None, *, family: str = "stream_qa") -> Any:
    """Makes a task of another package known by a name, so that a config can say `config.task.name = NAME`.

    Args:
        name: how configs and the command line call it.
        spec: a dataclass of its settings: numbers, words, true or false. It may check itself in `__post_init__`; what
            it says is shown with the path of the setting in front.
        task: makes the task of a spec, as its class does; left out, `register_task` is a decorator of that class.
        family: the experiments that the task is for, which say what an example is: "stream_qa" (`tasks.Task`),
            "sequence" (`tasks.SequenceTask`), "algorithmic" (`tasks.BitsTask`), "retention", "spans", "maze", or one
            of another package.

    Returns:
        The task, or the decorator.

    Raises:
        MemjaxError: for a name that another task has, and for a spec that is no dataclass.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class ParitySpec:
    ...     length: int
    >>> @register_task("parity", ParitySpec)
    ... class Parity:
    ...     def __init__(self, spec):
    ...         self.spec = spec
    >>> create(ParitySpec(length=8)).spec.length
    8
    >>> del registry["parity"]  # this example's alone
    """
    if task is None:
        return lambda task: register_task(name, spec, task, family=family)
    require(isinstance(name, str) and name.isidentifier(), f"a task's name must be one word, not {name!r}")
    require(
        is_dataclass(spec) and isinstance(spec, type), f"the spec of task {name!r} must be a dataclass, not {spec!r}"
    )
    require(callable(task), f"the task {name!r} must be a class or a function of its spec, not {task!r}")
    entry = Entry(spec, task, family)
    # The same module may be imported twice, as by a notebook that is run again.
    own, taken = (f"{each.spec.__module__}.{each.spec.__qualname__}" for each in (entry, registry.get(name, entry)))
    require(own == taken, f"there is a task {name!r} already; give yours another name")
    registry[name] = entry
    return task


def create(spec: Any) -> Any:
    """Makes the task that a spec describes.

    Args:
        spec: the settings of a task of the registry.

    Returns:
        The task.

    Raises:
        MemjaxError: for the spec of no task, and as the task itself.
    """
    return registry[name_of(spec)].make(spec)


def name_of(spec: Any) -> str:
    """The name of the task that has this spec.

    Args:
        spec: the settings of a task of the registry.

    Raises:
        MemjaxError: for the spec of no task.
    """
    for name, entry in registry.items():
        if type(spec) is entry.spec:
            return name
    raise MemjaxError(f"{type(spec).__name__} is the spec of no task; see memjax.register_task")
