"""End-To-End Memory Networks (Sukhbaatar et al. 2015), sections 2 and 4.1, one number after another."""

import numpy as np

from oracles.attention import softmax


def position_weights(mask, width):
    """l_kj = (1 - j/J) - (k/d)(1 - 2j/J): j counts the words, J of them, and k the coordinates, d of them, from 1."""
    real = [place for place in range(len(mask)) if mask[place]]
    weights = np.zeros((len(mask), width))
    for j, place in enumerate(real, 1):
        for k in range(1, width + 1):
            weights[place, k - 1] = (1 - j / len(real)) - (k / width) * (1 - 2 * j / len(real))
    return weights


def centred_weights(mask, width, places):
    """l_kj = 1 + 4 (k - (d+1)/2)(j - (J+1)/2) / (dJ): as above, but J is given."""
    weights, j = np.zeros((len(mask), width)), 0
    for place in range(len(mask)):
        if mask[place]:
            j += 1
            for k in range(1, width + 1):
                weights[place, k - 1] = 1 + 4 * (k - (width + 1) / 2) * (j - (places + 1) / 2) / (width * places)
    return weights


def embed_sentence(words, mask, encoding="position"):
    """Sum of the word vectors, each coordinate weighed by the word's place; a bag of words weighs all alike."""
    weights = position_weights(mask, words.shape[1]) if encoding == "position" else np.ones(words.shape)
    total = np.zeros(words.shape[1])
    for place in range(len(words)):
        if mask[place]:
            for k in range(words.shape[1]):
                total[k] += weights[place, k] * words[place, k]
    return total


def sentence_weights(ids, mask, vocabulary, encoding="position"):
    """What embed_sentence multiplies a word's row with is first[v] - (k/d) second[v]: both, for each word v."""
    weights, real = np.zeros((2, vocabulary)), [word for word, is_word in zip(ids, mask, strict=True) if is_word]
    for j, word in enumerate(real, 1):
        weights[0, word] += 1 - j / len(real) if encoding == "position" else 1
        weights[1, word] += 1 - 2 * j / len(real) if encoding == "position" else 0
    return weights


def centred_sentence_weights(ids, mask, vocabulary, width, places):
    """The same for the centred weights, from those of the first and the last coordinate."""
    weights, of_words = np.zeros((2, vocabulary)), centred_weights(mask, width, places)
    for place, word in enumerate(ids):
        slope = (of_words[place, 0] - of_words[place, -1]) / (1 - 1 / width)
        weights[0, word] += of_words[place, -1] + slope
        weights[1, word] += slope
    return weights


def embed_weights(table, weights):
    width = table.shape[1]
    total = np.zeros(width)
    for k in range(1, width + 1):
        for v in range(len(table)):
            total[k - 1] += (weights[0, v] - k / width * weights[1, v]) * table[v, k - 1]
    return total


def memory_hop(query, keys, values, mask, transition=None, linear=False, empty=0):
    """p = softmax(u.m) over real rows (linear: p = u.m), o = sum p_i c_i; the next u is u + o, or H u + o.

    empty: rows of zeros are put behind these, and have their share; that is left out of p.
    """
    keys, values = (np.concatenate([rows, np.zeros((empty, rows.shape[1]))]) for rows in (keys, values))
    mask = [*mask, *[True] * empty]
    p = np.zeros(len(keys))
    real = [i for i in range(len(keys)) if mask[i]]
    if real:
        scores = np.array([sum(query[k] * keys[i, k] for k in range(len(query))) for i in real])
        p[real] = scores if linear else np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    out = np.array(query, np.float64) if transition is None else np.array([row @ query for row in transition])
    for i in real:
        out = out + p[i] * values[i]
    return p[: len(p) - empty], out


def answer(params, sentences, query, tying, encoding, hops, memory, linear=False, times=None, places=None):
    """Logits over the rows of the last table, of a story of word lists (oldest first) and a question, a list too.

    times: the time index of each of the last sentences, newest = 1, where noise has changed them. None: no noise.
    places: J, with which weights are centred, and an embedding of time is a word at the last of these places.
    """
    sentences = sentences[-memory:]
    if times is None:
        times = [len(sentences) - i for i in range(len(sentences))]
    tables, clocks = np.asarray(params["words"], np.float64), params.get("times")

    def embedded(table, words):
        vectors = np.array([tables[table][word] for word in words])
        if places:
            return (centred_weights([True] * len(words), tables.shape[-1], places) * vectors).sum(0)
        return (2 if encoding == "position" else 1) * embed_sentence(vectors, [True] * len(words), encoding)

    def rows(table):
        found = []
        for words, time in zip(sentences, times, strict=True):
            clock = 0 if clocks is None else np.asarray(clocks, np.float64)[table][time - 1]
            clock = clock * centred_weights([True] * places, tables.shape[-1], places)[-1] if places else clock
            found.append(embedded(table, words) + clock)
        return np.array(found).reshape(len(found), tables.shape[-1])

    adjacent = tying == "adjacent"
    u = embedded(0 if adjacent else 2, query)
    for k in range(hops):
        keys, values = (rows(k), rows(k + 1)) if adjacent else (rows(0), rows(1))
        transition = None if adjacent else np.asarray(params["transition"], np.float64)
        _, u = memory_hop(u, keys, values, [True] * len(keys), transition, linear, memory - len(keys))
    return np.array([row @ u for row in tables[hops if adjacent else 3]])


def language_model(params, words, hops, memory):
    """Logits after each word: the last words as the memory, a constant question, layer-wise tying, half ReLU."""
    logits = []
    for now in range(len(words)):
        last = words[max(0, now - memory + 1) : now + 1][::-1]  # the newest first
        keys = [params["key_words"][word] + params["key_times"][i] for i, word in enumerate(last)]
        values = [params["value_words"][word] + params["value_times"][i] for i, word in enumerate(last)]
        u = np.full(params["transition"].shape[0], 0.1)
        for _ in range(hops):
            shares = softmax(np.array([u @ key for key in keys]))
            u = params["transition"] @ u + sum(share * value for share, value in zip(shares, values, strict=True))
            half = len(u) // 2
            u = np.array([number if k < half else max(number, 0) for k, number in enumerate(u)])
        logits.append(params["out"] @ u)
    return np.array(logits)
