"""What is shown of a run: what it says itself, or for run folders of older versions what lies in its evaluation."""

import math
from collections.abc import Sequence
from typing import Any

from memjax.reporting.description import (
    ACCURACY,
    ERROR,
    OWN_COLUMNS,
    BufferPicture,
    Column,
    HeatMap,
    Panel,
    Phase,
    Report,
    WalkPicture,
    tag_panels,
)
from memjax.reporting.run_folder import Run, number, pick

STANDARD = ("accuracy", "answer_loss", "loss", "answers", "examples", "independent", "diverged")  # what tests have
PICTURES: dict[str, Panel] = {
    "buffer": BufferPicture("buffer", "What the buffer held", "What the buffer held at each step.", ("buffer",)),
    "maze": WalkPicture("walk", "What the agent saw and held", "A test episode in a maze.", ("maze",)),
    "slot_changes": HeatMap(
        "slots",
        "Which slots were written",
        "How much each segment of the stream changed each slot; every panel has its own scale.",
        ("slot_changes",),
        "segment of the stream",
        "slot",
        "change of the slot",
    ),
}


def report_of(run: Run, others: Sequence[Run] = ()) -> Report:
    """What its evaluation says; if it was not evaluated, what another of its task says; else `default_report`."""
    kin = [other for other in others if run.evaluation is None and run.task and other.task == run.task]
    for each in (run, *kin):
        described = pick(each.evaluation, "report")
        if described is not None:
            return Report.from_json(described)
    return default_report(run.evaluation or {})


def default_report(evaluation: dict[str, Any]) -> Report:
    """Error and accuracy, and whatever tags, numbers and pictures there are."""
    metrics = evaluation.get("metrics")
    named: dict[str, Any] = metrics if isinstance(metrics, dict) else {}
    others = [name for name, value in named.items() if name not in STANDARD and math.isfinite(number(value))]
    columns = [ERROR, ACCURACY]
    for name in others:
        words = name.replace("_", " ")
        if words not in OWN_COLUMNS | {column.name for column in columns}:
            columns.append(Column(words, (name,), "number", "higher"))
    tags = named.get("tags")
    pictures = [panel for key, panel in PICTURES.items() if evaluation.get(key) is not None]
    phases = [name for name, value in evaluation.items() if name != "metrics" and pick(value, "accuracy") is not None]
    guessing = {}
    classes, chance = number(evaluation.get("classes")), number(evaluation.get("chance"))
    if math.isfinite(chance) or classes > 1:
        guessing["accuracy"] = chance if math.isfinite(chance) else 1 / classes
    if classes > 1:
        guessing["answer_loss"] = math.log(classes)
    return Report(
        ACCURACY.name,
        tuple(columns),
        (*(tag_panels(tags) if isinstance(tags, dict) else ()), *pictures),
        guessing=guessing,
        phases=tuple(Phase(name, name, name) for name in phases),
    )
