"""LEMN's reader line by line: a list of entries, a MemN2N over it, a policy, a critic; written from the equations."""

import numpy as np

from oracles import memory_network, retention
from oracles.gru import gru_scan, gru_step
from oracles.retention import gru_of


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
        z = query = None
        if policy == "im":
            vectors = np.array([tables[0][word] for word in words])
            query, _ = gru_scan(gru_of(params, "words"), np.zeros(width), vectors, [True] * len(words))
            _, z = hopped(query, candidates)
        if not nop and policy in ("s", "st"):  # the line is no candidate, and is kept as new
            encodings, states = encodings[:-1], states[:-1]
        scores, states = retention.policy_scores(
            policy, params.get("chooses"), encodings, states, [*used, now], z, query
        )
        if policy == "im":
            usage_of_nothing, states = states[-1], np.append(states[:-1], [new_kept], axis=0)
        if not nop:
            scores, encodings = scores[: len(held)], encodings[: len(held)]
            states = np.array([*states[: len(held)], new_kept])
        shares = retention.shares(policy, scores)

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
