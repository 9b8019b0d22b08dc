"""Buffers, the learned policies of LEMN, and generalized advantages, entry by entry and step by step."""

from types import SimpleNamespace

import numpy as np

from oracles.attention import softmax
from oracles.gru import gru_scan, gru_step, sigmoid


def evict(entries, count, index, entry):
    """`entries`: a list of N, of which the first `count` are filled. A buffer that is not full appends."""
    filled = list(entries[:count])
    if count < len(entries):
        filled.append(entry)
    elif index < count:
        del filled[index]
        filled.append(entry)
    return np.array([*filled, *entries[len(filled) :]]), len(filled)


def input_matching(params, logits, usage, input):
    gamma = sigmoid(params.w @ input + params.b)
    scores = np.array([z - gamma * v for z, v in zip(logits, usage, strict=True)])
    return scores, np.array([0.1 * v + 0.9 * z for z, v in zip(logits, usage, strict=True)])


def spatial_features(params, entries, mask):
    begin = np.zeros(params.forward.w_h.shape[0])
    _, forward = gru_scan(params.forward, begin, entries, mask)
    _, backward = gru_scan(params.backward, begin, entries, mask, reverse=True)
    return np.array(
        [np.maximum(np.append(f, b) @ params.w + params.b, 0) for f, b in zip(forward, backward, strict=True)]
    )


def spatial_scores(params, features):
    return np.array([(f @ params.hidden.w + params.hidden.b) @ params.w + params.b for f in features])


def temporal_scores(params, features, hidden):
    after = [gru_step(params.hidden, h, f) for h, f in zip(hidden, features, strict=True)]
    return np.array([h @ params.w + params.b for h in after]), np.array(after)


def gru_of(p, name):
    return SimpleNamespace(**{leaf: p[f"{name}_{leaf}"] for leaf in ("w_x", "w_h", "b_x", "b_h")})


def policy_scores(policy, p, encodings, states, used, z=None, query=None):
    """Scores of the candidates, the newest last, and what is kept with each of them afterwards."""
    count = len(states)
    if policy == "fifo":
        return -np.arange(count, dtype=float), states
    if policy == "lifo":
        return np.append(np.arange(count - 1), -1.0), states
    if policy == "lru":
        return -np.array(used, float), states
    if policy == "uniform":
        return np.zeros(count), states
    if policy == "im":
        scores, usage = input_matching(SimpleNamespace(w=p["w"], b=p["b"]), z, states[:, 0], query)
        return scores, usage[:, None]
    among = SimpleNamespace(
        forward=gru_of(p, "forward"), backward=gru_of(p, "backward"), w=p["among_w"], b=p["among_b"]
    )
    features = spatial_features(among, encodings, [True] * len(encodings))
    score = SimpleNamespace(w=p["score_w"][:, 0], b=p["score_b"][0])
    if policy == "s":
        score.hidden = SimpleNamespace(w=p["hidden_w"], b=p["hidden_b"])
        return spatial_scores(score, features), states
    score.hidden = gru_of(p, "over_time")
    return temporal_scores(score, features, states)


def shares(policy, scores):
    """How likely each candidate is to go: a rule that does not draw is certain."""
    if not len(scores):
        return np.ones(1)
    certain = policy in ("fifo", "lifo", "lru")
    return (np.arange(len(scores)) == np.argmax(scores)).astype(float) if certain else softmax(scores)


def generalized_advantages(rewards, values, discounts, last_value, trace):
    """From the definition: the sum over all later steps of errors, each worth less by discounts and trace."""
    following, found = [*values[1:], last_value], []
    errors = [r + d * v2 - v for r, d, v2, v in zip(rewards, discounts, following, values, strict=True)]
    for t in range(len(rewards)):
        worth, total = 1.0, 0.0
        for later in range(t, len(rewards)):
            total += worth * errors[later]
            worth *= discounts[later] * trace
        found.append(total)
    return np.array(found)


def facts_held(entries, asked, support):
    """For each step 1 if what has come of the lines that the next question follows from is held, else -1."""
    brought = []
    for t in range(len(asked)):
        ahead = [q for q in range(t, len(asked)) if asked[q]]
        come = [fact for fact in support[ahead[0]] if 0 <= fact < t] if ahead else []
        brought.append((1 if set(come) <= set(entries[t]) else -1) if come else 0)
    return np.array(brought)
