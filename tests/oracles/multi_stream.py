"""A bidirectional LSTM, and Multi-Stream's subtitles, word by word."""

from types import SimpleNamespace

import numpy as np

from oracles import external
from oracles.attention import softmax


def lstm_scan(params, items):
    """The hidden state after each item."""
    half = len(params.b) // 4
    hidden, cell, states = np.zeros(half), np.zeros(half), []
    for x in items:
        hidden, cell = external.lstm(params, {"hidden": hidden, "cell": cell, "reads": np.zeros(0)}, x)
        states.append(hidden)
    return states


def bidirectional_lstm(p, items):
    """Last states, and all of them, of items without padding."""
    right, left = (
        lstm_scan(SimpleNamespace(**{leaf: p[f"{name}_{leaf}"] for leaf in ("w_x", "w_h", "b")}), ordered)
        for name, ordered in (("rightward", items), ("leftward", items[::-1]))
    )
    both = [np.concatenate(pair) for pair in zip(right, left[::-1], strict=True)]
    return np.concatenate([right[-1], left[-1]]), np.array(both)


def matched(x, y):
    return np.array([sum(w * row for w, row in zip(softmax(y @ one), y, strict=True)) for one in x])


def logits(p, words, question, candidates):
    """Of each candidate, a list of words; words, question and candidates without padding."""

    def read(text):
        return bidirectional_lstm(p["text"], p["embed"]["embedding"][text])[1]

    subtitles, found = read(words), []
    asked = matched(subtitles, read(question))
    for candidate in candidates:
        answered = matched(subtitles, read(candidate))
        rows = [np.concatenate([s, q, a, s * q, s * a]) for s, q, a in zip(subtitles, asked, answered, strict=True)]
        _, states = bidirectional_lstm(p["fused"], rows)
        found.append(max_of(states) @ p["score"]["kernel"][:, 0] + p["score"]["bias"][0])
    return np.array(found)


def max_of(states):
    return np.array([max(column) for column in states.T])
