"""MSAN on text alone, word by word, in NumPy."""

import itertools

import numpy as np

from oracles.attention import softmax
from oracles.attention_sum import states
from oracles.external import sigmoid
from oracles.recommenders import layer_norm, linear


def attention(p, x, context, heads):
    found = []
    for one in x:
        total = p["out"]["bias"].copy()
        for h in range(heads):
            kernel = {name: p[name]["kernel"][:, h] for name in ("query", "key", "value")}
            bias = {name: p[name]["bias"][h] for name in kernel}
            query = one @ kernel["query"] + bias["query"]
            keys = [other @ kernel["key"] + bias["key"] for other in context]
            weights = softmax(np.array([query @ key / np.sqrt(len(key)) for key in keys]))
            seen = sum(w * (other @ kernel["value"] + bias["value"]) for w, other in zip(weights, context, strict=True))
            total += seen @ p["out"]["kernel"][h]
        found.append(total)
    return np.array(found)


def block(p, x, heads, context=None):
    y = [layer_norm(p["norm"], row) for row in x]
    seen = y if context is None else [layer_norm(p["norm_context"], row) for row in context]
    x = x + attention(p["attention"]["MultiHeadDotProductAttention_0"], y, seen, heads)
    wide, narrow = p["forward"]["Dense_0"], p["forward"]["Dense_1"]
    return np.array(
        [row + linear(narrow, np.maximum(linear(wide, layer_norm(p["norm_forward"], row)), 0)) for row in x]
    )


def read(p, words):
    embedded = p["embed"]["embedding"][words]
    return embedded + states(p["text"], embedded)[1]


def scored(p, hidden, score, joined):
    return (np.maximum(linear(p[hidden], joined), 0) @ p[score]["kernel"])[0]


def logits(p, segments, question, candidates, heads):
    """Of each candidate, a list of words; `segments` are lists of words, and nothing has padding."""
    text, places = read(p, np.concatenate(segments)), np.cumsum([0, *map(len, segments)])
    segments = [text[start:end] for start, end in itertools.pairwise(places)]
    found = []
    for candidate in candidates:
        claimed = read(p, np.concatenate([question, candidate]))
        h, located = claimed.mean(0), []
        for segment in segments:
            s = segment.mean(0)
            moment = sigmoid(scored(p, "moment", "moment_score", np.concatenate([s, h, s * h])))
            located += [moment * word for word in segment]
        words = block(p["within_words"], np.array(located), heads)
        claimed = block(p["within_hypothesis"], claimed, heads)
        after = block(p["from_words"], words, heads, claimed), block(p["from_hypothesis"], claimed, heads, words)
        found.append(scored(p, "joined", "score", np.concatenate([part.mean(0) for part in after])))
    return np.array(found)
