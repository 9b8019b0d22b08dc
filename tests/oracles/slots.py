"""Writing segments into slots (Rehearsal Memory, 3.2), and the segment encoders before it."""

import numpy as np

from oracles.attention import project_items, slot_attention, softmax
from oracles.gru import gru_scan, project_aligned, update_slots
from oracles.rows import preceding_rows


def heads_of(attention):
    return [type(attention.heads)(*one) for one in zip(*attention.heads, strict=True)]


def segment_features(params, items):
    if hasattr(params.attention, "heads"):
        keys = np.concatenate([project_items(head, items) for head in heads_of(params.attention)], axis=-1)
        return keys, project_aligned(params.update, items)
    return project_items(params.attention, items), project_aligned(params.update, items)


def update_of_part(update, slots, aligned, part, parts):
    """What the units of one of so many equal parts come to; zero elsewhere. Of small GRUs: what theirs add."""
    if hasattr(update, "w_out"):
        each = len(update.w_slot) // parts
        chosen = slice(part * each, (part + 1) * each)
        small = type(update.gru)(*(weights[chosen] for weights in update.gru))
        out = np.concatenate(np.split(update.w_out, len(update.w_slot))[chosen])
        return update_slots(type(update)(update.w_slot[chosen], update.w_item[chosen], small, out), slots, aligned)
    own = np.arange(slots.shape[1]) * parts // slots.shape[1] == part
    return np.where(own, update_slots(update, slots, aligned), 0)


def write_by_heads(params, slots, items, mask, normalize):
    heads = heads_of(params.attention)
    over = "slots" if normalize == "mass" else normalize
    pairs = [slot_attention(head, slots, items, mask, over) for head in heads]
    masses = [weights.sum(1) if normalize == "mass" else np.ones(len(slots)) for weights, _ in pairs]
    whole = sum(
        update_of_part(params.update, slots, aligned / mass[:, None], part, len(heads))
        for part, ((_, aligned), mass) in enumerate(zip(pairs, masses, strict=True))
    )
    return slots + np.minimum(np.mean(masses, axis=0), 1)[:, None] * (whole - slots)


def write_segment(params, slots, items, mask, normalize="slots"):
    if not np.any(mask):
        return slots
    if hasattr(params.attention, "heads"):
        return write_by_heads(params, slots, items, mask, normalize)
    if normalize == "mass":
        weights, aligned = slot_attention(params.attention, slots, items, mask)
        mass = weights.sum(1)
        whole = update_slots(params.update, slots, aligned / mass[:, None])
        return np.stack([m + min(a, 1) * (new - m) for m, a, new in zip(slots, mass, whole, strict=True)])
    return update_slots(params.update, slots, slot_attention(params.attention, slots, items, mask, normalize)[1])


def write_stream(params, slots, segments, mask, normalize="slots"):
    for items, real in zip(segments, mask, strict=True):
        slots = write_segment(params, slots, items, real, normalize)
    return slots


def in_context(encode, items, mask, size):
    """Each segment encoded together with the `size` real items before it, of which nothing is handed on."""
    start = np.zeros((size, items.shape[-1])), np.zeros(size, bool)
    rows, real = preceding_rows(items, mask, *start)
    widened = (np.concatenate([rows[t], items[t]]) for t in range(len(items)))
    reals = (np.concatenate([real[t], mask[t]]) for t in range(len(items)))
    return np.stack([encode(x, there)[size:] for x, there in zip(widened, reals, strict=True)])


def layer_norm(x, params, epsilon=1e-6):
    return (x - x.mean()) / np.sqrt(x.var() + epsilon) * params["scale"] + params["bias"]


def transformer_segment(params, items, mask, layers, heads):
    """One segment through the pre-norm Transformer encoder; rows of padding stay zero."""
    real = [n for n in range(len(items)) if mask[n]]
    x = {n: items[n] + params["positions"][n] for n in real}
    for layer in range(layers):
        norm_1, norm_2 = params[f"LayerNorm_{2 * layer}"], params[f"LayerNorm_{2 * layer + 1}"]
        attention = params[f"Attention_{layer}"]["MultiHeadDotProductAttention_0"]
        y = {n: layer_norm(x[n], norm_1) for n in real}
        for n in real:
            x[n] = x[n] + attention["out"]["bias"]
            for h in range(heads):
                query, key, value = (
                    {m: y[m] @ attention[name]["kernel"][:, h] + attention[name]["bias"][h] for m in real}
                    for name in ("query", "key", "value")
                )
                logits = np.array([query[n] @ key[m] / np.sqrt(len(key[m])) for m in real])
                seen = sum(w * value[m] for w, m in zip(softmax(logits), real, strict=True))
                x[n] = x[n] + seen @ attention["out"]["kernel"][h]
        dense_1, dense_2 = (params[f"FeedForward_{layer}"][f"Dense_{i}"] for i in range(2))
        for n in real:
            inside = np.maximum(layer_norm(x[n], norm_2) @ dense_1["kernel"] + dense_1["bias"], 0)
            x[n] = x[n] + inside @ dense_2["kernel"] + dense_2["bias"]
    out = np.zeros_like(items)
    for n in real:
        out[n] = layer_norm(x[n], params[f"LayerNorm_{2 * layers}"])
    return out


def gru_segment(rightward, leftward, items, mask):
    """One segment through a GRU from the left and one from the right, each half as wide."""
    start = np.zeros(items.shape[1] // 2)
    right = gru_scan(rightward, start, items, mask)[1]
    left = gru_scan(leftward, start, items, mask, reverse=True)[1]
    return np.concatenate([right, left], axis=1)
