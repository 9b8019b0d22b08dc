"""The GRU as the spec writes it, gate by gate, and Continual Memory's multi-head update (Eq. 2 and 3)."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru_step(params, hidden, x):
    h = len(hidden)
    w_r, w_z, w_n = (params.w_x[:, i * h : (i + 1) * h] for i in range(3))
    u_r, u_z, u_n = (params.w_h[:, i * h : (i + 1) * h] for i in range(3))
    b_r, b_z, b_n = (params.b_x[i * h : (i + 1) * h] for i in range(3))
    c_r, c_z, c_n = (params.b_h[i * h : (i + 1) * h] for i in range(3))
    r = sigmoid(x @ w_r + b_r + hidden @ u_r + c_r)
    z = sigmoid(x @ w_z + b_z + hidden @ u_z + c_z)
    n = np.tanh(x @ w_n + b_n + r * (hidden @ u_n + c_n))
    return (1 - z) * n + z * hidden


def gru_scan(params, hidden, xs, mask, reverse=False):
    states = np.zeros((len(xs), len(hidden)))
    for t in reversed(range(len(xs))) if reverse else range(len(xs)):
        if mask[t]:
            hidden = gru_step(params, hidden, xs[t])
        states[t] = hidden
    return hidden, states


def project_aligned(params, items):
    if not hasattr(params, "w_out"):
        return items @ params.w_x
    return np.concatenate([items @ w @ w_x for w, w_x in zip(params.w_item, params.gru.w_x, strict=True)], axis=-1)


def update_slots(params, slots, aligned):
    if not hasattr(params, "w_out"):
        return np.stack([gru_step(params, m, x) for m, x in zip(slots, aligned, strict=True)])
    written = []
    for m, x in zip(slots, aligned, strict=True):
        heads = []
        for z in range(len(params.w_slot)):
            gru = type(params.gru)(*(leaf[z] for leaf in params.gru))
            heads.append(gru_step(gru, params.w_slot[z].T @ m, params.w_item[z].T @ x))
        written.append(params.w_out.T @ np.concatenate(heads))
    return np.stack(written)
