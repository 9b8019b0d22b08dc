"""What a task is: its shape, and examples made from (split, index). A task knows nothing of models; NumPy only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from memjax.checks import one_of
from memjax.errors import require
from memjax.tasks.parts import Parts
from memjax.typing import Batch, Examples, Split

AnswerKind = Literal["classes", "candidates", "click"]


@dataclass(frozen=True)
class TaskShape:
    """Everything that a model must know of a task before it sees an example.

    Attributes:
        items: ids of the stream's items are in [0, items); 0 where they are vectors.
        segments: T, of a stream.
        segment: N, the items of a segment.
        queries: ids of the query are in [0, queries).
        query_words: W for a text query (0 is its padding), None where the query is one id.
        answer: "classes" (label in [0, classes), or -1 for an answer that is none of them), "candidates" (label is the
            place among C texts of ids) or "click" (label in {0, 1}; classes is 2).
        classes: how many answers there are.
        tags: for each tag of an example, or of a question on the way, the names of its values, to split metrics by.
        questions: (A, M) of a stream that is asked on the way: how often at most, and how many questions at most each
            time; None for one that is asked once, at its end.
        query_is_item: whether the query is an item, and embedded as those of the stream are; `queries` is then `items`.
        item_width: d of items that are vectors, `[d]` each; None where they are ids.
        item_parts: of which parts the items consist, if they do.
        query_parts: of which of the same parts the queries consist, as a problem does that has no outcome yet.
    """

    items: int
    segments: int
    segment: int
    queries: int
    query_words: int | None
    answer: AnswerKind
    classes: int
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    questions: tuple[int, int] | None = None
    query_is_item: bool = False
    item_width: int | None = None
    item_parts: Parts | None = None
    query_parts: Parts | None = None

    def __post_init__(self):
        one_of(self, get_args(AnswerKind), "answer")
        require(
            not self.query_is_item or (self.queries == self.items and self.query_words is None),
            "a query that is an item is one id among the items: queries must be items, and query_words None",
        )
        require(
            (self.items == 0 and self.item_width >= 1 and not self.query_is_item and self.item_parts is None)
            if self.item_width is not None
            else self.items >= 1,
            "items are ids, of which there is at least one, or vectors: then items is 0, item_width at least 1, and no "
            "query is an item",
        )
        for name, parts, count in (
            ("item_parts", self.item_parts, self.items),
            ("query_parts", self.query_parts, self.queries),
        ):
            require(parts is None or len(parts) == count, f"{name} must have {count} rows, one for each id")
        require(
            self.query_parts is None
            or (
                self.item_parts is not None
                and self.item_parts.count == self.query_parts.count
                and self.query_words is None
                and not self.query_is_item
            ),
            "a query has parts where items have parts, as many; it is then neither an item nor a text",
        )


@runtime_checkable
class Task(Examples, Protocol):
    """A task: fixed shapes, and any batch of examples at once.

    An example batch holds `stream [B, T, N]` int32, or `[B, T, N, d]` float32 where items are vectors, `mask [B, T, N]`
    bool, `query [B]` or `[B, W]` int32, `label [B]` int32, `candidates [B, C, W]` int32 where the answer is one of
    them, with zeros alone where there are fewer, and an int32 `[B]` for each tag.
    Where a stream is asked on the way, there are `after [B, A]` int32, how many segments have been read each time;
    `query` and `label` have the axes A, M behind B, and so has `asked` bool, which questions are no padding; and so
    may have a tag. Candidates are those of all questions of the stream.
    The same (split, index) is always the same example, so that a resumed run sees what it would have seen.

    Attributes:
        shape: of its batches.
        notes: what must be said beside any figure on this task.
    """

    shape: TaskShape


@singledispatch
def check_batch(shape: Any, batch: Batch) -> None:
    """Checks a batch of any task: a model does not, and under `jax.jit` an id out of range is a row of NaN, or of
    another id.

    Args:
        shape: of the task.
        batch: of NumPy arrays.

    Raises:
        MemjaxError: for arrays that are missing or of other shapes, for ids, labels or tags out of range, and for an
            example with nothing in it.
    """
    raise TypeError(f"{type(shape).__name__} is not the shape of a task")


@check_batch.register
def _check(shape: TaskShape, batch: Batch) -> None:
    candidates = ("candidates",) if shape.answer == "candidates" else ()
    way = () if shape.questions is None else ("asked", "after")
    require_fields(batch, "stream", "mask", "query", "label", *way, *candidates, *shape.tags)
    stream, mask = batch["stream"], batch["mask"]
    require(len(stream) > 0, "a batch needs at least one example")
    segments = (len(stream), shape.segments, shape.segment)
    vector = () if shape.item_width is None else (shape.item_width,)
    of_vectors = f", vectors [{shape.item_width}]" if vector else ""
    require(
        stream.shape == (*segments, *vector) and mask.shape == segments,
        f"stream and mask must be [B, {shape.segments}, {shape.segment}]{of_vectors}, as the task's shape says, not "
        f"{list(stream.shape)} and {list(mask.shape)}",
    )
    require(mask.dtype == bool, f"the mask must be of true and false, not {mask.dtype}")
    each = ("B", "A", "M") if way else ("B",)
    words = () if shape.query_words is None else (shape.query_words,)
    axes = {"query": (*each, *words), "label": each}
    axes |= {tag: each if batch[tag].ndim > 1 else ("B",) for tag in shape.tags}
    if way:
        axes = {"asked": each, "after": ("B", "A")} | axes
    sizes = {"B": len(stream)} | (dict(zip("AM", batch["asked"].shape[1:])) if way else {})
    for name, named in axes.items():
        found, wanted = batch[name].shape, tuple(sizes.get(axis, axis) for axis in named)
        require(found == wanted, f"{name} must be [{', '.join(map(str, named))}], not {list(found)}")
    require(mask.any(axis=(1, 2)).all(), "a stream is empty: every example needs at least one item")
    if vector:
        require(np.issubdtype(stream.dtype, np.floating), f"vectors of a stream must be floats, not {stream.dtype}")
        require(np.isfinite(stream[mask]).all(), "the stream has vectors with numbers that are not finite")
    else:
        check_ids("the stream has item ids", stream[mask], 0, shape.items)
    query, label = _check_asked(shape, batch) if way else (batch["query"], batch["label"])
    check_ids("the query has ids", query, 0, shape.queries)
    answers = batch["candidates"].shape[1] if "candidates" in batch else shape.classes
    check_ids("the labels are", label, -1 if shape.answer == "classes" else 0, answers)
    if "candidates" in batch:
        check_ids("the candidates have ids", batch["candidates"], 0, shape.queries)
        real = (batch["candidates"] != 0).any(axis=-1)
        chosen = np.take_along_axis(real, batch["label"].reshape(len(stream), -1), axis=1)
        asked = batch["asked"].reshape(chosen.shape) if way else np.ones_like(chosen)
        require(chosen[asked].all(), "a label is the place of an empty candidate")
    check_tags(batch, shape.tags)


def _check_asked(shape: TaskShape, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Queries and labels of the questions that are no padding. Raises `MemjaxError` for questions that cannot be."""
    asked = batch["asked"]
    require(asked.dtype == bool, f"asked must be of true and false, not {asked.dtype}")
    for found, most, what in zip(asked.shape[1:], shape.questions or (), ("times", "questions each time")):
        require(found <= most, f"a stream has {found} {what}; the task's shape says at most {most}")
    require(asked.any(axis=(1, 2)).all(), "a stream is not asked: every example needs at least one question")
    check_ids("questions come after segments", batch["after"][asked.any(axis=2)], 0, shape.segments + 1)
    return batch["query"][asked], batch["label"][asked]


def require_fields(batch: Batch, *names: str) -> None:
    """Raises `MemjaxError` unless a batch has these arrays, with one row for each example."""
    lacking = [name for name in names if name not in batch]
    require(not lacking, f"a batch lacks {', '.join(lacking)}; it has {', '.join(sorted(batch))}")
    others = [name for name in names if not isinstance(batch[name], np.ndarray)]
    require(not others, f"{', '.join(others)} of a batch must be NumPy arrays")


def check_indices(indices: np.ndarray, size: int, split: Split) -> np.ndarray:
    """The indices as int64. Raises `MemjaxError` for none, and for one that the split does not have."""
    indices = np.asarray(indices, np.int64)
    require(
        indices.size and indices.min() >= 0 and indices.max() < size,
        f"example indices must be in [0, {size}) for the {split} split",
    )
    return indices


def check_tags(batch: Batch, tags: Mapping[str, Sequence[str]]) -> None:
    """Raises `MemjaxError` for a value of a tag that there is not."""
    for tag, values in tags.items():
        check_ids(f"the tag {tag} is", batch[tag], 0, len(values))


def check_ids(what: str, ids: np.ndarray, low: int, end: int) -> None:
    """Checks ids.

    Args:
        what: they are, for errors.
        ids: at least one.
        low: the least that they may be.
        end: what they are below.

    Raises:
        MemjaxError: for ids that are no whole numbers in [low, end).
    """
    require(np.issubdtype(ids.dtype, np.integer), f"{what} of type {ids.dtype}; they must be whole numbers")
    require(
        ids.min() >= low and ids.max() < end,
        f"{what} from {ids.min()} to {ids.max()}; they must be in [{low}, {end})",
    )
