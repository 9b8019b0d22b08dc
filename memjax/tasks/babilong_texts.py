"""What BABILong is mixed of: sentences of bAbI and of a background, in one table; the questions that are asked."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memjax.errors import require
from memjax.tasks.babi import UNSEEN, choose_tasks, split_stories
from memjax.tasks.builders.babi_format import Story
from memjax.tasks.stream_task import Split
from memjax.tasks.text import read_text, without_gutenberg
from memjax.tasks.words import id_table, ids_of, sentences_of, words_of
from memjax.typing import SPLITS

END, ASKED = 2, 3  # the marks behind the words of a sentence, and behind those of a question
_MARKS = ("<pad>", "<unknown>", ".", "?")


class Facts(NamedTuple):
    """The questions of a split, one task's behind the other's.

    Attributes:
        lines: the sentences of all stories end to end, as rows of the table.
        first: of each question, where its facts begin in `lines`.
        facts: of each question, how many it has.
        chars: of each question, how long its facts are as written, a space behind each.
        query: of each question, its row in the table of questions.
        label: of each question, the place of its answer, or -1 for one that train lacks.
        begins: where the questions of each task begin, and where the last ones end.
    """

    lines: np.ndarray
    first: np.ndarray
    facts: np.ndarray
    chars: np.ndarray
    query: np.ndarray
    label: np.ndarray
    begins: np.ndarray


class Texts(NamedTuple):
    """All sentences, and what is asked.

    Attributes:
        vocabulary: the words, by their ids, behind four marks.
        answers: by their labels.
        table: `[rows, N]`, each distinct sentence of bAbI and each of the background as ids of words; row 0 is padding.
        chars: of each row, its length as written, with a space behind it.
        questions: `[rows, W]`, as `table`.
        background: of each split, its first row in `table` and the one behind its last.
        facts: of each split, its questions.
        notes: what a reader of the figures must know.
    """

    vocabulary: tuple[str, ...]
    answers: tuple[str, ...]
    table: np.ndarray
    chars: np.ndarray
    questions: np.ndarray
    background: dict[Split, tuple[int, int]]
    facts: dict[Split, Facts]
    notes: tuple[str, ...]


def read_background(path: Path, words: int) -> dict[Split, list[str]]:
    """The sentences of each split: of the first eight tenths of a text, of the ninth and of the last.

    Raises:
        MemjaxError: for a file that is missing, damaged, or no text.
    """
    text = without_gutenberg(read_text(path))
    first, second = len(text) * 8 // 10, len(text) * 9 // 10
    parts = {"train": text[:first], "valid": text[first:second], "test": text[second:]}
    return {split: sentences_of(parts[split], words) for split in SPLITS}


def read_facts(data_dir: str, folder: str, tasks: Sequence[int]) -> tuple[dict[Split, list[list[Story]]], tuple]:
    """The stories of each split, task after task, and what must be said of them.

    Raises:
        MemjaxError: for data that is not prepared, and for a task that is not in it.
    """
    # Here, so that the tasks that need no file do not need TFDS either.
    from memjax.tasks.builders.babi_records import open_folder

    records = open_folder(data_dir, folder)
    known = sorted({task for own in records.splits.values() for task in own})
    for task in tasks:
        listed = ", ".join(map(str, known))
        require(task in known, f"tasks: bAbI folder {folder!r} has no task {task}; it has {listed}")
    notes = tuple(note for task in tasks for note in choose_tasks(records, folder, task)[0])
    stories = [split_stories(records, task) for task in tasks]
    return {split: [own[split] for own in stories] for split in SPLITS}, notes


def read_texts(
    data_dir: str, folder: str, tasks: Sequence[int], haystack: str, words: int, vocabulary: int, most: int
) -> Texts:
    """All that examples are made of.

    Args:
        data_dir: of all files.
        folder: of bAbI.
        tasks: of bAbI.
        haystack: the file of the background.
        words: the most that a sentence may have.
        vocabulary: how many ids there are at most.
        most: questions whose facts are longer than so many characters are left out.

    Raises:
        MemjaxError: for files that are missing or damaged, for tasks that there are not or of which no question is
            left, and for sizes that bAbI does not fit in.
    """
    stories, notes = read_facts(data_dir, folder, tasks)
    background = read_background(Path(data_dir, haystack), words)
    everything = [story for split in SPLITS for own in stories[split] for story in own]
    lines = list(dict.fromkeys(text for story in everything for text in story.sentences))
    asked = list(dict.fromkeys(question.text for story in everything for question in story.questions))
    train = [story for own in stories["train"] for story in own]
    answers = sorted({question.answer.lower() for story in train for question in story.questions})
    seen = {text for story in train for text in (*story.sentences, *(question.text for question in story.questions))}
    ids = _ids({*answers, *(word for text in seen for word in words_of(text))}, background["train"], vocabulary)

    texts = [*lines, *(text for split in SPLITS for text in background[split])]
    longest = max(len(words_of(text)) for text in lines)
    require(longest <= words, f"words must be at least {longest}, as many as a sentence of bAbI has, not {words}")
    ends = np.cumsum([1 + len(lines), *(len(background[split]) for split in SPLITS)]).tolist()
    rows, labels = {text: row for row, text in enumerate(lines, 1)}, {text: i for i, text in enumerate(answers)}
    queries = {text: row for row, text in enumerate(asked)}
    facts = {}
    for split in SPLITS:
        facts[split], left_out = _facts(stories[split], rows, queries, labels, most)
        for place, (task, share) in enumerate(zip(tasks, left_out, strict=True)):
            begin, end = facts[split].begins[place : place + 2]
            require(begin < end, f"lengths: {most} characters hold the facts of no {split} question of task {task}")
            if share and split == "test":
                said = f"task {task}: {share:.0%} of the questions are left out, as their facts alone have more than"
                learned = facts["train"].begins[place + 1] - facts["train"].begins[place]
                notes = (*notes, f"{said} {most} characters; {learned:,} are for training")
    return Texts(
        vocabulary=tuple(ids),
        answers=tuple(answers),
        table=_table(texts, ids, words),
        chars=np.array([0, *(len(text) + 1 for text in texts)]),
        questions=_table(asked, ids, max(len(words_of(text)) for text in asked))[1:],
        background=dict(zip(SPLITS, pairwise(ends))),
        facts=facts,
        notes=notes,
    )


def _ids(own: set[str], background: Iterable[str], most: int) -> dict[str, int]:
    """The id of each word: marks, words of bAbI, then the commonest of the background as far as there is room."""
    least = len(_MARKS) + len(own)
    require(most >= least, f"vocabulary must be at least {least}, the words of bAbI and {len(_MARKS)}, not {most}")
    counts = Counter(word for text in background for word in words_of(text))
    common = sorted(set(counts) - own, key=lambda word: (-counts[word], word))
    return {word: i for i, word in enumerate([*_MARKS, *sorted(own), *common[: most - least]])}


def _table(texts: Sequence[str], ids: dict[str, int], longest: int) -> np.ndarray:
    """The words of each text as a row, behind a row of padding."""
    return id_table([(), *(ids_of(words_of(text), ids) for text in texts)], longest)


def _facts(
    stories: list[list[Story]], rows: dict[str, int], queries: dict[str, int], labels: dict[str, int], most: int
) -> tuple[Facts, list[float]]:
    """The questions of a split whose facts are short enough, and the share of each task's that are not."""
    lines: list[int] = []
    kept: list[tuple[int, int, int, int, int]] = []
    begins, left_out = [0], []
    for own in stories:
        total = 0
        for story in own:
            before = np.cumsum([0, *(len(text) + 1 for text in story.sentences)]).tolist()
            total += len(story.questions)
            kept += [
                (len(lines), q.after, before[q.after], queries[q.text], labels.get(q.answer.lower(), UNSEEN))
                for q in story.questions
                if q.after > 0 and before[q.after] <= most
            ]
            lines += [rows[text] for text in story.sentences]
        left_out.append(1 - (len(kept) - begins[-1]) / max(total, 1))
        begins.append(len(kept))
    first, facts, chars, query, label = np.array(kept, np.int64).reshape(-1, 5).T
    return Facts(np.array(lines, np.int64), first, facts, chars, query, label, np.array(begins)), left_out
