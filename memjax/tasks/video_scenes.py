"""Made-up films: coloured shapes that come, move, meet and leave, drawn frame by frame."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SIZE = 32  # pixels of a frame's side
RADIUS = 3  # of a shape
SHAPES = ("circle", "cross", "square", "triangle")
COLOURS = {
    "red": (1.0, 0.0, 0.0),
    "green": (0.0, 1.0, 0.0),
    "blue": (0.0, 0.0, 1.0),
    "yellow": (1.0, 1.0, 0.0),
    "pink": (1.0, 0.0, 1.0),
    "cyan": (0.0, 1.0, 1.0),
}
# What a step of a motion adds to column and row; rows are counted from the top.
DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
# One alone that moves, two that stay, or two that move until they touch; a whole film has so many of them.
ACTS = ("alone",) * 8 + ("pair",) * 2 + ("meeting",) * 2


class Actor(NamedTuple):
    """A shape of a film.

    Attributes:
        shape: of `SHAPES`.
        colour: of `COLOURS`; no two actors of a film have both in common.
        act: in which act it is on the screen, from its first frame to its last.
        motion: of `DIRECTIONS`, or "" where it stays.
        path: its centre in each frame of the act, column and row.
    """

    shape: str
    colour: str
    act: int
    motion: str
    path: np.ndarray

    @property
    def name(self) -> str:
        """How questions call it."""
        return f"{self.colour} {self.shape}"


class Scene(NamedTuple):
    """A film as it was planned.

    Attributes:
        acts: what happens, of `ACTS`, one after another, each as many frames.
        actors: in order of their acts.
        frames: of an act.
    """

    acts: tuple[str, ...]
    actors: tuple[Actor, ...]
    frames: int

    def cast(self, act: int) -> list[Actor]:
        """Who is on the screen in an act."""
        return [actor for actor in self.actors if actor.act == act]


def made_scene(rng: np.random.Generator, frames: int, count: int) -> Scene:
    """A film of some of `ACTS`.

    Args:
        rng: of which all is drawn.
        frames: of an act.
        count: how many acts, at most all.
    """
    acts = tuple(rng.permutation(ACTS)[:count].tolist())
    pairs = [(shape, colour) for shape in SHAPES for colour in COLOURS]
    names = iter([pairs[i] for i in rng.permutation(len(pairs))])
    actors: list[Actor] = []
    for act, kind in enumerate(acts):
        for motion, path in _PLANS[kind](rng, frames):
            shape, colour = next(names)
            actors.append(Actor(shape, colour, act, motion, path))
    return Scene(acts, tuple(actors), frames)


def drawn(scene: Scene) -> np.ndarray:
    """The frames of a film, `[F, SIZE, SIZE, 3]`, numbers in [0, 1]; of two that overlap the later is in front."""
    film = np.zeros((len(scene.acts) * scene.frames, SIZE, SIZE, 3), np.float32)
    for actor in scene.actors:
        inside = covered(actor.shape, actor.path)
        film[actor.act * scene.frames :][: scene.frames][inside] = COLOURS[actor.colour]
    return film


def covered(shape: str, path: np.ndarray) -> np.ndarray:
    """Which pixels a shape covers in each frame, `[F, SIZE, SIZE]`, rows first.

    Args:
        shape: of `SHAPES`.
        path: its centres, `[F, 2]`, column and row.
    """
    grid = np.arange(SIZE)
    across = grid[None, None, :] - path[:, 0, None, None]
    down = grid[None, :, None] - path[:, 1, None, None]
    return _INSIDE[shape](across, down)


def _in_square(across: np.ndarray, down: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(across), np.abs(down)) <= RADIUS


_INSIDE = {
    "circle": lambda across, down: across**2 + down**2 <= RADIUS**2,
    "cross": lambda across, down: _in_square(across, down) & (np.minimum(np.abs(across), np.abs(down)) < 1),
    "square": _in_square,
    "triangle": lambda across, down: _in_square(across, down) & (2 * np.abs(across) <= down + RADIUS),
}


def _alone(rng: np.random.Generator, frames: int) -> list[tuple[str, np.ndarray]]:
    motion = str(rng.choice(list(DIRECTIONS)))
    step = np.array(DIRECTIONS[motion])
    # From one side of the middle to the other, at any height.
    start = np.where(step == 0, rng.uniform(RADIUS, SIZE - RADIUS, 2), SIZE / 2 - step * rng.uniform(8, 12, 2))
    return [(motion, _between(start, start + step * rng.uniform(14, 18), frames))]


def _pair(rng: np.random.Generator, frames: int) -> list[tuple[str, np.ndarray]]:
    centres = _side_by_side(rng, apart=rng.uniform(12, 20), within=2.0)
    return [("", _between(centre, centre, frames)) for centre in centres]


def _meeting(rng: np.random.Generator, frames: int) -> list[tuple[str, np.ndarray]]:
    far = _side_by_side(rng, apart=rng.uniform(16, 20), within=0.0)
    middle = (far[0] + far[1]) / 2
    plans = []
    for centre in far:
        motion = next(name for name, step in DIRECTIONS.items() if np.dot(step, middle - centre) > 1)
        touching = middle + (centre - middle) / np.linalg.norm(centre - middle) * RADIUS
        plans.append((motion, _between(centre, touching, frames)))
    return plans


_PLANS = {"alone": _alone, "pair": _pair, "meeting": _meeting}


def _between(start: np.ndarray, end: np.ndarray, frames: int) -> np.ndarray:
    return start + (end - start) * np.linspace(0, 1, frames)[:, None]


def _side_by_side(rng: np.random.Generator, apart: float, within: float) -> Sequence[np.ndarray]:
    """Two centres, one beside or above the other, in any order; within: how far off that line."""
    along, edge = int(rng.integers(2)), RADIUS + 1
    first = np.zeros(2)
    first[along] = rng.uniform(edge, SIZE - edge - apart)
    first[1 - along] = rng.uniform(edge + within, SIZE - edge - within)
    second = first.copy()
    second[along] += apart
    second[1 - along] += rng.uniform(-within, within)
    return [first, second] if rng.integers(2) else [second, first]
