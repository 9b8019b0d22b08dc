"""h_t = decay_t * h_{t-1} + x_t, number by number; and momentum with forgetting, token by token."""

import numpy as np


def linear_recurrence(decay, x, initial):
    states = np.zeros_like(x)
    for index in np.ndindex(x.shape[1:]):
        h = initial[index]
        for t in range(len(x)):
            h = decay[(t, *index)] * h + x[(t, *index)]
            states[(t, *index)] = h
    return states


def momentum_recurrence(log_keep, log_momentum, surprise, memory, momentum, mask):
    memories, momenta = [], []
    for t in range(len(surprise)):
        if mask[t]:
            momentum = np.exp(log_momentum[t]) * momentum + surprise[t]
            keep = np.exp(log_keep[t])
            memory = keep.reshape(*keep.shape, *[1] * (memory.ndim - keep.ndim)) * memory + momentum
        memories.append(memory)
        momenta.append(momentum)
    return np.stack(memories), np.stack(momenta)
