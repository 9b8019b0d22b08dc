"""The closed form of a chunk of surprise memory that forgets each of its rows, a channel of the keys, at its own pace.

What `surprise_chunk` says holds for every channel alone, with a beta, an f and a G of its own. So many G are not made.
Across a border h inside the chunk, i < h <= t, that of a channel is a sum of two products,

    G[t, i] = beta_t G[h-1, i] + f_t E[h-1, i] lr_i,    beta and f as of a chunk that begins at h

so that a product of matrices sums `x_t G[t, i] k_i` over the channels, for all t and i on two sides of a border. A
chunk is halved down to single tokens: O(C^2 dk) in all, and O(C dk + C^2) numbers at a time. No factor is negative;
nothing is divided, and no logs are subtracted.
"""

from typing import NamedTuple

import jax.numpy as jnp

from memjax.ops.surprise_chunk import exact, unit_lower_inverse
from memjax.typing import Array, Bool, Float


class Blocks(NamedTuple):
    """n blocks of b tokens in a row: what each makes of (M, S), and what its tokens ask of them and tell them.

    Tokens ask in r ways; `product[t, i]` is what token t asks of the gradient that token i has told, both in one block.

    Attributes:
        keep: of M in M after the block.
        moved: of S in M after the block.
        passed: of S in S after the block.
        of_memory: what is asked, as it reaches M before the block.
        of_momentum: what is asked, as it reaches S before the block.
        in_memory: the keys by which gradients have come into M after the block.
        in_momentum: the keys by which they have come into S after it.
        product: of what is asked and what is told inside the block.
    """

    keep: Float[Array, "n dk"]
    moved: Float[Array, "n dk"]
    passed: Float[Array, "n 1"]
    of_memory: Float[Array, "n r b dk"]
    of_momentum: Float[Array, "n r b dk"]
    in_memory: Float[Array, "n b dk"]
    in_momentum: Float[Array, "n b dk"]
    product: Float[Array, "n r b b"]


def single_tokens(
    q: Float[Array, "C dk"],
    k: Float[Array, "C dk"],
    asked: Float[Array, "C dk"],
    log_keep: Float[Array, "C dk"],
    log_momentum: Float[Array, "C"],
    lr: Float[Array, "C"],
    mask: Bool[Array, "C"],
) -> Blocks:
    """A block for each token, and for each of padding behind them, which makes their number a power of 2.

    Of the memory after a token asks its q, of the memory before it `asked`.
    """
    more = (1 << (len(k) - 1).bit_length()) - len(k)
    q, k, asked, log_keep = (jnp.pad(x, ((0, more), (0, 0))) for x in (q, k, asked, log_keep))
    log_momentum, lr, mask = (jnp.pad(x, (0, more))[:, None] for x in (log_momentum, lr, mask))
    keep, passed = jnp.where(mask, jnp.exp(log_keep), 1), jnp.where(mask, jnp.exp(log_momentum), 1)
    moved = jnp.where(mask, passed, 0)  # padding leaves both as they were
    told = jnp.where(mask, lr, 0) * k
    own = (q * told).sum(1)

    def but_not_before(x: Array) -> Array:
        """For the first of the two ways to ask x, for the other 0."""
        return jnp.pad(x[:, None], ((0, 0), (0, 1), (0, 0)))

    return Blocks(
        keep=keep,
        moved=jnp.broadcast_to(moved, keep.shape),
        passed=passed,
        of_memory=jnp.stack([q * keep, asked], axis=1)[:, :, None],
        of_momentum=but_not_before(q * moved)[:, :, None],
        in_memory=told[:, None],
        in_momentum=told[:, None],
        product=but_not_before(own[:, None])[:, :, None],
    )


def joined(blocks: Blocks) -> Blocks:
    """Each block and the next one, as the block that they are together."""
    first, second = (Blocks(*(x[half::2] for x in blocks)) for half in (0, 1))

    def by_token(x: Array) -> Array:
        return x[:, None]

    def by_question(x: Array) -> Array:
        return x[:, None, None]

    n, ways, size, width = second.of_memory.shape
    asking = jnp.concatenate([second.of_memory, second.of_momentum], axis=-1).reshape(n, ways * size, 2 * width)
    told = jnp.concatenate([first.in_memory, first.in_momentum], axis=-1)
    across = exact(asking, told.swapaxes(1, 2)).reshape(n, ways, size, size)
    rows = (
        jnp.pad(first.product, ((0, 0), (0, 0), (0, 0), (0, size))),
        jnp.concatenate([across, second.product], axis=-1),
    )
    # What is asked of a state before the second block is asked of what the first has made of one before it, and what
    # the first has told its state is there after the second as far as that keeps it.
    of_momentum = second.of_memory * by_question(first.moved) + second.of_momentum * by_question(first.passed)
    in_memory = by_token(second.keep) * first.in_memory + by_token(second.moved) * first.in_momentum
    return Blocks(
        keep=second.keep * first.keep,
        moved=second.keep * first.moved + second.moved * first.passed,
        passed=second.passed * first.passed,
        of_memory=jnp.concatenate([first.of_memory, second.of_memory * by_question(first.keep)], axis=2),
        of_momentum=jnp.concatenate([first.of_momentum, of_momentum], axis=2),
        in_memory=jnp.concatenate([in_memory, second.in_memory], axis=1),
        in_momentum=jnp.concatenate([by_token(second.passed) * first.in_momentum, second.in_momentum], axis=1),
        product=jnp.concatenate(rows, axis=2),
    )


def closed_form(
    deltas: Float[Array, "C dv"] | None,
    memory: Float[Array, "dk dv"],
    momentum: Float[Array, "dk dv"],
    q: Float[Array, "C dk"],
    k: Float[Array, "C dk"],
    v: Float[Array, "C dv"],
    asked: Float[Array, "C dk"],
    log_keep: Float[Array, "C dk"],
    log_momentum: Float[Array, "C"],
    lr: Float[Array, "C"],
    mask: Bool[Array, "C"],
) -> tuple[tuple[Float[Array, "dk dv"], Float[Array, "dk dv"]], Float[Array, "C dv"]]:
    """The state after a chunk, and what its tokens read.

    Args:
        deltas: the gradients of the tokens' losses by what the memory says; None where they are those of `1/2 |asked_t
            M_{t-1} - v_t|^2`.
        memory: M before the chunk.
        momentum: S before it.
        q: what tokens read with.
        k: where they write.
        v: what they write.
        asked: k as it asks the memory before its token.
        log_keep: by channel.
        log_momentum: the log of `momentum`.
        lr: the rates.
        mask: which tokens are no padding.
    """
    blocks = single_tokens(q, k, asked, log_keep, log_momentum, lr, mask)
    while len(blocks.keep) > 1:
        blocks = joined(blocks)
    whole, length, width = Blocks(*(x[0] for x in blocks)), len(k), k.shape[1]

    asking = jnp.concatenate([whole.of_memory[:, :length], whole.of_momentum[:, :length]], axis=-1)
    of_start = exact(asking.reshape(-1, 2 * width), jnp.concatenate([memory, momentum]))
    product = whole.product[:, :length, :length]
    if deltas is None:
        deltas = exact(unit_lower_inverse(product[1]), of_start[length:] - v)
    out = of_start[:length] - exact(product[0], deltas)

    told = jnp.concatenate([whole.in_memory[:length], whole.in_momentum[:length]], axis=1)
    by_gradients = exact(told.T, deltas)
    memory = whole.keep[:, None] * memory + whole.moved[:, None] * momentum - by_gradients[:width]
    return (memory, whole.passed * momentum - by_gradients[width:]), out
