"""Deep surprise memory (Titans): a network, or any function of weights, that learns its tokens chunk by chunk."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp

from memjax.errors import MemjaxError, one_line, require
from memjax.ops import surprise_chunk as chunk
from memjax.ops.checked import checked
from memjax.ops.recurrence import as_column
from memjax.ops.surprise_losses import LOSSES, SLOPES, LossName
from memjax.ops.surprise_recurrence import momentum_recurrence
from memjax.ops.surprise_state import (
    Gate,
    SurpriseState,
    cast,
    check_gates,
    check_state,
    over_anchored_chunks,
    state_dtype,
)
from memjax.typing import Any, Array, Bool, Float, PyTree

GATES = ("log_keep", "log_momentum", "lr")
SURPRISED = 1e-12  # the square of what is wrong with an answer that is as good as right


@checked
def surprise_mlp(
    weights: tuple[Float[Array, "_ _"], ...],
    q: Float[Array, "L dk"],
    k: Float[Array, "L dk"],
    v: Float[Array, "L dv"],
    log_keep: Gate,
    log_momentum: Gate,
    lr: Gate,
    state: SurpriseState | None = None,
    *,
    mask: Bool[Array, "L"] | None = None,
    activation: Callable[[Array], Array],
    output: Callable[[Array], Array] | None = None,
    loss: LossName = "l2",
    normalize_lr: bool = False,
    chunk_size: int = 64,
    impl: Literal["closed_form", "associative", "sequential"] = "closed_form",
) -> tuple[Float[Array, "L dv"], SurpriseState]:
    """`surprise_linear` for a memory of several matrices with an activation between them, gradients taken per chunk.

    `S_t = momentum_t S_{t-1} - lr_t grad 1/2 |M(k_t) - v_t|^2`, the gradient at the weights where the chunk of token t
    began; `M_t = keep_t M_{t-1} + S_t`; `out_t = M_t(q_t)`, exact for every token. Source: Titans (2501.00663), 3.1 and
    3.2. A stream may be cut anywhere.

    Gates, mask and dtypes as in `surprise_linear`.

    Args:
        weights: the memory before the first token, if no state is given; without biases, each `[inputs, outputs]`.
        q: what each token reads with.
        k: what the memory is asked, to be surprised.
        v: what it should say.
        log_keep: the log of `keep`, at most 0.
        log_momentum: the log of `momentum`, at most 0.
        lr: at least 0.
        state: to go on from.
        mask: which tokens are no padding.
        activation: between the matrices.
        output: behind the last one, as a normalisation; of one vector.
        loss: as of `surprise_linear`.
        normalize_lr: `lr_t` is divided by `max(1, |grad_t|^2 / |slope_t|^2)`, where slope is the gradient of the loss
            by what the memory says: normalised least mean squares, for a network. Of a matrix and a key of length 1
            the ratio is 1; that of a deep memory grows with its weights, so that a rate which was stable at its start
            is not later.
        chunk_size: of tokens whose gradients are taken at the same weights.
        impl: "closed_form" reads every token's own weights without ever making them: per layer, from the chunk's inputs
            and deltas; "associative" and "sequential" make them.

    Returns:
        What each token read, and the state after the last one.

    Raises:
        MemjaxError: for shapes, gates or a state that do not fit.

    >>> import jax, jax.numpy as jnp
    >>> weights, key, gates = (jnp.eye(2), jnp.ones((2, 1))), jnp.array([[1.0, 0.0]]), jnp.zeros(1)
    >>> out, _ = surprise_mlp(weights, key, key, jnp.array([[1.0]]), gates, gates, jnp.ones(1), activation=jax.nn.relu)
    >>> out.tolist()
    [[1.0]]
    """
    gates = (log_keep, log_momentum, lr)
    shapes = [list(w.shape) for w in weights]
    fit = shapes and all(a[1] == b[0] for a, b in itertools.pairwise(shapes))
    require(fit, f"surprise_mlp: weights must be matrices that fit each other, not {shapes}")
    ends = (shapes[0][0], shapes[-1][1])
    require(
        ends == (k.shape[1], v.shape[1]),
        f"surprise_mlp: weights go from {ends[0]} to {ends[1]}, keys and values are {k.shape[1]} and {v.shape[1]}",
    )
    output = output or (lambda x: x)
    if impl == "closed_form":
        step = partial(_layers, activation, jax.vmap(output), SLOPES[loss], normalize_lr)
        return _chunked(step, weights, q, k, v, gates, state, mask, chunk_size)

    def apply(weights, x):
        return output(mlp(activation, weights, x))

    def surprise(out, v):
        return LOSSES[loss](out - v)

    step = partial(_unrolled, impl, "token", normalize_lr, apply, surprise)
    return _chunked(step, weights, q, k, v, gates, state, mask, chunk_size)


@checked
def surprise_memory(
    apply: Callable[[PyTree, Float[Array, "dk"]], Float[Array, "dv"]],
    loss: Callable[[Float[Array, "dv"], Float[Array, "dv"]], Float[Array, ""]],
    weights: PyTree[Float[Array, "..."]],
    q: Float[Array, "L dk"],
    k: Float[Array, "L dk"],
    v: Float[Array, "L dv"],
    log_keep: Gate,
    log_momentum: Gate,
    lr: Gate,
    state: SurpriseState | None = None,
    *,
    mask: Bool[Array, "L"] | None = None,
    read: Literal["chunk", "token"] = "chunk",
    chunk_size: int = 64,
    impl: Literal["auto", "closed_form", "associative", "sequential"] = "auto",
) -> tuple[Float[Array, "L dv"], SurpriseState]:
    """Any function of weights as a surprise memory: `apply(weights, x)`, surprised by `loss(apply(weights, k), v)`.

    `S_t = momentum_t S_{t-1} - lr_t grad loss`, the gradient at the weights where the chunk of token t began, and `M_t
    = keep_t M_{t-1} + S_t`. Source: Titans (2501.00663), 3.1 and 3.2.

    Gates, mask and dtypes as in `surprise_linear`.

    Args:
        apply: `apply(weights, x)`, what the memory says to x.
        loss: `loss(output, v)`, a number. Where all tokens may be masked it needs a gradient at `v = 0, k = 0`.
        weights: the memory before the first token, if no state is given.
        q: what each token reads with.
        k: what the memory is asked, to be surprised.
        v: what it should say.
        log_keep: the log of `keep`, at most 0.
        log_momentum: the log of `momentum`, at most 0.
        lr: at least 0.
        state: to go on from.
        mask: which tokens are no padding.
        read: "chunk", outputs from the weights where the chunk began; "token", from `M_t`.
        chunk_size: of tokens whose gradients are taken at the same weights.
        impl: "closed_form", for read="chunk", takes a chunk's end state from two weighted vector-Jacobian products,
            never a gradient per token; "associative" and "sequential" make all `M_t`; "auto" is closed form where there
            is one, else associative.

    Returns:
        What each token read, and the state after the last one.

    Raises:
        MemjaxError: for shapes, gates or a state that do not fit.

    >>> import jax.numpy as jnp
    >>> key, gates = jnp.array([[2.0]]), jnp.zeros(1)
    >>> def apply(weights, x):
    ...     return weights * x
    >>> _, state = surprise_memory(
    ...     apply, lambda out, v: ((out - v) ** 2).sum(), jnp.zeros(1), key, key, key, gates, gates, gates + 0.125
    ... )
    >>> state.memory.tolist()
    [1.0]
    """
    if impl == "auto":
        impl = "closed_form" if read == "chunk" else "associative"
    require(
        (read, impl) != ("token", "closed_form"),
        "surprise_memory: closed_form makes no weights for each token; read='token' needs impl 'associative' or "
        "'sequential'",
    )
    _check_functions(apply, loss, weights, q, k, v)
    gates = (log_keep, log_momentum, lr)
    step = _weighted if impl == "closed_form" else partial(_unrolled, impl, read, False)
    return _chunked(partial(step, apply, loss), weights, q, k, v, gates, state, mask, chunk_size)


def _chunked(step, weights, q, k, v, gates, state, mask, chunk_size):
    check_gates(dict(zip(GATES, gates, strict=True)), mask)
    dtype = state_dtype(q, k, v, weights, state)
    weights = jax.tree.map(lambda w: w.astype(dtype), weights)
    state = state or SurpriseState(weights, jax.tree.map(jnp.zeros_like, weights))
    check_state(state, weights, chunk_size)
    if not k.shape[0]:
        return v, state
    tokens = tuple(x.astype(dtype) for x in (q, k, v, *gates))
    state = cast(state, dtype)
    state, out = over_anchored_chunks(step, state, tokens, mask, chunk_size)
    return out.astype(v.dtype), state


def _check_functions(apply, loss, weights, q, k, v):
    """Raises `MemjaxError` if they do not give a value for a key, and a number for both."""
    key, value = (jax.ShapeDtypeStruct(x.shape[1:], state_dtype(q, k, v)) for x in (k, v))

    def tried(name: str, function: Callable, *args: PyTree) -> Any:
        try:
            return jax.eval_shape(function, *args)
        except Exception as error:  # it is the caller's, and may raise anything
            line = one_line(error)
            raise MemjaxError(f"surprise_memory: {name} fails with {type(error).__name__}: {line}") from error

    out = tried("apply", apply, weights, key)
    require(
        getattr(out, "shape", None) == value.shape,
        f"surprise_memory: apply must give an array of the shape of a value, {list(value.shape)}, not {out}",
    )
    surprise = tried("loss", loss, out, value)
    require(
        getattr(surprise, "shape", None) == () and jnp.issubdtype(surprise.dtype, jnp.floating),
        f"surprise_memory: loss must give a number, not {surprise}",
    )


def mlp(activation: Callable[[Array], Array], weights: Sequence[Array], x: Float[Array, "*L a"]) -> Array:
    """What a deep memory says to x: `activation` between its matrices."""
    for w in weights[:-1]:
        x = activation(chunk.exact(x, w))
    return chunk.exact(x, weights[-1])


def _layers(activation, output, slope, normalize_lr, anchor, state, tokens, mask):
    """A chunk of an MLP: the backward pass of the keys at its start, then the queries through their own weights."""
    weights, momenta = state
    q, k, v, *gates = tokens
    c = chunk.coefficients(*gates, mask)
    inputs, pulls = [k], []
    for w in anchor[:-1]:
        x, pull = jax.vjp(activation, chunk.exact(inputs[-1], w))
        inputs.append(x)
        pulls.append(pull)
    said, pull = jax.vjp(output, chunk.exact(inputs[-1], anchor[-1]))
    slopes = slope(said - v)
    deltas = list(pull(slopes))
    for w, pull in zip(reversed(anchor[1:]), reversed(pulls), strict=True):
        deltas.insert(0, pull(chunk.exact(deltas[0], w.T))[0])
    if normalize_lr:  # the gradient of a matrix is an outer product; for a rate that is divided, deltas are
        ratio = _ratio(sum(_squares(x) * _squares(delta) for x, delta in zip(inputs, deltas, strict=True)), slopes)
        deltas = [delta / ratio[:, None] for delta in deltas]
    x = q
    for layer, (w, s, keys, delta) in enumerate(zip(weights, momenta, inputs, deltas, strict=True)):
        x = chunk.token_read(c, x, w, s, keys, delta)
        x = activation(x) if layer < len(weights) - 1 else x
    ends = [chunk.end_state(c, *layer) for layer in zip(weights, momenta, inputs, deltas, strict=True)]
    return (tuple(w for w, _ in ends), tuple(s for _, s in ends)), output(x)


def _weighted(apply, loss, anchor, state, tokens, mask):
    """A chunk of any memory: its end state from the gradients of the losses' weighted sums."""
    weights, momenta = state
    q, k, v, *gates = tokens
    c = chunk.coefficients(*gates, mask)
    _, pull = jax.vjp(lambda w: jax.vmap(lambda k, v: loss(apply(w, k), v))(k, v), anchor)
    out = jax.vmap(apply, (None, 0))(anchor, q)
    (for_memory,), (for_momentum,) = pull(c.weight[-1]), pull(c.end_weight)
    memory = jax.tree.map(lambda w, s, g: c.beta[-1] * w + c.f[-1] * s - g, weights, momenta, for_memory)
    momentum = jax.tree.map(lambda s, g: c.end_momentum * s - g, momenta, for_momentum)
    return (memory, momentum), out


def _unrolled(impl, read, normalize_lr, apply, loss, anchor, state, tokens, mask):
    """A chunk of any memory, with the weights of every token."""
    weights, momenta = state
    q, k, v, log_keep, log_momentum, lr = tokens

    def gradient(k, v):
        said, pull = jax.vjp(lambda w: apply(w, k), anchor)
        slope = jax.grad(loss)(said, v)
        return pull(slope)[0], slope

    gradients, slopes = jax.vmap(gradient)(k, v)
    if normalize_lr:
        lr = lr / _ratio(sum(_squares(g.reshape(len(k), -1)) for g in jax.tree.leaves(gradients)), slopes)
    leaves, treedef = jax.tree.flatten(weights)
    states = []
    for w, s, g in zip(leaves, jax.tree.leaves(momenta), jax.tree.leaves(gradients), strict=True):
        surprise = -as_column(lr, g) * g
        states.append(momentum_recurrence(log_keep, log_momentum, surprise, (w, s), mask=mask, impl=impl))
    every, all_momenta = (treedef.unflatten([pair[i] for pair in states]) for i in (0, 1))
    out = jax.vmap(apply, (0 if read == "token" else None, 0))(every if read == "token" else anchor, q)
    return jax.tree.map(lambda x: x[-1], (every, all_momenta)), out


def _squares(x: Float[Array, "L d"]) -> Float[Array, "L"]:
    return (x**2).sum(-1)


def _ratio(gradients: Float[Array, "L"], slopes: Float[Array, "L dv"]) -> Float[Array, "L"]:
    """`|grad|^2 / |slope|^2` of each token, at least 1; gradients: their squared lengths."""
    surprised = _squares(slopes)
    # Below, the derivative of the ratio would be of numbers too large for float32; such a token changes nothing.
    told = surprised > SURPRISED
    return jnp.maximum(1, jnp.where(told, gradients / jnp.where(told, surprised, 1), 1))
