"""Logs of learners: which problems each student had, in order, of which skill, and which were answered rightly."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from memjax.errors import MemjaxError, require
from memjax.tasks.text import read_member, read_text
from memjax.typing import Int


class LearnerLog(NamedTuple):
    """The students of one file, one after another.

    Attributes:
        problems: numbers of the file.
        skills: numbers of the file; 0 for all where it names none.
        right: 1 for a problem that was solved, else 0.
        begin: where each student's steps begin, and where the last one's end.
    """

    problems: Int[np.ndarray, "steps"]
    skills: Int[np.ndarray, "steps"]
    right: Int[np.ndarray, "steps"]
    begin: Int[np.ndarray, "students+1"]


# What the lines of a student are, in order.
ASSISTMENTS = ("index,student", "problems", "skills", "right")  # as in arghosh/AKT
STATICS = ("count", "problems", "right")  # as in jennyzhang0215/DKVMN


def read_learners(path: Path, lines: tuple[str, ...], member: str | None = None) -> LearnerLog:
    """The students of a file; lines may end with a comma, empty ones are passed over.

    Args:
        path: of the file, which may be packed by gzip; or of an archive.
        lines: what those of a student are.
        member: of the archive.

    Raises:
        MemjaxError: for a file that is missing or damaged, and for a student whose lines do not fit together.
    """
    text, place = (read_text(path), path) if member is None else (read_member(path, member), f"{member} of {path}")
    rows = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    require(rows, f"{place} has no students; one is the lines {', '.join(lines)}")
    require(
        len(rows) % len(lines) == 0,
        f"{place} has {len(rows)} lines, which are not {len(lines)} for each student: {', '.join(lines)}",
    )
    columns: dict[str, list[np.ndarray]] = {name: [] for name in lines}
    for start in range(0, len(rows), len(lines)):
        student = {
            name: _numbers(line, number, place)
            for name, (number, line) in zip(lines, rows[start : start + len(lines)], strict=True)
        }
        first, counts = rows[start][0], {len(student[name]) for name in lines[1:]}
        require(len(counts) == 1, f"{place}: the student on line {first} has not as many {', '.join(lines[1:])}")
        steps = counts.pop()
        require(steps > 0, f"{place}: the student on line {first} has no steps")
        require(
            "count" not in student or student["count"].tolist() == [steps],
            f"{place}: line {first} says other than {steps}, the steps that follow",
        )
        right = student["right"]
        require(((right == 0) | (right == 1)).all(), f"{place}: the student on line {first} has answers beside 0 and 1")
        for name, numbers in student.items():
            columns[name].append(numbers)
    problems, right = (np.concatenate(columns[name]) for name in ("problems", "right"))
    skills = np.concatenate(columns["skills"]) if "skills" in columns else np.zeros_like(problems)
    return LearnerLog(problems, skills, right, np.cumsum([0, *map(len, columns["problems"])]))


def _numbers(line: str, number: int, place: object) -> np.ndarray:
    try:
        return np.array([int(field) for field in line.strip().removesuffix(",").split(",")], np.int64)
    except (ValueError, OverflowError):
        raise MemjaxError(f"line {number} of {place} is {line[:40]!r}, not whole numbers with commas between") from None
