"""Spans in long documents: blocks of words, and questions whose answer stands word for word in the document."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memjax.checks import at_least, at_most
from memjax.errors import require
from memjax.tasks.span_files import ARTICLES, Document, SpanQuestion, first_place, read_documents, scored_words
from memjax.tasks.stream_task import (
    Batch,
    Split,
    check_batch,
    check_ids,
    check_indices,
    check_tags,
    require_fields,
)
from memjax.tasks.word_neighbours import word_vectors
from memjax.tasks.words import PAD, id_table, known_words
from memjax.typing import SPLITS

PLACES = ("early", "later")
UNSCORED = 2 + len(ARTICLES)  # ids below are padding, the unknown word, and articles
LONGEST = 10_000  # words of a block or of a document in train: more is a mistake


@dataclass(frozen=True)
class SpansSpec:
    """The settings of `Spans`.

    Attributes:
        file: FairytaleQA's archive in `data_dir`, or the folder of TriviaQA there.
        words: N, of a block.
        cut: so many words of a document are read in train; in valid and test, all.
        within: the answer of a question of train ends within so many of them.
        least: a word that occurs less often in train is unknown to models.
        data_dir: the folder of the file.

    Raises:
        MemjaxError: for what is out of range.
    """

    file: str
    words: int
    cut: int
    within: int
    least: int
    data_dir: str

    def __post_init__(self):
        require(self.file, "file is empty; write fairytaleqa.tar.gz, or the name of TriviaQA's folder")
        at_least(self, 1, "words", "cut", "within", "least")
        at_most(self, LONGEST, "words", "cut")
        at_most(self, self.cut, "within")


@dataclass(frozen=True)
class SpansShape:
    """Everything that a model must know of a task of spans.

    Attributes:
        known: ids of words that a model tells apart are in [0, known), 0 is padding; those from there on are words that
            train lacks, told apart in answers alone.
        words: all ids are in [0, words).
        blocks: T, the most of a document.
        block: N, the words of a block.
        train_blocks: the most of a document of train.
        query_words: the most of a question.
        answers: the most that are given to one question.
        answer_words: the most of an answer.
        tags: as of a `TaskShape`.
    """

    known: int
    words: int
    blocks: int
    block: int
    train_blocks: int
    query_words: int
    answers: int
    answer_words: int
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@check_batch.register
def _check(shape: SpansShape, batch: Batch) -> None:
    """Raises `MemjaxError` if a batch has not its shapes, ids out of range, or a span behind its document."""
    require_fields(batch, "stream", "query", "first", "last", "answers", *shape.tags)
    stream, first, last = batch["stream"], batch["first"], batch["last"]
    rows = len(stream)
    require(rows > 0, "a batch needs at least one document")
    sizes = {"stream": (shape.blocks, shape.block), "query": (shape.query_words,), "first": (), "last": ()}
    for name, size in (sizes | {"answers": (shape.answers, shape.answer_words)}).items():
        found = batch[name].shape
        require(found == (rows, *size), f"{name} must be {['B', *size]}, as the task's shape says, not {list(found)}")
    for name in ("stream", "query", "answers"):
        check_ids(f"the {name} has ids", batch[name], 0, shape.words)
    words = stream.reshape(rows, -1)
    check_ids("spans begin", first, 0, words.shape[1])
    check_ids("spans end", last, 0, words.shape[1])
    there = (first <= last) & (words[np.arange(rows), last] != PAD)
    require(there.all(), "a span ends before it begins, or behind its document")
    require((batch["answers"] >= UNSCORED).any(axis=(1, 2)).all(), "a question has no answer that can be scored")
    check_tags(batch, shape.tags)


class _Question(NamedTuple):
    """An example: words from `begin` to `end` of a document, and places counted from `begin`."""

    document: int
    begin: int
    end: int
    first: int
    last: int
    query: list[int]
    answers: list[list[int]]


class Spans:
    """Questions about documents, whose answer is a span of their words. LEMN, 4.3, which has TriviaQA.

    A batch: `stream [B, T, N]`, a document as blocks of N words, of which the last alone is not full; `query [B, W]`;
    `first [B]` and `last [B]`, the places of the answer's words in the document; `answers [B, A, W2]`, all that count
    as right; all int32, 0 is padding. Words are those of SQuAD's rule (`scored_words`), so that what is read is what is
    scored. The span is the first place at which the first answer stands, in the sections that the question is about
    where these are known and it stands there, else in the document; in TriviaQA any answer will do. Other questions are
    left out.

    In train so many words of a document are read, `cut`, from its beginning where the answer ends `within` its first
    words; else from a place at which it does, drawn by the question's number. Tag "place": whether the answer begins in
    the first half of what is read.

    Attributes:
        spec: its settings.
        shape: of its batches.
        vocabulary: the words, by their ids, those that a model tells apart first.
        notes: what is left out.

    Raises:
        MemjaxError: for a file that is missing, damaged, or of another kind.

    ::

        spec = SpansSpec("fairytaleqa.tar.gz", words=20, cut=800, within=400, least=2, data_dir="data")
        Spans(spec).examples("train", np.arange(4))
    """

    def __init__(self, spec: SpansSpec):
        self.spec = spec
        documents = read_documents(Path(spec.data_dir, spec.file))
        split_text = cache(scored_words)  # a page of TriviaQA is a document for each question about it
        texts = {split: [list(map(split_text, own.sections)) for own in documents[split]] for split in SPLITS}
        told = chain.from_iterable(chain.from_iterable(texts["train"]))
        asked = (word for own in documents["train"] for one in own.questions for word in scored_words(one.text))
        known = known_words(chain(told, asked), spec.least, first=ARTICLES)
        self._ids = {word: place for place, word in enumerate(known)}
        self._words: dict[Split, list[np.ndarray]] = {}
        self._questions: dict[Split, list[_Question]] = {}
        left_out: Counter[str] = Counter()
        for split in SPLITS:
            self._words[split] = [self._read_as(chain.from_iterable(own)) for own in texts[split]]
            self._questions[split] = self._spans(split, documents[split], texts[split], left_out)
            require(self._questions[split], f"{spec.file} has no question with a span for {split}")
        self.vocabulary = tuple(self._ids)
        self.notes = tuple(f"{count:,} {what} left out" for what, count in left_out.items())
        every = [question for own in self._questions.values() for question in own]
        answers = [answer for question in every for answer in question.answers]
        self.shape = SpansShape(
            known=len(known),
            words=len(self.vocabulary),
            blocks=max(-(-(question.end - question.begin) // spec.words) for question in every),
            block=spec.words,
            train_blocks=-(-spec.cut // spec.words),
            query_words=max(len(question.query) for question in every),
            answers=max(len(question.answers) for question in every),
            answer_words=max(map(len, answers)),
            tags={"place": PLACES},
        )

    def size(self, split: Split) -> int:
        """How many questions."""
        return len(self._questions[split])

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        """The questions with these indices.

        Args:
            split: which of them.
            indices: `[B]`, each in [0, size(split)).

        Raises:
            MemjaxError: for any other index, and for none.
        """
        chosen = [self._questions[split][i] for i in check_indices(indices, self.size(split), split)]
        shape, rows = self.shape, len(chosen)
        stream = np.full((rows, shape.blocks * shape.block), PAD, np.int32)
        answers = np.full((rows, shape.answers, shape.answer_words), PAD, np.int32)
        for row, question in enumerate(chosen):
            words = self._words[split][question.document][question.begin : question.end]
            stream[row, : len(words)] = words
            answers[row, : len(question.answers)] = id_table(question.answers, shape.answer_words)
        first, last = (np.array([getattr(q, name) for q in chosen], np.int32) for name in ("first", "last"))
        later = [2 * question.first >= question.end - question.begin for question in chosen]
        return {
            "stream": stream.reshape(rows, shape.blocks, shape.block),
            "query": id_table([question.query for question in chosen], shape.query_words),
            "first": first,
            "last": last,
            "answers": answers,
            "place": np.array(later, np.int32),
        }

    def groups(self, split: Split) -> np.ndarray:
        """The document of each question."""
        return np.array([question.document for question in self._questions[split]], int)

    def word_vectors(self, width: int) -> np.ndarray:
        """Vectors of the words that a model tells apart, `[known, width]`, from the documents of train.

        Args:
            width: of a vector.
        """
        return word_vectors(self._words["train"], self.shape.known, width)

    def _read_as(self, words: Sequence[str] | chain) -> np.ndarray:
        """Words as ids; one that is new gets the next."""
        return np.array([self._ids.setdefault(word, len(self._ids)) for word in words], np.int32)

    def _spans(
        self, split: Split, documents: list[Document], texts: list[list[list[str]]], left_out: Counter
    ) -> list[_Question]:
        found: list[_Question] = []
        for number, (document, sections) in enumerate(zip(documents, texts, strict=True)):
            words = list(chain.from_iterable(sections))
            begins = [0, *accumulate(map(len, sections))]
            for question in document.questions:
                query, place = scored_words(question.text), _place(question, words, begins)
                if not query:
                    left_out["questions without words are"] += 1
                    continue
                if place is None:
                    left_out["questions whose answer does not stand in the text are"] += 1
                    continue
                begin, end = 0, len(words)
                if split == "train":
                    begin = self._begin(place, len(found))
                    end = min(begin + self.spec.cut, end)
                if place[1] - begin >= self.spec.within and split == "train":
                    left_out["questions of train whose answer is too long are"] += 1
                    continue
                span = number, begin, end, place[0] - begin, place[1] - begin
                answers = [self._read_as(scored_words(answer)).tolist() for answer in question.answers]
                scored = [answer for answer in answers if any(word >= UNSCORED for word in answer)]
                found.append(_Question(*span, self._read_as(query).tolist(), scored))
        return found

    def _begin(self, place: tuple[int, int], number: int) -> int:
        """From which word on a document of train is read, so that the answer ends within its first words."""
        first, last = place
        if last < self.spec.within:
            return 0
        room = max(0, self.spec.within - (last - first + 1))
        return first - int(np.random.default_rng(number).random() * (room + 1))


def _place(question: SpanQuestion, words: list[str], begins: list[int]) -> tuple[int, int] | None:
    """The first and the last word of the answer; None where none stands in the text, or only articles do."""
    parts = [(begins[section], begins[section + 1]) for section in question.sections]
    for answer in map(scored_words, question.spans):
        if not set(answer) - set(ARTICLES):
            continue
        for begin, end in (*parts, (0, len(words))):
            if (first := first_place(answer, words, begin, end)) is not None:
                return first, first + len(answer) - 1
    return None
