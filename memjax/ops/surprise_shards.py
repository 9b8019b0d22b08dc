"""Linear surprise memory over a stream that is split between devices: every shard is an affine map of the state."""

from typing import Literal

import jax
import jax.numpy as jnp

from memjax.errors import MemjaxError, require
from memjax.ops.checked import checked
from memjax.ops.recurrence import carry_like
from memjax.ops.surprise import Impl, surprise_linear
from memjax.ops.surprise_chunk import exact
from memjax.ops.surprise_state import ChannelGate, Gate, SurpriseState, check_state, known_within, state_dtype
from memjax.typing import Array, Bool, Float


@checked
def surprise_linear_sharded(
    q: Float[Array, "L dk"],
    k: Float[Array, "L dk"],
    v: Float[Array, "L dv"],
    log_keep: ChannelGate,
    log_momentum: Gate,
    lr: Gate,
    state: SurpriseState | None = None,
    *,
    axis_name: str,
    mask: Bool[Array, "L"] | None = None,
    gradient_at: Literal["token", "chunk"] = "token",
    decay_before_gradient: bool = False,
    chunk_size: int = 64,
    impl: Impl = "closed_form",
) -> tuple[Float[Array, "L dv"], SurpriseState]:
    """`surprise_linear` of one stream in shards, for use inside `jax.shard_map`: on each device, the next L tokens.

    What tokens do to `[M; S]` is affine, `[M; S]' = T [M; S] + B`. T acts on keys alone: it is what becomes of the
    identity [2 dk, 2 dk] when no value is told. Every device computes T and B of its own shard without waiting for
    another, in one pass with 2 dk columns beside the dv of v; the T and B of all are gathered, `2 dk (2 dk + dv)`
    numbers a device whatever L, and every device walks over those before its own. Source: the chunk's closed form in
    Titans (2501.00663), Eq. 9 to 15; the composition is ours.

    Against the whole stream on one device, each of P does (1 + 2 dk / dv) / P of the columns' work: less from P > 1 + 2
    dk / dv on; `benchmarks/bench_surprise_shards.py` counts and measures it. Where heads or dv can be split, split
    those: no column of a memory sees another.

    Args:
        q: as of `surprise_linear`, and so is all that is not said here; of the next L tokens.
        k: where each token writes.
        v: what it writes there.
        log_keep: the log of `keep`.
        log_momentum: the log of `momentum`.
        lr: at least 0.
        state: before the first shard, the same on all devices.
        axis_name: of the mesh, or of a `vmap`; shards lie along it in order.
        mask: which tokens are no padding.
        gradient_at: "token" or "chunk".
        decay_before_gradient: the gradient at `keep_t M_{t-1}`.
        chunk_size: with gradient_at="chunk" it must divide L: no chunk may straddle two shards.
        impl: how; not "pallas", whose kernels are for one device.

    Returns:
        What the tokens of this shard read; and the state after the last shard, the same on all devices: its `out_specs`
        is `jax.P()`.

    Raises:
        MemjaxError: for what does not fit, for a shard that ends inside a chunk, and outside of an axis of that name.

    >>> import jax, jax.numpy as jnp
    >>> mesh = jax.make_mesh((1,), ("seq",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> key, value, gates = jnp.array([[1.0, 0.0]]), jnp.array([[3.0]]), jnp.zeros(1)
    >>> def read(*tokens):
    ...     return surprise_linear_sharded(*tokens, axis_name="seq")
    >>> read = jax.shard_map(read, mesh=mesh, in_specs=jax.P("seq"), out_specs=(jax.P("seq"), jax.P()))
    >>> out, state = read(key, key, value, gates, gates, jnp.ones(1))
    >>> out.tolist(), state.memory.tolist()
    ([[3.0]], [[3.0], [0.0]])
    """
    (length, dk), dv = k.shape, v.shape[1]
    anchored = gradient_at == "chunk"
    require(impl != "pallas", "surprise_linear_sharded: impl='pallas' is for one device; take impl='closed_form'")
    require(
        not anchored or length % chunk_size == 0,
        f"surprise_linear_sharded: a shard of {length} tokens ends inside a chunk of {chunk_size}, at whose start "
        "gradients are taken; pad the stream with masked tokens until chunk_size divides every shard",
    )
    try:
        place = jax.lax.axis_index(axis_name)
    except NameError:
        raise MemjaxError(
            f"surprise_linear_sharded: there is no axis {axis_name!r} here; call it inside jax.shard_map over that axis"
        ) from None
    dtype = state_dtype(q, k, v, state)
    nothing = jnp.zeros((dk, dv), dtype)
    state = state or SurpriseState(nothing, nothing)
    check_state(state, nothing)
    within = known_within(state)
    require(
        not (anchored and within),
        f"surprise_linear_sharded: this state ends {within} tokens into a chunk, and a shard begins one",
    )
    if not length:
        return v, state

    # Columns of a memory do not see each other: those of an identity that is told nothing become the linear part of
    # this shard's map, those of a zero that is told v its offset. In the state's dtype, or bfloat16 would round them.
    unit = SurpriseState(jnp.eye(dk, 2 * dk + dv, dtype=dtype), jnp.eye(dk, 2 * dk + dv, dk, dtype=dtype))
    told = jnp.pad(v.astype(dtype), ((0, 0), (2 * dk, 0)))
    out, end = surprise_linear(
        *(q, k, told, log_keep, log_momentum, lr, unit),
        mask=mask,
        gradient_at=gradient_at,
        decay_before_gradient=decay_before_gradient,
        chunk_size=chunk_size,
        impl=impl,
    )

    def after(columns: Array, start: Array) -> Array:
        """What a start [M; S] becomes, from what [identity | nothing] becomes."""
        return exact(columns[:, : 2 * dk], start) + columns[:, 2 * dk :]

    own = jnp.concatenate([end.memory, end.momentum])
    maps = jax.lax.all_gather(own, axis_name)
    first = jnp.concatenate([state.memory, state.momentum]).astype(dtype)
    if anchored and within is None:  # not known while it is compiled
        first = jnp.where(state.within == 0, first, jnp.nan)
    _, starts = jax.lax.scan(lambda start, one: (after(one, start), start), carry_like(first, own), maps)
    start = starts[place]
    # A sum with zeros, not the end of the scan: so shard_map knows that it is the same on all devices.
    last = jax.lax.psum(jnp.where(place == len(maps) - 1, after(own, start), 0), axis_name)
    return after(out, start).astype(v.dtype), SurpriseState(last[:dk], last[dk:])
