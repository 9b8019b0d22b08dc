"""Episodes of bAbI's kind: a stream of lines, facts and questions among them, that is read and asked as it goes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np

from memjax.checks import at_least, at_most, one_of
from memjax.errors import require
from memjax.tasks import two_facts
from memjax.tasks.babi import split_stories
from memjax.tasks.builders.babi_format import Story
from memjax.tasks.stream_task import Batch, Split, check_batch, check_ids, check_indices, check_tags, require_fields
from memjax.tasks.two_facts import Line
from memjax.tasks.words import text_table, words_of
from memjax.typing import SPLITS

PAD, NO_QUESTION, NO_SUPPORT = 0, -1, -1
Kind = Literal["file", "noisy", "large"]
MOST = 100_000  # episodes of a split, that are made when the task is: minutes
_MAKERS: dict[str, Callable[[int, int], list[Line]]] = {"noisy": two_facts.noisy, "large": two_facts.large}


@dataclass(frozen=True)
class EpisodicSpec:
    """The settings of `Episodic`.

    Attributes:
        kind: "file" for a prepared bAbI folder; what is generated is "noisy", 45 lines with a question after every 8
            facts, or "large", 20 to 80 lines with questions anywhere.
        folder: of the file; of what is generated, one whose test episodes are tested on besides, or "" for none.
        task: of the folder, 1 to 20.
        data_dir: where `memjax prepare babi` has put the folder.
        train: episodes that are generated; at most 100,000, as `valid` and `test`.
        valid: episodes that are generated.
        test: episodes that are generated.
        seed: of what is generated.
        divides: settings that decide which examples are in which split.

    Raises:
        MemjaxError: for what is out of range.
    """

    divides: ClassVar = ("train", "valid")  # what is generated is numbered through
    kind: Kind
    folder: str
    task: int
    data_dir: str
    train: int
    valid: int
    test: int
    seed: int

    def __post_init__(self):
        one_of(self, get_args(Kind), "kind")
        if self.kind != "file":
            at_least(self, 1, "train", "valid", "test")
            at_most(self, MOST, "train", "valid", "test")
            require(0 <= self.seed < 2**31, f"seed must be in [0, 2^31), not {self.seed}")


@dataclass(frozen=True)
class EpisodeShape:
    """Everything that a model must know of a task of episodes.

    Attributes:
        words: ids of words are in [0, words), 0 is padding.
        line: the most words in a line.
        lines: how many distinct ones there are, with the line that is padding.
        steps: the most lines in an episode.
        questions: the most questions in an episode.
        support: the most lines that an answer follows from.
        answers: how many classes.
        tags: as of a `TaskShape`.
    """

    words: int
    line: int
    lines: int
    steps: int
    questions: int
    support: int
    answers: int
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@check_batch.register
def _check(shape: EpisodeShape, batch: Batch) -> None:
    """Raises `MemjaxError` if a batch has not its shapes, ids out of range, or asks nothing of an episode."""
    require_fields(batch, "line", "label", "support", *shape.tags)
    line, label, support = batch["line"], batch["label"], batch["support"]
    require(line.ndim == 2 and len(line) > 0, "a batch needs at least one episode")
    require(
        line.shape == (len(line), shape.steps) == label.shape and support.shape == (*line.shape, shape.support),
        f"line, label and support must be [B, {shape.steps}], the last one with {shape.support} numbers for each, not "
        f"{list(line.shape)}, {list(label.shape)} and {list(support.shape)}",
    )
    check_ids("the lines are", line, 0, shape.lines)
    check_ids("the labels are", label, NO_QUESTION, shape.answers + 1)
    check_ids("the supporting lines are", support, NO_SUPPORT, shape.steps)
    asked = (label >= 0).sum(1)
    require(asked.min() >= 1, "nothing is asked of an episode")
    require(asked.max() <= shape.questions, f"an episode asks {asked.max()} questions, more than {shape.questions}")
    check_tags(batch, shape.tags)


class Episodic:
    """Episodes with several questions each. A batch: `line [B, T]`, `label [B, T]`, `support [B, T, F]`, all int32.

    A line is a row of `lines`; 0 is padding, behind the last line. label: the class of the answer where the line is a
    question, -1 elsewhere; an answer that train lacks is `shape.answers`, which no model gives. support: the steps of
    the lines that it follows from, -1 for none. Tag `source` (generated, file) where both are in the test. Words and
    classes are those of train. "file": without a valid split, the last tenth of the train stories is valid.

    Attributes:
        shape: of its batches.
        lines: `[U, W]`, the ids of the words of all distinct lines.
        vocabulary: the words, by their ids.
        answers: by their classes.

    Raises:
        MemjaxError: if the folder is not prepared, or the task is not in it.

    ::

        Episodic(EpisodicSpec("noisy", "", 0, "", 1000, 100, 100, 0)).examples("train", np.arange(64))
    """

    shape: EpisodeShape
    lines: np.ndarray
    vocabulary: tuple[str, ...]
    answers: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __init__(self, spec: EpisodicSpec):
        parts = _read(spec) if spec.kind == "file" else _generate(spec)
        generated = len(parts["test"])
        both = spec.kind != "file" and spec.folder != ""
        if both:
            parts["test"] = [*parts["test"], *_read(spec)["test"]]
        texts = {line.text for episode in parts["train"] for line in episode}
        words = sorted({word for text in texts for word in words_of(text)})
        self.vocabulary = ("<pad>", "<unknown>", *words)
        self.answers = tuple(sorted({line.answer for episode in parts["train"] for line in episode if line.answer}))
        ids = {word: place for place, word in enumerate(self.vocabulary)}
        everything = (line.text for split in SPLITS for episode in parts[split] for line in episode)
        self.lines, rows = text_table(everything, ids)
        steps = max(len(episode) for split in SPLITS for episode in parts[split])
        classes = {answer: place for place, answer in enumerate(self.answers)}
        support = max(len(line.support) for split in SPLITS for episode in parts[split] for line in episode)
        self._splits = {split: _arrays(parts[split], rows, classes, (steps, support)) for split in SPLITS}
        if both:
            for split in SPLITS:
                source = np.arange(self.size(split)) >= (generated if split == "test" else self.size(split))
                self._splits[split]["source"] = source.astype(np.int32)
        tags = {"source": ("generated", "file")} if both else {}
        questions = max(int((arrays["label"] >= 0).sum(1).max()) for arrays in self._splits.values())
        texts_shape = len(self.vocabulary), self.lines.shape[1], len(self.lines)
        self.shape = EpisodeShape(*texts_shape, steps, questions, support, len(self.answers), tags)

    def size(self, split: Split) -> int:
        """How many episodes the split has."""
        return len(self._splits[split]["line"])

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        """The episodes with these indices.

        Args:
            split: which of them.
            indices: `[B]`, each in [0, size(split)).

        Raises:
            MemjaxError: for any other index, and for none.
        """
        chosen = check_indices(indices, self.size(split), split)
        return {name: array[chosen] for name, array in self._splits[split].items()}


def _generate(spec: EpisodicSpec) -> dict[Split, list[list[Line]]]:
    sizes = {"train": spec.train, "valid": spec.valid, "test": spec.test}
    make, first, parts = _MAKERS[spec.kind], 0, {}
    for split in SPLITS:
        parts[split] = [make(spec.seed, first + number) for number in range(sizes[split])]
        first += sizes[split]
    return parts


def _read(spec: EpisodicSpec) -> dict[Split, list[list[Line]]]:
    # Here, so that what is generated does not need TFDS.
    from memjax.tasks.builders.babi_records import open_folder

    records = open_folder(spec.data_dir, spec.folder)
    known = sorted(set(records.splits["train"]) & set(records.splits["test"]))
    require(spec.task in known, f"bAbI folder {spec.folder!r} has no task {spec.task} for this; it has {known}")
    stories = split_stories(records, spec.task)
    return {split: [_lines(story) for story in stories[split]] for split in SPLITS}


def _lines(story: Story) -> list[Line]:
    """A story with its questions in their places, up to the last one."""
    lines: list[Line] = []
    place: list[int] = []  # of each statement among the lines
    for question in story.questions:
        for text in story.sentences[len(place) : question.after]:
            place.append(len(lines))
            lines.append(Line(text))
        support = tuple(place[statement] for statement in question.supporting)
        lines.append(Line(question.text, question.answer.lower(), support))
    return lines


def _arrays(episodes: Sequence[list[Line]], rows: dict, classes: dict, most: tuple[int, int]) -> Batch:
    size = len(episodes), most[0]
    line, label = np.full(size, PAD, np.int32), np.full(size, NO_QUESTION, np.int32)
    support = np.full((len(episodes), *most), NO_SUPPORT, np.int32)
    for i, episode in enumerate(episodes):
        for t, (text, answer, facts) in enumerate(episode):
            line[i, t] = rows[text]
            if answer is not None:
                label[i, t] = classes.get(answer, len(classes))
                support[i, t, : len(facts)] = facts
    return {"line": line, "label": label, "support": support}
