"""Questions about dialogues with several choices: a turn is a segment, and each question reads its dialogue anew."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memjax.checks import at_least, at_most
from memjax.errors import require
from memjax.tasks.dialogue_files import Dialogue, read_dialogues
from memjax.tasks.stream_task import Batch, Split, TaskShape, check_indices
from memjax.tasks.word_neighbours import word_vectors
from memjax.tasks.words import PAD, id_table, ids_of, known_words, pieces_of, query_words, words_of
from memjax.typing import SPLITS

PLACES = ("early", "later", "unknown")
LONGEST = 10_000  # words of a turn or a choice: more is a mistake


@dataclass(frozen=True)
class DialoguesSpec:
    """The settings of `Dialogues`.

    Attributes:
        folder: of DREAM or TVQA, in `data_dir`.
        words: the most that a segment has; a longer turn is several segments.
        answer_words: the most that is read of a choice.
        least: a word that occurs less often in train is `<unknown>`.
        data_dir: where the folder is.

    Raises:
        MemjaxError: for what is out of range.
    """

    folder: str
    words: int
    answer_words: int
    least: int
    data_dir: str

    def __post_init__(self):
        require(self.folder, "folder is empty; write dream or tvqa, or the name of another folder like theirs")
        at_least(self, 1, "words", "answer_words", "least")
        at_most(self, LONGEST, "words", "answer_words")


class _Examples(NamedTuple):
    """A split: the stream of each dialogue, and for each question its dialogue and its own."""

    streams: list[np.ndarray]  # [T, N] of each dialogue
    dialogue: list[int]
    queries: list[tuple[int, ...]]
    candidates: list[np.ndarray]  # [C, W] of each question
    label: list[int]
    place: list[int]


class Dialogues:
    """Multiple choice about dialogues: implements `memjax.tasks.Task`.

    Continual Memory, 4.3, which has TVQA's subtitles. A stream is a dialogue, asked at its end; candidates are the
    choices of the question. Words are those of the train split. Tag of an example, where the files say it: "place",
    whether the moment of the answer begins in the first half of the turns or later.

    Attributes:
        spec: its settings.
        shape: of its batches.
        vocabulary: the words, by their ids.
        notes: what is left out, and questions that nobody can get right.

    Raises:
        MemjaxError: for files that are missing, damaged, or of another kind.

    ::

        spec = DialoguesSpec("dream", words=20, answer_words=20, least=2, data_dir="data")
        Dialogues(spec).examples("train", np.arange(4))
    """

    def __init__(self, spec: DialoguesSpec):
        self.spec = spec
        dialogues = read_dialogues(Path(spec.data_dir, spec.folder))
        self.vocabulary = known_words((word for own in dialogues["train"] for word in _words(own)), spec.least)
        self._ids = {word: place for place, word in enumerate(self.vocabulary)}
        self._texts = [np.array(ids_of(list(_words(dialogue)), self._ids), np.int32) for dialogue in dialogues["train"]]
        left_out: Counter[str] = Counter()
        self._splits = {split: self._read(dialogues[split], left_out) for split in SPLITS}
        every = list(self._splits.values())
        notes = [f"{count:,} {what} left out" for what, count in left_out.items()]
        alike = sum(_alike(self._splits[split]) for split in ("valid", "test"))
        if alike:
            notes.append(
                f"of {alike:,} questions of valid and test the right choice reads as another one does (without words "
                "that train lacks or that are not read): they count as errors"
            )
        self.notes = tuple(notes)
        for split, part in self._splits.items():
            require(part.label, f"{spec.folder} has no question with words for {split}")
        told = any(place < 2 for part in every for place in part.place)
        self.shape = TaskShape(
            items=len(self.vocabulary),
            segments=max(len(stream) for part in every for stream in part.streams),
            segment=spec.words,
            queries=len(self.vocabulary),
            query_words=max(len(query) for part in every for query in part.queries),
            answer="candidates",
            classes=max(len(own) for part in every for own in part.candidates),
            tags={"place": PLACES} if told else {},
        )

    def size(self, split: Split) -> int:
        return len(self._splits[split].label)

    def lengths(self, split: Split) -> np.ndarray:
        part = self._splits[split]
        return np.array([len(part.streams[i]) for i in part.dialogue])

    def groups(self, split: Split) -> np.ndarray:
        """The dialogue of each question."""
        return np.array(self._splits[split].dialogue, int)

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        part, indices = self._splits[split], check_indices(indices, self.size(split), split)
        shape = self.shape
        stream = np.full((len(indices), shape.segments, shape.segment), PAD, np.int32)
        candidates = np.full((len(indices), shape.classes, self.spec.answer_words), PAD, np.int32)
        for row, i in enumerate(indices.tolist()):
            own = part.streams[part.dialogue[i]]
            stream[row, : len(own)] = own
            candidates[row, : len(part.candidates[i])] = part.candidates[i]
        query = id_table([part.queries[i] for i in indices.tolist()], shape.query_words or 1)
        batch = {"stream": stream, "mask": stream != PAD, "query": query, "candidates": candidates}
        told = {"label": part.label} | ({"place": part.place} if shape.tags else {})
        return batch | {name: np.array(values, np.int32)[indices] for name, values in told.items()}

    def word_vectors(self, width: int) -> np.ndarray:
        """Vectors of the words, `[items, width]` float32, from dialogues, questions and answers of train.

        Args:
            width: of a vector.
        """
        return word_vectors(self._texts, self.shape.items, width)

    def _read(self, dialogues: list[Dialogue], left_out: Counter) -> _Examples:
        part = _Examples([], [], [], [], [], [])
        for dialogue in dialogues:
            turns = [pieces_of(words_of(text), self.spec.words) for text in dialogue.turns]
            segments = [ids_of(piece, self._ids) for pieces in turns for piece in pieces]
            if not segments:
                left_out["dialogues without words are"] += 1
                continue
            for question in dialogue.questions:
                query = ids_of(query_words(question.text), self._ids)
                choices = [ids_of(words_of(text)[: self.spec.answer_words], self._ids) for text in question.choices]
                if not query or not all(choices):
                    left_out["questions without words, or with a choice without words, are"] += 1
                    continue
                part.dialogue.append(len(part.streams))
                part.queries.append(query)
                part.candidates.append(id_table(choices, self.spec.answer_words))
                part.label.append(question.right)
                part.place.append(2 if question.turn is None else int(2 * question.turn >= len(turns)))
            part.streams.append(id_table(segments, self.spec.words))
        return part


def _alike(part: _Examples) -> int:
    """Of how many questions another choice reads as the right one does."""
    pairs = zip(part.candidates, part.label, strict=True)
    return sum(int((choices == choices[right]).all(axis=1).sum() > 1) for choices, right in pairs)


def _words(dialogue: Dialogue) -> Iterator[str]:
    texts = (*dialogue.turns, *(text for one in dialogue.questions for text in (one.text, *one.choices)))
    return chain.from_iterable(map(words_of, texts))
