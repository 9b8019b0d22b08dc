"""The Compressive Transformer (Rae et al. 2019) as a memory, segment after segment, in loops over real rows alone."""

import numpy as np

from oracles.attention import softmax


def layer_norm(x, scale, bias):
    return (x - np.mean(x)) / np.sqrt(np.var(x) + 1e-6) * scale + bias


def compress_rows(params, rows, mask):
    """Every `rate` rows become one, if any of them is real: `(rows, mask)`; what is not real has no part in it."""
    rate = len(params.w)
    count = -(-len(rows) // rate)
    short, real = np.zeros((count, params.w.shape[2])), np.zeros(count, bool)
    for c in range(count):
        for r in range(rate):
            s = c * rate + r
            if s < len(rows) and mask[s]:
                short[c] += rows[s] @ params.w[r]
                real[c] = True
        if real[c]:
            short[c] += params.b
    return short, real


def memory_attention(params, x, context, mask, ages=None):
    """The heads side by side; ages speak in the keys alone."""
    _, heads, size = params.w_query.shape
    real = [s for s in range(len(context)) if mask[s]]
    read = np.zeros((len(x), heads * size))
    for n in range(len(x)):
        for h in range(heads) if real else ():
            query = layer_norm(x[n], params.scale, params.bias) @ params.w_query[:, h]
            logits, values = [], []
            for s in real:
                row = layer_norm(context[s], params.scale, params.bias)
                key = (row if ages is None else row + ages[s]) @ params.w_key[:, h]
                logits.append(query @ key / np.sqrt(size))
                values.append(row @ params.w_value[:, h])
            for weight, value in zip(softmax(np.array(logits)), values, strict=True):
                read[n, h * size : (h + 1) * size] += weight * value
    return read


def reconstruction_loss(attention, compressor, x, mask, rows, row_mask):
    found = []
    for n in range(len(x)):
        if mask[n]:
            exact = memory_attention(attention, x[n : n + 1], rows, row_mask)
            short = memory_attention(attention, x[n : n + 1], *compress_rows(compressor, rows, row_mask))
            found.append(np.mean((exact - short) ** 2))
    return np.mean(found) if found else 0.0


def newest(rows, size):
    """A list of rows as the last of `size` places: `(places [size, d], which of them hold a row)`."""
    width, rows = len(rows[0]) if rows else 1, rows[-size:]
    places = np.zeros((size, width))
    for i, row in enumerate(rows):
        places[size - len(rows) + i] = row
    return places, np.arange(size) >= size - len(rows)


def compressive(params, attentions, compressors, segments, mask, *, slots, recent):
    """The whole memory: `(aux_loss, slots, filled)`. Levels: the layers' inputs, and the output of the last."""
    layers, length = len(attentions), segments.shape[1]
    kept, old, total = [[] for _ in compressors], [], 0.0  # kept[level]: compressed rows; old: (hidden, mask)
    width = segments.shape[2]
    for items, real in zip(segments, mask, strict=True):
        if not real.any():
            continue
        hidden = [np.where(real[:, None], items + params["positions"][:length], 0)]
        for level in range(layers):
            x = hidden[level]
            context, there = newest(kept[level], slots) if kept[level] else (np.zeros((slots, width)), [False] * slots)
            blank = recent - len(old)
            recents = [(np.zeros((length, width)), np.zeros(length, bool))] * blank
            recents += [(states[level], states_mask) for states, states_mask in old]
            context = np.concatenate([context, *(rows for rows, _ in recents), x])
            there = np.concatenate([there, *(rows_mask for _, rows_mask in recents), real])
            x = x + memory_attention(attentions[level], x, context, there, params["ages"]) @ params[f"w_out_{level}"]
            norm, forward = params[f"norms_{level}"], params[f"feed_forward_{level}"]
            normed = np.array([layer_norm(row, norm["scale"], norm["bias"]) for row in x])
            inside = np.maximum(normed @ forward["Dense_0"]["kernel"] + forward["Dense_0"]["bias"], 0)
            x = x + inside @ forward["Dense_1"]["kernel"] + forward["Dense_1"]["bias"]
            hidden.append(np.where(real[:, None], x, 0))
            if len(old) == recent:
                leaving, leaving_mask = old[0]
                arguments = (attentions[level], compressors[level], hidden[level], real, leaving[level], leaving_mask)
                total += reconstruction_loss(*arguments) / layers
        norm = params[f"norms_{layers}"]
        last = np.array([layer_norm(row, norm["scale"], norm["bias"]) for row in hidden[-1]])
        hidden[-1] = np.where(real[:, None], last, 0)
        old.append((hidden, real))
        if len(old) > recent:
            leaving, leaving_mask = old.pop(0)
            for level, compressor in enumerate(compressors):
                short, short_mask = compress_rows(compressor, leaving[level], leaving_mask)
                kept[level] += list(short[short_mask])
    top = list(kept[-1])
    for states, states_mask in old:
        short, short_mask = compress_rows(compressors[-1], states[-1], states_mask)
        top += list(short[short_mask])
    return total, *newest(top, slots)
