"""Stories of a small world: actors move, take and drop things; where a thing is follows from two facts.

Made after bAbI's task 2 (Weston et al. 2015) and its noisy forms (LEMN, 4.2), by rules of our own: an actor takes what
lies where it stands, and drops what it holds. A question is about a thing in the hands of an actor that has been seen
to move; the two facts are that it took the thing, and its last move.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, TypeVar

T = TypeVar("T")

ACTORS = ("Mary", "John", "Sandra")
THINGS = ("apple", "football", "milk")
PLACES = ("bedroom", "garden", "hallway", "kitchen")
MOVES = ("went", "journeyed", "travelled", "moved")
TAKES = ("got", "took", "grabbed", "picked up")
DROPS = ("dropped", "put down", "let go of", "left")
MOODS = ("bored", "hungry", "thirsty", "tired", "gray", "green", "yellow", "white", "a cat", "a mouse", "a wolf")
ANIMALS = ("Cats", "Mice", "Sheep", "Wolves")
QUESTIONS = 5  # of an episode


class Line(NamedTuple):
    """A line of a story.

    Attributes:
        text: of it.
        answer: to a question; None for a fact.
        support: of a question, the numbers (from 0) of the two lines that the answer follows from.
    """

    text: str
    answer: str | None = None
    support: tuple[int, ...] = ()


def noisy(seed: int, number: int) -> list[Line]:
    """An episode of 45 lines: after every 8 facts a question; 6 of 10 without noise, or about 15 to 60% of it.

    >>> [line.answer is None for line in noisy(0, 0)].index(False)
    8
    """
    random = Random(seed * 2**32 + number)
    return _episode(random, [8 + 9 * i for i in range(QUESTIONS)], 9 * QUESTIONS)


def large(seed: int, number: int) -> list[Line]:
    """An episode of 20 to 80 lines with 5 questions anywhere, the last line one of them; noise as in `noisy`.

    >>> 20 <= len(large(0, 0)) <= 80
    True
    """
    random = Random(seed * 2**32 + number)
    length = 20 + _below(random, 61)
    # The first lines are facts: of two, something may be asked.
    asked: set[int] = {length - 1}
    while len(asked) < QUESTIONS:
        asked.add(2 + _below(random, length - 3))
    return _episode(random, sorted(asked), length)


def _episode(random: Random, asked: list[int], length: int) -> list[Line]:
    level = _below(random, 10)
    noise = 0.15 * max(0, level - 5)  # 0 for six of ten, then .15, .30, .45, .60
    while True:
        lines = _try(random, asked, length, noise)
        if lines:
            return lines


def _try(random: Random, asked: list[int], length: int, noise: float) -> list[Line] | None:
    """An episode; None if there is nothing to ask where a question should be."""
    stands = {actor: _choose(random, PLACES) for actor in ACTORS}
    moved: dict[str, int] = {}  # by which line an actor's place is known
    lies = {thing: _choose(random, PLACES) for thing in THINGS}  # where, of things that nobody holds
    held: dict[str, tuple[str, int]] = {}  # who holds a thing, and the line in which it was taken
    lines: list[Line] = []
    for number in range(length):
        if number in asked:
            known = sorted(thing for thing, (actor, _) in held.items() if actor in moved)
            if not known:
                return None
            thing = _choose(random, known)
            actor, taken = held[thing]
            support = tuple(sorted((taken, moved[actor])))
            lines.append(Line(f"Where is the {thing}?", stands[actor], support))
        elif random.random() < noise:
            lines.append(Line(_noise(random)))
        else:
            lines.append(Line(_event(random, number, stands, moved, lies, held)))
    return lines


def _event(random: Random, number: int, stands: dict, moved: dict, lies: dict, held: dict) -> str:
    """Changes the world, and says how: moving, taking and dropping are equally likely where they can be done."""
    takes = [(actor, thing) for actor in ACTORS for thing in THINGS if lies.get(thing) == stands[actor]]
    drops = [(actor, thing) for thing, (actor, _) in held.items()]
    moves = [(actor, place) for actor in ACTORS for place in PLACES if place != stands[actor]]
    kind = _choose(random, [pairs for pairs in (moves, takes, drops) if pairs])
    actor, what = _choose(random, kind)
    if kind is moves:
        stands[actor], moved[actor] = what, number
        return f"{actor} {_choose(random, MOVES)} to the {what}."
    if kind is takes:
        held[what] = actor, number
        del lies[what]
        return f"{actor} {_choose(random, TAKES)} the {what}."
    lies[what] = stands[actor]
    del held[what]
    return f"{actor} {_choose(random, DROPS)} the {what}."


def _noise(random: Random) -> str:
    if random.random() < 0.7:
        return f"{_choose(random, ACTORS)} is {_choose(random, MOODS)}."
    who = _choose(random, ANIMALS)
    return f"{who} are afraid of {_choose(random, [other for other in ANIMALS if other != who]).lower()}."


def _below(random: Random, end: int) -> int:
    # Of all of Random's methods only random() gives the same numbers in every version of Python.
    return int(random.random() * end)


def _choose(random: Random, items: Sequence[T]) -> T:
    return items[_below(random, len(items))]
