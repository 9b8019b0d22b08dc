"""Reads the files of a run folder. What training writes and reporting shows is read by one rule: this one."""

import json
import math
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from memjax.errors import MemjaxError, one_line, require

ADVICE = "restore it from a copy, or delete the run"


@runtime_checkable
class Readable(Protocol):
    """A path, of this machine or in a bucket."""

    def read_bytes(self) -> bytes:
        """All that the file holds."""
        ...


def read_object(path: Readable) -> dict[str, Any]:
    """The JSON object in a file. Raises `MemjaxError` if it is damaged."""
    try:
        value = json.loads(_read(path).decode())
    except (ValueError, RecursionError) as error:
        raise MemjaxError(f"{path} is damaged ({one_line(error)}); {ADVICE}") from None
    require(isinstance(value, dict), f"{path} is damaged (it holds {type(value).__name__}, not an object); {ADVICE}")
    return value


def read_entries(path: Path) -> list[dict[str, Any]]:
    """The entries of a `metrics.jsonl`, each with a phase and a step; [] without the file.

    A crash may leave half a line at the end, which is left out. Raises `MemjaxError` at any other line that is none.
    """
    if not path.is_file():
        return []
    lines = _read(path).split(b"\n")
    entries = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # no line break after it
                break
            raise _damaged(path, number, f"is no JSON ({one_line(error)})") from None
        if not isinstance(entry, dict):
            raise _damaged(path, number, "is no JSON object")
        if not (isinstance(entry.get("phase"), str) and _is_step(entry.get("step"))):
            raise _damaged(path, number, "has no phase or no step")
        entries.append(entry)
    return entries


def _is_step(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _read(path: Readable) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MemjaxError(f"cannot read {path} ({error.strerror}); make it readable, or give another run") from None


def _damaged(path: Path, number: int, reason: str) -> MemjaxError:
    return MemjaxError(f"{path} is damaged: line {number} {reason}; remove the line, or delete the run")
