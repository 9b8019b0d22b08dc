"""Cases of buffers, policies and returns; see `cases.py`."""

from functools import partial

import numpy as np

from memjax import ops
from oracles import retention
from oracles.case import Case, gru, mask_of, nothing, padded, ranged_case, share, without_params

N, M, D, F = 4, 5, 3, 4


def spatial(rng):
    return ops.SpatialParams(gru(rng, D, D), gru(rng, D, D), rng.normal(size=(2 * D, F)), rng.normal(size=F))


def score(rng, params, hidden):
    return params(hidden(rng), rng.normal(size=2), np.asarray(rng.normal()))


def linear(rng):
    return ops.LinearParams(rng.normal(size=(F, 2)), rng.normal(size=2))


def place(full):
    """How many entries there are, and which one goes: N is the new one itself."""

    def draw(rng):
        return {
            "count": np.asarray(N if full else rng.integers(0, N), np.int32),
            "index": np.asarray(rng.integers(0, N + 1), np.int32),
        }

    return draw


def evict(full):
    def op(entries, count, index, entry):
        return ops.buffer_evict(ops.Buffer(entries, count), index, entry).entries

    def oracle(**arguments):
        return retention.evict(**arguments)[0]

    return Case(without_params(op), without_params(oracle), nothing, {"entries": (N, D), "entry": (D,)}, place(full))


def draw_and_chances(rng):
    return place(True)(rng) | {"probabilities": rng.dirichlet(np.ones(N + 1))}


def evict_through(entries, count, index, entry, probabilities):
    return ops.straight_through_evict(ops.Buffer(entries, count), index, entry, probabilities).entries


def append(entries, count, index, entry):
    return ops.buffer_append(ops.Buffer(entries, count), entry).entries


def advantages(trace):
    return ranged_case(
        without_params(partial(ops.generalized_advantages, trace=trace)),
        without_params(partial(retention.generalized_advantages, trace=trace)),
        nothing,
        {"rewards": (5,), "values": (5,), "discounts": (5,), "last_value": ()},
        discounts=share,
    )


RETENTION = {
    "buffer_evict from a full one": evict(full=True),
    "buffer_evict from one with room": evict(full=False),
    # Its gradient to the probabilities: tests/ops/test_buffer.py.
    "straight_through_evict": Case(
        without_params(evict_through),
        without_params(
            lambda entries, count, index, entry, probabilities: retention.evict(entries, count, index, entry)[0]
        ),
        nothing,
        {"entries": (N, D), "entry": (D,)},
        draw_and_chances,
    ),
    "buffer_append": Case(
        without_params(append),
        without_params(lambda **arguments: retention.evict(**arguments)[0]),
        nothing,
        {"entries": (N, D), "entry": (D,)},
        place(full=False),
    ),
    "input_matching": Case(
        ops.input_matching,
        retention.input_matching,
        lambda rng: ops.InputMatchingParams(rng.normal(size=D), np.asarray(rng.normal())),
        {"logits": (M,), "usage": (M,), "input": (D,)},
        state=("usage",),
    ),
    "spatial_features": Case(
        ops.spatial_features,
        retention.spatial_features,
        spatial,
        {"entries": (M, D)},
        mask_of(M),
        padding=padded("entries"),
    ),
    "spatial_scores": Case(
        ops.spatial_scores,
        retention.spatial_scores,
        partial(score, params=ops.SpatialScoreParams, hidden=linear),
        {"features": (M, F)},
    ),
    "temporal_scores": Case(
        ops.temporal_scores,
        retention.temporal_scores,
        partial(score, params=ops.TemporalScoreParams, hidden=partial(gru, inputs=F, hidden=2)),
        {"features": (M, F), "hidden": (M, 2)},
        state=("hidden",),
    ),
    "generalized_advantages": advantages(0.7),
    "generalized_advantages to the end": advantages(1.0),
}
