"""BiDAF word by word, LEMN's reader of documents block by block, and SQuAD's rule on texts, as its script has it."""

import re
import string
from collections import Counter

import numpy as np

from oracles import retention
from oracles.attention import softmax
from oracles.attention_sum import states as read_both_ways
from oracles.gru import gru_scan, gru_step
from oracles.retention import gru_of


def normalized(text):
    """SQuAD's: lower case, punctuation, articles, white space."""
    text = "".join(char for char in text.lower() if char not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def squad(said, answers):
    """(exact match, F1), the best of any answer."""
    exact = max(normalized(said) == normalized(answer) for answer in answers)
    scores = []
    for answer in answers:
        ours, theirs = normalized(said).split(), normalized(answer).split()
        common = sum((Counter(ours) & Counter(theirs)).values())
        precision, recall = common / max(1, len(ours)), common / max(1, len(theirs))
        scores.append(2 * precision * recall / (precision + recall) if common else 0.0)
    return float(exact), max(scores)


def embedded(p, ids):
    table = p["embed"]["embedding"]
    return np.array([table[word if word < len(table) else 1] for word in ids])


def read(p, blocks):
    """blocks: lists of ids without padding. The last states of each, and all states, one after another."""
    each = [read_both_ways(p["contextual"], embedded(p, block)) for block in blocks]
    lasts, states = zip(*each, strict=True)
    return np.array(lasts), np.concatenate(states)


def similarity(p, h, u):
    return h @ p["of_text"] + u @ p["of_question"] + (h * u) @ p["of_product"]


def bidaf(p, blocks, query):
    """Logits of the first and the last word."""
    _, text = read(p, blocks)
    _, question = read(p, [query])
    scores = np.array([[similarity(p, h, u) for u in question] for h in text])
    summed = softmax(scores.max(1)) @ text
    same = [float(word in query) for block in blocks for word in block]
    flow = np.array(
        [
            np.concatenate([h, a, h * a, h * summed, [e]])
            for h, s, e in zip(text, scores, same)
            for a in [softmax(s) @ question]
        ]
    )
    states, layer = flow, 0
    while f"modelling_{layer}" in p:
        _, states = read_wide(p[f"modelling_{layer}"], states)
        layer += 1
    _, ending = read_wide(p["ending"], states)
    heads = [(np.concatenate([flow, m], axis=1), p[name]) for m, name in ((states, "begins"), (ending, "ends"))]
    return [x @ head["kernel"][:, 0] + head["bias"][0] for x, head in heads]


def read_wide(p, items):
    """As `read_both_ways`, of items of any width."""
    width, every = len(p["rightward_w_h"]), [True] * len(items)
    right_last, right = gru_scan(gru_of(p, "rightward"), np.zeros(width), items, every)
    left_last, left = gru_scan(gru_of(p, "leftward"), np.zeros(width), items, every, reverse=True)
    return np.concatenate([right_last, left_last]), np.concatenate([right, left], axis=1)


def retain(params, blocks, *, size, policy):
    """For each block value, shares of the candidates, who goes, and who is held after it."""
    base = params["base"]
    encodings, _ = read(base, blocks)
    width = encodings.shape[1]
    new_kept = np.zeros(max(1, width // 4) if policy == "st" else 1)
    held, kept, used, critic, found, of_nothing = [], [], [], np.zeros(width), [], new_kept
    for now, encoding in enumerate(encodings):
        if held and policy == "lru":
            used[int(np.argmax([similarity(base, encodings[n], encoding) for n in held]))] = now
        candidates = np.array([*(encodings[n] for n in held), encoding])
        z = None
        if policy == "im":
            candidates[-1] = params["nothing"]
            z = np.array([similarity(base, row, encoding) for row in candidates])
        before = np.array([*kept, of_nothing if policy == "im" else new_kept])
        scores, after = retention.policy_scores(
            policy, params.get("evictor"), candidates, before, [*used, now], z, encoding
        )
        if policy == "im":
            of_nothing, after = after[-1], np.append(after[:-1], [new_kept], axis=0)
        shares = retention.shares(policy, scores)
        summed = candidates.sum(0) @ params["critic_in"]["kernel"] + params["critic_in"]["bias"]
        critic = gru_step(gru_of(params, "critic"), critic, summed)
        value = (critic @ params["value_head"]["kernel"] + params["value_head"]["bias"])[0]
        full, goes = len(held) == size, int(np.argmax(shares))
        held, kept, used = [*held, now], list(after), [*used, now]
        if full:
            del held[goes], kept[goes], used[goes]
        found.append({"value": value, "shares": shares, "goes": goes, "full": full, "held": held})
    return found
