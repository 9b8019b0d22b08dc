"""Items that have parts: a problem, a skill and an outcome; a film, its genres. Each part has a vector of its own."""

import hashlib
from functools import cached_property

import numpy as np

from memjax.errors import require

NONE = -1  # fills the row of an id that has fewer parts than others


class Parts:
    """Of which parts ids consist: the embedding of an id is the sum of those of its parts.

    Two are equal if their tables are, so that a shape that has them can be compared and be static under `jax.jit`.

    Args:
        table: `[ids, P]`, for each id its parts, -1 where it has no more.
        count: parts are in [0, count).

    Raises:
        MemjaxError: for a table that is none, and for a part out of range.

    >>> parts = Parts(np.array([[0, 2], [1, 2], [1, -1]]), 3)
    >>> len(parts), parts.count, parts == Parts(parts.table.copy(), 3)
    (3, 3, True)
    """

    def __init__(self, table: np.ndarray, count: int):
        table = np.asarray(table)
        require(
            table.ndim == 2 and table.size > 0 and np.issubdtype(table.dtype, np.integer),
            f"parts must be whole numbers [ids, P], not {table.dtype}{list(table.shape)}",
        )
        require(
            table.min() >= NONE and table.max() < count and (table >= 0).any(axis=1).all(),
            f"every id needs a part in [0, {count}), and -1 where it has no more; they are from {table.min()} to "
            f"{table.max()}",
        )
        self.table, self.count = table.astype(np.int32), count
        self.table.flags.writeable = False

    def __len__(self) -> int:
        """How many ids there are."""
        return len(self.table)

    @cached_property
    def _digest(self) -> tuple[int, tuple[int, ...], str]:
        return self.count, self.table.shape, hashlib.sha256(self.table.tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parts) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"Parts({len(self)} ids, {self.count} parts)"
