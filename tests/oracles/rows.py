"""Memories whose rows are segments or parts of them, row by row: what is kept of them, and MemN2N's (1503.08895)."""

import numpy as np


def newest_rows(rows, mask, size):
    kept = [row for row, real in zip(rows, mask, strict=True) if real]
    kept = kept[max(0, len(kept) - size) :]
    found, filled = np.zeros((size, rows.shape[1])), np.zeros(size, bool)
    for i, row in enumerate(reversed(kept)):
        found[size - 1 - i], filled[size - 1 - i] = row, True
    return found, filled


def preceding_rows(segments, mask, before, before_mask):
    """Before each segment, and before what comes after the last: the newest of all real rows so far."""
    found = []
    for t in range(len(segments) + 1):
        rows = np.concatenate([before, *segments[:t]])
        found.append(newest_rows(rows, np.concatenate([before_mask, *mask[:t]]), len(before)))
    return tuple(np.stack(part) for part in zip(*found, strict=True))


def position_encoding(count, width):
    """`l[j, k]` for words j of `count` and coordinates k of `width`, both from 1."""
    weights = np.zeros((count, width))
    for j in range(1, count + 1):
        for k in range(1, width + 1):
            weights[j - 1, k - 1] = (1 - j / count) - (k / width) * (1 - 2 * j / count)
    return weights


def memn2n(params, segments, mask, size):
    """The whole memory: `(rows, filled, slots)`, newest last."""
    width = segments.shape[2]
    rows = []
    for segment, real in zip(segments, mask, strict=True):
        words = segment[real] @ params["project"]["kernel"]
        if len(words):
            rows.append(np.sum(position_encoding(len(words), width) * words, axis=0))
    rows, filled = newest_rows(np.array(rows).reshape(-1, width), np.ones(len(rows), bool), size)
    slots = np.zeros_like(rows)
    for age in range(min(size, int(filled.sum()))):
        slots[size - 1 - age] = rows[size - 1 - age] + params["ages"][age]
    return rows, filled, slots
