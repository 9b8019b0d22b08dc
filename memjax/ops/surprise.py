"""Linear surprise memory (Titans): a matrix that learns, token by token, what its keys should have told it."""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp

from memjax.errors import require
from memjax.ops import surprise_channels as channels
from memjax.ops import surprise_chunk as chunk
from memjax.ops.checked import checked
from memjax.ops.recurrence import as_column, evaluated, tree_where
from memjax.ops.surprise_kernel import kernel_chunk
from memjax.ops.surprise_losses import SLOPES, LossName
from memjax.ops.surprise_recurrence import momentum_recurrence
from memjax.ops.surprise_state import (
    ChannelGate,
    Gate,
    SurpriseState,
    cast,
    check_gates,
    check_state,
    over_anchored_chunks,
    over_chunks,
    over_documents,
    state_dtype,
)
from memjax.typing import Array, Bool, Float

Impl = Literal["auto", "closed_form", "pallas", "associative", "sequential"]
SMALL_KEYS = 32  # numbers of a key up to which a CPU writes token by token sooner than by products of matrices


@checked
def surprise_linear(
    q: Float[Array, "L dk"],
    k: Float[Array, "L dk"],
    v: Float[Array, "L dv"],
    log_keep: ChannelGate,
    log_momentum: Gate,
    lr: Gate,
    state: SurpriseState | None = None,
    *,
    mask: Bool[Array, "L"] | None = None,
    reset: Bool[Array, "L"] | None = None,
    gradient_at: Literal["token", "chunk"] = "token",
    decay_before_gradient: bool = False,
    chunk_size: int = 64,
    loss: LossName = "l2",
    impl: Impl = "auto",
) -> tuple[Float[Array, "L dv"], SurpriseState]:
    """Writes tokens into a matrix by gradient descent with momentum and forgetting, and reads it after each.

    `S_t = momentum_t S_{t-1} - lr_t k_t^T (k_t M_{t-1} - v_t)`, `M_t = keep_t M_{t-1} + S_t`, `out_t = q_t M_t`.
    Source: Titans (2501.00663), Eq. 9 to 15, for the loss `1/2 |k M - v|^2` (lr absorbs the factor 2).

    State and coefficients are in float32 or better, outputs in v's dtype.

    Args:
        q: what each token reads with.
        k: where each token writes; of length 1 at most: with longer keys rates must be smaller, or memory diverges.
        v: what it writes there.
        log_keep: the log of `keep`, at most 0: use `log_sigmoid`, not the log of a sigmoid. A number is that of every
            token, here and for the next two. `[L, dk]`: of each row of the memory, `M_t = diag(keep_t) M_{t-1} + S_t`.
        log_momentum: the log of `momentum`, at most 0.
        lr: at least 0.
        state: to go on from; zeros, if not given.
        mask: which tokens are no padding; the others write nothing and read 0.
        reset: before which tokens the memory becomes empty, as for the first token of each document of several in a
            row; padding resets nothing. With gradient_at="chunk" the chunks of a document are counted from there, which
            takes twice the products. Where one document is not finite, the others of the call are not.
        gradient_at: "token", the recurrence as it stands: chunk_size is then a matter of speed alone. "chunk" takes
            every gradient at the memory where its chunk of `chunk_size` tokens began, as is published for training; it
            is another function for each chunk size, and unstable for large ones unless `lr` is small. Either way a
            stream may be cut anywhere.
        decay_before_gradient: the gradient at `keep_t M_{t-1}`; without momentum (log_momentum -inf), Gated DeltaNet,
            and with `keep_t` by row, Kimi Delta Attention (2510.26692).
        chunk_size: of tokens that are read at once.
        loss: of `r = k_t M - v_t`: "l2", `1/2 |r|^2`; "huber", `1/2 r^2` of numbers within 1 of 0, beyond that linear;
            "l3", `1/3 |r|^3` (Miras, 2504.13173). All but l2 want gradient_at="chunk" or impl="sequential".
        impl: "closed_form" solves a chunk by products of matrices, and stores a state per chunk for the gradient;
            "pallas" does so in one kernel, on a TPU or GPU (one device, or inside a `shard_map` that checks no varying
            axes), and is interpreted on a CPU, for tests; it has a first gradient alone. "associative" scans the affine
            maps of the states, "sequential" goes token by token: both store a state per token. "auto" is the closed
            form; but where no derivative is asked for, a CPU goes token by token if keys have at most 32 numbers and
            gradients are at every token, which takes it less time.

    Returns:
        What each token read, and the state after the last one.

    Raises:
        MemjaxError: for shapes, gates or a state that do not fit.

    >>> import jax.numpy as jnp
    >>> key, value, gates = jnp.array([[1.0, 0.0]]), jnp.array([[3.0]]), jnp.zeros(1)
    >>> out, state = surprise_linear(key, key, value, gates, gates, jnp.ones(1))
    >>> out.tolist(), state.memory.tolist()
    ([[3.0]], [[3.0], [0.0]])
    """
    check_gates({"log_keep": log_keep, "log_momentum": log_momentum, "lr": lr}, mask)
    slope = SLOPES[loss]
    require(
        loss == "l2" or gradient_at == "chunk" or impl == "sequential",
        f"surprise_linear: loss={loss} has no closed form with gradient_at='token'; take gradient_at='chunk' or "
        "impl='sequential'",
    )
    require(
        impl != "pallas" or jnp.ndim(log_keep) < 2,
        "surprise_linear: impl='pallas' has no log_keep for each channel; take impl='closed_form', or log_keep [L]",
    )
    dtype, anchored = state_dtype(q, k, v, state), gradient_at == "chunk"
    start = jnp.zeros((k.shape[1], v.shape[1]), dtype)
    state = state or SurpriseState(start, start)
    check_state(state, start, chunk_size if anchored else None)
    if not k.shape[0]:
        return v, state
    at = jnp.ones_like(lr)  # by what a memory is multiplied before its gradient is taken
    if reset is not None:
        log_keep, log_momentum = (jnp.where(as_column(reset, x), -jnp.inf, x) for x in (log_keep, log_momentum))
        at = jnp.where(reset, 0, at)
    tokens = tuple(x.astype(dtype) for x in (q, k, v, log_keep, log_momentum, lr, at))
    state = cast(state, dtype)

    def step(impl, anchor, state, tokens, mask):
        q, k, v, log_keep, log_momentum, lr, at = tokens
        if decay_before_gradient:  # here, where padding is no NaN any more
            at = as_column(at, log_keep) * jnp.exp(log_keep)
        return _CHUNKS[impl](anchor, *state, q, k, v, log_keep, log_momentum, lr, at, mask, slope=slope)

    def write(impl, state, tokens, mask):
        return over_chunks(partial(step, impl, None), state, tokens, mask, chunk_size)

    by_token = impl == "auto" and k.shape[1] <= SMALL_KEYS and jax.default_backend() == "cpu"
    impl = "closed_form" if impl == "auto" else impl

    def step_of_documents(anchor, state, tokens, mask, fresh):
        *others, at = tokens
        return step(impl, anchor, state, (*others, jnp.where(fresh, 0, at)), mask)

    if not anchored:
        run = evaluated(partial(write, "sequential"), partial(write, impl)) if by_token else partial(write, impl)
        end, out = run((state.memory, state.momentum), tokens, mask)
        state = SurpriseState(*end)
    elif reset is None:
        state, out = over_anchored_chunks(partial(step, impl), state, tokens, mask, chunk_size)
    else:
        state, out = over_documents(step_of_documents, state, tokens, reset, mask, chunk_size)
    return out.astype(v.dtype), state


def _deltas(anchor, k, v, at, slope):
    """Of all tokens at the anchor: the gradient of each token's loss by what the memory says."""
    return slope(_said(at, k, anchor) - v)


def _said(at, k, memory):
    """What a memory says to keys; at: by what it is multiplied before, a number for a token or each of its channels."""
    if at.ndim == k.ndim:
        return chunk.exact(at * k, memory)
    return (at[:, None] if at.ndim else at) * chunk.exact(k, memory)


def _closed_form(anchor, memory, momentum, q, k, v, log_keep, log_momentum, lr, at, mask, *, slope):
    if log_keep.ndim == k.ndim:
        deltas = None if anchor is None else _deltas(anchor, k, v, at, slope)
        asked = as_column(at, k) * k
        return channels.closed_form(deltas, memory, momentum, q, k, v, asked, log_keep, log_momentum, lr, mask)
    c = chunk.coefficients(log_keep, log_momentum, lr, mask)
    if anchor is not None:
        deltas = _deltas(anchor, k, v, at, slope)
    else:
        deltas = chunk.residuals(chunk.before(c, at), k, v, memory, momentum)
    out = chunk.token_read(c, q, memory, momentum, k, deltas)
    return chunk.end_state(c, memory, momentum, k, deltas), out


def _associative(anchor, memory, momentum, q, k, v, log_keep, log_momentum, lr, at, mask, *, slope):
    if anchor is not None:
        deltas = _deltas(anchor, k, v, at, slope)
        surprise = -lr[:, None, None] * k[:, :, None] * deltas[:, None, :]
        memories, momenta = momentum_recurrence(
            log_keep, log_momentum, surprise, (memory, momentum), mask=mask, impl="associative"
        )
    else:
        memories, momenta = _affine_scan(memory, momentum, k, v, jnp.exp(log_keep), jnp.exp(log_momentum), lr, at, mask)
    return (memories[-1], momenta[-1]), jnp.einsum("ca,cab->cb", q, memories, precision="highest")


def _affine_scan(memory, momentum, k, v, keep, eta, lr, at, mask):
    """All states, from the maps `[M; S] -> T_t [M; S] + b_t` composed in O(log C) depth."""
    width = k.shape[1]
    eye = jnp.eye(width, dtype=k.dtype)
    if at.ndim == k.ndim:
        fall = lr[:, None, None] * k[:, :, None] * (at * k)[:, None, :]
    else:
        fall = (lr * at)[:, None, None] * k[:, :, None] * k[:, None, :]
    kept = jnp.concatenate([as_column(keep, fall) * eye - fall, -fall], axis=1)
    moved = jnp.broadcast_to(eta[:, None, None] * eye, fall.shape)
    maps = jnp.concatenate([kept, jnp.concatenate([moved, moved], axis=1)], axis=2)
    maps = jnp.where(mask[:, None, None], maps, jnp.eye(2 * width, dtype=k.dtype))
    told = jnp.where(mask, lr, 0)[:, None, None] * k[:, :, None] * v[:, None, :]
    told = jnp.concatenate([told, told], axis=1)

    def compose(first, second):
        return chunk.exact(second[0], first[0]), chunk.exact(second[0], first[1]) + second[1]

    maps, told = jax.lax.associative_scan(compose, (maps, told))
    states = chunk.exact(maps, jnp.concatenate([memory, momentum])) + told
    return states[:, :width], states[:, width:]


def _sequential(anchor, memory, momentum, q, k, v, log_keep, log_momentum, lr, at, mask, *, slope):
    def step(state, token):
        memory, momentum = state
        q, k, v, keep, eta, lr, at, written = token
        delta = slope(_said(at, k, memory if anchor is None else anchor) - v)
        surprise = eta * momentum - lr * k[:, None] * delta
        new = (keep * memory + surprise, surprise)
        state = tree_where(written, new, state)
        return state, chunk.exact(q, state[0])

    keep = jnp.exp(log_keep)
    keep = keep[:, :, None] if keep.ndim == k.ndim else keep
    return jax.lax.scan(step, (memory, momentum), (q, k, v, keep, jnp.exp(log_momentum), lr, at, mask))


_CHUNKS = {"closed_form": _closed_form, "pallas": kernel_chunk, "associative": _associative, "sequential": _sequential}
