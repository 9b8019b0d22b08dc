"""MemN2N whose answers are texts, sentence by sentence."""

import numpy as np

from oracles.attention import softmax
from oracles.memory_network import embed_sentence


def logits(p, sentences, question, candidates):
    """Of each candidate; all texts are lists of words without padding, the oldest sentence first."""

    def embed(table, text):
        return 2 * embed_sentence(table[text], np.ones(len(text), bool))

    asked = embed(p["words"][0], question)
    for hop in range(len(p["words"]) - 1):
        keys, values = (
            np.array([embed(p["words"][k], text) + p["times"][k][i] for i, text in enumerate(sentences[::-1])])
            for k in (hop, hop + 1)
        )
        asked = asked + softmax(keys @ asked) @ values
    return np.array([asked @ embed(p["words"][-1], text) for text in candidates])
