"""Attention by additive scores (Rehearsal Memory, Eq. 1) and dot products (1706.03762, Eq. 1); the multi-hop read."""

import numpy as np


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def project_items(params, items):
    return np.array([[row @ column for column in params.w_right.T] for row in items])


def additive_scores(params, left, right):
    scores = np.zeros((len(left), len(right)))
    for a, one in enumerate(left):
        for b, other in enumerate(right):
            hidden = np.tanh(params.w_left.T @ one + params.w_right.T @ other + params.b)
            scores[a, b] = np.dot(params.v, hidden)
    return scores


def dot_scores(params, left, right):
    scores = np.zeros((len(left), len(right)))
    for a, one in enumerate(left):
        for b, other in enumerate(right):
            scores[a, b] = np.dot(params.w_left.T @ one + params.b, params.w_right.T @ other) / np.sqrt(len(params.b))
    return scores


def scores_of(params, left, right):
    """By the kind of scores whose weights they are."""
    return (additive_scores if hasattr(params, "v") else dot_scores)(params, left, right)


def slot_attention(params, slots, items, mask, normalize="slots"):
    """Padding is not weighed down, it is left out: only real items are ever looked at."""
    real = [n for n in range(len(items)) if mask[n]]
    weights = np.zeros((len(slots), len(items)))
    if real:
        scores = scores_of(params, slots, items[real])
        if normalize == "slots":
            for i, n in enumerate(real):
                weights[:, n] = softmax(scores[:, i])
        else:
            for k in range(len(slots)):
                weights[k, real] = softmax(scores[k])
    aligned = np.zeros((len(slots), items.shape[1]))
    for k in range(len(slots)):
        for n in real:
            aligned[k] += weights[k, n] * items[n]
    return weights, aligned


def multi_hop_read(params, slots, query, slot_mask):
    return read_by_hops(params, slots, query, slot_mask)[1]


def read_by_hops(params, slots, query, slot_mask):
    """(weights of the slots at each hop, the query after the last)."""
    places = np.flatnonzero(slot_mask)
    weights = np.zeros((len(params.hops), len(slots)))
    for hop, own in zip(params.hops, weights, strict=True):
        read = np.zeros(slots.shape[1])
        if len(places):
            own[places] = softmax(scores_of(hop.attention, query[None], slots[places])[0])
            for k in places:
                read += own[k] * slots[k]
        query = params.w_query.T @ np.concatenate([read, query])
    return weights, query
