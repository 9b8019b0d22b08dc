"""Directly Reason, Multi-Hop Reason and the history sampler, whole: from a stream and a question to the logits."""

from types import SimpleNamespace

import numpy as np

from oracles.attention import additive_scores, multi_hop_read, softmax
from oracles.gru import gru_scan
from oracles.retention import gru_of


def text_of(p, embedded):
    """Both last states of a bidirectional GRU over vectors."""
    ends = []
    for name, ordered in (("rightward", embedded), ("leftward", embedded[::-1])):
        gru = gru_of(p, name)
        ends.append(gru_scan(gru, np.zeros(len(gru.w_h)), ordered, [True] * len(ordered))[0])
    return np.concatenate(ends)


def query_of(p, query):
    """An id's vector, or what is read of a text, a list of words."""
    table = p["embed"]["embedding"]
    return table[query] if np.ndim(query) == 0 else text_of(p["text"], table[np.array(query)])


def additive(p, name):
    return SimpleNamespace(**{leaf: p[f"{name}_{leaf}"] for leaf in ("w_left", "w_right", "b", "v")})


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def head(p, feature, candidates):
    """Logits of classes after hidden layers, or of candidate texts."""
    if candidates is None:
        layers = [p[f"Dense_{n}"] for n in range(len(p))]
        for layer in layers[:-1]:
            feature = np.maximum(dense(layer, feature), 0)
        return dense(layers[-1], feature)
    found = []
    for candidate in candidates:
        joined = np.concatenate([query_of(p["QueryEncoder_0"], candidate), feature])
        found.append(dense(p["Dense_1"], np.maximum(dense(p["Dense_0"], joined), 0))[0])
    return np.array(found)


def logits(system, p, segments, query, candidates=None, hops=2):
    """What a system answers.

    segments: lists of items, without padding. query: an id, or a list of words. candidates: lists of words.
    """
    items, asked = p["embed"]["embedding"], query_of(p["query"], query)
    if system == "sampler":
        means = np.array([np.mean(items[np.array(segment)], axis=0) for segment in segments])
        weights = softmax(additive_scores(additive(p, "attention"), asked[None], means)[0])
        return head(p["head"]["score"], np.concatenate([weights @ means, asked]), candidates)
    read = items[np.concatenate([np.array(segment) for segment in segments])]
    last, states = gru_scan(gru_of(p, "gru"), np.zeros(items.shape[1]), read, [True] * len(read))
    if system == "directly":
        return head(p["head"]["score"], np.concatenate([last, asked]), candidates)
    reader = p["reader"]
    own = [SimpleNamespace(attention=additive(reader, f"hop{n}")) for n in range(hops)]
    params = SimpleNamespace(hops=own, w_query=reader["w_query"])
    return head(p["head"]["score"], multi_hop_read(params, states, asked, [True] * len(states)), candidates)
