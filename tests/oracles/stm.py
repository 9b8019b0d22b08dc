"""The SAM-based Two-memory Model (Le et al. 2020), item after item, in loops."""

import numpy as np

from oracles.attention import softmax


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layer_norm(x, scale, bias):
    return (x - np.mean(x)) / np.sqrt(np.var(x) + 1e-6) * scale + bias


def self_attentive_memory(params, memory):
    """`R[i] = sum_j tanh(q_i * k_j) outer v_j`."""
    count, size = params.w.shape[1:]
    rows = np.zeros((3, count, size))
    for kind in range(3):
        for i in range(count):
            mixed = np.zeros(size)
            for row in range(size):
                mixed += params.w[kind, i, row] * memory[row]
            rows[kind, i] = layer_norm(mixed, params.scale[kind], params.bias[kind])
    queries, keys, values = rows
    relations = np.zeros((count, size, size))
    for i in range(count):
        for j in range(count):
            relations[i] += np.outer(np.tanh(queries[i] * keys[j]), values[j])
    return relations


def two_memory_step(params, items, relations, left, right, address, gates):
    size = len(items)
    written = np.zeros_like(items)
    for a in range(size):
        hidden = gates + np.tanh(items[a]) @ params.w_gates
        for b in range(size):
            admit, keep = sigmoid(hidden[b]), sigmoid(hidden[size + b])
            written[a, b] = admit * np.tanh(left[a] * right[b]) + keep * items[a, b]
    read = np.zeros(size)
    for weight, relation in zip(softmax(address), relations, strict=True):
        read += weight * (relation @ right)
    new = self_attentive_memory(params.sam, written + sigmoid(params.blend) * np.outer(read, right))
    return written, sigmoid(params.keep) * relations + new


def stm(params, steps, segments, mask):
    """The whole memory, from the module's parameters: `(items, relations, slots)`."""

    def affine(name, x):
        return x @ params[name]["kernel"] + params[name]["bias"]

    count, size = params["sam_w"].shape[1:]
    items, relations = np.zeros((size, size)), np.zeros((count, size, size))
    for segment, real in zip(segments, mask, strict=True):
        for x, there in zip(segment, real, strict=True):
            if there:
                features = (affine(name, x) for name in ("left", "right", "address", "gates"))
                items, relations = two_memory_step(steps, items, relations, *features)
    slots = []
    for relation in relations:
        flat = relation.reshape(-1)
        slots.append(flat / np.sqrt(np.mean(flat**2) + 1e-6) @ params["read_out"])
    return items, relations, np.array(slots)
