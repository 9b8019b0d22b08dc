"""Which entry of a full buffer goes: one interface for rules and for what is learned (LEMN, 3.1)."""

from functools import partial
from typing import ClassVar, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.ops.retention import LinearParams
from memjax.typing import Any, Array, Bool, Float, Int, Key


class Candidates(NamedTuple):
    """What may go: the entries in the order of arrival, and behind them the input itself, or a cell for "keep all".

    encodings: as the base network has them. used: when a question last attended to each, or else when it came. input:
    what has just arrived. logits: the base network's attention between the input, as a question, and each of them;
    zeros where the policy does not look at them.
    """

    encodings: Float[Array, "M d"]
    mask: Bool[Array, "M"]
    used: Int[Array, "M"] | Float[Array, "M"]
    input: Float[Array, "d"]
    logits: Float[Array, "M"]


class Choice(NamedTuple):
    """Which candidate goes. log_prob: of it; entropy: of the choice; probabilities: of each to go."""

    goes: Int[Array, ""]
    log_prob: Float[Array, ""]
    entropy: Float[Array, ""]
    probabilities: Float[Array, "M"]


class Policy(nn.Module):
    """Scores of the candidates, the highest most likely to go; and what is kept with each of them, moving with it."""

    width: int
    learned: ClassVar[bool] = False
    drawn: ClassVar[bool] = False  # a rule that draws, in tests too: there the caller makes a key
    own_cell: ClassVar[bool] = False  # whether a learned cell, not the input, stands for "keep all"; wants `logits`
    by_use: ClassVar[bool] = False  # wants `used`
    shuffled: ClassVar[bool] = False  # in training, sees the candidates in an order drawn anew each time

    def kept(self) -> Float[Array, "k"]:
        """What is kept for an entry that is new."""
        return jnp.zeros(1)

    def __call__(self, candidates: Candidates, kept: Float[Array, "M k"]) -> tuple[Float[Array, "M"], Any]:
        raise NotImplementedError(f"{type(self).__name__} has no __call__")

    def choose(
        self, candidates: Candidates, kept: Float[Array, "M k"], key: Key | None
    ) -> tuple[Choice, Float[Array, "M k"]]:
        """Which candidate goes: drawn with a key, if the policy draws; without one, the likeliest."""
        if key is not None and self.shuffled:
            key, order_key = jax.random.split(key)
            scores, kept = self._turned(order_key, candidates, kept)
        else:
            scores, kept = self(candidates, kept)
        log_probs = jax.nn.log_softmax(jnp.where(candidates.mask, scores, -1e30))
        chance = self.learned or self.drawn
        draws = key is not None and chance
        goes = jax.random.categorical(cast(Key, key), log_probs) if draws else log_probs.argmax()
        chosen = jnp.arange(log_probs.shape[0]) == goes  # no gather: on an Explicit mesh it has no gradient
        if not chance:
            log_probs = jnp.where(chosen, 0.0, -1e30)  # a rule: the order of its scores is all that they say
        probs = jnp.exp(log_probs)
        entropy = -(probs * jnp.where(candidates.mask, log_probs, 0)).sum()
        return Choice(goes, jnp.where(chosen, log_probs, 0).sum(), entropy, probs), kept

    def _turned(
        self, key: Key, candidates: Candidates, kept: Float[Array, "M k"]
    ) -> tuple[Float[Array, "M"], Float[Array, "M k"]]:
        """Scores and what is kept, of the candidates in another order, given in their own."""
        assert not self.by_use and not self.own_cell, "used and logits would have to be turned too"
        # By a matrix, not by indices: see above.
        count = candidates.mask.shape[0]
        turn = jax.nn.one_hot(jax.random.permutation(key, count), count)
        times = partial(jnp.matmul, precision="highest")
        mask = times(turn, candidates.mask.astype(turn.dtype)) > 0.5
        turned = candidates._replace(encodings=times(turn, candidates.encodings), mask=mask)
        scores, kept = self(turned, times(turn, kept))
        return times(turn.T, scores), times(turn.T, kept)


class FIFO(Policy):
    """The oldest goes."""

    def __call__(self, candidates, kept):
        return -jnp.arange(candidates.mask.shape[0], dtype=jnp.float32), kept


class LIFO(Policy):
    """The newest entry goes; the input stays."""

    def __call__(self, candidates, kept):
        places = jnp.arange(candidates.mask.shape[0], dtype=jnp.float32)
        return places.at[-1].set(-1.0), kept


class LRU(Policy):
    """The entry that was attended to longest ago goes, which for one that never was is when it came."""

    by_use: ClassVar[bool] = True

    def __call__(self, candidates, kept):
        return -candidates.used.astype(jnp.float32), kept


class Uniform(Policy):
    """Any entry goes, in tests too."""

    drawn: ClassVar[bool] = True

    def __call__(self, candidates, kept):
        return jnp.zeros(candidates.mask.shape[0]), kept


class InputMatching(Policy):
    """IM-LEMN, `ops.input_matching`; kept is the usage."""

    learned: ClassVar[bool] = True
    own_cell: ClassVar[bool] = True

    @nn.compact
    def __call__(self, candidates, kept):
        w = self.param("w", nn.initializers.normal(self.width**-0.5), (self.width,))
        params = ops.InputMatchingParams(w, self.param("b", nn.initializers.zeros, ()))
        scores, usage = ops.input_matching(params, candidates.logits, kept[:, 0], candidates.input)
        return scores, usage[:, None]


class Spatial(Policy):
    """S-LEMN, `ops.spatial_scores` of `ops.spatial_features`, the hidden layer `width / 4`."""

    learned: ClassVar[bool] = True

    @nn.compact
    def __call__(self, candidates, kept):
        features = ops.spatial_features(_spatial(self), candidates.encodings, candidates.mask)
        hidden = max(1, self.width // 4)
        layer = LinearParams(*_dense(self, "hidden", self.width, hidden))
        w, b = _dense(self, "score", hidden, 1)
        return ops.spatial_scores(ops.SpatialScoreParams(layer, w[:, 0], b[0]), features), kept


class SpatioTemporal(Policy):
    """ST-LEMN, `ops.temporal_scores` of `ops.spatial_features`; kept is the GRU's state, `width / 4`."""

    learned: ClassVar[bool] = True

    def kept(self) -> Float[Array, "k"]:
        return jnp.zeros(max(1, self.width // 4))

    @nn.compact
    def __call__(self, candidates, kept):
        features = ops.spatial_features(_spatial(self), candidates.encodings, candidates.mask)
        hidden = kept.shape[1]
        w, b = _dense(self, "score", hidden, 1)
        params = ops.TemporalScoreParams(gru_params(self, "over_time", self.width, hidden), w[:, 0], b[0])
        return ops.temporal_scores(params, features, kept)


class ShuffledSpatial(Spatial):
    """S-LEMN that learns with the entries out of order, to show what their order is worth (LEMN, A)."""

    shuffled: ClassVar[bool] = True


class ShuffledSpatioTemporal(SpatioTemporal):
    """ST-LEMN that learns with the entries out of order (LEMN, A)."""

    shuffled: ClassVar[bool] = True


policies: dict[str, type[Policy]] = {
    "fifo": FIFO,
    "im": InputMatching,
    "lifo": LIFO,
    "lru": LRU,
    "s": Spatial,
    "shuffled_s": ShuffledSpatial,
    "shuffled_st": ShuffledSpatioTemporal,
    "st": SpatioTemporal,
    "uniform": Uniform,
}


def gru_params(module: nn.Module, name: str, inputs: int, hidden: int) -> ops.GRUParams:
    """Parameters of a GRU of this name."""
    glorot = nn.initializers.glorot_uniform()
    zeros = nn.initializers.zeros
    return ops.GRUParams(
        module.param(f"{name}_w_x", glorot, (inputs, 3 * hidden)),
        module.param(f"{name}_w_h", glorot, (hidden, 3 * hidden)),
        module.param(f"{name}_b_x", zeros, (3 * hidden,)),
        module.param(f"{name}_b_h", zeros, (3 * hidden,)),
    )


def _dense(module: nn.Module, name: str, inputs: int, outputs: int) -> tuple[Array, Array]:
    w = module.param(f"{name}_w", nn.initializers.glorot_uniform(), (inputs, outputs))
    return w, module.param(f"{name}_b", nn.initializers.zeros, (outputs,))


def _spatial(module: Policy) -> ops.SpatialParams:
    width = module.width
    forward, backward = (gru_params(module, name, width, width) for name in ("forward", "backward"))
    return ops.SpatialParams(forward, backward, *_dense(module, "among", 2 * width, width))
