"""The rehearsal losses (Rehearsal Memory, Eq. 3 and 4, the sign of the second term put right)."""

import numpy as np


def recollection_loss(predicted, candidates, target, masked, valid=None):
    losses = []
    for n in range(len(predicted)):
        if not masked[n]:
            continue
        counted = [v for v in range(len(candidates)) if valid is None or valid[n, v] or v == target[n]]
        likelihood = {v: np.exp(predicted[n] @ candidates[v]) for v in counted}
        losses.append(-np.log(likelihood[int(target[n])] / sum(likelihood.values())))
    return np.mean(losses) if losses else np.float64(0)


def familiarity_loss(positive_logit, negative_logit, mask):
    losses = []
    for positive, negative, real in zip(positive_logit, negative_logit, mask, strict=True):
        if real:
            s_positive, s_negative = 1 / (1 + np.exp(-positive)), 1 / (1 + np.exp(-negative))
            losses.append(-np.log(s_positive) - np.log(1 - s_negative))
    return np.mean(losses) if losses else np.float64(0)
