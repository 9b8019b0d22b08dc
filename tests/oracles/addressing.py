"""Addressing of Neural Turing Machines (1410.5401, 3.3) and the Differentiable Neural Computer (Methods), in loops."""

import numpy as np

from oracles.attention import softmax

EPSILON = 1e-6


def content_weights(memory, key, strength):
    def length(x):
        return np.sqrt(np.sum(x**2) + EPSILON)

    return softmax(np.array([strength * (row @ key) / (length(row) * length(key)) for row in memory]))


def shift_weights(weights, shift):
    reach = len(shift) // 2
    moved = np.zeros_like(weights)
    for i in range(len(weights)):
        for step in range(-reach, reach + 1):
            moved[(i + step) % len(weights)] += weights[i] * shift[step + reach]
    return moved


def sharpen_weights(weights, power):
    return weights**power / np.sum(weights**power)


def usage_update(usage, write_weights, read_weights, free_gates):
    found = []
    for n in range(len(usage)):
        kept = np.prod([1 - free_gates[r] * read_weights[r, n] for r in range(len(free_gates))])
        found.append((usage[n] + write_weights[n] - usage[n] * write_weights[n]) * kept)
    return np.array(found)


def allocation_weights(usage):
    found, in_use = np.zeros_like(usage), 1.0
    for n in sorted(range(len(usage)), key=lambda n: usage[n]):
        found[n] = (1 - usage[n]) * in_use
        in_use *= usage[n]
    return found


def link_update(links, precedence, write_weights):
    size, new = len(links), np.zeros_like(links)
    for i in range(size):
        for j in range(size):
            if i != j:
                kept = (1 - write_weights[i] - write_weights[j]) * links[i, j]
                new[i, j] = kept + write_weights[i] * precedence[j]
    return new, (1 - np.sum(write_weights)) * precedence + write_weights


def erase_and_add(memory, weights, erase, add):
    new = np.zeros_like(memory)
    for n, w in np.ndindex(memory.shape):
        new[n, w] = memory[n, w] * (1 - weights[n] * erase[w]) + weights[n] * add[w]
    return new
