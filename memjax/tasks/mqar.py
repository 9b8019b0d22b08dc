"""Multi-query associative recall as the field publishes it (Arora et al. 2023, Zoology): pairs, then keys again."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memjax.checks import at_least, at_most, check_scales
from memjax.errors import MemjaxError, require
from memjax.tasks.random import check_seed, example_keys, fold, uniform
from memjax.tasks.sequence import NOTHING, SequenceShape
from memjax.tasks.stream_task import Batch, Split, check_indices

LONGEST = 2**16  # tokens of a sequence, and ids: more is a mistake
MOST_ROWS = 2**31  # of a cell: more is a mistake
FILLER = 0  # the token where nothing stands


class Cell(NamedTuple):
    """One difficulty: how long a sequence is, and how many pairs it begins with."""

    length: int
    pairs: int


@dataclass(frozen=True)
class MqarSpec:
    """The settings of `Mqar`.

    Attributes:
        vocabulary: token ids; keys are the lower half of them but 0, values the upper half.
        cells: what train and valid are drawn from, LENGTHxPAIRS with commas; shorter sequences are filled up.
        rows: examples of each of these cells in the train split, with commas.
        test_cells: of the test split.
        power: the exponent a of how far behind the pairs a key comes again: gap g with weight `(g + 1)^(a - 1)`.
        noise: True puts a token drawn from the whole vocabulary where nothing stands, False the token 0.
        valid: examples of each cell.
        test: examples of each cell.
        seed: of what is drawn.

    Raises:
        MemjaxError: for what is out of range, and for cells that do not hold their pairs.
    """

    vocabulary: int
    cells: str
    rows: str
    test_cells: str
    power: float
    noise: bool
    valid: int
    test: int
    seed: int

    def __post_init__(self):
        at_least(self, 4, "vocabulary")
        at_least(self, 1, "valid", "test")
        at_most(self, LONGEST, "vocabulary")
        at_most(self, MOST_ROWS, "valid", "test")
        check_scales(self, "power")
        at_most(self, 10, "power")
        check_seed(self.seed)
        for name in ("cells", "test_cells"):
            for cell in parse_cells(getattr(self, name), name):
                require(
                    4 * cell.pairs <= cell.length <= LONGEST and cell.length % 2 == 0,
                    f"{name}: a length is even, at least 4 times the pairs and at most {LONGEST}, unlike that of "
                    f"{cell.length}x{cell.pairs}",
                )
                require(
                    cell.pairs < self.vocabulary // 2,
                    f"{name}: {cell.pairs} pairs need more keys than a vocabulary of {self.vocabulary} has",
                )
        cells, rows = parse_cells(self.cells, "cells"), parse_rows(self.rows)
        require(len(cells) == len(rows), f"rows must be a number for each of the {len(cells)} cells, not {self.rows!r}")

    @property
    def length(self) -> int:
        """Of the longest sequences that are trained on."""
        return max(cell.length for cell in parse_cells(self.cells, "cells"))


class Mqar:
    """The task's examples, each a function of (spec, split, index): implements `memjax.tasks.SequenceTask`.

    Zoology's `multiquery_ar`: P distinct keys with P distinct values, key and value in turn, take the first 2 P places.
    Behind them each key comes once more, at the place `2 P + 2 g`; gaps g are drawn without replacement from the
    `(L - 2 P) / 2` there are, by a power law. At a key that comes again the target is its value. The distribution is
    theirs; the rows are not, for each is a function of (seed, index). Tag: "length x pairs".

    Attributes:
        spec: its settings.
        shape: of its batches.
        notes: none.
    """

    notes = ()

    def __init__(self, spec: MqarSpec):
        self.spec = spec
        self._train, self._test = parse_cells(spec.cells, "cells"), parse_cells(spec.test_cells, "test_cells")
        self._tags = list(dict.fromkeys([*self._test, *self._train]))
        self.shape = SequenceShape(
            vocabulary=spec.vocabulary,
            choices=spec.vocabulary - spec.vocabulary // 2,
            asked=max(cell.pairs for cell in self._tags),
            asked_in_training=max(cell.pairs for cell in self._train),
            tags={"length x pairs": tuple(f"{length} x {pairs}" for length, pairs in self._tags)},
        )

    def size(self, split: Split) -> int:
        return sum(self._rows(split))

    def _rows(self, split: Split) -> list[int]:
        """How many examples each cell of a split has."""
        if split == "train":
            return parse_rows(self.spec.rows)
        return [getattr(self.spec, split)] * len(self._test if split == "test" else self._train)

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        indices = check_indices(indices, self.size(split), split)
        cells = self._test if split == "test" else self._train
        keys = example_keys(self.spec.seed, 11, split, indices)
        of_cell = np.searchsorted(np.cumsum(self._rows(split)), indices, side="right")
        length = max(cells[i].length for i in of_cell) if split == "test" else self.spec.length
        tokens = np.full((len(indices), length), FILLER, np.int32)
        target = np.full_like(tokens, NOTHING)
        for i in np.unique(of_cell):
            here = np.flatnonzero(of_cell == i)
            part = slice(0, cells[i].length)
            tokens[here, part], target[here, part] = self._filled(cells[i], keys[here])
        tag = np.array([self._tags.index(cell) for cell in cells], np.int32)[of_cell]
        return {"tokens": tokens, "target": target, "length x pairs": tag}

    def _filled(self, cell: Cell, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Examples of one cell, a row for each key of their randomness."""
        spec, (length, pairs) = self.spec, cell
        half, space = spec.vocabulary // 2, (length - 2 * pairs) // 2
        asked = 1 + distinct(fold(keys, 1), half - 1, pairs)
        values = half + distinct(fold(keys, 2), spec.vocabulary - half, pairs)
        # Exponential clocks of these rates ring in the order of draws without replacement (Efraimidis, Spirakis 2006).
        rates = np.arange(1, space + 1) ** (spec.power - 1.0)
        gaps = np.argsort(-np.log1p(-uniform(fold(keys, 3), space)) / rates, axis=1)[:, :pairs]
        if spec.noise:
            tokens = (uniform(fold(keys, 4), length) * spec.vocabulary).astype(np.int32)
        else:
            tokens = np.full((len(keys), length), FILLER, np.int32)
        target, rows = np.full_like(tokens, NOTHING), np.arange(len(keys))[:, None]
        tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2] = asked, values
        places = 2 * pairs + 2 * gaps
        tokens[rows, places], target[rows, places] = asked, values
        return tokens, target


def distinct(keys: np.ndarray, below: int, count: int) -> np.ndarray:
    """Distinct numbers, each row's in an order of its own: `[B, count]`, of `[0, below)`.

    Floyd's algorithm (Bentley, Floyd 1987), all rows at once: as many steps as numbers, and not one for each candidate.

    >>> rows = distinct(np.arange(2, dtype=np.uint64), 3, 3)
    >>> sorted(rows[0].tolist()), sorted(rows[1].tolist())
    ([0, 1, 2], [0, 1, 2])
    """
    chosen = np.full((len(keys), count), -1, np.int64)
    u = uniform(keys, 2 * count)
    for step, most in enumerate(range(below - count, below)):
        drawn = (u[:, step] * (most + 1)).astype(np.int64)
        taken = (chosen[:, :step] == drawn[:, None]).any(axis=1)
        chosen[:, step] = np.where(taken, most, drawn)
    return np.take_along_axis(chosen, np.argsort(u[:, count:], axis=1), axis=1)


def parse_cells(text: str, name: str) -> list[Cell]:
    """The cells of a setting.

    Args:
        text: LENGTHxPAIRS, with commas.
        name: of the setting, for errors.

    Raises:
        MemjaxError: for anything else, and for a cell that is there twice.

    >>> parse_cells("64x4,128x8", "cells")
    [Cell(length=64, pairs=4), Cell(length=128, pairs=8)]
    """
    try:
        cells = [Cell(*map(int, cell.split("x"))) for cell in text.split(",")]
    except (AttributeError, TypeError, ValueError):
        raise MemjaxError(f'{name} must be LENGTHxPAIRS with commas, as in "64x4,128x8", not {text!r}') from None
    require(all(cell.pairs >= 1 for cell in cells), f"{name} must have at least 1 pair each, unlike {text!r}")
    require(len(set(cells)) == len(cells), f"{name} must differ from each other, unlike {text!r}")
    return cells


def parse_rows(text: str) -> list[int]:
    """Numbers of examples, at least 1 each, from text with commas.

    >>> parse_rows("100000,20000")
    [100000, 20000]
    """
    try:
        rows = [int(part) for part in text.split(",")]
    except (AttributeError, ValueError):
        rows = [0]
    fit = min(rows) >= 1 and max(rows) <= MOST_ROWS
    require(fit, f"rows must be whole numbers from 1 to {MOST_ROWS} with commas, not {text!r}")
    return rows
