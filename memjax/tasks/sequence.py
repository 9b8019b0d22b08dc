"""What a sequence task is: tokens one after another, and at some of them the token that should come out."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from memjax.errors import MemjaxError, require
from memjax.tasks.stream_task import Batch, check_batch, check_ids, check_tags, require_fields
from memjax.typing import Examples

NOTHING = -1  # the target of a token at which nothing is asked


@dataclass(frozen=True)
class SequenceShape:
    """Everything that a sequence model must know of a task.

    Attributes:
        vocabulary: token ids are in [0, vocabulary).
        choices: among how many a guess at a token would choose.
        answer: the tokens of an answer, which is right when all of them are.
        asked: the most targets of a sequence, if few are: then logits are made where something is asked alone.
        asked_in_training: the most of an example of the train split, if these are fewer.
        pieces: the most neighbouring examples of the train split that are one text, in pieces, of which the last asks;
            a power of two. A multiple of so many, from a multiple of it on, are whole texts.
        text: what comes out is the next word or character, so that its perplexity means something.
        tags: as those of a `TaskShape`; "a x b" is a pair of others, shown as a map.
    """

    vocabulary: int
    choices: int
    answer: int = 1
    asked: int | None = None
    asked_in_training: int | None = None
    pieces: int = 1
    text: bool = False
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@runtime_checkable
class SequenceTask(Examples, Protocol):
    """A task: any batch of sequences at once.

    A batch holds `tokens [B, L]` int32, `target [B, L]` int32 (`NOTHING`, -1, where nothing is asked) and an int32
    `[B]` for each tag; and `reset [B, L]` bool, if a row has several documents: true at the first token of each, which
    is read as if nothing went before. L is that of the longest of the batch; all examples of the train split have one
    length. The same (split, index) is always the same example.

    Attributes:
        shape: of its batches.
        notes: what must be said beside any figure on this task.
    """

    shape: SequenceShape


@check_batch.register
def _check(shape: SequenceShape, batch: Batch) -> None:
    """Raises `MemjaxError` if a batch has ids or tags out of range, or a sequence of which nothing is asked."""
    require_fields(batch, "tokens", "target", *shape.tags)
    tokens, target = batch["tokens"], batch["target"]
    require(len(tokens) > 0, "a batch needs at least one example")
    require(
        tokens.shape == target.shape and tokens.ndim == 2,
        f"tokens and target must be [B, L], both, not {list(tokens.shape)} and {list(target.shape)}",
    )
    if (reset := batch.get("reset")) is not None:
        require(
            reset.shape == tokens.shape and reset.dtype == bool,
            f"reset must be [B, L] of bool, here {list(tokens.shape)}, not {list(reset.shape)} of {reset.dtype}",
        )
    check_ids("the tokens have ids", tokens, 0, shape.vocabulary)
    check_ids("the targets have ids", target, NOTHING, shape.vocabulary)
    asked = (target != NOTHING).sum(axis=1)
    require(
        asked.all() if shape.pieces == 1 else asked.any(), "nothing is asked of a sequence: every one needs a target"
    )
    require(
        shape.asked is None or asked.max() <= shape.asked,
        f"a sequence has {asked.max()} targets, but asked is {shape.asked}",
    )
    check_tags(batch, shape.tags)


def pairs(names: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """The values of a tag that is a pair of two others, the second one changing fastest.

    >>> pairs(("4", "8"), ("1st", "2nd"))
    ('4 x 1st', '4 x 2nd', '8 x 1st', '8 x 2nd')
    """
    return tuple(f"{name} x {other}" for name in names for other in others)


def powers(most: int) -> list[int]:
    """1, 2, 4, ... up to `most`."""
    return [2**n for n in range(most.bit_length())]


def rising_lengths(text: str, path: str, least: int) -> list[int]:
    """The whole numbers of a setting.

    Args:
        text: the numbers, with commas.
        path: of the setting, for errors.
        least: what the first may be.

    Raises:
        MemjaxError: unless they are whole numbers and rise, from `least` on.

    >>> rising_lengths("20,50", "test_lengths", 1)
    [20, 50]
    """
    try:
        lengths = [int(length) for length in text.split(",")]
    except (AttributeError, ValueError):
        raise MemjaxError(f'{path} must be whole numbers with commas, as in "20,50", not {text!r}') from None
    rising = all(a < b for a, b in itertools.pairwise(lengths))
    require(rising and lengths[0] >= least, f"{path} must rise from {least} on: {text}")
    return lengths


def check_lengths(length: int, times: int, name: str = "longest") -> None:
    """Raises `MemjaxError` unless `times`, of this name, is a power of two, and as many lengths are not too long."""
    require(times & (times - 1) == 0, f"{name} must be a power of two, not {times}")
    most = 2**22
    require(length * times <= most, f"length {length} times {name} {times} must be at most {most}")
