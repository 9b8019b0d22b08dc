"""Algorithmic tasks of Neural Turing Machines (Graves et al. 2014, 4): vectors of bits in, vectors of bits out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from memjax.checks import at_least
from memjax.errors import require
from memjax.tasks.random import check_seed, example_keys, fold, uniform
from memjax.tasks.sequence import rising_lengths
from memjax.tasks.stream_task import Batch, Split, check_batch, check_indices, check_tags, require_fields
from memjax.typing import Examples

VECTORS_OF_AN_ITEM = 3  # of associative recall
LONGEST = 2**16  # steps of a sequence: more is a mistake


@dataclass(frozen=True)
class AlgorithmicSpec:
    """The settings of `Algorithmic`.

    Attributes:
        kind: which task.
        bits: of a vector.
        shortest: the fewest vectors of a sequence of train and valid (of associative recall: items).
        longest: the most of them.
        repeats: the most repetitions, of repeat copy.
        test_lengths: vectors (or items) of a sequence of the test, with commas, as in "20,50,100".
        train: how many examples.
        valid: how many examples.
        test: examples of each length.
        seed: of what is drawn.

    Raises:
        MemjaxError: for what is out of range, and for sequences of more than 65536 steps.
    """

    kind: Literal["copy", "repeat_copy", "associative_recall"]
    bits: int
    shortest: int
    longest: int
    repeats: int
    test_lengths: str
    train: int
    valid: int
    test: int
    seed: int

    def __post_init__(self):
        least = _least(self)
        at_least(self, 1, "bits", "repeats", "train", "valid", "test")
        require(
            least <= self.shortest <= self.longest,
            f"shortest {self.shortest} must be from {least} to longest {self.longest}",
        )
        check_seed(self.seed)
        tested = rising_lengths(self.test_lengths, "test_lengths", least)
        steps = _steps(self, max(self.longest, tested[-1]))
        require(steps <= LONGEST, f"longest and test_lengths make sequences of {steps} steps; at most {LONGEST}")


@dataclass(frozen=True)
class BitsShape:
    """Everything that a model must know of a task of bits.

    Attributes:
        inputs: numbers that come in at each step.
        outputs: bits that come out at each step.
        tags: as of a `TaskShape`.
    """

    inputs: int
    outputs: int
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@runtime_checkable
class BitsTask(Examples, Protocol):
    """A task of bits: any batch of sequences at once.

    A batch holds `inputs [B, L, inputs]` float32, `bits [B, L, outputs]` float32 of 0 and 1, `asked [B, L]` bool, and
    an int32 `[B]` for each tag. What lies after the last step that is asked is padding.

    Attributes:
        shape: of its batches.
        notes: what must be said beside any figure on this task.
    """

    shape: BitsShape


@check_batch.register
def _check(shape: BitsShape, batch: Batch) -> None:
    """Raises `MemjaxError` if a batch has not its shapes, bits that are none, or asks nothing of a sequence."""
    require_fields(batch, "inputs", "bits", "asked", *shape.tags)
    steps = batch["asked"].shape
    require(len(steps) == 2 and steps[0] > 0, "a batch needs at least one example")
    for name, width in (("inputs", shape.inputs), ("bits", shape.outputs)):
        require(batch[name].shape == (*steps, width), f"{name} must be {[*steps, width]}, not {batch[name].shape}")
    require(np.isin(batch["bits"], (0, 1)).all(), "bits must be 0 or 1")
    require(batch["asked"].any(axis=1).all(), "nothing is asked of a sequence")
    check_tags(batch, shape.tags)


class Algorithmic:
    """Copy, repeat copy or associative recall, each example a function of (spec, split, index): a `BitsTask`.

    Beside the bits of a vector there are two inputs, for marks. copy: n vectors, a mark, then n silent steps in which
    they are to be said. repeat_copy: n vectors, a mark with the number of repetitions (over `repeats`) beside it, then
    they are to be said that often, and a last output, which is 0 before, is to be 1. associative_recall: n items of 3
    vectors, a mark before each; then the other mark, one of the items but the last, the mark again, and in 3 silent
    steps the item that followed it is to be said. Tag `length`: the length of the test that is nearest.

    Attributes:
        spec: its settings.
        shape: of its batches.
    """

    notes = ()

    def __init__(self, spec: AlgorithmicSpec):
        self.spec = spec
        self._tested = rising_lengths(spec.test_lengths, "test_lengths", _least(spec))
        repeated = spec.kind == "repeat_copy"
        lengths = tuple(map(str, self._tested))
        self.shape = BitsShape(spec.bits + 2, spec.bits + repeated, {"length": lengths})

    def size(self, split: Split) -> int:
        return getattr(self.spec, split) * (len(self._tested) if split == "test" else 1)

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        spec, indices = self.spec, check_indices(indices, self.size(split), split)
        keys = example_keys(spec.seed, 3, split, indices)
        if split == "test":
            tag = indices // spec.test
            count = np.array(self._tested)[tag]
            steps = _steps(spec, int(count.max()))
        else:
            choices = spec.longest - spec.shortest + 1
            count = spec.shortest + (uniform(fold(keys, 1), 1)[:, 0] * choices).astype(np.int64)
            tag = np.abs(np.array(self._tested)[None] - count[:, None]).argmin(1)  # the nearest
            steps = _steps(spec, spec.longest)  # one shape to compile
        batch = {
            "inputs": np.zeros((len(indices), steps, self.shape.inputs), np.float32),
            "bits": np.zeros((len(indices), steps, self.shape.outputs), np.float32),
            "asked": np.zeros((len(indices), steps), bool),
        }
        make = {"copy": _copy, "repeat_copy": _repeat_copy, "associative_recall": _associative_recall}[spec.kind]
        for row, key in enumerate(keys):
            make(spec, int(count[row]), key, *(batch[name][row] for name in ("inputs", "bits", "asked")))
        return batch | {"length": tag.astype(np.int32)}


def _steps(spec: AlgorithmicSpec, count: int) -> int:
    """How long a sequence of `count` vectors or items is at most."""
    return {
        "copy": 2 * count + 1,
        "repeat_copy": count * (1 + spec.repeats) + 2,
        "associative_recall": (count + 1) * (VECTORS_OF_AN_ITEM + 1) + 1 + VECTORS_OF_AN_ITEM,
    }[spec.kind]


def _draw(spec: AlgorithmicSpec, count: int, key: np.uint64) -> tuple[np.ndarray, float]:
    """`count` vectors of bits, and one more random number."""
    drawn = uniform(np.array([key]), count * spec.bits + 1)[0]
    return (drawn[1:] < 0.5).reshape(count, spec.bits).astype(np.float32), float(drawn[0])


def _copy(spec, count, key, inputs, bits, asked):
    vectors, _ = _draw(spec, count, key)
    inputs[:count, : spec.bits] = vectors
    inputs[count, spec.bits] = 1
    _ask(bits, asked, count + 1, vectors)


def _repeat_copy(spec, count, key, inputs, bits, asked):
    vectors, chosen = _draw(spec, count, key)
    repeats = 1 + int(chosen * spec.repeats)
    inputs[:count, : spec.bits] = vectors
    inputs[count, spec.bits :] = 1, repeats / spec.repeats
    said = np.zeros((count * repeats + 1, spec.bits + 1), np.float32)
    said[:-1, :-1] = np.tile(vectors, (repeats, 1))
    said[-1, -1] = 1
    _ask(bits, asked, count + 1, said)


def _associative_recall(spec, count, key, inputs, bits, asked):
    vectors, chosen = _draw(spec, count * VECTORS_OF_AN_ITEM, key)
    items = vectors.reshape(count, VECTORS_OF_AN_ITEM, spec.bits)
    # Of an item that comes twice the next one would be a guess; with few bits there may be no other.
    alike = (items[:, None] == items).all((2, 3)).sum(1)
    single = np.flatnonzero(alike[:-1] == 1) if (alike[:-1] == 1).any() else np.arange(count - 1)
    query = int(single[int(chosen * len(single))])
    for place, item in enumerate([*items, items[query]]):
        start = place * (VECTORS_OF_AN_ITEM + 1)
        inputs[start, spec.bits + (place == count)] = 1
        inputs[start + 1 : start + 1 + VECTORS_OF_AN_ITEM, : spec.bits] = item
    end = (count + 1) * (VECTORS_OF_AN_ITEM + 1)
    inputs[end, spec.bits + 1] = 1
    _ask(bits, asked, end + 1, items[query + 1])


def _ask(bits: np.ndarray, asked: np.ndarray, start: int, said: np.ndarray) -> None:
    bits[start : start + len(said)] = said
    asked[start : start + len(said)] = True


def _least(spec: AlgorithmicSpec) -> int:
    """The fewest vectors or items of a sequence."""
    return 2 if spec.kind == "associative_recall" else 1
