"""MQN and FRMQN view by view: a list of the views held, attention over them, a policy, a critic; from the equations."""

from types import SimpleNamespace

import numpy as np

from oracles import external, retention
from oracles.attention import softmax
from oracles.gru import gru_step
from oracles.retention import gru_of


def linear(p, name, x):
    return x @ p[name]["kernel"] + p[name].get("bias", 0)


def walk(p, views, *, codes, base, size, policy, nop=True):
    """For each view log-probabilities of the actions, value, attention, who is held, shares of the candidates."""
    width = p["encode"]["bias"].shape[0]
    new_kept = np.zeros(max(1, width // 4) if policy == "st" else 1)
    h, c, o, critic, found = np.zeros(width), np.zeros(width), np.zeros(width), np.zeros(width), []
    held, kept, used, usage_of_nothing = [], [], [], new_kept
    encoded = []
    for now, view in enumerate(views):
        cells = [float(cell == code) for cell in view.ravel() for code in range(codes)]
        encoded.append(np.maximum(linear(p, "encode", np.array(cells)), 0))
        if base == "mqn":
            h = linear(p, "context", encoded[-1])
        else:
            lstm = SimpleNamespace(**{leaf: p[f"context_{leaf}"] for leaf in ("w_x", "w_h", "b")})
            h, c = external.lstm(lstm, {"hidden": h, "cell": c, "reads": o}, encoded[-1])
        keys = np.array([linear(p, "address", encoded[n]) for n in held]).reshape(-1, width)
        values = np.array([linear(p, "content", encoded[n]) for n in [*held, now]])
        attention = softmax(keys @ h) if held else np.zeros(0)
        o = attention @ values[:-1]
        g = linear(p, "join", h) + o
        g[width // 2 :] = np.maximum(g[width // 2 :], 0)
        actions = np.log(softmax(linear(p, "acts", g)))
        if held:
            used[int(np.argmax(attention))] = now

        encodings, z = values.copy(), np.append(keys, [linear(p, "address", encoded[now])], axis=0) @ h
        if policy == "im":
            z[-1], encodings[-1] = p["nothing"][0] @ h, p["nothing"][1]
        states = np.array([*kept, usage_of_nothing if policy == "im" else new_kept])
        if not nop and policy in ("s", "st"):  # the view is no candidate, and is kept as new
            encodings, states = encodings[:-1], states[:-1]
        scores, states = retention.policy_scores(policy, p.get("chooses"), encodings, states, [*used, now], z, h)
        if policy == "im":
            usage_of_nothing, states = states[-1], np.append(states[:-1], [new_kept], axis=0)
        if not nop:
            scores = scores[: len(held)]
            states = np.array([*states[: len(held)], new_kept])
        shares = retention.shares(policy, scores)

        critic = gru_step(gru_of(p, "critic"), critic, linear(p, "expects", np.append(values.sum(0), g)))
        goes, full = int(np.argmax(shares)), len(held) == size
        found.append(
            {
                "actions": actions,
                "value": linear(p, "worth", critic)[0],
                "attention": attention,
                "entries": list(held),
                "shares": shares,
                "goes": goes,
                "full": full,
            }
        )
        held, kept, used = [*held, now], list(states), [*used, now]
        if full:
            del held[goes], kept[goes], used[goes]
    return found
