"""Questions about made-up films, of six types, and what their answers are by the plan of the film."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from memjax.tasks.video_scenes import COLOURS, DIRECTIONS, SHAPES, Actor, Scene

PLACES = ("early", "later", "several")
MOST = len(SHAPES)  # of one colour in a film: no two actors are alike


class FilmQuestion(NamedTuple):
    """A question about a film.

    Attributes:
        text: of it.
        answer: one word.
        act: the one in which the answer is seen; None where all of them count.
    """

    text: str
    answer: str
    act: int | None


# Of each type, with the names of actors, shapes, colours and motions in it.
TEXTS = {
    "motion": "where does the {name} move",
    "spatial": "on which side of the {other} is the {name}",
    "temporal": "what colour is the one that comes after the {name}",
    "colour": "what colour is the {shape} that moves {motion}",
    "count": "how many {colour} ones are there",
    "yes/no": "does the {name} meet the {other}",
}
TYPES = tuple(TEXTS)
ANSWERS = tuple(
    sorted({"left", "right", "up", "down", "above", "below", "yes", "no", *COLOURS, *map(str, range(MOST + 1))})
)


def vocabulary() -> tuple[str, ...]:
    """All words that questions have."""
    fixed = {word for text in TEXTS.values() for word in text.split() if not word.startswith("{")}
    return tuple(sorted(fixed.union(SHAPES, COLOURS, DIRECTIONS)))


def longest() -> int:
    """The most words that a question has; a name is two."""
    return max(sum(2 if word in ("{name}", "{other}") else 1 for word in text.split()) for text in TEXTS.values())


def possible(scene: Scene) -> bool:
    """Whether each type of question can be asked."""
    return {"pair", "meeting"} <= set(scene.acts) and bool(_told_by_motion(scene) and _followed(scene))


def asked(scene: Scene, kind: str, rng: np.random.Generator) -> FilmQuestion:
    """A question of a type.

    Args:
        scene: a film for which that is possible.
        kind: of `TYPES`.
        rng: of which it is drawn.
    """
    return _MADE[kind](scene, rng)


def _one(rng: np.random.Generator, things: list):
    return things[int(rng.integers(len(things)))]


def _motion(scene: Scene, rng: np.random.Generator) -> FilmQuestion:
    actor = _one(rng, [actor for actor in scene.actors if actor.motion])
    return FilmQuestion(TEXTS["motion"].format(name=actor.name), actor.motion, actor.act)


def _spatial(scene: Scene, rng: np.random.Generator) -> FilmQuestion:
    act = _one(rng, [act for act, kind in enumerate(scene.acts) if kind == "pair"])
    one, other = rng.permutation(2)
    one, other = scene.cast(act)[one], scene.cast(act)[other]
    across, down = one.path[0] - other.path[0]
    beside, over = ("left" if across < 0 else "right"), ("above" if down < 0 else "below")
    answer = beside if abs(across) > abs(down) else over
    return FilmQuestion(TEXTS["spatial"].format(name=one.name, other=other.name), answer, act)


def _followed(scene: Scene) -> list[Actor]:
    """Behind whose act comes that of one alone."""
    return [actor for actor in scene.actors if actor.act + 1 < len(scene.acts) and scene.acts[actor.act + 1] == "alone"]


def _temporal(scene: Scene, rng: np.random.Generator) -> FilmQuestion:
    actor = _one(rng, _followed(scene))
    (after,) = scene.cast(actor.act + 1)
    return FilmQuestion(TEXTS["temporal"].format(name=actor.name), after.colour, after.act)


def _told_by_motion(scene: Scene) -> list[Actor]:
    """Those that move as no other of their shape does."""
    count = Counter((actor.shape, actor.motion) for actor in scene.actors)
    return [actor for actor in scene.actors if actor.motion and count[actor.shape, actor.motion] == 1]


def _colour(scene: Scene, rng: np.random.Generator) -> FilmQuestion:
    actor = _one(rng, _told_by_motion(scene))
    return FilmQuestion(TEXTS["colour"].format(shape=actor.shape, motion=actor.motion), actor.colour, actor.act)


def _count(scene: Scene, rng: np.random.Generator) -> FilmQuestion:
    colour = _one(rng, list(COLOURS))
    number = sum(actor.colour == colour for actor in scene.actors)
    return FilmQuestion(TEXTS["count"].format(colour=colour), str(number), None)


def _yes_no(scene: Scene, rng: np.random.Generator) -> FilmQuestion:
    wanted = _one(rng, ["meeting", "pair"])
    act = _one(rng, [act for act, kind in enumerate(scene.acts) if kind == wanted])
    one, other = (scene.cast(act)[i] for i in rng.permutation(2))
    return FilmQuestion(
        TEXTS["yes/no"].format(name=one.name, other=other.name), "yes" if wanted == "meeting" else "no", act
    )


_MADE = dict(zip(TYPES, (_motion, _spatial, _temporal, _colour, _count, _yes_no), strict=True))
