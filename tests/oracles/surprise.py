"""Titans' recurrence, token by token, from the equations: S_t = eta S - theta grad, M_t = keep M + S_t, o_t = M_t(q_t).

Memories are lists of matrices with an activation between them; one matrix is linear memory.
"""

import numpy as np

DK, DV = 3, 2
ACTIVATIONS = {
    "none": (lambda x: x, np.ones_like),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "silu": (lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x)))),
}


def _sigmoid(x):
    return (1 + np.tanh(x / 2)) / 2


def apply(weights, x, activation="none"):
    act, _ = ACTIVATIONS[activation]
    for place, w in enumerate(weights):
        x = x @ w
        if place < len(weights) - 1:
            x = act(x)
    return x


# The derivatives of each number's loss by its residual r; Huber's has its border at 1.
SLOPES = {
    "l2": lambda r: r,
    "huber": lambda r: np.where(np.abs(r) < 1, r, np.sign(r)),
    "l3": lambda r: np.sign(r) * r**2,
}


def layer_norm(x, scale):
    return scale * (x - x.mean()) / np.sqrt(x.var() + 1e-6)


def layer_norm_back(x, scale, delta):
    """The gradient by x, of which the layer norm has the gradient delta: the Jacobian written out."""
    n, spread = len(x), np.sqrt(x.var() + 1e-6)
    centred = x - x.mean()
    jacobian = np.atleast_1d(scale)[:, None] * (
        (np.eye(n) - 1 / n) / spread - np.outer(centred, centred) / (n * spread**3)
    )
    return jacobian.T @ delta


def gradient(weights, x, target, activation="none", loss="l2", scale=None):
    """Of 1/2 |M(x) - target|^2, or another loss, by each matrix; and by what the memory says."""
    act, slope = ACTIVATIONS[activation]
    inputs, before = [x], []
    for place, w in enumerate(weights):
        before.append(inputs[-1] @ w)
        inputs.append(act(before[-1]) if place < len(weights) - 1 else before[-1])
    said = inputs[-1] if scale is None else layer_norm(inputs[-1], scale)
    by_said = SLOPES[loss](said - target)
    delta = by_said if scale is None else layer_norm_back(inputs[-1], scale, by_said)
    found = []
    for place in reversed(range(len(weights))):
        found.insert(0, np.outer(inputs[place], delta))
        if place:
            delta = (weights[place] @ delta) * slope(before[place - 1])
    return found, by_said


def surprise(
    memory, momentum, q, k, v, log_keep, log_momentum, lr, *, mask, chunk, decay_first=False, activation="none",
    read="token", loss="l2", scale=None, normalize_lr=False,
):  # fmt: skip
    """(out, memory, momentum). chunk=None: the gradient is taken at the memory before each token; else where the chunk
    of that many tokens began. read="chunk": outputs too. A masked token is padding: it writes nothing and asks 0.
    scale: of a layer norm behind the last matrix. normalize_lr: the rate through max(1, |gradient|^2 / |gradient by
    what is said|^2), both at the chunk's start.
    """
    out = []
    for t in range(len(q)):
        keep, eta = np.exp(log_keep[t]), np.exp(log_momentum[t])
        keep = keep[:, None] if keep.ndim else keep  # a gate for each row
        if chunk is None or t % chunk == 0:
            anchor = memory
        if mask[t]:
            at = [keep * m for m in anchor] if decay_first else anchor
            slopes, by_said = gradient(at, k[t], v[t], activation, loss, scale)
            ratio = sum((g**2).sum() for g in slopes) / (by_said**2).sum() if normalize_lr else 1
            momentum = [eta * s - lr[t] / max(1, ratio) * g for s, g in zip(momentum, slopes, strict=True)]
            memory = [keep * m + s for m, s in zip(memory, momentum, strict=True)]
        said = apply(anchor if read == "chunk" else memory, mask[t] * q[t], activation)
        out.append(said if scale is None else layer_norm(said, scale))
    return np.array(out).reshape(len(q), v.shape[-1]), memory, momentum


def tokens(rng, length, gates="open", dk=DK, dv=DV, by_channel=False):
    """q, k, v, log_keep, log_momentum, lr: at most moderately unstable, so that all numbers stay of one size."""
    q, k = rng.normal(size=(2, length, dk)) / np.sqrt(dk)
    v = rng.normal(size=(length, dv))
    keep, momentum = (np.log(rng.uniform(0.3, 1, length)) for _ in range(2))
    if by_channel:
        keep = np.log(rng.uniform(0.3, 1, (length, dk)))
    if gates == "no forgetting":
        keep = np.zeros_like(keep)
    if gates == "no momentum":
        momentum = np.full(length, -np.inf)
    if gates == "closing":  # some gates are shut, and all that was before is gone
        keep, momentum = (np.where(rng.random(gate.shape) < 0.4, -np.inf, gate) for gate in (keep, momentum))
    return q, k, v, keep, momentum, rng.uniform(0, 1, length)
