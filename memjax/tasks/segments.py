"""Streams of any length as arrays of a few shapes: cut into segments, and filled up with padding."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from memjax.errors import require


def cut(streams: Sequence[Any], segment: int) -> tuple[np.ndarray, np.ndarray]:
    """`(stream, mask)`, `[R, T, N]` each, of R streams of any length; T is a power of two.

    A stream is a list of ids, which is cut into segments, or a list of segments, each a list of ids. Raises
    `MemjaxError` for a segment that is longer than `segment`, and for what is no id.

    >>> stream, mask = cut([[5, 6, 7, 8], [[9], [2, 3]]], segment=3)
    >>> stream.tolist()
    [[[5, 6, 7], [8, 0, 0]], [[9, 0, 0], [2, 3, 0]]]
    >>> mask.sum(2).tolist()
    [[3, 1], [1, 2]]
    """
    listed = [_segments(stream, segment) for stream in streams]
    longest = power_of_two(max((len(segments) for segments in listed), default=0))
    ids, mask = np.zeros((len(listed), longest, segment), np.int32), np.zeros((len(listed), longest, segment), bool)
    for row, segments in enumerate(listed):
        for place, items in enumerate(segments):
            ids[row, place, : len(items)] = items
            mask[row, place, : len(items)] = True
    return ids, mask


def _segments(stream: Any, segment: int) -> list[np.ndarray]:
    nested = isinstance(stream, (list, tuple)) and any(np.ndim(part) for part in stream)
    parts = [_ids(part) for part in stream] if nested else [_ids(stream)]
    for part in parts:
        require(not nested or len(part) <= segment, f"a segment has {len(part)} items, this model's at most {segment}")
    if not nested:
        (whole,) = parts
        parts = [whole[begin : begin + segment] for begin in range(0, len(whole), segment)]
    return parts


def _ids(items: Any) -> np.ndarray:
    try:
        ids = np.asarray(items)
    except ValueError:  # of lists that differ in length
        ids = np.asarray(None)
    require(
        ids.ndim == 1 and (not ids.size or ids.dtype.kind in "iu"),
        f"a stream is a list of ids, whole numbers, or of segments of ids; not {items!r:.80}",
    )
    inside = not ids.size or (ids.min() >= 0 and ids.max() < 2**31)
    require(inside, "ids are at least 0 and below 2^31")
    return ids


def power_of_two(size: int) -> int:
    """The least power of two that is not below a size: 1, 2, 4, .. so that few sizes are compiled."""
    return 1 << max(0, size - 1).bit_length()
