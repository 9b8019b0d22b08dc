"""LEMN's reader line by line: a list of entries, a MemN2N over it, a policy, a critic; written from the equations."""

from types import SimpleNamespace

import numpy as np

from oracles import memory_network, retention
from oracles.attention import softmax
from oracles.gru import gru_scan, gru_step


def gru_of(p, name):
    return SimpleNamespace(**{leaf: p[f"{name}_{leaf}"] for leaf in ("w_x", "w_h", "b_x", "b_h")})


def read(params, texts, asked, *, answers, hops, size, policy, nop=True):
    """texts: the words of each line. For each step logits, value, shares of the candidates, who is held."""
    base = params["base"]
    tables, clocks = base["words"], base["times"]
    width = tables.shape[2]

    def embedded(table, words):
        vectors = np.array([tables[table][word] for word in words])
        return 2 * memory_network.embed_sentence(vectors, [True] * len(words))

    def rows(table, lines, first=1):
        """The embeddings of lines, the newest last, which has time index `first`."""
        times = range(first + len(lines) - 1, first - 1, -1)
        return np.array([embedded(table, texts[n]) + clocks[table][t - 1] for n, t in zip(lines, times, strict=True)])

    def hopped(u, by_table):
        """The question after all hops, and the mean scores."""
        scores = []
        for k in range(hops):
            keys, values = by_table[k], by_table[k + 1]
            scores.append(keys @ u)
            empty = size + 1 - len(keys)
            _, u = memory_network.memory_hop(u, keys, values, [True] * len(keys), empty=empty)
        return u, np.mean(scores, axis=0)

    new_kept = np.zeros(max(1, width // 4) if policy == "st" else 1)
    held, kept, used, critic, found = [], [], [], np.zeros(width), []
    usage_of_nothing = new_kept
    for now, words in enumerate(texts):
        seen = [rows(k, held).reshape(-1, width) for k in range(hops + 1)]
        u, attention = hopped(embedded(0, words), seen)
        logits = (tables[hops] @ u)[list(answers)]
        before = list(held)
        if asked[now] and held:
            used[int(np.argmax(attention))] = now

        candidates = [rows(k, [*held, now]) for k in range(hops + 1)]
        if policy == "im":
            nothing = params["nothing"]
            for k in range(hops + 1):
                candidates[k][-1] = nothing[k] + clocks[k][0]
        last_kept = usage_of_nothing if policy == "im" else new_kept
        encodings, states = candidates[1], np.array([*kept, last_kept])
        if policy == "fifo":
            scores = -np.arange(len(states), dtype=float)
        elif policy == "lifo":
            scores = np.append(np.arange(len(held)), -1.0)
        elif policy == "lru":
            scores = -np.array([*used, now], float)
        elif policy == "uniform":
            scores = np.zeros(len(states))
        elif policy == "im":
            vectors = np.array([tables[0][word] for word in words])
            query, _ = gru_scan(gru_of(params, "words"), np.zeros(width), vectors, [True] * len(words))
            _, z = hopped(query, candidates)
            p = params["chooses"]
            scores, usage = retention.input_matching(SimpleNamespace(w=p["w"], b=p["b"]), z, states[:, 0], query)
            states = np.append(usage[:-1, None], [new_kept], axis=0)
            usage_of_nothing = usage[-1:]
        else:
            p = params["chooses"]
            among = SimpleNamespace(
                forward=gru_of(p, "forward"), backward=gru_of(p, "backward"), w=p["among_w"], b=p["among_b"]
            )
            if not nop:  # the line is no candidate, and is kept as new
                encodings, states = encodings[:-1], states[:-1]
            features = retention.spatial_features(among, encodings, [True] * len(encodings))
            score = SimpleNamespace(w=p["score_w"][:, 0], b=p["score_b"][0])
            if policy == "s":
                score.hidden = SimpleNamespace(w=p["hidden_w"], b=p["hidden_b"])
                scores = retention.spatial_scores(score, features)
            else:
                score.hidden = gru_of(p, "over_time")
                scores, states = retention.temporal_scores(score, features, states)
        if not nop:
            scores, encodings = scores[: len(held)], encodings[: len(held)]
            states = np.array([*states[: len(held)], new_kept])
        shares = softmax(scores) if len(scores) else np.ones(1)

        summed = encodings.sum(0) @ params["expects"]["kernel"] + params["expects"]["bias"]
        critic = gru_step(gru_of(params, "critic"), critic, summed)
        value = (critic @ params["worth"]["kernel"] + params["worth"]["bias"])[0]
        goes = int(np.argmax(shares))
        full = len(held) == size
        found.append(
            {"logits": logits, "value": value, "entries": before, "shares": shares, "goes": goes, "full": full}
        )

        held, kept, used = [*held, now], list(states), [*used, now]
        if full:
            del held[goes], kept[goes], used[goes]
    return found
