"""Mazes to find the right exit of: which one, and a seed for where an episode begins. The agent's way is its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, get_args

import numpy as np

from memjax import environments
from memjax.checks import at_least, one_of
from memjax.environments import Mazes
from memjax.errors import require
from memjax.tasks.random import check_seed, example_keys, uniform
from memjax.tasks.sequence import rising_lengths
from memjax.tasks.stream_task import Batch, Split, check_batch, check_ids, check_indices, check_tags, require_fields

ARCHIVE = "tasks.tar.gz"
_SETS = ("SingleIndicator", "SingleIndicatorTest", "SingleIndicatorLarge")
LONGEST = {"train_lengths": 500, "test_lengths": 10_000}  # cells: a step of training grows with the square
Kind = Literal["imaze", "single_indicator"]
MOST = 100_000  # random mazes: minutes to make
_HELD_OUT = 10  # of the archive's set for training a tenth is for validation, if that is trained on


@dataclass(frozen=True)
class MazeSpec:
    """The settings of `MazeTask`.

    Attributes:
        kind: "imaze", or "single_indicator", random mazes with one indicator.
        train_lengths: of the I-mazes of train and valid, in cells (see `environments.imazes`), with commas.
        test_lengths: of the I-mazes of the test.
        generated: how many random mazes are made to train on; 0: the archive's own are for that.
        data_dir: the archive of random mazes, or its folder.
        train: how many episodes.
        valid: how many episodes.
        test: episodes of each length, or of each set of random mazes.
        seed: of what is drawn.
        divides: settings that decide which examples are in which split.

    Raises:
        MemjaxError: for what is out of range.
    """

    divides: ClassVar = ("generated",)  # without, the archive's are for training too
    kind: Kind
    train_lengths: str
    test_lengths: str
    generated: int
    data_dir: str
    train: int
    valid: int
    test: int
    seed: int

    def __post_init__(self):
        one_of(self, get_args(Kind), "kind")
        at_least(self, 1, "train", "valid", "test")
        check_seed(self.seed)
        require(0 <= self.generated <= MOST, f"generated must be from 0 to {MOST}, not {self.generated}")
        if self.kind == "imaze":
            require(self.generated == 0, "generated is for random mazes; an imaze has its lengths")
            for name, lengths in zip(("train_lengths", "test_lengths"), _corridors(self)):
                most = LONGEST[name]
                require(lengths[-1] <= most, f"{name} may be at most {most} cells of a corridor, not {lengths[-1]}")


@dataclass(frozen=True)
class MazeShape:
    """Everything that an agent must know of a task of mazes.

    Attributes:
        mazes: how many there are.
        codes: what a cell of a view may be, in [0, codes).
        steps: the most of an episode of the train split.
        tags: as of a `TaskShape`.
    """

    mazes: int
    codes: int
    steps: int
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@check_batch.register
def _check(shape: MazeShape, batch: Batch) -> None:
    """Raises `MemjaxError` for a batch without episodes, and for a maze or a tag that there is not."""
    require_fields(batch, "maze", "seed", *shape.tags)
    require(len(batch["maze"]) > 0, "a batch needs at least one episode")
    check_ids("the mazes are", batch["maze"], 0, shape.mazes)
    check_ids("the seeds are", batch["seed"], 0, 2**31)
    check_tags(batch, shape.tags)


class MazeTask:
    """Episodes, each a function of (spec, split, index). A batch: `maze [B]`, a row of `mazes`, `seed [B]`, int32.

    Tag `length` of an I-maze, `mazes`, a set, of a random one: generated ones and the archive's three. Validation takes
    the first of those, or, if nothing was generated, a tenth of it, which training then lacks; test takes the other
    two, each maze of a set in turn.

    Attributes:
        spec: its settings.
        shape: of its batches.
        mazes: all that episodes are in.
        learned: numbers of those of the train split.

    Raises:
        MemjaxError: if the archive is missing or damaged.

    ::

        task = MazeTask(MazeSpec("imaze", "5,7,9", "4,40", 0, "", 1000, 100, 100, 0))
        batch = task.examples("train", np.arange(64))
        view, state = environments.enter(jax.random.key(batch["seed"][0]), batch["maze"][0], task.mazes)
    """

    shape: MazeShape
    mazes: Mazes
    learned: np.ndarray
    notes: tuple[str, ...] = ()

    def __init__(self, spec: MazeSpec):
        self.spec, path = spec, Path(spec.data_dir)
        path = path if path.is_file() else path / ARCHIVE
        if spec.kind == "imaze":
            trained, tested = _corridors(spec)
            lengths = sorted({*trained, *tested})
            tag, names, parts = "length", tuple(map(str, lengths)), [environments.imazes([n]) for n in lengths]
            self._tested = [lengths.index(length) for length in tested]
            learned = held = [lengths.index(length) for length in trained]
        else:
            tag, names, parts = "mazes", _SETS, [environments.read_mazes(path, name) for name in _SETS]
            learned, held, self._tested = [0], [0], [1, 2]
            if spec.generated:
                names, parts = (*_SETS, "generated"), [*parts, environments.random_mazes(spec.generated, spec.seed)]
                learned = [3]
        self.mazes, self._tag = environments.stack(*parts), tag
        self._set = np.repeat(np.arange(len(parts)), [len(part.walls) for part in parts])  # of each maze
        own = {"train": learned, "valid": held}
        self._own = {split: np.flatnonzero(np.isin(self._set, sets)) for split, sets in own.items()}
        if tag == "mazes" and not spec.generated:
            whole = self._own["train"]
            last = len(whole) - len(whole) // _HELD_OUT
            self._own = {"train": whole[:last], "valid": whole[last:]}
        self.learned = self._own["train"]
        steps = int(np.asarray(self.mazes.limit)[self.learned].max())
        self.shape = MazeShape(len(self._set), environments.codes(self.mazes), steps, {tag: names})

    def size(self, split: Split) -> int:
        """How many episodes the split has."""
        return getattr(self.spec, split) * (len(self._tested) if split == "test" else 1)

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        """The episodes with these indices.

        Args:
            split: which of them.
            indices: `[B]`, each in [0, size(split)).

        Raises:
            MemjaxError: for any other index, and for none.
        """
        indices = check_indices(indices, self.size(split), split)
        keys = example_keys(self.spec.seed, 5, split, indices)
        drawn = uniform(keys, 2)
        if split == "test":
            place, number = np.divmod(indices, self.spec.test)
            tested = np.array(self._tested)[place]
            maze = np.searchsorted(self._set, tested) + number % np.bincount(self._set)[tested]
        else:
            own = self._own[split]
            maze = own[(drawn[:, 0] * len(own)).astype(np.int64)]
        seed = (drawn[:, 1] * 2**31).astype(np.int64)
        return {
            "maze": maze.astype(np.int32),
            "seed": seed.astype(np.int32),
            self._tag: self._set[maze].astype(np.int32),
        }


def _corridors(spec: MazeSpec) -> tuple[list[int], list[int]]:
    """The lengths of I-mazes to train on, and to test on."""
    trained, tested = (rising_lengths(getattr(spec, name), name, 3) for name in ("train_lengths", "test_lengths"))
    return trained, tested
