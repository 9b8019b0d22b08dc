"""Clicks: what will this user touch next? A stream of items, asked on the way about single ones; all can be ranked."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memjax.checks import at_least, at_most
from memjax.errors import MemjaxError, require
from memjax.tasks.click_log import read_clicks
from memjax.tasks.random import check_seed, example_keys, uniform
from memjax.tasks.stream_task import Batch, Split, TaskShape, check_indices
from memjax.tasks.words import composed
from memjax.typing import Bool, Int

LEAST = 4  # items of a user: one to read, one to be asked in training, one for valid, one for test
LONGEST = 2**16  # a stream: more is a mistake
MOST_VIEWS = 1000
_BEHIND = {"valid": 2, "test": 1}  # where the target stands, from the user's end


@dataclass(frozen=True)
class ClicksSpec:
    """The settings of `Clicks`.

    Attributes:
        file: of `data_dir`: lines "user item", each user's in order of time, as `ml-1m.txt.gz`; or MovieLens' ratings,
            as `ratings.csv.gz`, of which each is a click, sorted by time.
        length: the most items of a stream; at most 65536.
        segment: N, its length, in items.
        views: how many training examples an epoch has of each user, each with draws of its own; at most 1000.
        ahead: how many of the items that come next are asked each time in training; at most 1000.
        least: users with fewer items are left out; at least 4.
        seed: of what is drawn.
        data_dir: the folder of the file.

    Raises:
        MemjaxError: for what is out of range.
    """

    file: str
    length: int
    segment: int
    views: int
    least: int
    seed: int
    data_dir: str
    ahead: int = 1

    def __post_init__(self):
        at_least(self, 1, "length", "segment", "views", "ahead")
        at_least(self, LEAST, "least")
        at_most(self, LONGEST, "length")
        at_most(self, self.length, "segment")
        at_most(self, MOST_VIEWS, "views", "ahead")
        check_seed(self.seed)


class _Cut(NamedTuple):
    """Where streams lie, an entry for each example."""

    user: np.ndarray
    begin: np.ndarray  # in the file's items
    first: np.ndarray  # how many items the first segment has; the others have N
    segments: np.ndarray


class Clicks:
    """Clicks on items, asked on the way whether an item is the next one: implements `memjax.tasks.Task`.

    Leave one out: a user's last item is the target of the test split, the last but one that of valid, and the earlier
    ones are for training. Segments end where a question comes: all have N items but the first, which may have less.

    - Training, example i is of user `i % users`: the first segment has r items, drawn from 1 to N; the stream has at
      most `length` items, from the user's first on, or from a random place where the user has more. After each segment
      the next `ahead` items (label 1), and as many negatives (label 0). One is what is tested; more are a denser
      signal, from the same pass over the stream. What is drawn depends on i alone: so that every item comes to be
      asked, and nothing is memorised, `views` should be as many as the passes over the users.
    - Valid and test: the last `length` items before the target, then the target and a negative. The items before the
      target of test include that of valid.

    A negative is drawn uniformly from the items that the user never touched in the whole file. Users who have fewer
    than `least` items, or who touched every item, are left out.

    Where somebody touches an item again, nothing is left out of a ranking: else a target that was touched before would
    be the only one of its kind there. And an item that was touched before is then no negative, which is said in a note.

    Ranking is as asash/gSASRec-pytorch does it, where SASRec has R@10 .2392 and NDCG@10 .1259 on ml-1m.txt (its
    README, commit 25c9abc): all items but those that the user had before the target, also before the cut to the longest
    input (`eval_utils.py` and `dataset_utils.py`, `filter_rated`); the input at test has the item of validation at its
    end (`datasets/ml1m/preprocess_ml1m.py`); equal scores are left to ir_measures, which orders them by the items'
    numbers as text, descending, and which scores of 32 bits hardly ever have: `training.ranking_metrics.ranks` counts
    them against the target. It validates on 512 users, and cuts to the last 200 items; here are all users and `length`.

    Attributes:
        spec: its settings.
        shape: of its batches.
        vocabulary: the numbers of the items in the file, by their ids.
        notes: how many users were left out, and what of the file had to be put in order.

    Raises:
        MemjaxError: for a file that is missing or damaged, and if no user is left.

    ::

        Clicks(ClicksSpec("ml-1m.txt.gz", 1000, 20, 1, 5, seed=0, data_dir="data")).examples("train", np.arange(64))
    """

    def __init__(self, spec: ClicksSpec):
        self.spec = spec
        log = read_clicks(Path(spec.data_dir, spec.file))
        self.vocabulary, self._items = log.vocabulary, log.items
        items, counts = len(log.vocabulary), np.diff(log.begin)
        users = np.repeat(np.arange(len(counts)), counts)
        # What each user touched, once, and where each user's begins.
        touched = np.sort(users * items + log.items)  # np.unique takes seconds for a million that differ
        touched = touched[np.diff(touched, prepend=-1) > 0]
        self._again = len(touched) < len(log.items)  # some user has an item twice
        bounds = np.searchsorted(touched, np.arange(len(counts) + 1) * items)
        kept = (counts >= spec.least) & (np.diff(bounds) < items)
        enough = (counts >= spec.least).any()
        require(enough, f"{spec.file} has no user with {spec.least} items or more; lower config.task.least")
        require(kept.any(), f"{spec.file} has no user who left one of its {items} items untouched: nothing is to rank")
        notes = [*log.notes]
        if left_out := len(counts) - kept.sum():
            few = f"fewer than {spec.least} items, or all there are"
            notes.append(f"{left_out:,} of {len(counts):,} users are left out: {few}")
        if self._again:
            notes.append(
                "users touch items again: all items are ranked; a negative is known by that it was never touched"
            )
        self.notes = tuple(notes)

        self._user, self._begin, self._count = np.flatnonzero(kept), log.begin[:-1][kept], counts[kept]
        self._touched, self._touched_from, self._touched_to = touched % items, bounds[:-1][kept], bounds[1:][kept]
        # Of a user's i-th touched item, the items below it that were never touched, as one rising array.
        self._untouched_below = touched - (np.arange(len(touched)) - bounds[touched // items])
        place = np.arange(len(log.items)) - log.begin[users]
        trained = kept[users] & (place < counts[users] - max(_BEHIND.values()))
        self._popularity = np.bincount(log.items[trained], minlength=items)
        segments = -(-min(int(self._count.max()) - 1, spec.length) // spec.segment)
        self.shape = TaskShape(
            items=items,
            segments=segments,
            segment=spec.segment,
            queries=items,
            query_words=None,
            answer="click",
            classes=2,
            questions=(segments, 2 * spec.ahead),
            query_is_item=True,
        )

    @cached_property
    def _ids(self) -> dict[int | str, int]:
        return {item: place for place, item in enumerate(self.vocabulary)}

    def encode(self, items: Sequence[int | str] | np.ndarray) -> Int[np.ndarray, "L"]:
        """Items as the model reads them and is asked about them: their ids, as int32.

        Others have no id: nothing is learned of them, and what is written of one would stay in the state.

        Args:
            items: numbers or words, as they stand in the file, `[L]`.

        Raises:
            MemjaxError: for an item that the file has not, and for items of another kind.

        ::

            states = streaming.write(model, params, states, [0], [task.encode(["A3", "A7", "A3"])])
        """
        kind = type(self.vocabulary[0])
        try:
            given = np.asarray(items)
        except ValueError:  # rows of several lengths
            raise MemjaxError(f"items are one list in {self.spec.file}, and these are none") from None
        require(given.ndim == 1, f"items are [L] in {self.spec.file}, not {list(given.shape)}")
        wanted = "words" if kind is str else "whole numbers"
        for item in given.tolist():
            require(type(item) is kind, f"items are {wanted} in {self.spec.file}, not {type(item).__name__}")
        found = (composed(given) if kind is str else given).tolist()
        strange = next((item for item in found if item not in self._ids), None)
        require(
            strange is None,
            f"{self.spec.file} has no item {strange!r:.60}: leave it out of what is written, nothing is learned of it",
        )
        return np.array([self._ids[item] for item in found], np.int32)

    def size(self, split: Split) -> int:
        """How many users, and in training how many views of them."""
        return len(self._user) * (self.spec.views if split == "train" else 1)

    def lengths(self, split: Split) -> np.ndarray:
        """How many segments each stream has."""
        indices = np.arange(self.size(split))
        return self._cut(split, indices, self._uniform(split, indices, 2)).segments

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        indices = check_indices(indices, self.size(split), split)
        size = self.spec.segment
        count, ahead = (self.shape.segments, self.spec.ahead) if split == "train" else (1, 1)
        u = self._uniform(split, indices, 2 + count * ahead)
        cut = self._cut(split, indices, u)
        places = np.arange(self.shape.segments * size)
        first = cut.first[:, None]
        mask = (places < first) | ((places >= size) & (places < (size * cut.segments)[:, None]))
        # Behind the first segment, whose padding stands at its end, the items go on where it stopped.
        stream = self._at(cut.begin[:, None] + places - np.where(places < size, 0, size - first), mask)

        after = np.arange(1, count + 1) + np.zeros_like(indices)[:, None] if split == "train" else cut.segments[:, None]
        after = np.where(after <= cut.segments[:, None], after, 0)
        places = ((cut.begin + cut.first)[:, None] + (after - 1) * size)[..., None] + np.arange(ahead)
        last = (self._begin + self._count)[cut.user] - _BEHIND.get(split, 3)
        asked = (after > 0)[..., None] & (places <= last[:, None, None])
        negatives = self._untouched(cut.user, u[:, 2:]).reshape(asked.shape)
        query = np.concatenate([self._at(places, asked), np.where(asked, negatives, 0)], -1)
        label = np.concatenate([asked, np.zeros_like(asked)], -1)
        return {
            "stream": stream.reshape(len(indices), self.shape.segments, size),
            "mask": mask.reshape(len(indices), self.shape.segments, size),
            "query": query.astype(np.int32),
            "label": label.astype(np.int32),
            "after": after.astype(np.int32),
            "asked": np.concatenate([asked, asked], -1),
        }

    def ranked(self, split: Split, indices: np.ndarray) -> dict[str, np.ndarray]:
        """What is needed to rank all items at the end of the streams of valid or test.

        Args:
            split: "valid" or "test".
            indices: `[B]`, each in [0, size(split)).

        Returns:
            `target [B]`; `popular [B]`, a negative drawn in proportion to how often items are in the training part of
            the file, from those that the user never touched; `left_out [B, V]` bool, the items that are not ranked:
            those that the user had before the target, or none where users touch items again.

        Raises:
            MemjaxError: for the training split, whose streams have no single target, and for any other index.
        """
        require(split in _BEHIND, f"the {split} split has no target to rank; ask for valid or test")
        indices = check_indices(indices, self.size(split), split)
        begin, end = self._begin[indices], self._begin[indices] + self._count[indices] - _BEHIND[split]
        ever = self._marked(self._touched, self._touched_from[indices], self._touched_to[indices])
        weights = np.where(ever, 0, self._popularity)
        weights = np.where(weights.any(axis=1, keepdims=True), weights, ~ever)  # in training nobody had any of these
        sums = weights.cumsum(axis=1)
        drawn = (self._uniform(split, indices, 4)[:, 3] * sums[:, -1]).astype(np.int64)
        return {
            "target": self._items[end],
            "popular": (sums > drawn[:, None]).argmax(axis=1).astype(np.int32),
            "left_out": self._marked(self._items, begin, begin if self._again else end),
        }

    def _uniform(self, split: Split, indices: np.ndarray, count: int) -> np.ndarray:
        """Of an example: two numbers for its cut, one for each negative, and the fourth also for a popular one."""
        return uniform(example_keys(self.spec.seed, 6, split, indices), count)

    def _cut(self, split: Split, indices: np.ndarray, u: np.ndarray) -> _Cut:
        spec, user = self.spec, indices % len(self._user)
        before = self._count[user] - _BEHIND.get(split, 3)  # items before the last that may be asked
        room = np.minimum(before, spec.length)
        if split == "train":
            first = 1 + (u[:, 0] * np.minimum(room, spec.segment)).astype(np.int64)
            segments = 1 + (room - first) // spec.segment
            total = first + (segments - 1) * spec.segment
            spare = np.where(before > spec.length, before - total, 0)
            begin = (u[:, 1] * (spare + 1)).astype(np.int64)
        else:
            segments = -(-room // spec.segment)
            first = room - (segments - 1) * spec.segment
            begin = before - room
        return _Cut(user, self._begin[user] + begin, first, segments)

    def _at(self, places: np.ndarray, real: np.ndarray) -> np.ndarray:
        """The file's items at these places, 0 where none is."""
        return self._items[np.where(real, places, 0)] * real

    def _untouched(self, user: np.ndarray, u: np.ndarray) -> Int[np.ndarray, "B negatives"]:
        """Items that users never touched, from uniform numbers `[B, negatives]`."""
        bounds = self._touched_from[user, None]
        left = self.shape.items - (self._touched_to[user, None] - bounds)
        rank = (u * left).astype(np.int64)  # of the item, among those that the user never touched
        keys = self._user[user, None] * self.shape.items + rank
        return rank + np.searchsorted(self._untouched_below, keys, side="right") - bounds

    def _marked(self, ids: np.ndarray, begin: np.ndarray, end: np.ndarray) -> Bool[np.ndarray, "B V"]:
        """Which items occur between two places of a flat array of ids."""
        counts = end - begin
        places = np.arange(counts.sum()) + np.repeat(begin - (counts.cumsum() - counts), counts)
        marks = np.zeros((len(begin), self.shape.items), bool)
        marks[np.repeat(np.arange(len(begin)), counts), ids[places]] = True
        return marks
