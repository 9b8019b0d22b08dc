"""How well scores rank what is wanted above what is not. NumPy alone, float64."""

import numpy as np


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """The area under the curve: how often a yes is scored above a no; of equal scores half.

    >>> auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 1, 0, 1]))
    0.875
    """
    order = np.argsort(scores, kind="stable")
    _, place, count = np.unique(scores[order], return_index=True, return_counts=True)
    rank = np.empty(len(scores))
    rank[order] = np.repeat(place + (count + 1) / 2, count)
    yes = labels == 1
    pairs = yes.sum() * (~yes).sum()
    return float((rank[yes].sum() - yes.sum() * (yes.sum() + 1) / 2) / pairs)
