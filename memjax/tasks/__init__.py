"""The tasks, behind six contracts: streams asked at the end or on the way, spans, tokens, bits, mazes."""

from memjax.tasks.algorithmic import Algorithmic, AlgorithmicSpec, BitsShape, BitsTask
from memjax.tasks.babi import Babi, BabiSpec
from memjax.tasks.babilong import Babilong, BabilongSpec, BabilongStream, BabilongStreamSpec
from memjax.tasks.clicks import Clicks, ClicksSpec
from memjax.tasks.dialogues import Dialogues, DialoguesSpec
from memjax.tasks.episodic import EpisodeShape, Episodic, EpisodicSpec
from memjax.tasks.evidence import Evidence, EvidenceSpec
from memjax.tasks.file_task import FileTask, FileTaskSpec
from memjax.tasks.language import Language, LanguageSpec
from memjax.tasks.learners import Learners, LearnersSpec
from memjax.tasks.maze_task import MazeShape, MazeSpec, MazeTask
from memjax.tasks.mqar import Mqar, MqarSpec
from memjax.tasks.needle import Needle, NeedleSpec
from memjax.tasks.parts import Parts
from memjax.tasks.recall import Recall, RecallSpec
from memjax.tasks.registry import create, name_of, register_task, registry
from memjax.tasks.sequence import SequenceShape, SequenceTask
from memjax.tasks.spans import Spans, SpansShape, SpansSpec
from memjax.tasks.stories import Stories, StoriesSpec
from memjax.tasks.stream_task import Batch, Split, Task, TaskShape, check_batch
from memjax.tasks.video import Video, VideoSpec
from memjax.tasks.word_neighbours import word_vectors

__all__ = [
    "Algorithmic",
    "AlgorithmicSpec",
    "Babi",
    "BabiSpec",
    "Babilong",
    "BabilongSpec",
    "BabilongStream",
    "BabilongStreamSpec",
    "Batch",
    "BitsShape",
    "BitsTask",
    "Clicks",
    "ClicksSpec",
    "Dialogues",
    "DialoguesSpec",
    "EpisodeShape",
    "Episodic",
    "EpisodicSpec",
    "Evidence",
    "EvidenceSpec",
    "FileTask",
    "FileTaskSpec",
    "Language",
    "LanguageSpec",
    "Learners",
    "LearnersSpec",
    "MazeShape",
    "MazeSpec",
    "MazeTask",
    "Mqar",
    "MqarSpec",
    "Needle",
    "NeedleSpec",
    "Parts",
    "Recall",
    "RecallSpec",
    "SequenceShape",
    "SequenceTask",
    "Spans",
    "SpansShape",
    "SpansSpec",
    "Split",
    "Stories",
    "StoriesSpec",
    "Task",
    "TaskShape",
    "Video",
    "VideoSpec",
    "check_batch",
    "create",
    "name_of",
    "register_task",
    "registry",
    "word_vectors",
]
