"""Systems that read a user's clicks themselves: of a list of items, what they keep of it, and a target's logit.

Each is `kept(p, clicks, ...)` with the items that were clicked, oldest first, and `logit(p, kept, target)`.
"""

import numpy as np

from oracles.addressing import erase_and_add
from oracles.attention import softmax
from oracles.gru import gru_scan, sigmoid
from oracles.retention import gru_of


def table(p):
    return p["embed"]["embedding"]


def linear(p, x):
    return x @ p["kernel"] + p.get("bias", 0)


def layer_norm(p, x):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-6) * p["scale"] + p["bias"]


def newest(p, clicks, size):
    """The last items' embeddings, as many as there are."""
    return table(p)[clicks[max(0, len(clicks) - size) :]]


# GRU4REC, Hidasi et al. 2016: the hidden state, and a score of each item from it.


def gru4rec(p, clicks):
    items = table(p)[clicks]
    last, _ = gru_scan(gru_of(p, "gru"), np.zeros(items.shape[1]), items, [True] * len(items))
    return last


def item_logit(p, state, target):
    return state @ table(p)[target] + p["bias"][target]


# Caser, Tang and Wang 2018, without the user's embedding: filter by filter, cell by cell.


def caser(p, clicks, size):
    width = table(p).shape[1]
    image = np.zeros((size, width))
    for place, item in enumerate(reversed(clicks[max(0, len(clicks) - size) :])):
        image[size - 1 - place] = table(p)[item]
    maxima = []
    for height in range(1, size + 1):
        weights = p[f"horizontal_{height - 1}"]
        for k in range(weights["kernel"].shape[1]):
            kernel = weights["kernel"][:, k].reshape(height, width)
            slid = [(image[i : i + height] * kernel).sum() + weights["bias"][k] for i in range(size - height + 1)]
            maxima.append(max(max(value, 0) for value in slid))
    vertical = p["vertical"]["kernel"]
    summed = [
        sum(vertical[row, k] * image[row, column] for row in range(size)) + p["vertical"]["bias"][k]
        for k in range(vertical.shape[1])
        for column in range(width)
    ]
    return np.maximum(linear(p["dense"], np.array(summed + maxima)), 0)


# RUM, Chen et al. 2018: the items themselves, or values under keys that all users share.


def rum(p, clicks, size):
    return newest(p, clicks, size)


def rum_logit(p, kept, target):
    e = table(p)[target]
    return softmax(kept @ e) @ kept @ e if len(kept) else 0.0


def rum_features(p, clicks):
    values = np.zeros_like(p["keys"])
    for item in clicks:
        q = table(p)[item]
        erased, added = sigmoid(linear(p["erase"], q)), np.tanh(linear(p["add"], q))
        values = erase_and_add(values, softmax(p["keys"] @ q), erased, added)
    return values


def rum_features_logit(p, values, target):
    e = table(p)[target]
    return softmax(p["keys"] @ e) @ values @ e


# DIEN, Zhou et al. 2019: interests, attention of the target, a GRU whose update gate is weighed by it (AUGRU).


def dien(p, clicks):
    items = table(p)[clicks]
    return gru_scan(gru_of(p, "interest"), np.zeros(items.shape[1]), items, [True] * len(items))[1]


def dien_logit(p, interests, target):
    e, params = table(p)[target], gru_of(p, "evolve")
    hidden = np.zeros(len(e))
    weights = softmax(interests @ p["w_attention"] @ e) if len(interests) else []
    for weight, interest in zip(weights, interests, strict=True):
        share, candidate = gates(params, hidden, interest)
        share = weight * share
        hidden = (1 - share) * hidden + share * candidate
    feature = np.concatenate([hidden, e])
    for layer in ("hidden_0", "hidden_1"):
        feature = linear(p[layer], feature)
        slope = p[layer.replace("hidden", "slope")]["negative_slope"]
        feature = np.where(feature > 0, feature, slope * feature)
    return linear(p["score"], feature)[0]


def gates(params, hidden, x):
    """How much of the new a GRU lets in, and what that is."""
    w, u, b, c = (np.split(leaf, 3, axis=-1) for leaf in (params.w_x, params.w_h, params.b_x, params.b_h))
    reset = sigmoid(x @ w[0] + b[0] + hidden @ u[0] + c[0])
    keep = sigmoid(x @ w[1] + b[1] + hidden @ u[1] + c[1])
    candidate = np.tanh(x @ w[2] + b[2] + reset * (hidden @ u[2] + c[2]))
    return 1 - keep, candidate


def next_click_loss(p, states, clicks, negatives):
    """The auxiliary loss of DIEN, which is the loss of SASRec; `negatives[t]` stands against the click t + 1."""
    losses = []
    for t in range(len(clicks) - 1):
        right, wrong = sigmoid(states[t] @ table(p)[clicks[t + 1]]), sigmoid(states[t] @ table(p)[negatives[t]])
        losses.append(-np.log(right) - np.log(1 - wrong))
    return np.mean(losses)


# SASRec, Kang and McAuley 2018: one causal head, position by position.


def sasrec(p, clicks, window, layers):
    """The last state; of more items than the window has, it sees those of the last half and all before that fit."""
    width, half = table(p).shape[1], window // 2
    if not clicks:
        return np.zeros(width)
    start = 0 if len(clicks) <= window else ((len(clicks) - 1) // half - 1) * half
    seen = clicks[start:]
    x = np.array([table(p)[item] * np.sqrt(width) + p["positions"][place] for place, item in enumerate(seen)])
    for layer in range(layers):
        block = p[f"blocks_{layer}"]
        y = np.array([layer_norm(block["norm_attention"], row) for row in x])
        q, k, v = (y @ block[name]["kernel"] for name in ("query", "key", "value"))
        read = [softmax(k[: t + 1] @ q[t] / np.sqrt(width)) @ v[: t + 1] for t in range(len(x))]
        x = x + np.array(read)
        y = np.array([layer_norm(block["norm_forward"], row) for row in x])
        x = x + linear(block["narrow"], np.maximum(linear(block["wide"], y), 0))
    return layer_norm(p["norm"], x[-1])


def sasrec_logit(p, state, target):
    return state @ table(p)[target]
