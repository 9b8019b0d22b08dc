"""What a report shows of stream QA."""

import math
from collections.abc import Collection, Mapping, Sequence

from memjax.reporting.description import (
    ACCURACY,
    ERROR,
    Bars,
    Column,
    HeatMap,
    Lines,
    Number,
    Phase,
    Report,
    SlotsPicture,
    tag_panels,
)

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
COSINES = HeatMap(
    "slot_cosines",
    "How alike the slots are",
    "The mean absolute cosine between what two slots hold, less its mean over the test examples: 1 where they hold the "
    "same.",
    ("slot_cosines",),
    "slot",
    "slot",
    "cosine",
)
RECOLLECTED = Lines(
    "recollected",
    "What can be recollected, by age",
    "The share of a segment's hidden items that the rehearser names first, by how many segments were written after it: "
    "among all items, or, where these are vectors, among those of the stream.",
    ("recollected",),
    "segments written after it",
    "recollected",
    "percent",
)
READ = SlotsPicture(
    "slots_read",
    "Which slots held the answer",
    "Questions of the test. Colours: how far each segment moved each slot, bright for the slot that it moved most; "
    "bars: how much of each slot each hop of the reader read. A frame is around the segments in which the answer is "
    "seen, where the task says so.",
    ("slots_read",),
)
BY_PLACE = {
    "half": "by half of the stream",
    "quarter": "by quarter of the stream",
    "border": "by segments: inside one, or crossing the border of two",
}
OF_SLOTS = (SLOTS, COSINES, RECOLLECTED, READ)
AUC = Column("AUC %", ("auc",), "percent", "higher")
RANKED = (
    Column("popular AUC %", ("auc_popular",), "percent", "higher"),
    Column("HR@10 %", ("hr_10",), "percent", "higher"),
    Column("NDCG@10 %", ("ndcg_10",), "percent", "higher"),
)
MRR = Column("MRR", ("mrr",), "number", "higher")
GUESSED = Column("MRR of a guess", ("mrr_chance",), "number", "higher")
CHOSEN = "Accuracy: how often the right choice is first. "
RECIPROCAL = "MRR: the mean of 1 / rank of the right candidate. A guess: in the mean over all orders of the candidates."
BY_PLACES = " Early and later: by the half of the stream in which the answer lies."
MEANING = "AUC: how often a question with yes scores above one with no."
BY_HALVES = " Early and later: by halves of the streams."
RANKING = (
    "AUC: how often the next item scores above one that the user never touched, drawn uniformly, or by popularity. HR "
    "and NDCG: the next item among all that the user has not touched yet; among all where users touch items again."
)


def stream_qa_report(
    tags: Mapping[str, Sequence[str]],
    classes: int,
    recalled_among: int,
    *,
    sampler: bool = False,
    clicks: bool = False,
    ranked: bool = False,
    candidates: bool = False,
    choices: bool = False,
) -> Report:
    """What a report shows of stream QA: early, later and all where the evidence has a place; the mean error of the
    tasks where several are learned together; AUC where the answers are clicks, MRR where they are candidates, but
    accuracy where these are the choices of one question; error and accuracy otherwise.

    Args:
        tags: of the task's shape.
        classes: of the task's shape.
        recalled_among: how many items a hidden one is told from, with itself.
        sampler: whether a history sampler is trained first.
        clicks: whether the answers are.
        ranked: whether all items are ranked.
        candidates: whether the answers are.
        choices: whether each question has candidates of its own.
    """
    guessing = {
        "accuracy": 1 / classes,
        "answer_loss": math.log(classes),
        "recollection_loss": math.log(recalled_among),
        "familiarity_loss": 2 * math.log(2),
    }
    phases = (SAMPLER,) if sampler else ()
    panels = (*tag_panels(tags), *OF_SLOTS)
    if clicks:
        columns = (AUC, *_by_half(tags, "half", "AUC %", "auc"), *(RANKED if ranked else ()), ACCURACY)
        meaning = (RANKING if ranked else MEANING) + (BY_HALVES if "half" in tags else "")
        return Report(AUC.name, columns, panels, meaning, {"auc": 0.5, **guessing}, phases)
    if candidates:
        del guessing["accuracy"], guessing["answer_loss"]  # streams have more candidates or fewer
        meaning = RECIPROCAL + (BY_PLACES if "place" in tags else "")
        if choices:
            columns = (ACCURACY, *_by_half(tags, "place", "%", "accuracy"), MRR, GUESSED)
            return Report(ACCURACY.name, columns, panels, CHOSEN + meaning, guessing, phases)
        columns = (MRR, GUESSED, *_by_half(tags, "place", "MRR", "mrr", "number"), ACCURACY)
        return Report(MRR.name, columns, panels, meaning, guessing, phases)
    if "half" in tags:
        everything = Column("all %", ("accuracy",), "percent", "higher")
        places = Bars(
            "places",
            "Where the evidence lies",
            "Accuracy by the place of the evidence in the stream, with 95% intervals for the number of examples.",
            {tag: title for tag, title in BY_PLACE.items() if tag in tags},
        )
        others = tag_panels(tag for tag in tags if tag not in places.tags)
        meaning = "Early, later, all: accuracy where the evidence lies in the first half, the second half, anywhere."
        columns = (*_by_half(tags, "half", "%", "accuracy"), everything)
        return Report(everything.name, columns, (*others, places, *OF_SLOTS), meaning, guessing, phases)
    if len(tags.get("task", ())) > 1:
        path = ("tags", "task", "*", "accuracy")
        error = Column("mean error %", path, "error", "lower")
        over = Column("tasks over 5%", path, "error", "lower", 5.0)
        meaning = "Mean error: the mean over the tasks of the error of each."
        return Report(error.name, (error, over), panels, meaning, guessing, phases)
    return Report(ERROR.name, (ERROR, ACCURACY), panels, guessing=guessing, phases=phases)


def _by_half(
    tags: Collection[str], tag: str, words: str, metric: str, number: Number = "percent"
) -> tuple[Column, ...]:
    """(early, later) of a metric; nothing where the task has no such tag."""
    halves = ("early", "later") if tag in tags else ()
    return tuple(Column(f"{half} {words}", ("tags", tag, half, metric), number, "higher") for half in halves)
