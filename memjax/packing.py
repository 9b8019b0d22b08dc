"""Streams of any lengths as one batch, of few shapes, so that little is compiled."""

from collections.abc import Sequence

import numpy as np

from memjax.errors import MemjaxError, require
from memjax.typing import Any

IDS = np.iinfo(np.int32)


def pack(
    rows: Any, streams: Sequence[Any], segment: int, count: int, width: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Streams of any lengths as one batch of few shapes: `(rows, stream, mask)`, as `write` takes them.

    Args:
        rows: which streams they are.
        streams: for each row its ids, or its vectors, one after another.
        segment: N, how many ids are in a segment.
        count: how many streams there are; rows that fill up the batch get this number, and are not written.
        width: of vectors; None for ids.

    Returns:
        The rows [R'], ids [R', T, N] or vectors [R', T, N, d] and their mask, R' and T powers of two.

    Raises:
        MemjaxError: for another number of streams than rows, and for a stream that is no list of whole numbers of 32
            bits, or of vectors of this width.

    >>> rows, stream, mask = pack([4, 2, 0], [[1, 2, 3], [], [5]], segment=2, count=9)
    >>> rows.tolist(), stream.shape, mask.sum((1, 2)).tolist()
    ([4, 2, 0, 9], (4, 2, 2), [3, 0, 1, 0])
    """
    known = array_of(rows, "rows are numbers")
    listed = _has_items(streams) and all(map(_has_items, streams))
    require(listed, "without a mask, stream is a list of streams, each a list of items")
    require(
        known.ndim == 1 and len(known) == len(streams),
        f"there must be a stream for each row; {len(streams)} streams do not fit rows of shape {list(known.shape)}",
    )
    kinds, axes = ("iu", ()) if width is None else ("iuf", (width,))
    what = "a stream is a list of " + ("whole numbers" if width is None else f"vectors [{width}]")
    empty = np.zeros((0, *axes), np.int32 if width is None else np.float32)
    items = [array_of(stream, what) if len(stream) else empty for stream in streams]
    for each in items:
        fits = each.ndim == 1 + len(axes) and each.shape[1:] == axes and each.dtype.kind in kinds
        require(fits, f"{what}, not {each.dtype}{list(each.shape)}")
        if width is None and each.size:  # what does not fit would be taken for another item
            low, high = each.min(), each.max()
            require(low >= IDS.min and high <= IDS.max, f"a stream has items from {low} to {high}; ids have 32 bits")
    longest = max([1, *(-(-len(each) // segment) for each in items)])
    batch, segments = _power(len(items)), _power(longest)
    stream = np.zeros((batch, segments * segment, *axes), empty.dtype)
    mask = np.zeros(stream.shape[:2], bool)
    for place, each in enumerate(items):
        stream[place, : len(each)], mask[place, : len(each)] = each, True
    shape = batch, segments, segment
    filled = np.concatenate([known.astype(np.int32), np.full(batch - len(known), count, np.int32)])
    return filled, stream.reshape(*shape, *axes), mask.reshape(shape)


def _has_items(stream: Any) -> bool:
    return getattr(stream, "ndim", 0) > 0 or isinstance(stream, Sequence)


def array_of(values: Any, what: str) -> np.ndarray:
    """Numbers that a user gives, as an array.

    Raises:
        MemjaxError: which says what they are to be, for lists of several lengths and for traced ones.
    """
    try:
        return np.asarray(values)
    except ValueError:  # vectors of several widths
        raise MemjaxError(f"{what}, not lists of several lengths") from None
    except TypeError:  # how many there are, a traced program cannot depend on
        raise MemjaxError(f"{what}, not traced ones; inside jit give stream and mask as arrays") from None


def _power(least: int) -> int:
    """The smallest power of two that is at least so much."""
    return 1 << max(0, least - 1).bit_length()
