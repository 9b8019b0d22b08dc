"""Which entry of a buffer to evict: learned scores. A high one is a likely eviction.

Source: Learning What to Remember, Long-term Episodic Memory Networks (LEMN). M candidates: the entries in the order of
arrival, and behind them the input itself or a cell for "no operation".
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.ops.attention import accumulated
from memjax.ops.axes import Axes
from memjax.ops.checked import checked
from memjax.ops.gru import GRUParams, gru_scan, gru_step
from memjax.typing import Annotated, Array, Bool, Float

FADING = 0.1  # of the usage, at every step
UNROLLED = 16  # entries that GRUs pass in one piece: on a CPU a loop costs more than steps as small as these


class InputMatchingParams(NamedTuple):
    """How much the usage counts, given the input: w, b.

    Attributes:
        w: of the input.
        b: added.
    """

    w: Float[Array, "d"]
    b: Float[Array, ""]


class SpatialParams(NamedTuple):
    """Two GRUs along the entries, and a layer over both.

    Attributes:
        forward: the GRU from the first entry on.
        backward: the GRU from the last entry on.
        w: of both.
        b: added.
    """

    forward: Annotated[GRUParams, Axes("h", dx="d")]
    backward: Annotated[GRUParams, Axes("h", dx="d")]
    w: Float[Array, "h2 f"]
    b: Float[Array, "f"]


class LinearParams(NamedTuple):
    """`x w + b`.

    Attributes:
        w: of x.
        b: added.
    """

    w: Float[Array, "f h"]
    b: Float[Array, "h"]


class SpatialScoreParams(NamedTuple):
    """A linear layer, and another one to a number.

    Attributes:
        hidden: the first layer.
        w: makes a number of it.
        b: added.
    """

    hidden: Annotated[LinearParams, Axes("f", "h")]
    w: Float[Array, "h"]
    b: Float[Array, ""]


class TemporalScoreParams(NamedTuple):
    """A GRU over time, and a linear layer to a number.

    Attributes:
        hidden: the GRU.
        w: makes a number of its state.
        b: added.
    """

    hidden: Annotated[GRUParams, Axes("h", dx="f")]
    w: Float[Array, "h"]
    b: Float[Array, ""]


@checked
def input_matching(
    params: Annotated[InputMatchingParams, Axes("d")],
    logits: Float[Array, "M"],
    usage: Float[Array, "M"],
    input: Float[Array, "d"],
) -> tuple[Float[Array, "M"], Float[Array, "M"]]:
    """IM-LEMN. Likely to be evicted is what is like the input, but for what has been like inputs before.

    `v_t = .1 v_{t-1} + .9 z_t`, `gamma = sigmoid(w · c + b)`, `g = z - gamma v_{t-1}`. Source: LEMN, 3.1.

    Args:
        params: w and b.
        logits: z, of the attention between the input and the entries.
        usage: v, 0 for a new entry.
        input: c, the input's embedding.

    Returns:
        The scores of the entries, and their usage now.

    >>> params = InputMatchingParams(jnp.zeros(1), jnp.array(0.0))
    >>> scores, usage = input_matching(params, jnp.array([1.0, 1.0]), jnp.array([0.0, 2.0]), jnp.zeros(1))
    >>> scores.tolist(), [f"{v:.1f}" for v in usage]
    ([1.0, 0.0], ['0.9', '1.1'])
    """
    gamma = jax.nn.sigmoid(accumulated(input, params.w[:, None])[0] + params.b)
    return logits - gamma * usage, FADING * usage + (1 - FADING) * logits


@checked
def spatial_features(
    params: Annotated[SpatialParams, Axes("d")], entries: Float[Array, "M d"], mask: Bool[Array, "M"] | None = None
) -> Float[Array, "M f"]:
    """Of every entry what it is among the others: `f = relu([forward, backward] w + b)`, of GRUs along the entries.

    Source: LEMN, 3.1, "Spatial LEMN". The states of both GRUs begin at 0.

    Args:
        params: of the GRUs and the layer.
        entries: of the buffer, oldest first.
        mask: which of them count; the others are passed over.

    Returns:
        Features of each entry.

    >>> gru = GRUParams(jnp.zeros((1, 3)), jnp.zeros((1, 3)), jnp.ones(3), jnp.zeros(3))
    >>> spatial_features(SpatialParams(gru, gru, jnp.ones((2, 1)), jnp.zeros(1)), jnp.zeros((3, 1))).shape
    (3, 1)
    """
    mask = jnp.ones(entries.shape[0], bool) if mask is None else mask
    # Both GRUs in one scan, the backward one over what is turned around.
    grus = jax.tree.map(lambda *leaves: jnp.stack(leaves), params.forward, params.backward)
    begin = jnp.zeros(params.forward.w_h.shape[0], jnp.promote_types(entries.dtype, jnp.float32))
    turned = jnp.stack([entries, entries[::-1]]), jnp.stack([mask, mask[::-1]])
    scan = partial(gru_scan, unroll=min(UNROLLED, max(1, entries.shape[0])))
    _, states = jax.vmap(scan, (0, None, 0, 0))(grus, begin, *turned)
    both = jnp.concatenate([states[0], states[1, ::-1]], axis=1).astype(entries.dtype)
    return jax.nn.relu(accumulated(both, params.w) + params.b)


@checked
def spatial_scores(
    params: Annotated[SpatialScoreParams, Axes("f")], features: Float[Array, "M f"]
) -> Float[Array, "M"]:
    """S-LEMN: `h = f W_h + b_h`, `g = h · w + b`. Source: LEMN, Eq. 1.

    Args:
        params: of both layers.
        features: of the entries.

    Returns:
        Their scores; the larger, the likelier evicted.

    >>> params = SpatialScoreParams(LinearParams(jnp.ones((2, 1)), jnp.zeros(1)), jnp.ones(1), jnp.array(1.0))
    >>> spatial_scores(params, jnp.array([[1.0, 2.0]])).tolist()
    [4.0]
    """
    hidden = accumulated(features, params.hidden.w) + params.hidden.b
    return accumulated(hidden.astype(features.dtype), params.w[:, None])[:, 0] + params.b


@checked
def temporal_scores(
    params: Annotated[TemporalScoreParams, Axes("f", "h")], features: Float[Array, "M f"], hidden: Float[Array, "M h"]
) -> tuple[Float[Array, "M"], Float[Array, "M h"]]:
    """ST-LEMN: `h_t = GRU(f_t, h_{t-1})` for each entry through time, `g = h_t · w + b`.

    Source: LEMN, 3.1, "Spatio-Temporal LEMN".

    Args:
        params: of the GRU and the layer.
        features: of the entries.
        hidden: h of each entry, 0 for a new one; it moves with its entry (`buffer_evict`).

    Returns:
        Their scores, and h now.

    >>> gru = GRUParams(jnp.zeros((1, 3)), jnp.zeros((1, 3)), jnp.zeros(3), jnp.zeros(3))
    >>> params = TemporalScoreParams(gru, jnp.ones(1), jnp.array(0.0))
    >>> temporal_scores(params, jnp.zeros((2, 1)), jnp.array([[0.0], [1.0]]))[0].tolist()
    [0.0, 0.5]
    """
    after = jax.vmap(gru_step, (None, 0, 0))(params.hidden, hidden, features)
    return accumulated(after.astype(features.dtype), params.w[:, None])[:, 0] + params.b, after
