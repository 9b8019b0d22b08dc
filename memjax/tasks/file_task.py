"""Streams and questions of one's own, from a folder, without code: ids or vectors, questions in words."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memjax.checks import at_least, at_most
from memjax.errors import MemjaxError, require
from memjax.tasks.file_streams import QUESTIONS, FileQuestion, read_questions, read_streams
from memjax.tasks.stream_task import Batch, Split, TaskShape, check_indices
from memjax.tasks.words import composed, query_words, words_of
from memjax.typing import SPLITS

NO_KIND = "none"
UNKNOWN = 0  # the id of an item that train does not have
PADDING, UNKNOWN_WORD = 0, 1
LONGEST = 2**20  # items that are read for one question: more is a mistake


@dataclass(frozen=True)
class FileTaskSpec:
    """The settings of `FileTask`.

    Attributes:
        segment: N, the items of a segment.
        length: the most items that are read for a question, the latest ones; at most 2^20.
        data_dir: the folder.
        asked: how many questions of a stream, one after the other, are an example at most. Above 1 the stream is read
            once, and asked on the way.

    Raises:
        MemjaxError: for what is out of range.
    """

    segment: int
    length: int
    data_dir: str
    asked: int = 1

    def __post_init__(self):
        at_least(self, 1, "segment", "length", "asked")
        at_most(self, LONGEST, "length")
        at_most(self, self.length, "segment")


class _Part(NamedTuple):
    """What an example reads before one of its questions, and after the one before."""

    begin: int  # in the stream, up to the question's `after`
    place: int  # of its first item among those of the example, its padding included
    after: int  # how many segments have been read with it


class FileTask:
    """Questions about the streams of a folder: implements `memjax.tasks.Task`.

    FOLDER/streams/NAME.npy: a stream each, whole numbers or words `[L]`, or vectors `[L, d]`. Or
    FOLDER/streams.parquet: the columns stream, item and, if there is one, time. FOLDER/questions.jsonl: lines such as

        {"stream": "NAME", "query": "where is Ada", "answer": "kitchen", "after": 120, "split": "train"}

    An answer is a text, of which each that train has is a class; or true or false. `after`: how many items have been
    read; left out, all. `split`: train, valid or test; left out in all lines, eight streams of ten are train, one each
    valid and test, by a sum over their names. `kind`: a word for what a question asks for, a tag to split metrics by.
    Ids that train does not read are one id; numbers of vectors are taken less their mean in train, over their standard
    deviation there.

    With `asked` above 1 some questions of a stream are one example, asked on the way: the segment before a question
    ends with what it has read, and may be shorter than N. What comes after more than `length` items is asked alone.

    Attributes:
        spec: its settings.
        shape: of its batches.
        items: ids that train reads; the i-th is the model's id i + 1.
        mean: of each number of the vectors that train reads.
        spread: their standard deviations, 1 for a number that is always the same.
        item_names: what a run keeps a digest of, lest numbers mean something else: the items, or mean and spread.
        answers: by their labels; empty where they are yes or no.
        vocabulary: the words of the queries, by their ids.
        notes: what was left out, put in order, or is unknown in train.

    Raises:
        MemjaxError: for what is missing or not as it must be.

    ::

        FileTask(FileTaskSpec(segment=20, length=1000, data_dir="mydata")).examples("train", np.arange(32))
    """

    def __init__(self, spec: FileTaskSpec):
        self.spec, folder = spec, Path(spec.data_dir)
        streams = read_streams(folder)
        questions = _split(folder, read_questions(folder, streams.items))
        train, notes = questions["train"], list(streams.notes)
        every = [question for split in SPLITS for question in questions[split]]
        read = _read_items(streams.items, train, spec.length)
        if streams.width is None:
            self.items = np.unique(read)
            self.item_names = tuple(self.items.tolist())
        else:
            # In float64: in float32 a mean over many is off, and a number that never changes has a spread.
            with np.errstate(over="ignore", invalid="ignore"):
                self.mean, spread = read.mean(0, dtype=np.float64), read.std(0, dtype=np.float64)
            finite = np.isfinite(self.mean) & np.isfinite(spread)
            require(finite.all(), f"the vectors of {folder} have numbers too large to be squared; make them smaller")
            # A number that never changes but for rounding would be blown up where it differs.
            rounding = 4 * np.finfo(read.dtype).eps if read.dtype.kind == "f" else 0
            constant = spread <= max(rounding, 1e-12) * np.abs(read).max(0)
            self.spread = np.where(constant, 1, spread)
            if constant.any():
                notes.append(f"{constant.sum():,} of {len(constant):,} numbers of a vector never change in train")
            self.item_names = tuple(f"{number:.6g}" for number in (*self.mean, *self.spread))
        cut = sum(question.after > spec.length for question in every)
        if cut:
            notes.append(
                f"of {cut:,} questions the latest {spec.length:,} items are read; config.task.length is for more"
            )

        self.vocabulary = ("<pad>", "<unknown>", *sorted({word for q in train for word in words_of(q.query)}))
        self._words = {word: place for place, word in enumerate(self.vocabulary)}
        clicks = isinstance(every[0].answer, bool)
        self.answers = () if clicks else tuple(sorted({str(question.answer) for question in train}))
        given = {question.answer for question in train}
        require(len(given) > 1, f"all answers of train in {folder / QUESTIONS} are the same")
        self._labels = {answer: label for label, answer in enumerate(self.answers)}
        lost = sum(not clicks and question.answer not in self._labels for question in every)
        if lost:
            notes.append(f"{lost:,} questions of valid and test have answers that train lacks: they count as errors")
        self._examples = {split: _examples(own, spec) for split, own in questions.items()}
        times = max(len(example) for own in self._examples.values() for example in own)
        kinds = sorted({question.kind or NO_KIND for question in every}) if any(one.kind for one in every) else []
        self._kinds = {kind: place for place, kind in enumerate(kinds)}
        self.shape = TaskShape(
            items=len(self.items) + 1 if streams.width is None else 0,
            segments=int(max(self.lengths(split).max() for split in SPLITS)),
            segment=spec.segment,
            queries=len(self.vocabulary),
            query_words=max(len(query_words(question.query)) for question in every),
            answer="click" if clicks else "classes",
            classes=2 if clicks else len(self.answers),
            tags={"kind": tuple(kinds)} if kinds else {},
            item_width=streams.width,
            questions=(times, 1) if times > 1 else None,
        )
        self._streams = {}
        for name, items in streams.items.items():
            self._streams[name] = encoded = self.encode(items)
            require(np.isfinite(encoded).all(), f"stream {name} has numbers far beyond those of train; mend it")
        if streams.width is None:
            held_out = questions["valid"] + questions["test"]
            strange = int((_read_items(self._streams, held_out, spec.length) == UNKNOWN).sum())
            if strange:
                notes.append(f"{strange:,} items that valid and test read occur nowhere in train: they are one id")
        self.notes = tuple(notes)

    def encode(self, items: np.ndarray) -> np.ndarray:
        """Items as the model reads them: ids as int32, vectors as float32.

        Args:
            items: as they stand in a file, `[L]` or `[L, d]`.

        Raises:
            MemjaxError: for items of another kind.
        """
        try:
            items = np.asarray(items)
        except ValueError:  # rows of several lengths
            raise MemjaxError(f"items are one array in {self.spec.data_dir}, and these are none") from None
        fits = items.shape[1:] == (() if self.shape.item_width is None else (self.shape.item_width,))
        wanted = "[L]" if self.shape.item_width is None else f"[L, {self.shape.item_width}]"
        require(fits and items.ndim > 0, f"items are {wanted} in {self.spec.data_dir}, not {list(items.shape)}")
        if self.shape.item_width is not None:
            require(items.dtype.kind in "iuf", f"vectors are real numbers in {self.spec.data_dir}, not {items.dtype}")
            with np.errstate(over="ignore"):
                return ((items - self.mean) / self.spread).astype(np.float32)
        same = (items.dtype.kind == "U") == (self.items.dtype.kind == "U")
        require(same, f"items are of type {self.items.dtype} in {self.spec.data_dir}, not {items.dtype}")
        if items.dtype.kind == "U":
            items = composed(items)
        elif items.size:
            require(items.dtype.kind in "iu", f"items are whole numbers, not {items.dtype}")
            require(items.max() < 2**63, "items are below 2^63")  # as unsigned ones they would be compared as floats
            items = items.astype(np.int64)
        places = np.minimum(np.searchsorted(self.items, items), len(self.items) - 1)
        return np.where(self.items[places] == items, places + 1, UNKNOWN).astype(np.int32)

    def encode_query(self, query: str) -> np.ndarray:
        """A question as the ids of its words, `[W]`.

        Args:
            query: in words, not more than those of the folder have.

        Raises:
            MemjaxError: for none, and for more.
        """
        words, longest = words_of(query), self.shape.query_words or 0
        require(0 < len(words) <= longest, f"{query!r:.60} has {len(words)} words, not 1 to {longest}")
        ids = [self._words.get(word, UNKNOWN_WORD) for word in words]
        return np.array(ids + [PADDING] * (longest - len(ids)), np.int32)

    def size(self, split: Split) -> int:
        """How many examples: questions, or streams with some of theirs."""
        return len(self._examples[split])

    def lengths(self, split: Split) -> np.ndarray:
        """How many segments each example reads."""
        return np.array([self._parts(example)[-1].after for example in self._examples[split]])

    def groups(self, split: Split) -> np.ndarray:
        """The stream of each example."""
        return np.unique([example[0].stream for example in self._examples[split]], return_inverse=True)[1]

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        chosen = [self._examples[split][i] for i in check_indices(indices, self.size(split), split)]
        shape = self.shape
        own, dtype = ((), np.int32) if shape.item_width is None else ((shape.item_width,), np.float32)
        stream = np.zeros((len(chosen), shape.segments * shape.segment, *own), dtype)
        mask = np.zeros(stream.shape[:2], bool)
        times = (len(chosen), 1 if shape.questions is None else shape.questions[0])
        query, label = np.zeros((*times, shape.query_words or 0), np.int32), np.zeros(times, np.int32)
        asked, after, kind = np.zeros(times, bool), np.zeros(times, np.int32), np.zeros(times, np.int32)
        for row, example in enumerate(chosen):
            for place, (question, part) in enumerate(zip(example, self._parts(example), strict=True)):
                items = self._streams[question.stream][part.begin : question.after]
                read = slice(part.place, part.place + len(items))
                stream[row, read], mask[row, read] = items, True
                query[row, place], label[row, place] = self.encode_query(question.query), self._label(question)
                asked[row, place], after[row, place] = True, part.after
                kind[row, place] = self._kinds.get(question.kind or NO_KIND, 0)
        axes = (len(chosen), shape.segments, shape.segment)
        batch = {"stream": stream.reshape(*axes, *own), "mask": mask.reshape(axes)}
        questions = {"query": query, "label": label} | ({"kind": kind} if self._kinds else {})
        if shape.questions is None:
            return batch | {name: values[:, 0] for name, values in questions.items()}
        questions["asked"] = asked
        return batch | {"after": after} | {name: values[:, :, None] for name, values in questions.items()}

    def _label(self, question: FileQuestion) -> int:
        answer = question.answer
        return int(answer) if isinstance(answer, bool) else self._labels.get(answer, -1)

    def _parts(self, example: list[FileQuestion]) -> list[_Part]:
        """What is read before each question of an example."""
        parts, begin, segments = [], max(0, example[-1].after - self.spec.length), 0
        for question in example:
            place = segments * self.spec.segment
            segments += -(-(question.after - begin) // self.spec.segment)
            parts.append(_Part(begin, place, segments))
            begin = question.after
        return parts


def _split(folder: Path, questions: list[FileQuestion]) -> dict[Split, list[FileQuestion]]:
    """The questions of each split, each of which has some."""
    found: dict[Split, list[FileQuestion]] = {split: [] for split in SPLITS}
    for question in questions:
        drawn = hashlib.sha256(question.stream.encode(errors="surrogateescape")).digest()[0] % 10
        split: Split = question.split or ("test" if drawn == 0 else "valid" if drawn == 1 else "train")
        found[split].append(question)
    said = questions[0].split is not None
    for split, own in found.items():
        give = f'give some lines "split": "{split}"' if said else 'give every line a "split", or more streams'
        require(own, f"{folder / QUESTIONS} has no question for {split}; {give}")
    return found


def _examples(questions: list[FileQuestion], spec: FileTaskSpec) -> list[list[FileQuestion]]:
    """The questions of each example. Each reads what it would read by itself: all before it, `length` items at most."""
    if spec.asked == 1:  # in the order of the file
        return [[question] for question in questions]
    of_stream: dict[str, list[FileQuestion]] = {}
    for question in questions:
        of_stream.setdefault(question.stream, []).append(question)
    found: list[list[FileQuestion]] = []
    for own in of_stream.values():
        own = sorted(own, key=lambda question: question.after)
        short = [question for question in own if question.after <= spec.length]
        found += [short[first : first + spec.asked] for first in range(0, len(short), spec.asked)]
        found += [[question] for question in own[len(short) :]]
    return found


def _read_items(streams: dict[str, np.ndarray], questions: list[FileQuestion], length: int) -> np.ndarray:
    """All items that some questions read, one after another; of a stream each once."""
    read = {question.stream: np.zeros(len(streams[question.stream]), bool) for question in questions}
    for question in questions:
        read[question.stream][max(0, question.after - length) : question.after] = True
    return np.concatenate([streams[name][places] for name, places in read.items()])
