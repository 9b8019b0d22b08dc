"""What each family of experiments wants shown: the reports of the five families, as they are handed to reporting."""

import math
from collections.abc import Mapping, Sequence

from memjax.reporting.description import (
    Bars,
    BufferPicture,
    Column,
    HeatMap,
    Lines,
    Phase,
    Report,
    WalkPicture,
    tag_panels,
)

ERROR = Column("error %", ("accuracy",), "error", "lower")
ACCURACY = Column("accuracy %", ("accuracy",), "percent", "higher")
SAMPLER = Phase(
    "sampler",
    "history sampler",
    "history sampler (reads the stream)",
    "The history sampler answers with the whole stream before it, which a memory cannot.",
)
SLOTS = HeatMap(
    "slots",
    "Which slots were written",
    "How much each segment of the stream changed each slot, in the mean over the test examples that have the segment; "
    "every map has its own scale.",
    ("slot_changes",),
    "segment of the stream",
    "slot",
    "change of the slot",
)


def stream_qa(tags: Mapping[str, Sequence[str]], classes: int, recalled_among: int, *, sampler: bool = False) -> Report:
    """Stream QA. tags: of the task's shape. The result is early, later and all where the evidence has a place; the mean
    error of the tasks where several are learned together; error and accuracy otherwise.
    """
    guessing = {
        "accuracy": 1 / classes,
        "answer_loss": math.log(classes),
        "recollection_loss": math.log(recalled_among),
        "familiarity_loss": 2 * math.log(2),
    }
    phases = (SAMPLER,) if sampler else ()
    if "half" in tags:
        early, later = (
            Column(f"{half} %", ("tags", "half", half, "accuracy"), "percent", "higher") for half in ("early", "later")
        )
        everything = Column("all %", ("accuracy",), "percent", "higher")
        places = Bars(
            "places",
            "Where the evidence lies",
            "Accuracy by the place of the evidence in the stream, with 95% intervals for the number of examples.",
            {tag: f"by {tag} of the stream" for tag in ("half", "quarter") if tag in tags},
        )
        others = tag_panels(tag for tag in tags if tag not in places.tags)
        meaning = "Early, later, all: accuracy where the evidence lies in the first half, the second half, anywhere."
        columns = (early, later, everything)
        return Report(everything.name, columns, (*others, places, SLOTS), meaning, guessing, phases)
    panels = (*tag_panels(tags), SLOTS)
    if len(tags.get("task", ())) > 1:
        path = ("tags", "task", "*", "accuracy")
        error = Column("mean error %", path, "error", "lower")
        over = Column("tasks over 5%", path, "error", "lower", 5.0)
        meaning = "Mean error: the mean over the tasks of the error of each."
        return Report(error.name, (error, over), panels, meaning, guessing, phases)
    return Report(ERROR.name, (ERROR, ACCURACY), panels, guessing=guessing, phases=phases)


def sequence(tags: Mapping[str, Sequence[str]], choices: int, answer: int, *, text: bool = False) -> Report:
    """Sequence layers. tags, choices, answer, text: of the task's shape."""
    guessing = {"accuracy": choices**-answer, "answer_loss": math.log(choices)}
    if text:
        perplexity = Column("perplexity", ("perplexity",), "number", "lower")
        return Report(
            perplexity.name, (perplexity,), tag_panels(tags), "Perplexity: exp of the mean loss of a token.", guessing
        )
    return Report(ERROR.name, (ERROR, ACCURACY), tag_panels(tags), guessing=guessing)


def algorithmic(tags: Mapping[str, Sequence[str]]) -> Report:
    """RNN cells on sequences of bits. tags: of the task's shape."""
    wrong = Column("wrong bits", ("wrong_bits",), "number", "lower")
    by_length = Lines(
        "wrong_bits",
        "Wrong bits by length",
        "Wrong bits of a sequence by its length, in the mean over the tested sequences.",
        ("metrics", "wrong_bits_by_length"),
        "length",
        "wrong bits",
        "number",
    )
    meaning = "Wrong bits: of a sequence, in the mean over all tested lengths."
    guessing = {"accuracy": 0.5, "answer_loss": math.log(2)}
    return Report(wrong.name, (wrong, ERROR), (*tag_panels(tags), by_length), meaning, guessing)


def retention(tags: Mapping[str, Sequence[str]], answers: int, *, base: bool = False) -> Report:
    """A policy over a buffer. answers, tags: of the task's shape. base: whether the base network is trained first."""
    held = BufferPicture(
        "buffer",
        "What the buffer held",
        "Which lines of the first test episode the buffer held at each step, before the step's own line.",
        ("buffer",),
    )
    phases = (Phase("base", "base network"),) if base else ()
    guessing = {"accuracy": 1 / answers, "answer_loss": math.log(answers)}
    return Report(ERROR.name, (ERROR, ACCURACY), (*tag_panels(tags), held), guessing=guessing, phases=phases)


def maze(tags: Mapping[str, Sequence[str]]) -> Report:
    """Agents in mazes. tags: of the task's shape."""
    success = Column("success %", ("accuracy",), "percent", "higher")
    walk = WalkPicture(
        "walk",
        "What the agent saw and held",
        "Of two test episodes the one in which a view was held longest. Under the maze, at a few steps, what the agent "
        "saw (it stands below, looking up), and the views that it held: of which step, how much each was read, and "
        "with what probability it stayed.",
        ("maze",),
    )
    meaning = "Success: episodes that end at the right exit."
    return Report(success.name, (success,), (*tag_panels(tags, "percent"), walk), meaning, guessing={"accuracy": 0.5})
