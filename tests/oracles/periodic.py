"""HPMN's memory (Ren et al. 2019), item after item: layer i is written at every p^i-th real item, i from 0."""

import numpy as np

from oracles.gru import gru_step


def periodic_write(params, state, xs, mask, period):
    """state: hidden [K, h]; waiting [K], how many outputs of the layer below came since it took one in; filled [K].

    params: a GRU for each layer, stacked over K.
    """
    hidden, waiting, filled = (np.array(leaf, np.float64) for leaf in state)
    for x, real in zip(xs, mask, strict=True):
        layer = 0
        while real and layer < len(hidden):
            if layer > 0:
                waiting[layer] += 1
                if waiting[layer] < period:
                    break
                waiting[layer] = 0
            own = type(params)(*(leaf[layer] for leaf in params))
            hidden[layer] = x = gru_step(own, hidden[layer], x)
            filled[layer] = 1
            layer += 1
    return hidden, waiting, filled


def periodic_memory(params, items, mask, period):
    """The whole memory by the clock: at the t-th real item, t from 1, layer i is written if p^i divides t."""
    width = params.w_h.shape[1]
    hidden, filled = np.zeros((len(params.w_x), width)), np.zeros(len(params.w_x))
    for t, x in enumerate(items[mask], 1):
        for layer in range(len(hidden)):
            if t % period**layer == 0:
                own = type(params)(*(leaf[layer] for leaf in params))
                hidden[layer] = x = gru_step(own, hidden[layer], x)
                filled[layer] = 1
    return hidden, filled


def covariance_norm(slots):
    """Frobenius norm of the slots' covariance over their coordinates, without its diagonal."""
    total = 0.0
    for i, left in enumerate(slots):
        for j, right in enumerate(slots):
            if i != j:
                total += np.mean((left - left.mean()) * (right - right.mean())) ** 2
    return np.sqrt(total + 1e-12)
