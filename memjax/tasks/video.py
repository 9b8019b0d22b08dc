"""Video question answering on made-up films, whose frames come as features, as those of real videos do."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from memjax.checks import at_least, at_most
from memjax.errors import require
from memjax.tasks.stream_task import Batch, Split, TaskShape, check_indices
from memjax.tasks.video_questions import ANSWERS, PLACES, TYPES, FilmQuestion, asked, longest, possible, vocabulary
from memjax.tasks.video_scenes import ACTS, Scene, drawn, made_scene
from memjax.tasks.words import id_table
from memjax.typing import SPLITS

PATCH = 5  # pixels of a filter's side
CELLS = 4  # on a side, in which the means of some filters are taken
KEPT = 4096  # films whose plans and features are not made again
MOST_FRAMES = 10_000


@dataclass(frozen=True)
class VideoSpec:
    """The settings of `Video`.

    Attributes:
        frames: of a film; a multiple of its acts.
        segment: N, the frames of a segment.
        features: d, the numbers of a frame; a multiple of 32.
        train: how many films; each is asked one question of each type.
        valid: the same.
        test: the same.
        seed: of films, questions and features.

    Raises:
        MemjaxError: for what is out of range.
    """

    frames: int
    segment: int
    features: int
    train: int
    valid: int
    test: int
    seed: int

    def __post_init__(self):
        at_least(self, 1, "frames", "segment", "features", "train", "valid", "test")
        at_least(self, 0, "seed")
        at_most(self, MOST_FRAMES, "frames", "segment", "features")
        require(
            self.frames % len(ACTS) == 0 and self.frames >= 2 * len(ACTS),
            f"frames must be a multiple of the {len(ACTS)} acts, at least two each, not {self.frames}",
        )
        require(
            self.features % (2 * CELLS**2) == 0,
            f"features must be a multiple of {2 * CELLS**2}: half of them are maxima of filters, half means in "
            f"{CELLS**2} cells; not {self.features}",
        )


class Video:
    """Questions about made-up films: implements `memjax.tasks.Task`, in the manner of Rehearsal Memory, 4.3.2.

    A film has twelve acts: a coloured shape that moves, two that stay side by side, or two that move until they touch.
    It is asked one question of each of six types, as ActivityNet-QA's are: where one moves, on which side of another it
    is, what comes after it, what colour the one is that moves so, how many there are of a colour, whether two meet.
    Each question is an example of its own, asked at the film's end. A frame is the features of a fixed random
    convolution (patches of 5 x 5 pixels, ReLU): the maximum of each filter over the frame, which is the same wherever a
    shape is, and the means of a sixteenth of them in 4 x 4 cells; less their mean, over their standard deviation.
    Tags: "type", and "place", whether the act of the answer is in the first half (`early`) or `later`; `several` where
    all acts count.

    Attributes:
        spec: its settings.
        shape: of its batches.
        answers: by their labels.
        vocabulary: the words of the questions, by their ids.
        notes: what is to be said beside any figure.

    ::

        spec = VideoSpec(frames=300, segment=20, features=128, train=2000, valid=100, test=200, seed=0)
        Video(spec).examples("train", np.arange(32))
    """

    def __init__(self, spec: VideoSpec):
        self.spec, self.answers = spec, ANSWERS
        self._plan = lru_cache(KEPT)(self._planned)
        self.vocabulary = ("<pad>", *vocabulary())
        self._ids = {word: place for place, word in enumerate(self.vocabulary)}
        rng, filters = np.random.default_rng(spec.seed), spec.features // 2
        self._filters = rng.normal(size=(PATCH * PATCH * 3, filters)).astype(np.float32) / PATCH
        self._bias = rng.uniform(-0.5, 0, filters).astype(np.float32)
        self._scale = np.float32(0), np.float32(1)
        sample = np.concatenate([self._features(self.scene("train", film)) for film in range(8)])
        self._scale = sample.mean(0), sample.std(0)
        self._kept = lru_cache(KEPT)(lambda split, film: self._features(self.scene(split, film)).astype(np.float16))
        self.notes = ("films and questions are made up; no figure on them is one of ActivityNet-QA's",)
        self.shape = TaskShape(
            items=0,
            segments=-(-spec.frames // spec.segment),
            segment=spec.segment,
            queries=len(self.vocabulary),
            query_words=longest(),
            answer="classes",
            classes=len(ANSWERS),
            tags={"type": TYPES, "place": PLACES},
            item_width=spec.features,
        )

    def size(self, split: Split) -> int:
        return getattr(self.spec, split) * len(TYPES)

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        indices = check_indices(indices, self.size(split), split)
        shape, frames = self.shape, self.spec.frames
        stream = np.zeros((len(indices), shape.segments * shape.segment, self.spec.features), np.float32)
        mask = np.zeros(stream.shape[:2], bool)
        mask[:, :frames] = True
        texts, label, kinds, place = [], [], indices % len(TYPES), []
        for row, index in enumerate(indices.tolist()):
            film = index // len(TYPES)
            stream[row, :frames] = self._kept(split, film)
            question = self.question(split, index)
            texts.append([self._ids[word] for word in question.text.split()])
            label.append(ANSWERS.index(question.answer))
            place.append(2 if question.act is None else int(2 * question.act >= len(ACTS)))
        by_segment = (len(indices), shape.segments, shape.segment)
        return {
            "stream": stream.reshape(*by_segment, -1),
            "mask": mask.reshape(by_segment),
            "query": id_table(texts, shape.query_words or 1),
            "label": np.array(label, np.int32),
            "type": kinds.astype(np.int32),
            "place": np.array(place, np.int32),
        }

    def scene(self, split: Split, film: int) -> Scene:
        """The plan of a film, about which each type of question can be asked."""
        return self._plan(split, film)

    def _planned(self, split: Split, film: int) -> Scene:
        rng = self._rng(split, film, 0)
        frames = self.spec.frames // len(ACTS)
        while not possible(scene := made_scene(rng, frames)):
            pass
        return scene

    def question(self, split: Split, index: int) -> FilmQuestion:
        """That of an example."""
        film, kind = divmod(index, len(TYPES))
        return asked(self.scene(split, film), TYPES[kind], self._rng(split, film, 1 + kind))

    def _rng(self, split: Split, film: int, part: int) -> np.random.Generator:
        return np.random.default_rng([self.spec.seed, SPLITS.index(split), film, part])

    def _features(self, scene: Scene) -> np.ndarray:
        """Of each frame, `[F, d]`."""
        film = drawn(scene)
        patches = np.lib.stride_tricks.sliding_window_view(film, (PATCH, PATCH), axis=(1, 2))
        # Of black patches all filters are 0, for no bias is above: they are left out.
        lit = np.lib.stride_tricks.sliding_window_view(film.any(-1), (PATCH, PATCH), axis=(1, 2)).any((-2, -1))
        frame, row, column = np.nonzero(lit)
        seen = np.maximum(patches[frame, row, column].reshape(len(frame), -1) @ self._filters + self._bias, 0)
        maxima = np.maximum.reduceat(seen, np.searchsorted(frame, np.arange(len(film))))
        some = np.zeros((*lit.shape, seen.shape[1] // CELLS**2), np.float32)
        some[frame, row, column] = seen[:, : some.shape[-1]]
        cells = some.reshape(len(film), CELLS, -1, CELLS, lit.shape[2] // CELLS, some.shape[-1]).mean((2, 4))
        mean, spread = self._scale
        return (np.concatenate([maxima, cells.reshape(len(film), -1)], axis=1) - mean) / spread
