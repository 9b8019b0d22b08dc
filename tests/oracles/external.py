"""Memories with a controller, item by item, in NumPy: NTM, DNC, NUTM's interface, DMSDNC; written from the equations.

`step(params, state, x)`: params and state are the dicts of arrays that each function names.
"""

import itertools

import numpy as np

from oracles import addressing as at
from oracles.attention import softmax


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


class Reader:
    """Takes the numbers of an interface one after another."""

    def __init__(self, flat):
        self.flat, self.place = flat, 0

    def take(self, *shape):
        size = int(np.prod(shape, dtype=int))
        part = self.flat[self.place : self.place + size]
        self.place += size
        return part.reshape(shape)


def lstm(controller, state, x):
    """Gates in the order input, forget, candidate, output; what recurs is [hidden; all reads]."""
    again = np.concatenate([state["hidden"], np.ravel(state["reads"])])
    gates = x @ controller.w_x + again @ controller.w_h + controller.b
    i, f, g, o = np.split(gates, 4)
    cell = sigmoid(f) * state["cell"] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def interface(params, hidden):
    """Linear, or from a memory of programs: w = softmax(b cos(tanh k, tanh key_i)), (sum w_i V_i) applied to hidden."""
    if hasattr(params, "w"):
        return hidden @ params.w + params.b
    query = hidden @ params.w_query + params.b_query
    weights = at.content_weights(np.tanh(params.keys), np.tanh(query[:-1]), softplus(query[-1]))
    program = sum(weight * value for weight, value in zip(weights, params.programs, strict=True))
    return hidden @ program + params.b


def key_similarity(keys):
    """Sum over pairs of the cosine of their keys."""
    lengths = np.sqrt((keys**2).sum(1) + at.EPSILON)
    pairs = itertools.combinations(range(len(keys)), 2)
    return sum(keys[i] @ keys[j] / lengths[i] / lengths[j] for i, j in pairs)


def ntm(params, state, x, read_first=False):
    """state: hidden, cell, reads [R, W], memory [N, W], read_weights [R, N], write_weights [N]."""
    hidden, cell = lstm(params.controller, state, x)
    width = state["reads"].shape[1]
    numbers = Reader(interface(params.interface, hidden))

    def address(memory, before):
        key, strength = np.tanh(numbers.take(width)), softplus(numbers.take())
        gate, shift, power = sigmoid(numbers.take()), softmax(numbers.take(3)), 1 + softplus(numbers.take())
        by_content = at.content_weights(memory, key, strength)
        moved = at.shift_weights(gate * by_content + (1 - gate) * before, shift)
        return at.sharpen_weights(moved, power)

    write = address(state["memory"], state["write_weights"])
    erase, add = sigmoid(numbers.take(width)), np.tanh(numbers.take(width))
    memory = at.erase_and_add(state["memory"], write, erase, add)
    seen = state["memory"] if read_first else memory
    read = np.stack([address(seen, before) for before in state["read_weights"]])
    return {
        "hidden": hidden, "cell": cell, "reads": read @ seen, "memory": memory,
        "read_weights": read, "write_weights": write,
    }  # fmt: skip


def dnc(params, state, x):
    """state: as `ntm`, and usage [N], links [N, N], precedence [N]."""
    hidden, cell = lstm(params.controller, state, x)
    (heads, width), memory = state["reads"].shape, state["memory"]
    numbers = Reader(interface(params.interface, hidden))
    read_keys, read_strengths = numbers.take(heads, width), 1 + softplus(numbers.take(heads))
    write_key, write_strength = numbers.take(width), 1 + softplus(numbers.take())
    erase, add = sigmoid(numbers.take(width)), numbers.take(width)
    free, allocate, write = sigmoid(numbers.take(heads)), sigmoid(numbers.take()), sigmoid(numbers.take())
    modes = numbers.take(heads, 3)
    usage = at.usage_update(state["usage"], state["write_weights"], state["read_weights"], free)
    by_content = at.content_weights(memory, write_key, write_strength)
    weights = write * (allocate * at.allocation_weights(usage) + (1 - allocate) * by_content)
    memory = at.erase_and_add(memory, weights, erase, add)
    links, precedence = at.link_update(state["links"], state["precedence"], weights)
    read = []
    for r in range(heads):
        backward, content, forward = softmax(modes[r])
        before = state["read_weights"][r]
        found = at.content_weights(memory, read_keys[r], read_strengths[r])
        read.append(backward * (links.T @ before) + content * found + forward * (links @ before))
    read = np.stack(read)
    return {
        "hidden": hidden, "cell": cell, "reads": read @ memory, "memory": memory, "read_weights": read,
        "write_weights": weights, "usage": usage, "links": links, "precedence": precedence,
    }  # fmt: skip


def dmsdnc(params, state, x):
    """state: hidden, cell, reads; of B blocks memory [B, N, W], usage [B, N], write_weights [B, N], read_weights
    [B, R, N]. Content and allocation alone; r = sum_b g_b w_b^T M_b, g a softmax over the blocks for each head."""
    hidden, cell = lstm(params.controller, state, x)
    heads, width = state["reads"].shape
    numbers = Reader(interface(params.interface, hidden))
    after = {name: [] for name in ("memory", "usage", "write_weights", "read_weights")}
    for b in range(len(state["memory"])):
        read_keys, read_strengths = numbers.take(heads, width), 1 + softplus(numbers.take(heads))
        write_key, write_strength = numbers.take(width), 1 + softplus(numbers.take())
        erase, add = sigmoid(numbers.take(width)), numbers.take(width)
        free, allocate, write = sigmoid(numbers.take(heads)), sigmoid(numbers.take()), sigmoid(numbers.take())
        usage = at.usage_update(state["usage"][b], state["write_weights"][b], state["read_weights"][b], free)
        by_content = at.content_weights(state["memory"][b], write_key, write_strength)
        weights = write * (allocate * at.allocation_weights(usage) + (1 - allocate) * by_content)
        memory = at.erase_and_add(state["memory"][b], weights, erase, add)
        found = [at.content_weights(memory, read_keys[r], read_strengths[r]) for r in range(heads)]
        for name, value in zip(after, (memory, usage, weights, np.stack(found)), strict=True):
            after[name].append(value)
    after = {name: np.stack(values) for name, values in after.items()}
    gates = numbers.take(heads, len(state["memory"]))
    reads = np.zeros((heads, width))
    for r in range(heads):
        for b, share in enumerate(softmax(gates[r])):
            reads[r] += share * (after["read_weights"][b, r] @ after["memory"][b])
    return {"hidden": hidden, "cell": cell, "reads": reads, **after}
