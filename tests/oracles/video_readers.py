"""E-VQA, E-MN and E-SA, frame by frame, in NumPy: from real frames and real words to a feature and its logits."""

from types import SimpleNamespace

import numpy as np

from oracles.attention import softmax
from oracles.multi_stream import lstm_scan
from oracles.recommenders import linear


def lstm_states(p, items):
    return lstm_scan(SimpleNamespace(w_x=p["lstm_w_x"], w_h=p["lstm_w_h"], b=p["lstm_b"]), items)


def head(p, feature):
    """One without hidden layers."""
    return linear(p["head"]["score"]["Dense_0"], feature)


def read(p, frames, words):
    """The state after each frame, and the last one of the question."""
    states = lstm_states(p["frames"], [linear(p["embed"], frame) for frame in frames])
    return states, lstm_states(p["query"]["text"], p["query"]["embed"]["embedding"][words])[-1]


def e_vqa(p, frames, words):
    states, asked = read(p, frames, words)
    return head(p, states[-1] * asked)


def e_mn(p, frames, words, hops):
    states, u = read(p, frames, words)
    for hop in range(hops):
        keys, values = p[f"keys_{hop}"]["kernel"], p[f"values_{hop}"]["kernel"]
        shares = softmax(np.array([u @ (s @ keys) for s in states]))
        u = u + sum(share * (s @ values) for share, s in zip(shares, states, strict=True))
    return head(p, u)


def e_sa(p, frames, words):
    states, u = read(p, frames, words)
    left, right, b, w = (p[f"attention_{name}"] for name in ("w_left", "w_right", "b", "v"))
    shares = softmax(np.array([w @ np.tanh(u @ left + s @ right + b) for s in states]))
    return head(p, sum(share * s for share, s in zip(shares, states, strict=True)) * u)
