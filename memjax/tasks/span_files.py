"""Documents with questions whose answers stand in them: FairytaleQA's archive, and the layout of TriviaQA's folder."""

import re
import string
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from memjax.errors import MemjaxError, require
from memjax.tasks.story_files import StoryQuestion, read_stories
from memjax.tasks.stream_task import Split
from memjax.tasks.text import guarded, parsed, read_text
from memjax.typing import SPLITS

TRIVIA = {"train": "wikipedia-train.json", "test": "wikipedia-dev.json"}
EVIDENCE = "evidence/wikipedia"
HELD_OUT = 10  # every tenth question of TriviaQA's train is for validation: the answers of its test are not published
ARTICLES = ("a", "an", "the")
_ARTICLE = re.compile(rf"\b({'|'.join(ARTICLES)})\b")


class SpanQuestion(NamedTuple):
    """A question about a document.

    Attributes:
        text: of it.
        answers: all that count as right.
        spans: those of them that are looked for in the document, the best one first.
        sections: of the document that it is about, from 0; none where nobody says.
    """

    text: str
    answers: tuple[str, ...]
    spans: tuple[str, ...]
    sections: tuple[int, ...] = ()


class Document(NamedTuple):
    """A document and what is asked about it.

    Attributes:
        sections: the text, at least one.
        questions: perhaps none.
    """

    sections: tuple[str, ...]
    questions: tuple[SpanQuestion, ...]


def scored_words(text: str) -> list[str]:
    """The words of a text by SQuAD's rule: lower case, ASCII punctuation taken out, split at white space.

    Articles, which the rule does not score, are still among them, each as a word, also where other marks than ASCII's
    join it to one. Source: SQuAD (Rajpurkar et al. 2016, 1606.05250), its evaluation.

    >>> scored_words("The king's horse -- it fled!")
    ['the', 'kings', 'horse', 'it', 'fled']
    """
    text = unicodedata.normalize("NFC", text).lower()
    text = "".join(char for char in text if char not in string.punctuation)
    return _ARTICLE.sub(r" \1 ", text).split()


def first_place(wanted: Sequence[str], words: Sequence[str], begin: int = 0, end: int | None = None) -> int | None:
    """Where some words stand first among others, one after another.

    Args:
        wanted: what is looked for; nothing is nowhere.
        words: where it is looked for.
        begin: from which place on.
        end: the place behind the last one; that of all words if not given.

    >>> first_place(["a", "fox"], ["a", "cat", "a", "fox"])
    2
    """
    count = len(wanted)
    last = (len(words) if end is None else end) - count
    places = range(begin, last + 1 if count else begin)
    return next((i for i in places if words[i] == wanted[0] and words[i : i + count] == wanted), None)


def read_documents(path: Path) -> dict[Split, list[Document]]:
    """The documents of each split.

    Args:
        path: FairytaleQA's archive, as of `read_stories`, whose questions here are those that are said to have their
            answer in the story; or the folder of TriviaQA for reading comprehension, with qa/wikipedia-train.json,
            qa/wikipedia-dev.json and evidence/wikipedia, whose questions about a page are a document each.

    Raises:
        MemjaxError: for what is missing, damaged, or of another kind.
    """
    if guarded(path, path.is_dir):
        return _trivia(path)
    return {
        split: [Document(own.sections, tuple(_asked(one) for one in own.questions if one.explicit)) for own in stories]
        for split, stories in read_stories(path).items()
    }


def _asked(question: StoryQuestion) -> SpanQuestion:
    answers = question.answer, *question.others
    return SpanQuestion(question.text, answers, answers[:1], question.sections)


def _trivia(folder: Path) -> dict[Split, list[Document]]:
    train, test = (_pages(folder, name) for name in TRIVIA.values())
    valid = [page for number, pages in enumerate(train, 1) if number % HELD_OUT == 0 for page in pages]
    rest = [page for number, pages in enumerate(train, 1) if number % HELD_OUT for page in pages]
    found: dict[Split, list[Document]] = {"train": rest, "valid": valid, "test": [page for own in test for page in own]}
    empty = [split for split in SPLITS if not found[split]]
    require(not empty, f"{folder} has no question about a page of {EVIDENCE} for {', '.join(empty)}")
    return found


def _pages(folder: Path, name: str) -> list[list[Document]]:
    """For each question the pages that it is about."""
    path = folder / "qa" / name
    found = parsed(path, read_text(path))
    rows = found.get("Data") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise MemjaxError(f'{path} is not TriviaQA\'s: it must be an object with a list "Data"')
    texts: dict[str, str] = {}
    return [_documents(folder, f"{path}, question {number}", row, texts) for number, row in enumerate(rows)]


def _documents(folder: Path, where: str, row: Any, texts: dict[str, str]) -> list[Document]:
    answer = row.get("Answer") if isinstance(row, dict) else None
    if not isinstance(answer, dict) or not isinstance(row.get("Question"), str):
        raise MemjaxError(f"{where}: it has no Question or Answer")
    said = [answer.get("Value"), *_list(where, answer, "Aliases")]
    require(all(isinstance(text, str) for text in said), f"{where}: its Value and Aliases must be texts")
    answers = tuple(dict.fromkeys(map(str, said)))
    question, found = SpanQuestion(row["Question"], answers, answers), []
    for page in _list(where, row, "EntityPages"):
        name = page.get("Filename") if isinstance(page, dict) else None
        plain = isinstance(name, str) and name.isprintable() and not Path(name).is_absolute()
        if not plain or not name or ".." in Path(name).parts:
            raise MemjaxError(f"{where}: the Filename of a page is {name!r:.80}, not a file of {EVIDENCE}")
        if name not in texts:
            texts[name] = read_text(folder / EVIDENCE / name)
        found.append(Document((texts[name],), (question,)))
    return found


def _list(where: str, row: dict, name: str) -> list:
    value = row.get(name, [])
    require(isinstance(value, list), f"{where}: {name} must be a list")
    return value
