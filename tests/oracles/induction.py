"""MIMN's memory (Pi et al. 2019), item after item: an NTM addressed by content alone, and the induction unit."""

import numpy as np

from oracles import addressing as at
from oracles.attention import softmax
from oracles.external import Reader, interface, lstm, sigmoid, softplus
from oracles.gru import gru_step


def cosine(a, b):
    return a @ b / np.sqrt((a @ a + at.EPSILON) * (b @ b + at.EPSILON))


def mimn_inputs(params, xs):
    return xs @ params.controller.w_x + params.controller.b, xs @ params.w_item


def mimn(params, state, x, held=None):
    """state: hidden, cell, reads [W], memory [N, W], channels [N, W], induced [N], usage [N].

    held: the rows as the induction unit sees them, through which no gradient goes; the memory's, if not given.
    """
    hidden, cell = lstm(params.controller, state, x)
    memory, width = state["memory"], state["memory"].shape[1]
    numbers = Reader(interface(params.interface, hidden))

    def address():
        key, strength = np.tanh(numbers.take(width)), 2 * (1 + softplus(numbers.take()))
        similar = [(cosine(own, key) + cosine(row, key)) / 2 for own, row in zip(params.keys, memory, strict=True)]
        return softmax(strength * np.array(similar))

    read, write = address(), address()
    erase, add = sigmoid(numbers.take(width)), np.tanh(numbers.take(width))
    channels, induced = state["channels"].copy(), np.array(state["induced"], np.float64)
    i = int(np.argmax(read))
    # `[x; M_i] W` is `x W_item + M_i W_x`: for the GRU, a bias of its input.
    own = params.channel._replace(b_x=params.channel.b_x + x @ params.w_item)
    channels[i] = gru_step(own, channels[i], (memory if held is None else held)[i])
    induced[i] = 1
    return {
        "hidden": hidden, "cell": cell, "reads": read @ memory,
        "memory": at.erase_and_add(memory, write, erase, add),
        "channels": channels, "induced": induced, "usage": state["usage"] + write,
    }  # fmt: skip


def imbalance(usage):
    """How unevenly rows were written: the sum of squared differences from the mean."""
    return np.sum((usage - usage.mean()) ** 2)
