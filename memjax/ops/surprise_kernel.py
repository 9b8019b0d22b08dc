"""A chunk of linear surprise memory as one kernel (Pallas), forward and backward, for TPUs and GPUs.

The closed form of `surprise_chunk` makes several matrices of C x C for each chunk. XLA writes most of them to the
accelerator's memory; a kernel keeps them beside the units that multiply. It reads the tokens and the state, writes what
was read and the next state; backwards it computes the chunk again. Inside there are only products of matrices, sums and
comparisons of places, which Mosaic (TPU) and Triton (GPU) both have: no slices, no cumulative sums.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas

from memjax.typing import Array, Bool, Float

Matrix = Array  # of any size
Row = Array  # [1, C]
SMALLEST = 16  # of what Triton multiplies
# exp of it is 0 in float32 and in float64, and sums of it are finite: -inf times 0 would be NaN.
CLOSED = -1e5


def kernel_chunk(
    anchor: Float[Array, "dk dv"] | None,
    memory: Float[Array, "dk dv"],
    momentum: Float[Array, "dk dv"],
    q: Float[Array, "C dk"],
    k: Float[Array, "C dk"],
    v: Float[Array, "C dv"],
    log_keep: Float[Array, "C"],
    log_momentum: Float[Array, "C"],
    lr: Float[Array, "C"],
    at: Float[Array, "C"],
    mask: Bool[Array, "C"],
    *,
    slope: Callable[[Array], Array],
) -> tuple[tuple[Float[Array, "dk dv"], Float[Array, "dk dv"]], Float[Array, "C dv"]]:
    """The state after a chunk, and what its tokens read; on a CPU it is interpreted.

    Triton wants sizes that are powers of two, its products at least 16: chunk and widths are filled up. It has one
    gradient, and no gradient of that.

    Args:
        anchor: where gradients are taken; None: at the memory before each token.
        memory: at the chunk's start.
        momentum: there.
        q: what each token reads with.
        k: where it writes.
        v: what it writes.
        log_keep: of forgetting.
        log_momentum: of past surprise.
        lr: of the write.
        at: by what a memory is multiplied before its gradient is taken.
        mask: which tokens write.
        slope: the gradient of the loss of a residual.
    """
    size, dk, dv = len(k), *memory.shape
    anchors = () if anchor is None else (_filled_up(anchor),)
    matrices = (_filled_up(x) for x in (memory, momentum, q, k, v))
    gates = (_filled_up(gate[None], rows=1) for gate in (log_keep, log_momentum, lr, at))
    written = _filled_up(mask.astype(k.dtype)[None], rows=1)
    end, surprise, out = _chunk(slope, (*matrices, *gates, *anchors), written)
    return (end[:dk, :dv], surprise[:dk, :dv]), out[:size, :dv]


def _filled_up(x: Matrix, rows: int = SMALLEST) -> Matrix:
    """With zeros, to powers of two; a token of zeros whose mask is 0 leaves the state as it was."""
    sizes = zip(x.shape, (rows, SMALLEST), strict=True)
    return jnp.pad(x, [(0, max(least, 1 << (size - 1).bit_length()) - size) for size, least in sizes])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _chunk(slope: Callable, inputs: tuple[Matrix, ...], written: Row) -> tuple[Matrix, ...]:
    memory, v = inputs[0], inputs[4]

    def kernel(*refs):
        *given, end, surprise, out = refs
        *given, written = (ref[...] for ref in given)
        end[...], surprise[...], out[...] = _closed_form(slope, unit_inverse, written, *given)

    return _call(kernel, (*inputs, written), (memory, memory, v))


def _forward(slope: Callable, inputs: tuple[Matrix, ...], written: Row) -> tuple[Any, Any]:
    return _chunk(slope, inputs, written), (inputs, written)


def _backward(slope: Callable, kept: tuple[tuple[Matrix, ...], Row], cotangents: tuple[Matrix, ...]) -> Any:
    inputs, written = kept
    count = len(inputs)

    def kernel(*refs):
        values = [ref[...] for ref in refs[:-count]]
        given, written, cotangents = values[:count], values[count], values[count + 1 :]
        _, back = jax.vjp(partial(_closed_form, slope, _inverse, written), *given)
        for ref, gradient in zip(refs[-count:], back(tuple(cotangents)), strict=True):
            ref[...] = gradient

    return _call(kernel, (*inputs, written, *cotangents), inputs), jnp.zeros_like(written)


_chunk.defvjp(_forward, _backward)


def _call(kernel: Callable[..., None], inputs: Sequence[Matrix], like: Sequence[Matrix]) -> tuple[Matrix, ...]:
    """The kernel over whole matrices, one program for each example and head, its outputs shaped as `like`."""
    from jax.experimental.pallas import triton  # here, for it takes a quarter as long as JAX to import

    shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in like)

    def on(**options: Any) -> Callable[..., tuple[Matrix, ...]]:
        return lambda *inputs: pallas.pallas_call(kernel, out_shape=shapes, **options)(*inputs)

    on_gpu = on(compiler_params=triton.CompilerParams(num_warps=4, num_stages=1))
    return jax.lax.platform_dependent(*inputs, cpu=on(interpret=True), tpu=on(), cuda=on_gpu, rocm=on_gpu)


def _closed_form(
    slope: Callable,
    inverse: Callable[[Matrix], Matrix],
    written: Row,
    memory: Matrix,
    momentum: Matrix,
    q: Matrix,
    k: Matrix,
    v: Matrix,
    log_keep: Row,
    log_momentum: Row,
    lr: Row,
    at: Row,
    anchor: Matrix | None = None,
) -> tuple[Matrix, Matrix, Matrix]:
    """The equations of `surprise_chunk`, A and E from sums of logs; columns [C, 1] and rows [1, C] are vectors."""
    size = k.shape[0]
    token, other = (jax.lax.broadcasted_iota(jnp.int32, (size, size), axis) for axis in (0, 1))
    place = jax.lax.broadcasted_iota(jnp.int32, (size, 1), 0)
    upto, same, previous = other <= token, other == token, other == token - 1
    log_keep, log_momentum = (jnp.where(written > 0, jnp.maximum(log, CLOSED), 0) for log in (log_keep, log_momentum))
    lr = jnp.where(written > 0, lr, 0)

    def column(row):
        return jnp.where(same, row, 0).sum(1, keepdims=True)

    def row(column):
        return jnp.where(same, column, 0).sum(0, keepdims=True)

    def last(of_tokens):
        return jnp.where(place == size - 1, of_tokens, 0).sum(0, keepdims=True)

    def windows(log):
        """Exp of the sum of log over other < i <= token; a difference of sums would lose all behind a closed gate."""
        terms = jnp.where(upto & ~same, column(log), 0)
        return jnp.where(upto, jnp.exp(_dot(upto.astype(log.dtype), terms)), 0)

    keep, along = windows(log_keep), windows(log_momentum)
    from_start = jnp.exp(jnp.where(upto, log_momentum, 0).sum(1, keepdims=True))
    beta = jnp.exp(jnp.where(upto, log_keep, 0).sum(1, keepdims=True))
    f = (keep * written * row(from_start)).sum(1, keepdims=True)
    weight = _dot(keep * written, along) * lr

    if anchor is None:
        at = column(at)
        beta_before = jnp.exp(jnp.where(upto & ~same, log_keep, 0).sum(1, keepdims=True))
        f_before = jnp.where(previous, row(f), 0).sum(1, keepdims=True)
        coupling = at * _dot(previous.astype(weight.dtype), weight) * _dot(k, k, 1, 1)
        start = at * (beta_before * _dot(k, memory) + f_before * _dot(k, momentum))
        deltas = _dot(inverse(coupling), start - v)
    else:
        deltas = slope(column(at) * _dot(k, anchor) - v)

    out = beta * _dot(q, memory) + f * _dot(q, momentum) - _dot(weight * _dot(q, k, 1, 1), deltas)
    end_weight, end_lr = column(last(weight)), column(last(along) * lr)
    end = last(beta) * memory + last(f) * momentum - _dot(end_weight * k, deltas, 0, 0)
    surprise = last(from_start) * momentum - _dot(end_lr * k, deltas, 0, 0)
    return end, surprise, out


def unit_inverse(strict: Matrix) -> Matrix:
    """`(I + strict)^-1` by blocks of 1, 2, 4, ...: stable as halves are, where a series of powers is not."""
    size, dtype = strict.shape[0], strict.dtype
    token, other = (jax.lax.broadcasted_iota(jnp.int32, strict.shape, axis) for axis in (0, 1))
    inverse, bits = (token == other).astype(dtype), 0
    while 1 << bits < size:
        corner = ((token >> (bits + 1)) == (other >> (bits + 1))) & ((token >> bits) > (other >> bits))
        inverse = inverse - _dot(inverse, _dot(jnp.where(corner, strict, 0), inverse))
        bits += 1
    return inverse


def _inverse_forward(strict: Matrix) -> tuple[Matrix, Matrix]:
    inverse = unit_inverse(strict)
    return inverse, inverse


def _inverse_backward(inverse: Matrix, cotangent: Matrix) -> tuple[Matrix]:
    token, other = (jax.lax.broadcasted_iota(jnp.int32, inverse.shape, axis) for axis in (0, 1))
    return (jnp.where(other < token, -_dot(inverse, _dot(cotangent, inverse, 1, 1), 0, 0), 0),)


# Apart from the function itself, because Triton knows no function with a gradient of its own.
_inverse = jax.custom_vjp(unit_inverse)
_inverse.defvjp(_inverse_forward, _inverse_backward)


def _dot(a: Matrix, b: Matrix, of_a: int = 1, of_b: int = 0) -> Matrix:
    """The product over axis `of_a` of a and `of_b` of b, in full precision."""
    axes = (((of_a,), (of_b,)), ((), ()))
    return jax.lax.dot_general(a, b, axes, precision=jax.lax.Precision.HIGHEST, preferred_element_type=a.dtype)
