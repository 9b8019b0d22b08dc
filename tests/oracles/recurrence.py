"""h_t = decay_t * h_{t-1} + x_t, number by number."""

import numpy as np


def linear_recurrence(decay, x, initial):
    states = np.zeros_like(x)
    for index in np.ndindex(x.shape[1:]):
        h = initial[index]
        for t in range(len(x)):
            h = decay[(t, *index)] * h + x[(t, *index)]
            states[(t, *index)] = h
    return states
