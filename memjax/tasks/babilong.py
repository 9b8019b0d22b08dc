"""BABILong (Kuratov et al. 2024): the facts of a bAbI story hidden in a text of any length, the question at its end."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memjax.checks import at_least, at_most
from memjax.errors import require
from memjax.tasks.babilong_texts import ASKED, END, read_texts
from memjax.tasks.random import check_seed, example_keys, fold, uniform
from memjax.tasks.sequence import NOTHING, SequenceShape, pairs, rising_lengths
from memjax.tasks.stream_task import Batch, Split, TaskShape, check_indices
from memjax.tasks.words import PAD, UNKNOWN
from memjax.typing import SPLITS

LONGEST = 2**22  # characters: more is a mistake
MOST_TRAIN, MOST = 2**22, 2**16  # examples: more is a mistake


@dataclass(frozen=True)
class BabilongSpec:
    """The settings of `Babilong`, and of `BabilongStream`.

    Attributes:
        tasks: of bAbI, with commas: "1,2,3,4,5".
        folder: of bAbI, like "en-10k".
        haystack: the file of the background (.txt, .txt.gz, .tar.gz of .txt).
        length: the longest texts of training, in characters of facts and background as written; one of `lengths`.
        lengths: of the tests, rising, with commas; 0 for the facts alone. Facts fit in the shortest other one.
        words: the most that a sentence of the background may have; a longer one is cut into several.
        vocabulary: the most ids: those of bAbI's words, and of the commonest words of the background.
        curriculum: True for training that begins with the shortest of `lengths` and takes one more from stage to
            stage, up to `length`; False for all of them from the start.
        train: how many examples; the stages share them.
        valid: examples of each task and each length of training.
        test: examples of each task and each length.
        seed: of what is drawn.
        data_dir: the folder of the haystack, and where `memjax prepare babi` has put bAbI.

    Raises:
        MemjaxError: for what is out of range.
    """

    tasks: str
    folder: str
    haystack: str
    length: int
    lengths: str
    words: int
    vocabulary: int
    curriculum: bool
    train: int
    valid: int
    test: int
    seed: int
    data_dir: str

    def __post_init__(self):
        at_least(self, 1, "length", "words", "vocabulary", "train", "valid", "test")
        at_most(self, LONGEST, "length", "words", "vocabulary")
        at_most(self, MOST_TRAIN, "train")
        at_most(self, MOST, "valid", "test")
        rising_lengths(self.tasks, "tasks", 1)
        lengths = rising_lengths(self.lengths, "lengths", 0)
        require(lengths[-1] <= LONGEST, f"lengths must be at most {LONGEST}, unlike {self.lengths}")
        require(self.length in lengths, f"length {self.length} must be one of the lengths {self.lengths}")
        require(self.haystack, "haystack is empty; name a file of --data_dir")
        check_seed(self.seed)


@dataclass(frozen=True)
class BabilongStreamSpec(BabilongSpec):
    """The settings of `BabilongStream`: those of `BabilongSpec`."""


class _Drawn(NamedTuple):
    """What was drawn for each example of a split: `[E]` each.

    Attributes:
        length: the place of its length.
        task: the place of its task.
        question: among those of the split.
        start: the row of the first sentence of background.
        background: how many sentences there are of it.
        words: of all its sentences and its question, with the mark behind each.
    """

    length: np.ndarray
    task: np.ndarray
    question: np.ndarray
    start: np.ndarray
    background: np.ndarray
    words: np.ndarray


class _Mixed:
    """What both readings share: which facts and which background an example has, where they stand, what is asked."""

    notes: tuple[str, ...]

    def __init__(self, spec: BabilongSpec):
        self.spec, self.ordered = spec, spec.curriculum
        self._tasks, self._lengths = (rising_lengths(getattr(spec, name), name, 0) for name in ("tasks", "lengths"))
        self._stages = self._lengths.index(spec.length) + 1
        shortest = next(length for length in self._lengths if length)
        files = spec.data_dir, spec.folder, self._tasks, spec.haystack
        self._texts = read_texts(*files, spec.words, spec.vocabulary, shortest)
        self.vocabulary, self.answers, self.notes = self._texts.vocabulary, self._texts.answers, self._texts.notes
        # A sentence with the mark behind its last word.
        table = np.pad(self._texts.table, ((0, 0), (0, 1)))
        self._count = (table != PAD).sum(axis=1)
        table[np.arange(len(table)), self._count] = END
        table[0] = PAD
        self._marked = table
        self._drawn = {split: self._draw(split) for split in SPLITS}
        tasks, lengths = tuple(map(str, self._tasks)), tuple(map(str, self._lengths))
        self._tags = {"task": tasks, "length": lengths, "task x length": pairs(tasks, lengths)}

    def size(self, split: Split) -> int:
        """How many examples the split has."""
        spec = self.spec
        cells = len(self._tasks) * (len(self._lengths) if split == "test" else self._stages)
        return spec.train if split == "train" else getattr(spec, split) * cells

    def groups(self, split: Split) -> np.ndarray:
        """The question of each example: it is asked at every length."""
        return self._drawn[split].question

    def _draw(self, split: Split) -> _Drawn:
        """Everything about all examples of a split but where their facts stand."""
        spec, texts, facts = self.spec, self._texts, self._texts.facts[split]
        size, tasks = self.size(split), len(self._tasks)
        keys = example_keys(spec.seed, 12, split, np.arange(size))
        if split == "train":
            stages = np.arange(size) * self._stages // size if spec.curriculum else np.full(size, self._stages - 1)
            u_length, u_task = uniform(fold(keys, 1), 2).T
            length, task, same = (u_length * (stages + 1)).astype(int), (u_task * tasks).astype(int), keys
        else:
            # By length, so that a batch of neighbours is of one length; each with the questions of the others.
            length, within = np.divmod(np.arange(size), getattr(spec, split) * tasks)
            task, same = within // getattr(spec, split), keys[within]
        begins, ends = facts.begins[task], facts.begins[task + 1]
        question = begins + (uniform(fold(same, 2), 1)[:, 0] * (ends - begins)).astype(int)

        begin, end = texts.background[split]
        behind = np.append(0, np.cumsum(texts.chars[begin:end]))  # characters before each sentence, and all
        chars = np.array(self._lengths)[length]
        longest = self._lengths[-1] if split == "test" else spec.length
        require(
            behind[-1] > longest,
            f"{spec.haystack} has {behind[-1]} characters for the {split} split, {longest + 1} are needed; "
            f"lower config.task.{'lengths' if split == 'test' else 'length'}",
        )
        starts = np.searchsorted(behind, behind[-1] - chars, side="right")  # from so many there is text enough
        start = (uniform(fold(keys, 3), 1)[:, 0] * starts).astype(int)
        room = np.where(chars > 0, chars - facts.chars[question], 0)
        count = np.searchsorted(behind, behind[start] + room, side="right") - 1 - start

        to_row = np.append(0, np.cumsum(self._count[begin:end] + 1))
        to_line = np.append(0, np.cumsum(self._count[facts.lines] + 1))
        first = facts.first[question]
        words = to_row[start + count] - to_row[start] + to_line[first + facts.facts[question]] - to_line[first]
        asked = (texts.questions[facts.query[question]] != PAD).sum(axis=1) + 1
        return _Drawn(length, task, question, begin + start, count, words + asked)

    def _rows(self, split: Split, index: int) -> np.ndarray:
        """The sentences of an example in their order, as rows of the table."""
        drawn, facts = self._drawn[split], self._texts.facts[split]
        question = drawn.question[index]
        first, count, background = facts.first[question], facts.facts[question], drawn.background[index]
        key = fold(example_keys(self.spec.seed, 12, split, np.array([index])), 4)
        places = np.argsort(uniform(key, int(count + background))[0])[:count]
        is_fact = np.zeros(count + background, bool)
        is_fact[places] = True
        rows = np.empty(count + background, int)
        rows[is_fact] = facts.lines[first : first + count]
        rows[~is_fact] = np.arange(drawn.start[index], drawn.start[index] + background)
        return rows

    def _asked(self, split: Split, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, Batch]:
        """The questions as rows of words, the labels of their answers, and the tags."""
        drawn, facts = self._drawn[split], self._texts.facts[split]
        question = drawn.question[indices]
        tags = {"task": drawn.task[indices], "length": drawn.length[indices]}
        tags["task x length"] = tags["task"] * len(self._lengths) + tags["length"]
        query, label = self._texts.questions[facts.query[question]], facts.label[question].astype(np.int32)
        return query, label, {name: tag.astype(np.int32) for name, tag in tags.items()}


class Babilong(_Mixed):
    """The examples as sequences, each a function of (spec, split, index): implements `memjax.tasks.SequenceTask`.

    A question of bAbI is drawn, and a place in the background, from which sentences follow as long as they fit in the
    length together with the facts; the facts stand between them, in their order, each anywhere. Tokens are the words in
    lower case with a mark behind each sentence, then the question and a mark, at which the answer is asked: one token,
    also of several words. Of the background the first eight tenths are for training, one is for validation, the last
    for the test; bAbI is split as for `Babi`. In the test, and in validation, the same questions are asked at every
    length. All lengths have the same questions to draw from, those whose facts fit in the shortest one above 0.

    A word that is not among the commonest is `<unknown>`. For an answer that train does not have, too, `<unknown>` is
    asked: no training example has it as its answer. Tags: "task", "length" in characters, and "task x length".

    Attributes:
        spec: its settings.
        shape: of its batches.
        ordered: whether training reads the examples in their order: for a curriculum.
        vocabulary: the words, by their ids.
        answers: that there are.
        notes: how many questions are left out, and what of bAbI is missing or partial.

    Raises:
        MemjaxError: for data that is missing, damaged or too short, and for sizes that it does not fit in.
    """

    shape: SequenceShape

    def __init__(self, spec: BabilongSpec):
        super().__init__(spec)
        self.shape = SequenceShape(len(self.vocabulary), len(self.answers), asked=1, tags=self._tags)

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        indices, drawn = check_indices(indices, self.size(split), split), self._drawn[split]
        query, label, tags = self._asked(split, indices)
        # One shape for all of train, and otherwise one for each length.
        like = drawn.words if split == "train" else drawn.words[np.isin(drawn.length, drawn.length[indices])]
        tokens = np.full((len(indices), like.max()), PAD, np.int32)
        target = np.full_like(tokens, NOTHING)
        words = {word: i for i, word in enumerate(self.vocabulary)}
        answers = np.array([*(words[answer] for answer in self.answers), UNKNOWN])  # of label -1, too
        for row, index in enumerate(indices.tolist()):
            text = self._marked[self._rows(split, index)].ravel()
            line = np.concatenate([text[text != PAD], query[row][query[row] != PAD], [ASKED]])
            tokens[row, : len(line)] = line
            target[row, len(line) - 1] = answers[label[row]]
        return {"tokens": tokens, "target": target, **tags}


class BabilongStream(_Mixed):
    """The same examples as streams of sentences: implements `memjax.tasks.Task`.

    A segment is a sentence, without its mark; the query is the question's words, the answer a class. Otherwise as
    `Babilong`: sentences, words and their ids, order and answers are the same.
    """

    shape: TaskShape

    def __init__(self, spec: BabilongSpec):
        super().__init__(spec)
        self._segments = {
            split: drawn.background + self._texts.facts[split].facts[drawn.question]
            for split, drawn in self._drawn.items()
        }
        self.shape = TaskShape(
            items=len(self.vocabulary),
            segments=max(int(segments.max()) for segments in self._segments.values()),
            segment=spec.words,
            queries=len(self.vocabulary),
            query_words=self._texts.questions.shape[1],
            answer="classes",
            classes=len(self.answers),
            tags=self._tags,
        )

    def lengths(self, split: Split) -> np.ndarray:
        """How many sentences each example has."""
        return self._segments[split]

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        indices = check_indices(indices, self.size(split), split)
        query, label, tags = self._asked(split, indices)
        rows = np.zeros((len(indices), self.shape.segments), int)
        for place, index in enumerate(indices.tolist()):
            rows[place, : self._segments[split][index]] = self._rows(split, index)
        stream = self._texts.table[rows]
        return {"stream": stream, "mask": stream != PAD, "query": query, "label": label, **tags}
