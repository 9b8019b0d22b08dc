"""The Attention Sum Reader, word by word, for candidates of several words."""

import numpy as np

from oracles.attention import softmax
from oracles.gru import gru_scan
from oracles.retention import gru_of


def states(p, embedded):
    """A bidirectional GRU's last states, and all of them."""
    start, every = np.zeros(embedded.shape[1] // 2), [True] * len(embedded)
    right_last, right = gru_scan(gru_of(p, "rightward"), start, embedded, every)
    left_last, left = gru_scan(gru_of(p, "leftward"), start, embedded, every, reverse=True)
    return np.concatenate([right_last, left_last]), np.concatenate([right, left], axis=1)


def logits(p, words, question, candidates, smallest):
    """Of each candidate, a list of words, the log of its score; words, question and candidates without padding."""
    _, of_text = states(p["text"], p["embed"]["embedding"][words])
    asked, _ = states(p["question"], p["embed"]["embedding"][question])
    attention = softmax(of_text @ asked)
    found = []
    for candidate in candidates:
        sums = [sum(a for a, word in zip(attention, words, strict=True) if word == wanted) for wanted in candidate]
        found.append(np.log(np.mean(sums) + smallest))
    return np.array(found)
