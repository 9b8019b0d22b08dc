"""The policies by name: rules, and what is learned (LEMN, 3.1)."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.memories.eviction import NEVER, Candidates, Policy
from memjax.memories.weights import glorot_gru_params, linear_params
from memjax.ops.retention import LinearParams
from memjax.typing import Array, Float, Key


class Rule(Policy):
    """The highest score is evicted for certain: the order of the scores is all that they say."""

    def decide(self, log_probs, key):
        evicted = log_probs.argmax()
        return evicted, jnp.where(jnp.arange(log_probs.shape[0]) == evicted, 0.0, NEVER)


class FIFO(Rule):
    """The oldest is evicted."""

    def __call__(self, candidates, kept):
        return -jnp.arange(candidates.mask.shape[0], dtype=jnp.float32), kept


class LIFO(Rule):
    """The newest entry is evicted; the input stays."""

    def __call__(self, candidates, kept):
        places = jnp.arange(candidates.mask.shape[0], dtype=jnp.float32)
        return places.at[-1].set(-1.0), kept


class LRU(Rule):
    """The entry that was attended to longest ago is evicted, which for one that never was is when it came."""

    def __call__(self, candidates, kept):
        return -candidates.used.astype(jnp.float32), kept

    def seen(self, embeddings, encodings):
        return embeddings

    def used(self, used, now, view):
        return jnp.where(view.attended(), now, used)


class Uniform(Policy):
    """Any entry is evicted, drawn in tests too."""

    def __call__(self, candidates, kept):
        return jnp.zeros(candidates.mask.shape[0]), kept

    @staticmethod
    def test_key(key: Key) -> Key | None:
        return key


class Learned(Policy):
    """Scores with parameters, of the new entry too."""

    def acts(self, full):
        return full

    def places(self, size: int) -> int:
        return size + 1


class InputMatching(Learned):
    """IM-LEMN, `ops.input_matching`; kept is the usage. A learned cell, not the input, stands for "keep all"."""

    @nn.compact
    def __call__(self, candidates, kept):
        w = self.param("w", nn.initializers.normal(self.width**-0.5), (self.width,))
        params = ops.InputMatchingParams(w, self.param("b", nn.initializers.zeros, ()))
        scores, usage = ops.input_matching(params, candidates.logits, kept[:, 0], candidates.input)
        return scores, usage[:, None]

    def seen(self, embeddings, encodings):
        return embeddings

    def own(self, declare):
        return declare()

    def last(self, new, view):
        return view.own_cell()._replace(kept=view.nothing)

    def logits(self, attention):
        return attention()

    def written(self, new, kept, view):
        return new, kept


class AmongOthers(Learned):
    """Scores what an entry is among the others, `ops.spatial_features`. A subclass declares `among_params`."""

    def features(self, candidates, key):
        return ops.spatial_features(self.among_params, candidates.encodings, candidates.mask), key


class Spatial(AmongOthers):
    """S-LEMN, `ops.spatial_scores` of `ops.spatial_features`, the hidden layer `width / 4`."""

    def setup(self):
        hidden = max(1, self.width // 4)
        self.among_params = _spatial(self)
        layer = LinearParams(*linear_params(self, "hidden", self.width, hidden))
        w, b = linear_params(self, "score", hidden, 1)
        self.score_params = ops.SpatialScoreParams(layer, w[:, 0], b[0])

    def __call__(self, features, kept):
        return ops.spatial_scores(self.score_params, features), kept


class SpatioTemporal(AmongOthers):
    """ST-LEMN, `ops.temporal_scores` of `ops.spatial_features`; kept is the GRU's state, `width / 4`."""

    def setup(self):
        hidden = max(1, self.width // 4)
        self.among_params = _spatial(self)
        w, b = linear_params(self, "score", hidden, 1)
        over_time = glorot_gru_params(self, "over_time", self.width, hidden)
        self.score_params = ops.TemporalScoreParams(over_time, w[:, 0], b[0])

    def kept(self) -> Float[Array, "k"]:
        return jnp.zeros(max(1, self.width // 4))

    def __call__(self, features, kept):
        return ops.temporal_scores(self.score_params, features, kept)


class Shuffled(Learned):
    """Learns with the candidates in an order drawn anew at every step, of those whose features depend on it.

    It shows what their order is worth (LEMN, A).
    """

    def features(self, candidates: Candidates, key: Key | None):
        if key is None:
            return super().features(candidates, key)
        key, order_key = jax.random.split(key)
        # By a matrix, not by indices: on an Explicit mesh these have no gradient.
        count = candidates.mask.shape[0]
        turn = jax.nn.one_hot(jax.random.permutation(order_key, count), count)
        times = partial(jnp.matmul, precision="highest")
        mask = times(turn, candidates.mask.astype(turn.dtype)) > 0.5
        turned = candidates._replace(encodings=times(turn, candidates.encodings), mask=mask)
        features, key = super().features(turned, key)
        return times(turn.T, features), key


class ShuffledSpatial(Shuffled, Spatial):
    """S-LEMN that learns with the candidates out of order."""


class ShuffledSpatioTemporal(Shuffled, SpatioTemporal):
    """ST-LEMN that learns with the candidates out of order."""


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


def _spatial(module: Policy) -> ops.SpatialParams:
    width = module.width
    forward, backward = (glorot_gru_params(module, name, width, width) for name in ("forward", "backward"))
    return ops.SpatialParams(forward, backward, *linear_params(module, "among", 2 * width, width))
