"""Surprise memory (Titans, Behrouz et al. 2025) under the contract: associations, read by learned probes."""

import math
from typing import Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import serialization
from jax.sharding import PartitionSpec

from memjax import ops
from memjax.checks import at_least, check_counts, check_multiple, check_scales, one_of
from memjax.deprecated import old_keyword
from memjax.errors import require
from memjax.memories.deep_surprise import EPSILON, deep_read, deep_start, deep_write, zero_momentum
from memjax.memories.encoders import TransformerEncoder
from memjax.memories.memory import Memory, Slots, check_items, replicate_over_sequence, stream_shards
from memjax.typing import Any, Array, Bool, Float, Key

# So that Flax can write a state as bytes; `ops` know nothing of Flax.
serialization.register_serialization_state(
    ops.SurpriseState,
    lambda state: serialization.to_state_dict(vars(state)),
    lambda state, given: ops.SurpriseState(**serialization.from_state_dict(vars(state), given)),
)

FEWEST_SHARDS = 4  # a shard has three times the columns of the memory (see `ops.surprise_linear_sharded`)


class Tokens(NamedTuple):
    """Items as the memory takes them in, for each of Z heads.

    Attributes:
        keys: of length 1.
        values: what to associate with them.
        log_keep: of the gate that forgets, as of `ops.surprise_linear`.
        log_momentum: of the gate of past surprise.
        lr: the rate of each write.
    """

    keys: Float[Array, "*T N Z dk"]
    values: Float[Array, "*T N Z dk"]
    log_keep: Float[Array, "*T N Z"]
    log_momentum: Float[Array, "*T N Z"]
    lr: Float[Array, "*T N Z"]


@old_keyword("retention", new="time_constant")
class SurpriseMemory(Memory):
    """A segment encoder, then `ops.surprise_linear` item by item, in Z heads of `width // Z`; K learned probes read.

    `k, v = silu(x W)`, `|k| = 1`; `log_keep`, `log_momentum` are log-sigmoids of x and `lr` a sigmoid of it, for each
    item and head: with unit keys a rate below 1 is stable without momentum. With it what an item writes comes to `lr /
    (1 - momentum)`, which `bounded="token"` holds below 1, and the paper does not: a key that comes back once that is
    done does not diverge then; one that comes in runs with pauses may, where momentum is above about 0.7
    (docs/memories/surprise.md). `slot_p = rmsnorm(probe_p M) W_o`.
    Source: Titans (2501.00663), Eq. 9 to 15. The contract and the encoder are ours, and so is how the probes read:
    without the norm, and without forgetting that starts near none (`time_constant`, in items), training stays at chance
    for long.

    The state is an `ops.SurpriseState` of `[Z, width // Z, width // Z]` each, float32 or wider. `momentum=False` and
    `forgetting=False` are the paper's ablations; without momentum the state holds none. A stream is written in closed
    form, chunk by chunk; if its segments are split evenly over the axis "sequence" of a mesh, between 4 devices or
    more, each reads its shard.

    More `memory_layers` than one, or a norm, make deep memories: perceptrons with a learned start, `M(k) = k +
    norm(MLP(k))`, whose gradients are taken where the segment began, with rates of at most `2 (1 - momentum) /
    segment`. Their state holds the weights of all layers; no shard of a stream can be read without those before.

    Args:
        num_slots: K, how many probes read the memory.
        width: of an item and of a slot.
        segment: the most items of a segment.
        layers: of the encoder.
        heads: of its attention.
        memory_heads: Z.
        momentum: False is the paper's ablation.
        forgetting: False is the paper's ablation.
        time_constant: after about how many items the memory forgets, at the start.
        memory_layers: of each memory; more than 1 are a perceptron with silu between its matrices.
        expansion: a deep memory's hidden width, in widths of a head.
        memory_norm: a layer norm behind the memory's last matrix, with a learned scale; such a memory is deep.
        bounded: "write", each write, as printed; or "token", all that is written of an item: with momentum a geometric
            series of writes, which diverges where a key comes again and they sum to more than 2. Writes begin weaker
            then. Of deep memories the token always is.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import SurpriseMemory, memorize
    >>> memory = SurpriseMemory(num_slots=4, width=8, segment=3, layers=1, heads=2)
    >>> params = memory.init(jax.random.key(0), jnp.ones((5, 3, 8)), method=memorize)
    >>> state, _ = memory.apply(params, jnp.ones((5, 3, 8)), method=memorize)
    >>> state.memory.shape, memory.apply(params, state, method="slots").values.shape
    ((1, 8, 8), (4, 8))
    """

    width: int
    segment: int
    layers: int = 3
    heads: int = 4
    memory_heads: int = 1
    momentum: bool = True
    forgetting: bool = True
    time_constant: float = 1000.0
    memory_layers: int = 1
    expansion: int = 2
    memory_norm: bool = False
    bounded: Literal["token", "write"] = "write"
    dtype: Any = jnp.float32

    @property
    def deep(self) -> bool:
        """Whether its memories are more than a matrix each."""
        return self.memory_layers > 1 or self.memory_norm

    def validate(self) -> None:
        at_least(self, 1, "num_slots", "width", "segment", "heads", "memory_heads")
        check_counts(self, 1, "memory_layers", "expansion")
        at_least(self, 0, "layers")
        check_multiple(self, "width", "heads", "memory_heads")
        check_scales(self, "time_constant")
        one_of(self, ("token", "write"), "bounded")

    def setup(self):
        self.validate()
        self.encode_segments = TransformerEncoder(self.width, self.segment, self.layers, self.heads, self.dtype)
        self.key_of = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
        self.value_of = nn.Dense(self.width, use_bias=False, dtype=self.dtype)
        # At least float32: gates are near 1, and many are multiplied.
        self.wide = jnp.promote_types(self.dtype, jnp.float32)
        self.gates = nn.Dense(3 * self.memory_heads, dtype=self.wide)
        per_head = self.width // self.memory_heads
        normal = nn.initializers.normal(1.0)
        self.probes = self.param("probes", normal, (self.num_slots, self.memory_heads, per_head))
        if self.deep:
            self.start = deep_start(self, self.memory_heads, per_head, self.memory_layers, self.expansion)
            shape = (self.memory_heads, per_head)
            self.scale = self.param("scale", nn.initializers.ones, shape) if self.memory_norm else None
        # Declared here and not by a submodule: `init` by `memorize` must make them, though it reads nothing.
        self.read_out = self.param("read_out", nn.initializers.lecun_normal(), (self.width, self.width))

    def initial_state(self) -> ops.SurpriseState:
        state = zero_momentum(self.start) if self.deep else empty_memory(self.memory_heads, self.width)
        return self._held(jax.tree.map(lambda x: x.astype(self.wide), state))

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Tokens:
        check_items(items, self.width)
        x = self.encode_segments(items, mask)
        split = (*x.shape[:-1], self.memory_heads, self.width // self.memory_heads)
        keys, values = (nn.silu(of(x)).astype(self.wide).reshape(split) for of in (self.key_of, self.value_of))
        logits = jnp.split(self.gates(x.astype(self.wide)), 3, axis=-1)
        log_keep, log_momentum, lr = surprise_gates(
            *logits, momentum=self.momentum, forgetting=self.forgetting, time_constant=self.time_constant
        )
        if self.deep or self.bounded == "token":
            lr = -jnp.expm1(log_momentum) * lr
        if self.deep:  # so that one key all through a segment cannot make it diverge
            lr = min(1.0, 2 / self.segment) * lr
        return Tokens(unit(keys), values, log_keep, log_momentum, lr)

    def write(
        self, state: ops.SurpriseState, features: Tokens, mask: Bool[Array, "N"], *, key: Key | None = None
    ) -> tuple[ops.SurpriseState, Float[Array, ""]]:
        return self._held(self._written(self._whole(state), features, mask, len(mask))), jnp.zeros((), jnp.float32)

    def write_stream(
        self, state: ops.SurpriseState, features: Tokens, mask: Bool[Array, "T N"], *, key: Key | None = None
    ) -> tuple[ops.SurpriseState, Float[Array, ""]]:
        require(
            not self.deep or stream_shards() == 1,
            "a deep surprise memory reads no shards of a stream, for its writes are no affine maps of the state; set "
            "config.mesh.sequence=1, or memory_layers=1 without memory_norm",
        )
        in_shards = stream_shards() >= FEWEST_SHARDS and len(mask) % stream_shards() == 0
        features, mask = (features, mask) if in_shards else replicate_over_sequence((features, mask))
        segment = mask.shape[1]
        flat, mask = jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), (features, mask))
        state = self._whole(state)
        if not in_shards:
            return self._held(self._written(state, flat, mask, segment)), jnp.zeros((), jnp.float32)

        def one_head(state, tokens, mask):
            _, state = ops.surprise_linear_sharded(tokens.keys, *tokens, state, mask=mask, axis_name="sequence")
            return state

        parts, whole = PartitionSpec("sequence"), PartitionSpec()
        read = jax.shard_map(
            jax.vmap(one_head, (0, 1, None)),
            in_specs=(whole, parts, parts),
            out_specs=whole,
            axis_names={"sequence"},
            check_vma=False,
        )
        return self._held(read(state, flat, mask)), jnp.zeros((), jnp.float32)

    def slots(self, state: ops.SurpriseState) -> Slots:
        if self.deep:
            read = jax.vmap(deep_read, (0, 0, 1), 1)(state.memory, self.scale, self.probes)
        else:
            read = jnp.einsum("kza,zab->kzb", self.probes, state.memory)
        read = read * jax.lax.rsqrt((read**2).mean(-1, keepdims=True) + EPSILON)
        return Slots(read.reshape(self.num_slots, -1) @ self.read_out, jnp.ones(self.num_slots, bool))

    def _whole(self, state: ops.SurpriseState) -> ops.SurpriseState:
        """With the momentum that it does not hold where there is none."""
        return state if self.momentum else zero_momentum(state.memory)

    def _held(self, state: ops.SurpriseState) -> ops.SurpriseState:
        return state if self.momentum else ops.SurpriseState(state.memory, None)

    def _written(
        self, state: ops.SurpriseState, tokens: Tokens, mask: Bool[Array, "L"], segment: int
    ) -> ops.SurpriseState:
        # Nobody reads in between: the queries are of no account, and XLA drops their answers.
        def linear(state, _, tokens):
            return ops.surprise_linear(tokens.keys, *tokens, state, mask=mask)[1]

        def deep(state, scale, tokens):
            _, state = deep_write(state, scale, tokens.keys, *tokens, mask=mask, chunk=segment)
            return ops.SurpriseState(state.memory, state.momentum)  # a segment is a chunk, and has ended

        return jax.vmap(deep if self.deep else linear, (0, 0, 1))(state, self.scale if self.deep else None, tokens)


def empty_memory(heads: int, width: int) -> ops.SurpriseState:
    """Linear memories that have read nothing, a matrix for each head; width: of all heads together."""
    empty = jnp.zeros((heads, width // heads, width // heads))
    return ops.SurpriseState(empty, empty)


def surprise_gates(
    keep: Float[Array, "..."],
    along: Float[Array, "*axes H"],
    rate: Float[Array, "*axes H"],
    *,
    momentum: bool,
    forgetting: bool,
    time_constant: float,
) -> tuple[Float[Array, "..."], Float[Array, "*axes H"], Float[Array, "*axes H"]]:
    """The gates of H heads: two log-sigmoids and a sigmoid.

    Args:
        keep: of the gate that forgets, `[*axes, H]`; or `[*axes, H, dh]`, for each channel of a head's keys.
        along: of the gate of past surprise.
        rate: of that of writing.
        momentum: without it (Titans, Table 5), past surprise counts for nothing.
        forgetting: without it, all is kept.
        time_constant: at the start `log_keep` is near that of `1 - 1 / time_constant`.

    Returns:
        `(log_keep, log_momentum, lr)`.
    """
    log_keep = jax.nn.log_sigmoid(keep + math.log(time_constant)) if forgetting else jnp.zeros_like(keep)
    log_momentum = jax.nn.log_sigmoid(along) if momentum else jnp.full_like(along, -jnp.inf)
    return log_keep, log_momentum, jax.nn.sigmoid(rate)


def unit(x: Float[Array, "*axes d"]) -> Float[Array, "*axes d"]:
    """The vectors x at length 1; the gradient at 0 is finite."""
    return x * jax.lax.rsqrt((x**2).sum(-1, keepdims=True) + EPSILON)
