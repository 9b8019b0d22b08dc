"""Video question answering on made-up films, whose frames come as features, as those of real videos do."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from memjax.checks import at_least, at_most
from memjax.errors import require
from memjax.tasks.stream_task import Batch, Split, TaskShape, check_indices
from memjax.tasks.video_questions import ANSWERS, PLACES, TYPES, FilmQuestion, asked, longest, possible, vocabulary
from memjax.tasks.video_scenes import ACTS, Scene, drawn, made_scene
from memjax.typing import SPLITS, Any

PATCH = 5  # pixels of a filter's side
CELLS = 4  # on a side, in which the means of some filters are taken
KEPT, KEPT_BYTES = 8192, 1 << 30  # films whose plans and features are not made again
MOST_FRAMES = 10_000
MOST_ASKED = 100
LEAST_ACTS = 4  # so that there is something to ask of each type
DRAWS = 8  # for each question wanted: of some types there are few that differ


@dataclass(frozen=True)
class VideoSpec:
    """The settings of `Video`.

    Attributes:
        frames: of a film; a multiple of its acts.
        segment: N, the frames of a segment.
        features: d, the numbers of a frame; a multiple of 32.
        asked: of each type, how many questions about a film, as far as there are so many.
        train: how many films.
        valid: the same.
        test: the same.
        seed: of films, questions and features.
        shortest: the fewest acts of a film of train, which has any number from there to twelve and as many frames less;
            0 for twelve. Films of valid and test have twelve.

    Raises:
        MemjaxError: for what is out of range.
    """

    frames: int
    segment: int
    features: int
    asked: int
    train: int
    valid: int
    test: int
    seed: int
    shortest: int = 0

    def __post_init__(self):
        at_least(self, 1, "frames", "segment", "features", "asked", "train", "valid", "test")
        at_least(self, 0, "seed")
        at_most(self, MOST_FRAMES, "frames", "segment", "features")
        at_most(self, MOST_ASKED, "asked")
        require(
            self.frames % len(ACTS) == 0 and self.frames >= 2 * len(ACTS),
            f"frames must be a multiple of the {len(ACTS)} acts, at least two each, not {self.frames}",
        )
        require(
            self.shortest == 0 or LEAST_ACTS <= self.shortest <= len(ACTS),
            f"shortest must be 0, or from {LEAST_ACTS} to {len(ACTS)} acts, not {self.shortest}",
        )
        require(
            self.features % (2 * CELLS**2) == 0,
            f"features must be a multiple of {2 * CELLS**2}: half of them are maxima of filters, half means in "
            f"{CELLS**2} cells; not {self.features}",
        )


class Video:
    """Questions about made-up films: implements `memjax.tasks.Task`, in the manner of Rehearsal Memory, 4.3.2.

    A film has twelve acts: a coloured shape that moves, two that stay side by side, or two that move until they touch.
    It is asked questions of six types, as ActivityNet-QA's are: where one moves, on which side of another it is, what
    comes after it, what colour the one is that moves so, how many there are of a colour, whether two meet. A film is
    an example, with all of its questions at its end, no two in the same words. A frame is features of a fixed random
    convolution (patches of 5 x 5 pixels, ReLU): the maximum of each filter over the frame, which is nearly the same
    wherever a shape is, and the means of a sixteenth of them in 4 x 4 cells; less their mean, over their standard
    deviation. Tags of a question: "type", and "place", whether the act of the answer is in the first half (`early`) or
    `later`; `several` where all acts count.

    Attributes:
        spec: its settings.
        shape: of its batches.
        answers: by their labels.
        vocabulary: the words of the questions, by their ids.
        notes: what is to be said beside any figure.

    ::

        spec = VideoSpec(300, segment=20, features=128, asked=4, train=2000, valid=100, test=200, seed=0)
        Video(spec).examples("train", np.arange(32))
    """

    def __init__(self, spec: VideoSpec):
        self.spec, self.answers = spec, ANSWERS
        self._plan = lru_cache(KEPT)(self._planned)
        self._asked = lru_cache(KEPT)(self._questions)
        self.vocabulary = ("<pad>", *vocabulary())
        self._ids = {word: place for place, word in enumerate(self.vocabulary)}
        rng, filters = np.random.default_rng(spec.seed), spec.features // 2
        self._filters = rng.normal(size=(PATCH * PATCH * 3, filters)).astype(np.float32) / PATCH
        self._bias = rng.uniform(-0.5, 0, filters).astype(np.float32)
        self._scale: tuple[Any, Any] = np.float32(0), np.float32(1)
        sample = np.concatenate([self._features(self.scene("train", film)) for film in range(8)])
        spread: Any = sample.std(0)
        spread[spread == 0] = 1  # of a feature that no film of the sample has
        self._scale = sample.mean(0), spread
        kept = min(KEPT, max(1, KEPT_BYTES // (2 * spec.frames * spec.features)))
        self._kept = lru_cache(kept)(lambda split, film: self._features(self.scene(split, film)).astype(np.float16))
        self.notes = ("films and questions are made up; no figure on them is one of ActivityNet-QA's",)
        self.shape = TaskShape(
            items=0,
            segments=-(-spec.frames // spec.segment),
            segment=spec.segment,
            queries=len(self.vocabulary),
            query_words=longest(),
            answer="classes",
            classes=len(ANSWERS),
            questions=(1, len(TYPES) * spec.asked),
            tags={"type": TYPES, "place": PLACES},
            item_width=spec.features,
        )

    def size(self, split: Split) -> int:
        return getattr(self.spec, split)

    def lengths(self, split: Split) -> np.ndarray:
        acts = np.array([self._acts(split, film) for film in range(self.size(split))])
        return -(-acts * self.spec.frames // len(ACTS) // self.spec.segment)

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        indices = check_indices(indices, self.size(split), split)
        shape, rows = self.shape, len(indices)
        stream = np.zeros((rows, shape.segments * shape.segment, self.spec.features), np.float32)
        mask = np.zeros(stream.shape[:2], bool)
        after = np.zeros((rows, 1), np.int32)
        asked = np.zeros((rows, *(shape.questions or (1, 1))), bool)
        query = np.zeros((*asked.shape, shape.query_words or 1), np.int32)
        label, kinds, place = (np.zeros(asked.shape, np.int32) for _ in range(3))
        for row, film in enumerate(indices.tolist()):
            scene, features = self.scene(split, film), self._kept(split, film)
            stream[row, : len(features)], mask[row, : len(features)] = features, True
            after[row] = -(-len(features) // shape.segment)
            for number, (kind, question) in enumerate(self.questions(split, film)):
                at, words = (row, 0, number), [self._ids[word] for word in question.text.split()]
                asked[at], query[at][: len(words)] = True, words
                label[at], kinds[at] = ANSWERS.index(question.answer), TYPES.index(kind)
                place[at] = 2 if question.act is None else int(2 * question.act >= len(scene.acts))
        by_segment = (rows, shape.segments, shape.segment)
        return {
            "stream": stream.reshape(*by_segment, -1),
            "mask": mask.reshape(by_segment),
            "after": after,
            "asked": asked,
            "query": query,
            "label": label,
            "type": kinds,
            "place": place,
        }

    def pictured(self, split: Split, index: int, question: int) -> tuple[np.ndarray, list[int]]:
        """Of each segment of a film a frame, `[T, 32, 32, 3]` uint8, and the segments that have frames of the act of an
        answer, none where all acts count: of these it is a frame of that act.

        Args:
            split: of the film.
            index: of the film.
            question: which of those about the film.
        """
        act, scene = self.questions(split, index)[question][1].act, self.scene(split, index)
        frames, segment = len(scene.acts) * scene.frames, self.spec.segment
        begins = np.arange(0, frames, segment)
        ends = np.minimum(begins + segment, frames)
        seen: list[int] = []
        if act is not None:
            first, last = act * scene.frames, (act + 1) * scene.frames
            seen = list(range(first // segment, (last - 1) // segment + 1))
            begins[seen], ends[seen] = np.maximum(begins[seen], first), np.minimum(ends[seen], last)
        film = drawn(scene)
        return np.rint(255 * film[(begins + ends) // 2]).astype(np.uint8), seen

    def scene(self, split: Split, film: int) -> Scene:
        """The plan of a film, about which each type of question can be asked."""
        return self._plan(split, film)

    def _planned(self, split: Split, film: int) -> Scene:
        rng = self._rng(split, film, 0)
        frames, acts = self.spec.frames // len(ACTS), self._acts(split, film)
        while not possible(scene := made_scene(rng, frames, acts)):
            pass
        return scene

    def _acts(self, split: Split, film: int) -> int:
        """How many a film has."""
        if split != "train" or not self.spec.shortest:
            return len(ACTS)
        return int(self._rng(split, film, 1 + len(TYPES)).integers(self.spec.shortest, len(ACTS) + 1))

    def questions(self, split: Split, film: int) -> tuple[tuple[str, FilmQuestion], ...]:
        """Those about a film, with their types."""
        return self._asked(split, film)

    def _questions(self, split: Split, film: int) -> tuple[tuple[str, FilmQuestion], ...]:
        scene, most, found = self.scene(split, film), self.spec.asked, []
        for number, kind in enumerate(TYPES):
            rng = self._rng(split, film, 1 + number)
            different = dict.fromkeys(asked(scene, kind, rng) for _ in range(DRAWS * most))
            found += [(kind, question) for question in islice(different, most)]
        return tuple(found)

    def _rng(self, split: Split, film: int, part: int) -> np.random.Generator:
        return np.random.default_rng([self.spec.seed, SPLITS.index(split), film, part])

    def _features(self, scene: Scene) -> np.ndarray:
        """Of each frame, `[F, d]`."""
        film = drawn(scene)
        patches = np.lib.stride_tricks.sliding_window_view(film, (PATCH, PATCH), axis=(1, 2))
        # Of black patches all filters are 0, for no bias is above: they are left out.
        lit = np.any(film, axis=-1)
        for axis in (1, 2):
            lit = np.any(np.lib.stride_tricks.sliding_window_view(lit, PATCH, axis), axis=-1)
        frame, row, column = np.nonzero(lit)
        seen = np.maximum(patches[frame, row, column].reshape(len(frame), -1) @ self._filters + self._bias, 0)
        maxima = np.maximum.reduceat(seen, np.searchsorted(frame, np.arange(len(film))))
        some = np.zeros((*lit.shape, seen.shape[1] // CELLS**2), np.float32)
        some[frame, row, column] = seen[:, : some.shape[-1]]
        side = lit.shape[2] // CELLS  # of a cell; the sums one after another: both at once take five times as long
        columns = some.reshape(len(film), CELLS, side, lit.shape[2], -1).sum(2)
        cells = columns.reshape(len(film), CELLS, CELLS, side, -1).sum(3) / np.float32(side**2)
        mean, spread = self._scale
        return (np.concatenate([maxima, cells.reshape(len(film), -1)], axis=1) - mean) / spread
