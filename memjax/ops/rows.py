"""Memories that keep rows: which of them stay."""

import jax
import jax.numpy as jnp

from memjax.ops.checked import checked
from memjax.ops.recurrence import carry_like
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


@checked
def preceding_rows(
    segments: Float[Array, "T N d"],
    mask: Bool[Array, "T N"],
    before: Float[Array, "C d"],
    before_mask: Bool[Array, "C"],
) -> tuple[Float[Array, "T+1 C d"], Bool[Array, "T+1 C"]]:
    """For each segment of a stream, the C real rows before it, by `newest_rows`; padding is passed over.

    Only the last C rows of each segment are carried from one to the next: where segments lie on several devices, those
    alone go from device to device.

    Args:
        segments: of the stream.
        mask: which of their rows are real.
        before: what came before the first segment, newest last.
        before_mask: which of it is real.

    Returns:
        The rows before each segment, and behind the last one those before what comes next; and which of them are real.

    >>> import jax.numpy as jnp
    >>> stream = jnp.arange(6.0).reshape(3, 2, 1)
    >>> rows, filled = preceding_rows(stream, jnp.ones((3, 2), bool), jnp.zeros((1, 1)), jnp.zeros(1, bool))
    >>> rows[:, 0, 0].tolist(), filled[:, 0].tolist()
    ([0.0, 1.0, 3.0, 5.0], [False, True, True, True])
    """
    size = before.shape[0]
    tails = jax.vmap(lambda rows, real: newest_rows(rows, real, size))(segments, mask)

    def step(seen, tail):
        both = (jnp.concatenate(pair) for pair in zip(seen, tail, strict=True))
        return newest_rows(*both, size), seen

    start = carry_like(newest_rows(before.astype(segments.dtype), before_mask, size), segments)
    last, seen = jax.lax.scan(step, start, tails)
    return jax.tree.map(lambda rows, row: jnp.concatenate([rows, row[None]]), seen, last)
