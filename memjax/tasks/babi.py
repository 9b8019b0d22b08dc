"""bAbI: a sentence is a segment, the question a query of words, the answer a class. One task, or all jointly."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memjax.checks import at_least
from memjax.errors import MemjaxError, require
from memjax.tasks.builders.babi_format import Records, Story
from memjax.tasks.stream_task import Batch, Split, TaskShape, check_indices
from memjax.tasks.words import PAD, UNKNOWN, text_table, words_of
from memjax.typing import SPLITS

UNSEEN = -1
_PLACES = ("early", "later")


@dataclass(frozen=True)
class BabiSpec:
    """The settings of `Babi`.

    Attributes:
        folder: of the archive, like "en-10k".
        task: 1 to 20, 0 for all jointly.
        words: the most that a sentence may have. N is the longest sentence that there is, so that no step pays for
            padding that no sentence fills.
        data_dir: where `memjax prepare babi` has put the data.
        asked: how many questions of a story, one after the other, are an example at most. Above 1 the sentences before
            the last of them are read once, and asked on the way.
    """

    folder: str
    task: int
    words: int
    data_dir: str
    asked: int = 1

    def __post_init__(self):
        at_least(self, 1, "words", "asked")


class _Examples(NamedTuple):
    """A split: the sentences of all its stories end to end, and for each example where its stream begins and ends, and
    its A questions.
    """

    lines: np.ndarray  # rows of the table of sentences
    start: np.ndarray
    length: np.ndarray
    asked: np.ndarray  # which of the questions are no padding, and so on, [size, A]
    after: np.ndarray
    query: np.ndarray  # rows of the table of questions
    label: np.ndarray
    tag: np.ndarray


class Babi:
    """The bAbI task: stream `[B, T, N]` of the sentences before a question, query `[B, W]`, label `[B]` an answer; or
    `[B, A, 1, W]` and `[B, A, 1]` of up to A questions about a story, asked on the way.

    An answer is a class as it is written, in lower case ("apple,milk" is one). Words and classes are those of the train
    split. Word id 0 is padding, 1 any word that train does not have. An answer that train does not have gets the label
    `UNSEEN`, -1: no model can give it, so that it counts as an error. Without a valid split in the folder, the last
    tenth of the train stories of each task is valid, and not in train.

    Tags: `task` when joint; else `place`: whether the last supporting fact is in the first or the second half of the
    stream.

    Attributes:
        shape: of its batches.
        vocabulary: the words, by their ids.
        answers: by their labels.
        notes: what of the folder is missing or partial.

    Raises:
        MemjaxError: if the data is not prepared, the task is not in it, or a sentence is longer than `words`.

    ::

        Babi(BabiSpec(folder="en", task=1, words=6, data_dir="data")).examples("train", np.arange(64))
    """

    shape: TaskShape
    vocabulary: tuple[str, ...]
    answers: tuple[str, ...]
    notes: tuple[str, ...]

    def __init__(self, spec: BabiSpec):
        # Here, so that the tasks that need no file do not need TFDS either.
        from memjax.tasks.builders.babi_records import open_folder

        records = open_folder(spec.data_dir, spec.folder)
        self.notes, tasks = choose_tasks(records, spec.folder, spec.task)
        stories = _read(records, tasks)
        train = [story for _, story in stories["train"]]
        words = {word for text in _texts(train) for word in words_of(text)}
        self.vocabulary = ("<pad>", "<unknown>", *sorted(words))
        self.answers = tuple(sorted({question.answer.lower() for story in train for question in story.questions}))

        word_ids = {word: place for place, word in enumerate(self.vocabulary)}
        everything = [story for split in SPLITS for _, story in stories[split]]
        self._sentences, sentence_rows = text_table(
            (text for story in everything for text in story.sentences), word_ids
        )
        questions = (question.text for story in everything for question in story.questions)
        self._questions, question_rows = text_table(questions, word_ids)
        longest = self._sentences.shape[1]
        require(longest <= spec.words, f"a sentence has {longest} words, words is {spec.words}; set it to {longest}")

        label_ids = {answer: place for place, answer in enumerate(self.answers)}
        tag, names, tag_of = _tags(spec, tasks, everything)
        self._tag = tag
        segments = max(question.after for story in everything for question in story.questions)
        times = min(spec.asked, max(len(story.questions) for story in everything))
        self._splits = {
            split: _arrays(stories[split], sentence_rows, question_rows, label_ids, tag_of, segments, times)
            for split in SPLITS
        }
        self.shape = TaskShape(
            items=len(self.vocabulary),
            segments=segments,
            segment=longest,
            queries=len(self.vocabulary),
            query_words=self._questions.shape[1],
            answer="classes",
            classes=len(self.answers),
            tags={tag: names} if tag else {},
            questions=(times, 1) if times > 1 else None,
        )

    def size(self, split: Split) -> int:
        """How many examples the split has."""
        return len(self._splits[split].start)

    def lengths(self, split: Split) -> np.ndarray:
        """How many sentences each example reads."""
        return self._splits[split].length

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        """The examples with these indices.

        Args:
            split: which of them.
            indices: `[B]`, each in [0, size(split)).

        Raises:
            MemjaxError: for any other index.
        """
        part, indices = self._splits[split], check_indices(indices, self.size(split), split)
        place = np.arange(self.shape.segments)
        lines = part.lines[part.start[indices, None] + place]
        lines *= place < part.length[indices, None]  # row 0 of the table is a sentence of padding
        stream = self._sentences.take(lines, axis=0)
        questions = {"query": self._questions[part.query[indices]], "label": part.label[indices]}
        questions |= {self._tag: part.tag[indices]} if self._tag else {}
        batch = {"stream": stream, "mask": stream != PAD}
        if self.shape.questions is None:
            return batch | {name: values[:, 0] for name, values in questions.items()}
        questions["asked"] = part.asked[indices]
        return batch | {"after": part.after[indices]} | {name: x[:, :, None] for name, x in questions.items()}

    def groups(self, split: Split) -> np.ndarray:
        """The story of each example."""
        return self._splits[split].start

    def encode_sentence(self, text: str) -> np.ndarray:
        """A sentence as the ids of an item each: those of its words, and of `UNKNOWN` for words that train lacks.

        Raises:
            MemjaxError: for a sentence without words, and for one that is longer than those of the data.
        """
        return self._encode(text, self.shape.segment)

    def encode_question(self, text: str) -> np.ndarray:
        """A question as `query` of an example; as `encode_sentence`, padded."""
        longest = self._questions.shape[1]
        ids = self._encode(text, longest)
        return np.pad(ids, (0, longest - len(ids)), constant_values=PAD)

    def _encode(self, text: str, longest: int) -> np.ndarray:
        known = {word: place for place, word in enumerate(self.vocabulary)}
        ids = [known.get(word, UNKNOWN) for word in words_of(text)]
        require(ids, f"there is no word in {text!r}")
        require(len(ids) <= longest, f"{text!r} has {len(ids)} words; the longest of the data has {longest}")
        return np.array(ids, np.int32)


def choose_tasks(records: Records, folder: str, wanted: int) -> tuple[tuple[str, ...], list[int]]:
    """What a reader of the figures must know, and the tasks to use: those that can be trained and tested.

    Args:
        records: of the folder.
        folder: its name, for errors.
        wanted: one of them, 0 for all.

    Raises:
        MemjaxError: for a task that is not there, and for one that lacks a split.
    """
    known = sorted({task for tasks in records.splits.values() for task in tasks})
    lacking = {
        task: [split for split in ("train", "test") if task not in records.splits.get(split, {})] for task in known
    }
    if wanted == 0:
        tasks = [task for task in known if not lacking[task]]
        require(tasks, f"no task of bAbI folder {folder!r} has both a train and a test file")
    else:
        listed = ", ".join(map(str, known))
        require(wanted in known, f"bAbI folder {folder!r} has no task {wanted}; it has 0 (joint), {listed}")
        if lacking[wanted]:
            missing = " and no ".join(lacking[wanted])
            raise MemjaxError(
                f"task {wanted} of bAbI folder {folder!r} has no {missing} file in the prepared data; "
                f"prepare {folder} again with an extra file for it, or take another folder"
            )
        tasks = [wanted]
    left_out = [f"task {task} is left out: no {' and no '.join(lacking[task])} file" for task in known if lacking[task]]
    extras = [
        f"task {task} {split} is from {file}, which has {records.splits[split][task][1]:,} questions"
        for (task, split), file in records.extras.items()
        if task in tasks
    ]
    return (*extras, *(left_out if wanted == 0 else ())), tasks


def _read(records: Records, tasks: Sequence[int]) -> dict[Split, list[tuple[int, Story]]]:
    """The (task, story) pairs of each split."""
    parts = {task: split_stories(records, task) for task in tasks}
    return {split: [(task, story) for task in tasks for story in parts[task][split]] for split in SPLITS}


def split_stories(records: Records, task: int) -> dict[Split, list[Story]]:
    """The stories of a task, with valid held out of train where the folder has none."""
    train, test = records.stories("train", task), records.stories("test", task)
    if task in records.splits.get("valid", {}):
        return {"train": train, "valid": records.stories("valid", task), "test": test}
    require(len(train) > 1, f"task {task} has one train story: none to hold out; add a valid file")
    held = max(1, len(train) // 10)
    return {"train": train[:-held], "valid": train[-held:], "test": test}


def _texts(stories: Iterable[Story]) -> set[str]:
    return {text for story in stories for text in (*story.sentences, *(question.text for question in story.questions))}


def _tags(spec: BabiSpec, tasks: list[int], stories: list[Story]) -> tuple[str, tuple[str, ...], Callable | None]:
    """The name of the tag ("" for none), the names of its values, and the value of (task, question)."""
    if spec.task == 0:
        return "task", tuple(map(str, tasks)), lambda task, question: tasks.index(task)
    if all(question.supporting for story in stories for question in story.questions):
        return "place", _PLACES, lambda task, question: int(2 * max(question.supporting) >= question.after)
    return "", (), lambda task, question: 0


def _arrays(stories, sentence_rows, question_rows, label_ids, tag_of, segments, times) -> _Examples:
    lines: list[int] = []
    streams: list[tuple[int, int]] = []
    rows: list[list[tuple[int, int, int, int, int]]] = []
    for task, story in stories:
        for first in range(0, len(story.questions), times):
            questions = story.questions[first : first + times]
            streams.append((len(lines), questions[-1].after))
            found = [
                (1, question.after, question_rows[question.text], label_ids.get(question.answer.lower(), UNSEEN),
                 tag_of(task, question))
                for question in questions
            ]  # fmt: skip
            rows.append(found + [(0,) * 5] * (times - len(found)))
        lines.extend(sentence_rows[text] for text in story.sentences)
    # T rows more, so that the stream of the last story can be cut like any other.
    lines.extend([0] * segments)
    start, length = np.array(streams, np.int32).T.copy()
    asked, *others = np.moveaxis(np.array(rows, np.int32), 2, 0).copy()
    return _Examples(np.array(lines, np.int32), start, length, asked > 0, *others)
