"""Words and sentences of texts in any language, and tables of them as ids."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from memjax.errors import require

PAD, UNKNOWN = 0, 1
MOST_OF_A_QUERY = 512


class _Kept(dict[int, str]):
    """For `str.translate`: letters, marks and numbers as they are, a space for whatever else; found once for each.

    Marks are why a regular expression's word characters do not do: they would cut Hindi at its vowels.
    """

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = found = char if unicodedata.category(char)[0] in "LMN" else " "
        return found


_KEPT = _Kept()


def composed(words: np.ndarray) -> np.ndarray:
    """Words in one form of Unicode (NFC), in which what looks the same is the same."""
    return np.array([unicodedata.normalize("NFC", word) for word in words.tolist()], str)


def words_of(text: str) -> list[str]:
    """The words of a sentence of any language, in lower case, without punctuation.

    >>> words_of("Where did Zoë go, before the bathroom?")
    ['where', 'did', 'zoë', 'go', 'before', 'the', 'bathroom']
    """
    require(isinstance(text, str), f"a text is one string, not {type(text).__name__}")
    return unicodedata.normalize("NFC", text).lower().translate(_KEPT).split()


def query_words(text: str) -> list[str]:
    """The words of a question, to the longest of which all are padded.

    Raises:
        MemjaxError: for more than `MOST_OF_A_QUERY` words, which are no question.
    """
    found = words_of(text)
    require(
        len(found) <= MOST_OF_A_QUERY,
        f"the question {text!r:.60} has {len(found):,} words; shorten it, {MOST_OF_A_QUERY} are the most",
    )
    return found


def sentences_of(text: str, words: int) -> list[str]:
    r"""The sentences of a text as written, those that are too long in pieces.

    A sentence ends behind a full stop, an exclamation or a question mark, and at an empty line. One end of a line is a
    space: the lines of books are broken at any word.

    Args:
        text: of any language.
        words: the most that a sentence may have.

    >>> sentences_of("Oh! He went to the old\ntown. * * *", 3)
    ['Oh!', 'He went to', 'the old town.']
    """
    found = []
    for part in re.split(r"(?<=[.!?])|\n\s*\n", unicodedata.normalize("NFC", text)):
        sentence = " ".join(part.split())
        count = len(words_of(sentence))
        if count > words:
            letters = [unicodedata.category(char)[0] in "LMN" for char in sentence]
            starts = [i for i, inside in enumerate(letters) if inside and not (i and letters[i - 1])]
            ends = [0, *starts[words::words], len(sentence)]
            found += [sentence[begin:end].strip() for begin, end in pairwise(ends)]
        elif count:
            found.append(sentence)
    return found


def pieces_of(words: Sequence[str], most: int) -> list[Sequence[str]]:
    """Words in their order, at most so many together.

    >>> pieces_of(["he", "is", "here"], 2)
    [['he', 'is'], ['here']]
    """
    return [words[begin : begin + most] for begin in range(0, len(words), most)]


def known_words(words: Iterable[str], least: int, first: Sequence[str] = ()) -> tuple[str, ...]:
    """A vocabulary by ids: padding, `<unknown>`, some words, and then in alphabetical order what occurs often enough.

    Args:
        words: those of the train split, which have no < and no >, each as often as it occurs.
        least: how often a word must occur.
        first: the words that there are in any case.

    Raises:
        MemjaxError: where no other word does.

    >>> known_words(["no", "oh", "the", "no", "the"], 2, first=("the",))
    ('<pad>', '<unknown>', 'the', 'no')
    """
    often = sorted(word for word, count in Counter(words).items() if count >= least and word not in first)
    require(often, f"no word occurs {least} times in train; lower config.task.least")
    return ("<pad>", "<unknown>", *first, *often)


def ids_of(words: Iterable[str], word_ids: Mapping[str, int]) -> tuple[int, ...]:
    """The ids of words, that of `<unknown>` for those that have none.

    >>> ids_of(["no", "wolf"], {"no": 2})
    (2, 1)
    """
    return tuple(word_ids.get(word, UNKNOWN) for word in words)


def text_table(texts: Iterable[str], word_ids: Mapping[str, int]) -> tuple[np.ndarray, dict[str, int]]:
    """Each distinct text once, as a row of word ids, and the row of each text. Row 0 is padding."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts), 1)}
    ids = [ids_of(words_of(text), word_ids) for text in rows]
    return id_table([[], *ids], max(map(len, ids))), rows


def id_table(lines: Sequence[Sequence[int]], width: int) -> np.ndarray:
    """Lines of ids as rows, filled up with padding.

    >>> id_table([[], [7, 8]], 3).tolist()
    [[0, 0, 0], [7, 8, 0]]
    """
    table = np.full((len(lines), width), PAD, np.int32)
    for row, line in enumerate(lines):
        table[row, : len(line)] = line
    return table
