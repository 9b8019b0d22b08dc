"""Needle in a haystack, by characters: a sentence hidden in a text at any depth, asked for at the end."""

import string
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memjax.checks import at_least
from memjax.errors import require
from memjax.tasks.random import check_seed, example_keys, uniform
from memjax.tasks.sequence import NOTHING, SequenceShape, check_lengths, pairs, powers
from memjax.tasks.stream_task import Batch, Split, check_indices
from memjax.tasks.text import read_text, without_gutenberg

# Everything that may come out of a text: other characters become a space.
ALPHABET = "\n " + string.ascii_letters + string.digits + string.punctuation
DEPTHS = 5
_IDS = {char: place for place, char in enumerate(ALPHABET)}
_NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
_SYMBOLS = {"passkey": string.digits, "number": string.digits, "word": string.ascii_lowercase}


@dataclass(frozen=True)
class NeedleSpec:
    """The settings of `Needle`.

    Attributes:
        needle: "passkey" or "number", of digits, or "word", of letters; drawn at random.
        size: of the needle, in characters.
        haystack: a file of `data_dir` (.txt, .txt.gz, .tar.gz of .txt), or "noise": five sentences again and again.
        length: characters of a sequence of train and valid.
        longest: tests are 1, 2, 4, ... times as long as `length`, up to this power of two.
        train: how many examples.
        valid: how many examples.
        test: examples of each depth and each length.
        seed: of what is drawn.
        data_dir: the folder of the haystack.
        pieces: texts of train are 1, 2, 4, ... up to so many times as long as `length`, a power of two: examples of
            `length` characters that are to be read one after another, in their order. Those of the first third of train
            are of one piece each.

    Raises:
        MemjaxError: for what is out of range, and for sequences without room for a text.
    """

    needle: str
    size: int
    haystack: str
    length: int
    longest: int
    train: int
    valid: int
    test: int
    seed: int
    data_dir: str
    pieces: int = 1

    def __post_init__(self):
        require(self.needle in _SYMBOLS, f"needle must be one of {', '.join(_SYMBOLS)}, not {self.needle!r}")
        at_least(self, 1, "size", "length", "longest", "train", "valid", "test", "pieces")
        check_lengths(self.length, self.longest)
        check_lengths(self.length, self.pieces, "pieces")
        require(self.train % self.pieces == 0, f"train must be a multiple of pieces, {self.pieces}, not {self.train}")
        sentence, question = _sentences(self)
        overhead = len(sentence.format("")) + len(question) + 2 * self.size
        require(
            self.length > overhead + DEPTHS,
            f"length {self.length} leaves no room for a text: needle and question take {overhead}",
        )
        require(self.haystack, "haystack is empty; write noise, or a file of --data_dir")
        check_seed(self.seed)


class Needle:
    """The task's examples, each a function of (spec, split, index): implements `memjax.tasks.SequenceTask`.

    `[text] The passkey is 31415. [text] What is the passkey? 31415`: the targets are the characters of the answer. Of a
    haystack from a file, the first eight tenths are for training, one is for validation, the last for the test. A text
    of train may go over several examples, of which the last asks. Tags:
    "depth", in which fifth of the text the needle lies, "length" in characters, and "length x depth".

    Attributes:
        spec: its settings.
        shape: of its batches.
        ordered: whether training reads the examples in their order: texts of several.

    Raises:
        MemjaxError: for a haystack that is missing, damaged or too short.
    """

    notes = ()

    def __init__(self, spec: NeedleSpec):
        self.spec, self.ordered = spec, spec.pieces > 1
        self._sentence, question = _sentences(spec)
        self._question = encode(question)
        self._lengths = [spec.length * times for times in powers(spec.longest)]
        noise = spec.haystack == "noise"
        trained = spec.length * spec.pieces
        if noise:
            self._text = np.tile(encode(_NOISE), 2 + 2 * max(self._lengths[-1], trained) // len(_NOISE))
        else:
            self._text = encode(without_gutenberg(read_text(Path(spec.data_dir, spec.haystack))))
        self._parts = _parts(len(self._text), noise)
        for split, (begin, end) in self._parts.items():
            longest = {"train": trained, "valid": spec.length, "test": self._lengths[-1]}[split]
            require(
                end - begin > longest,
                f"{spec.haystack} has {end - begin} characters for the {split} split, {longest + 1} are needed; "
                f"lower config.task.{'longest' if split == 'test' else 'length'}",
            )
        lengths, depths = tuple(map(str, self._lengths)), tuple(f"{20 * n}-{20 * n + 20}%" for n in range(DEPTHS))
        self.shape = SequenceShape(
            vocabulary=len(ALPHABET),
            choices=len(_SYMBOLS[spec.needle]),
            answer=spec.size,
            pieces=spec.pieces,
            tags={"depth": depths, "length": lengths, "length x depth": pairs(lengths, depths)},
        )

    def size(self, split: Split) -> int:
        return getattr(self.spec, split) * (len(self._lengths) * DEPTHS if split == "test" else 1)

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        spec, indices = self.spec, check_indices(indices, self.size(split), split)
        first, times = self._texts(split, indices)
        keys = example_keys(spec.seed, 3, split, first)
        u_start, u_depth, *u_answer = uniform(keys, 2 + spec.size).T
        if split == "test":
            # By length, so that a batch of neighbours is of one length.
            of_length, of_depth = np.divmod(indices // spec.test, DEPTHS)
            depth = (of_depth + u_depth) / DEPTHS
        else:
            of_length, depth = np.zeros(len(indices), np.int64), u_depth
            of_depth = (depth * DEPTHS).astype(np.int64)
        length = np.array(self._lengths)[of_length]
        symbols = encode(_SYMBOLS[spec.needle])
        answers = symbols[(np.stack(u_answer, axis=1) * len(symbols)).astype(np.int64)]
        tokens = np.zeros((len(indices), length.max()), np.int32)
        target = np.full_like(tokens, NOTHING)
        for row, answer in enumerate(answers):
            sequence = self._sequence(split, int(length[row] * times[row]), u_start[row], depth[row], answer)
            begin = length[row] * (indices[row] - first[row])
            tokens[row, : length[row]] = sequence[begin : begin + length[row]]
            if indices[row] - first[row] == times[row] - 1:
                target[row, length[row] - spec.size : length[row]] = answer
        return {
            "tokens": tokens,
            "target": target,
            "depth": of_depth.astype(np.int32),
            "length": of_length.astype(np.int32),
            "length x depth": (of_length * DEPTHS + of_depth).astype(np.int32),
        }

    def _texts(self, split: Split, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first example of each one's text, and over how many it goes: as many whole texts of one kind in a row."""
        if split != "train":
            return indices, np.ones_like(indices)
        kinds, group = powers(self.spec.pieces), indices - indices % self.spec.pieces
        u_kind = uniform(example_keys(self.spec.seed, 3, split, group), 3 + self.spec.size)[:, -1]
        times = np.array(kinds)[(u_kind * len(kinds)).astype(np.int64)]
        times = np.where(3 * group < self.spec.train, 1, times)  # a model learns to find before it learns to keep
        return indices - indices % times, times

    def _sequence(self, split: Split, length: int, start: float, depth: float, answer: np.ndarray) -> np.ndarray:
        """Text, needle, text, question and answer: `length` characters, and one more."""
        said = encode(self._sentence.format("".join(ALPHABET[i] for i in answer)))
        room = length + 1 - len(said) - len(self._question) - len(answer)
        begin, end = self._parts[split]
        first = begin + int(start * (end - begin - room))
        text, place = self._text[first : first + room], int(depth * room)
        return np.concatenate([text[:place], said, text[place:], self._question, answer])


def encode(text: str) -> np.ndarray:
    """Ids of the characters; of one that `ALPHABET` lacks, that of a space.

    >>> encode("a é").tolist()
    [2, 1, 1]
    """
    return np.array([_IDS.get(char, _IDS[" "]) for char in text], np.int32)


def _parts(size: int, noise: bool) -> dict[Split, tuple[int, int]]:
    if noise:
        return {"train": (0, size), "valid": (0, size), "test": (0, size)}
    first, second = size * 8 // 10, size * 9 // 10
    return {"train": (0, first), "valid": (first, second), "test": (second, size)}


def _sentences(spec: NeedleSpec) -> tuple[str, str]:
    """The sentence that is hidden, with a place for the needle, and the question."""
    return f" The {spec.needle} is {{}}. ", f" What is the {spec.needle}? "
