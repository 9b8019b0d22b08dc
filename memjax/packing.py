"""Streams of any lengths as one batch, of few shapes, so that little is compiled."""

from collections.abc import Sequence

import numpy as np

from memjax.errors import require
from memjax.typing import Any


def pack(rows: Any, streams: Sequence[Any], segment: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Streams of any lengths as one batch of few shapes: `(rows, stream, mask)`, as `write` takes them.

    Args:
        rows: which streams they are.
        streams: for each row its ids, one after another.
        segment: N, how many ids are in a segment.
        count: how many streams there are; rows that fill up the batch get this number, and are not written.

    Returns:
        The rows [R'], ids [R', T, N] and their mask, R' and T powers of two.

    Raises:
        MemjaxError: for another number of streams than rows, and for a stream that is no list of whole numbers.

    >>> rows, stream, mask = pack([4, 2, 0], [[1, 2, 3], [], [5]], segment=2, count=9)
    >>> rows.tolist(), stream.shape, mask.sum((1, 2)).tolist()
    ([4, 2, 0, 9], (4, 2, 2), [3, 0, 1, 0])
    """
    known = np.asarray(rows)
    require(
        known.ndim == 1 and len(known) == len(streams),
        f"there must be a stream for each row; {len(streams)} streams do not fit rows of shape {list(known.shape)}",
    )
    ids = [np.asarray(stream) if len(stream) else np.zeros(0, np.int32) for stream in streams]
    for each in ids:
        whole = each.ndim == 1 and np.issubdtype(each.dtype, np.integer)
        require(whole, f"a stream is a list of whole numbers, not {each.dtype}{list(each.shape)}")
    longest = max([1, *(-(-len(each) // segment) for each in ids)])
    batch, segments = _power(len(ids)), _power(longest)
    stream = np.zeros((batch, segments * segment), np.int32)
    mask = np.zeros(stream.shape, bool)
    for place, each in enumerate(ids):
        stream[place, : len(each)], mask[place, : len(each)] = each, True
    shape = batch, segments, segment
    filled = np.concatenate([known, np.full(batch - len(known), count, known.dtype if len(known) else np.int32)])
    return filled, stream.reshape(shape), mask.reshape(shape)


def _power(least: int) -> int:
    """The smallest power of two that is at least so much."""
    return 1 << max(0, least - 1).bit_length()
