"""Memories that keep rows: which of them stay."""

import jax.numpy as jnp

from memjax.ops.checked import checked
from memjax.typing import Array, Bool, Float


@checked
def newest_rows(
    rows: Float[Array, "S d"], mask: Bool[Array, "S"], size: int
) -> tuple[Float[Array, "K d"], Bool[Array, "K"]]:
    """The last `size` of the rows that the mask keeps, in their order and without gaps, at the end; zeros before them.

    A FIFO, newest last: `newest_rows(concatenate([fifo, new]), ..)` pushes what is real of the new rows.

    Args:
        rows: S of them, oldest first.
        mask: which of them are real.
        size: K.

    Returns:
        K rows, and which of them are filled.

    Raises:
        MemjaxError: for a size below 1.

    >>> import jax.numpy as jnp
    >>> rows, filled = newest_rows(jnp.array([[1.0], [2.0], [3.0]]), jnp.array([True, False, True]), 4)
    >>> rows[:, 0].tolist(), filled.tolist()
    ([0.0, 0.0, 1.0, 3.0], [False, False, True, True])
    """
    place = size - jnp.cumsum(mask[::-1].astype(jnp.int32))[::-1]
    # A product with zeros and ones: gathers by computed indices have no gradient on a mesh with Explicit axes.
    moved_KxS = mask & (place == jnp.arange(size)[:, None])
    # What has left is cleared, or one infinity would make every row NaN.
    kept = jnp.where((mask & (place >= 0))[:, None], rows, 0)
    return jnp.matmul(moved_KxS.astype(rows.dtype), kept, precision="highest"), moved_KxS.any(1)
