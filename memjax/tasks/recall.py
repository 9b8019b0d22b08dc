"""Multi-query associative recall (Arora et al. 2023, Zoology): keys with their values, then keys alone."""

from dataclasses import dataclass

import numpy as np

from memjax.checks import at_least, at_most
from memjax.errors import require
from memjax.tasks.random import check_seed, example_keys, fold, uniform
from memjax.tasks.sequence import NOTHING, SequenceShape, check_lengths, pairs, powers
from memjax.tasks.stream_task import Batch, Split, check_indices

MOST = 2**16  # tokens of a kind: more is a mistake


@dataclass(frozen=True)
class RecallSpec:
    """The settings of `Recall`.

    Attributes:
        key_tokens: how many keys there are; at most 65536, as values and noise.
        value_tokens: how many values there are.
        noise_tokens: how many tokens of noise there are.
        pairs: the most in a sequence, a power of two.
        length: of a sequence of train and valid, in tokens.
        longest: tests are 1, 2, 4, ... times as long as `length`, up to this power of two.
        train: how many examples.
        valid: how many examples.
        test: examples of each number of pairs and each length.
        seed: of what is drawn.

    Raises:
        MemjaxError: for what is out of range, and for sequences that do not hold the pairs.
    """

    key_tokens: int
    value_tokens: int
    noise_tokens: int
    pairs: int
    length: int
    longest: int
    train: int
    valid: int
    test: int
    seed: int

    def __post_init__(self):
        kinds = ("key_tokens", "value_tokens", "noise_tokens")
        at_least(self, 1, *kinds, "pairs", "length", "longest", "train", "valid", "test")
        at_most(self, MOST, *kinds)
        require(self.pairs & (self.pairs - 1) == 0, f"pairs must be a power of two, not {self.pairs}")
        check_lengths(self.length, self.longest)
        check_seed(self.seed)
        require(self.pairs <= self.key_tokens, f"pairs {self.pairs} needs as many keys, there are {self.key_tokens}")
        require(
            3 * self.pairs <= self.length,
            f"length {self.length} must be at least 3 times pairs {self.pairs}: a key, its value, and the key again",
        )


class Recall:
    """The task's examples, each a function of (spec, split, index): implements `memjax.tasks.SequenceTask`.

    First P pairs, a key and its value side by side, in places drawn anywhere among noise; then every key once, in an
    order of its own. At a key that is asked the target is its value. Keys are distinct; P is drawn from 1 to `pairs`
    for training, and is a power of two up to `pairs` for the test, whose sequences are the longer the more noise.
    Tags: "pairs", P up to the next power of two, "length" in tokens, and "length x pairs".

    Attributes:
        spec: its settings.
        shape: of its batches.
    """

    notes = ()

    def __init__(self, spec: RecallSpec):
        self.spec = spec
        self._counts = powers(spec.pairs)
        self._lengths = [spec.length * times for times in powers(spec.longest)]
        counts, lengths = ([str(n) for n in numbers] for numbers in (self._counts, self._lengths))
        self.shape = SequenceShape(
            vocabulary=spec.key_tokens + spec.value_tokens + spec.noise_tokens,
            choices=spec.value_tokens,
            tags={"pairs": tuple(counts), "length": tuple(lengths), "length x pairs": pairs(lengths, counts)},
        )

    def size(self, split: Split) -> int:
        cells = len(self._lengths) * len(self._counts) if split == "test" else 1
        return getattr(self.spec, split) * cells

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        spec, indices = self.spec, check_indices(indices, self.size(split), split)
        keys = example_keys(spec.seed, 2, split, indices)
        if split == "test":
            # By length, so that a batch of neighbours is of one length.
            of_length, of_count = np.divmod(indices // spec.test, len(self._counts))
            count, length = np.array(self._counts)[of_count], np.array(self._lengths)[of_length]
        else:
            count = 1 + (uniform(fold(keys, 1), 1)[:, 0] * spec.pairs).astype(np.int64)
            length = np.full(len(indices), spec.length)
            of_count = np.ceil(np.log2(count)).astype(np.int64)
            of_length = np.zeros(len(indices), np.int64)
        tokens = np.zeros((len(indices), length.max()), np.int32)
        target = np.full_like(tokens, NOTHING)
        for row, key in enumerate(keys):
            self._fill(tokens[row, : length[row]], target[row, : length[row]], int(count[row]), key)
        return {
            "tokens": tokens,
            "target": target,
            "pairs": of_count.astype(np.int32),
            "length": of_length.astype(np.int32),
            "length x pairs": (of_length * len(self._counts) + of_count).astype(np.int32),
        }

    def _fill(self, tokens: np.ndarray, target: np.ndarray, count: int, key: np.uint64) -> None:
        """One sequence, in place. Ids: keys, then values, then noise."""
        spec, ahead = self.spec, len(tokens) - count
        u = uniform(np.array([key]), 2 * len(tokens) + spec.key_tokens + 2 * count)[0]
        u_noise, u_place, u_key, u_rest = np.split(u, np.cumsum([len(tokens), len(tokens), spec.key_tokens]))
        tokens[:] = spec.key_tokens + spec.value_tokens + (u_noise * spec.noise_tokens).astype(np.int64)
        chosen = np.argsort(u_key)[:count]
        values = spec.key_tokens + (u_rest[:count] * spec.value_tokens).astype(np.int64)
        # Distinct places among those left when each pair is one token, then the pairs opened: none overlaps another.
        place = np.sort(np.argsort(u_place[: ahead - count])[:count]) + np.arange(count)
        tokens[place], tokens[place + 1] = chosen, values
        order = np.argsort(u_rest[count:])
        tokens[ahead:], target[ahead:] = chosen[order], values[order]
