"""Ranking the answers of a story: a sentence is a segment, the candidates are the answers to all of its questions."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memjax.checks import at_least, at_most
from memjax.errors import require
from memjax.tasks.story_files import Story, read_stories
from memjax.tasks.stream_task import Batch, Split, TaskShape, check_indices
from memjax.tasks.word_neighbours import word_vectors
from memjax.tasks.words import PAD, id_table, ids_of, known_words, query_words, sentences_of, words_of
from memjax.typing import SPLITS

PLACES = ("early", "later", "several")
LONGEST = 10_000  # words of a sentence or answer, and questions at once: more is a mistake


@dataclass(frozen=True)
class StoriesSpec:
    """The settings of `Stories`.

    Attributes:
        file: FairytaleQA's archive in `data_dir`, or the folder of NarrativeQA there.
        words: the most that a segment has; a longer sentence is cut.
        answer_words: the most that is read of an answer.
        asked: the most questions of one example; a story with more is several examples.
        least: a word that occurs less often in train is `<unknown>`.
        data_dir: the folder of the file.

    Raises:
        MemjaxError: for what is out of range.
    """

    file: str
    words: int
    answer_words: int
    asked: int
    least: int
    data_dir: str

    def __post_init__(self):
        require(self.file, "file is empty; write fairytaleqa.tar.gz, or the name of NarrativeQA's folder")
        at_least(self, 1, "words", "answer_words", "asked", "least")
        at_most(self, LONGEST, "words", "answer_words", "asked")


class _Examples(NamedTuple):
    """A split: the arrays of its stories, and for each example which story and which of its questions it is."""

    streams: list[np.ndarray]  # [T, N] of each story
    candidates: list[np.ndarray]  # [C, W]
    queries: list[np.ndarray]  # [Q, W]
    labels: list[np.ndarray]  # [Q]
    tags: list[dict[str, np.ndarray]]  # [Q] each
    story: np.ndarray
    first: np.ndarray


class Stories:
    """Questions about stories, answered by one of the answers to the same story: implements `memjax.tasks.Task`.

    Rehearsal Memory, 4.3.1, which has NarrativeQA. A stream is a story, whose questions are asked at its end, up to
    `asked` of them of one reading. Candidates are the answers to all of its questions; those that read the same are
    one. Words are those of the train split. Tags of a question: "place", whether its answer lies in a section that
    begins in the first half of the story's words or later, or in several sections; "kind", what it asks for.

    Attributes:
        spec: its settings.
        shape: of its batches.
        vocabulary: the words, by their ids.
        notes: what is left out.

    Raises:
        MemjaxError: for a file that is missing, damaged, or of another kind.

    ::

        spec = StoriesSpec("fairytaleqa.tar.gz", words=20, answer_words=20, asked=32, least=2, data_dir="data")
        Stories(spec).examples("train", np.arange(4))
    """

    def __init__(self, spec: StoriesSpec):
        self.spec = spec
        stories = read_stories(Path(spec.data_dir, spec.file))
        self.vocabulary = known_words((word for story in stories["train"] for word in _words(story)), spec.least)
        self._ids = {word: place for place, word in enumerate(self.vocabulary)}
        self._texts = [np.array(ids_of(list(_words(story)), self._ids), np.int32) for story in stories["train"]]
        asked = [question for own in stories.values() for story in own for question in story.questions]
        self._kinds = sorted({question.kind for question in asked})
        longest = max(1, *(len(query_words(question.text)) for question in asked))
        left_out: Counter[str] = Counter()
        self._splits = {split: self._read(stories[split], longest, left_out) for split in SPLITS}
        self.notes = tuple(f"{count:,} {what} left out" for what, count in left_out.items())
        for split, part in self._splits.items():
            require(part.streams, f"{spec.file} has no story with two answers for {split}")
        every = list(self._splits.values())
        kinds = {"kind": tuple(self._kinds)} if len(self._kinds) > 1 else {}
        places = {"place": PLACES} if any((tag["place"] < 2).any() for part in every for tag in part.tags) else {}
        self.shape = TaskShape(
            items=len(self.vocabulary),
            segments=max(len(stream) for part in every for stream in part.streams),
            segment=spec.words,
            queries=len(self.vocabulary),
            query_words=longest,
            answer="candidates",
            classes=max(len(own) for part in every for own in part.candidates),
            questions=(1, min(spec.asked, max(len(own) for part in every for own in part.labels))),
            tags=places | kinds,
        )

    def size(self, split: Split) -> int:
        return len(self._splits[split].story)

    def lengths(self, split: Split) -> np.ndarray:
        part = self._splits[split]
        return np.array([len(stream) for stream in part.streams])[part.story]

    def groups(self, split: Split) -> np.ndarray:
        """The story of each example."""
        return self._splits[split].story

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        part, indices = self._splits[split], check_indices(indices, self.size(split), split)
        shape, most = self.shape, (self.shape.questions or (1, 1))[1]
        stream = np.full((len(indices), shape.segments, shape.segment), PAD, np.int32)
        candidates = np.full((len(indices), shape.classes, self.spec.answer_words), PAD, np.int32)
        query = np.full((len(indices), 1, most, shape.query_words or 1), PAD, np.int32)
        asked = np.zeros((len(indices), 1, most), bool)
        label, after = np.zeros(asked.shape, np.int32), np.zeros((len(indices), 1), np.int32)
        tags = {tag: np.zeros(asked.shape, np.int32) for tag in shape.tags}
        for row, (story, first) in enumerate(zip(part.story[indices].tolist(), part.first[indices].tolist())):
            own = slice(first, first + most)
            count = len(part.labels[story][own])
            stream[row, : len(part.streams[story])] = part.streams[story]
            candidates[row, : len(part.candidates[story])] = part.candidates[story]
            query[row, 0, :count], label[row, 0, :count] = part.queries[story][own], part.labels[story][own]
            asked[row, 0, :count], after[row] = True, len(part.streams[story])
            for tag, values in tags.items():
                values[row, 0, :count] = part.tags[story][tag][own]
        batch = {"stream": stream, "mask": stream != PAD, "query": query, "label": label, "candidates": candidates}
        return batch | {"asked": asked, "after": after} | tags

    def word_vectors(self, width: int) -> np.ndarray:
        """Vectors of the words, `[items, width]` float32, from stories, questions and answers of train.

        Args:
            width: of a vector.
        """
        return word_vectors(self._texts, self.shape.items, width)

    def _read(self, stories: list[Story], longest: int, left_out: Counter) -> _Examples:
        part = _Examples([], [], [], [], [], np.array([]), np.array([]))
        for story in stories:
            answers = [
                ids_of(words_of(question.answer)[: self.spec.answer_words], self._ids) for question in story.questions
            ]
            said = [i for i, answer in enumerate(answers) if answer and words_of(story.questions[i].text)]
            sections = [sentences_of(text, self.spec.words) for text in story.sections]
            distinct = list(dict.fromkeys(answers[i] for i in said))
            if len(distinct) < 2 or not any(sections):
                left_out["stories without a text or without two answers are"] += 1
                continue
            if len(said) < len(answers):
                left_out["questions without words or without an answer are"] += len(answers) - len(said)
            sentences = [ids_of(words_of(text), self._ids) for own in sections for text in own]
            part.streams.append(id_table(sentences, self.spec.words))
            part.candidates.append(id_table(distinct, self.spec.answer_words))
            part.queries.append(id_table([ids_of(words_of(story.questions[i].text), self._ids) for i in said], longest))
            part.labels.append(np.array([distinct.index(answers[i]) for i in said], np.int32))
            begins = np.cumsum([0, *(sum(len(words_of(text)) for text in own) for own in sections)])
            places = [story.questions[i].section for i in said]
            of_place = [2 if place is None else int(2 * begins[place] >= begins[-1]) for place in places]
            kinds = [self._kinds.index(story.questions[i].kind) for i in said]
            part.tags.append({"place": np.array(of_place, np.int32), "kind": np.array(kinds, np.int32)})
        pairs = [(i, first) for i, own in enumerate(part.labels) for first in range(0, len(own), self.spec.asked)]
        which, first = np.array(pairs, np.int64).reshape(-1, 2).T
        return part._replace(story=which, first=first)


def _words(story: Story) -> Iterator[str]:
    texts = (*story.sections, *(text for question in story.questions for text in (question.text, question.answer)))
    return chain.from_iterable(map(words_of, texts))
