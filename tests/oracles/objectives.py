"""What is minimised and what is measured, in float64, one example and one answer after another; from the equations.

Given is what a model put out. Losses are in nats. An objective is the mean of its examples; the means that are reported
beside it are means of the examples too. A measure is four sums of one example: its losses, how many these are, the
answers that are right, and how many were asked for.
"""

import numpy as np

from oracles import losses, retention

NOTHING = -1  # no target, no question, no answer that is known


def cross_entropy(logits, label):
    """`-log softmax(logits)[label]`."""
    logits = np.asarray(logits, np.float64)
    highest = logits.max()
    return highest + np.log(np.sum(np.exp(logits - highest))) - logits[label]


def click_loss(logit, clicked):
    """Binary cross-entropy of one logit."""
    probability = 1 / (1 + np.exp(-np.float64(logit)))
    return -np.log(probability if clicked else 1 - probability)


def is_right(logits, label):
    return float(int(np.argmax(np.asarray(logits))) == label)


def answer(logits, label):
    return {"answer_loss": cross_entropy(logits, label), "accuracy": is_right(logits, label)}


def means(rows):
    return {name: np.mean([row[name] for row in rows]) for name in rows[0]}


# A stream that is rehearsed: Rehearsal Memory, Eq. 3, 4 and 7, the sign of the second term of Eq. 4 put right.


def recollection(recalled, table, items, hidden, drawn, sampled=None):
    """The mean over the fragments of the mean over their hidden items of `-log p(item)`.

    recalled `[F, N, d]`; table: the embeddings of all ids; sampled: the ids that an item is told from, None for all;
    one that is the item itself does not count.
    """
    found = []
    for f in np.flatnonzero(drawn):
        of_fragment = []
        for n in np.flatnonzero(hidden[f]):
            item = int(items[f][n])
            others = [i for i in (range(len(table)) if sampled is None else sampled) if i != item]
            logits = [np.float64(recalled[f][n]) @ np.float64(table[i]) for i in (item, *others)]
            of_fragment.append(cross_entropy(logits, 0))
        if of_fragment:
            found.append(np.mean(of_fragment))
    return np.mean(found) if found else 0.0


def familiarity(positive, negative, counts):
    return losses.familiarity_loss(np.float64(positive), np.float64(negative), counts)


def rehearsal(rows, weights):
    """(loss, means) of the rows of a batch, each with answer_loss, aux_loss and, if rehearsed, the two others."""
    found, total = means(rows), 0.0
    for name, weight in (("aux", 1.0), *weights.items()):
        total += weight * found.get(f"{name}_loss", 0.0)
    return total, found


# Sequences of tokens, and of vectors of bits.


def tokens(logits, target):
    """(losses, which are right) of the targets of a sequence."""
    asked = [t for t in range(len(target)) if target[t] != NOTHING]
    return [cross_entropy(logits[t], target[t]) for t in asked], [is_right(logits[t], target[t]) for t in asked]


def bits(logits, wanted, asked):
    """(losses, which are right) of the bits of the steps that ask."""
    found, right = [], []
    for t in np.flatnonzero(asked):
        for logit, bit in zip(logits[t], wanted[t], strict=True):
            found.append(click_loss(logit, bit == 1))
            right.append(float((logit > 0) == (bit == 1)))
    return found, right


def mean_of_each(found):
    """One row of a batch, from its (losses, which are right)."""
    return {"answer_loss": np.mean(found[0]), "accuracy": np.mean(found[1])}


def measured(found, whole=False):
    """The four sums; whole: all of them are one answer."""
    of_all = [float(np.sum(found[0])), len(found[0])]
    return [*of_all, float(np.all(found[1])), 1] if whole else [*of_all, float(np.sum(found[1])), len(found[1])]


# What a policy did: advantage actor-critic with generalized advantages.


def actor_critic(now, then, reward, how, ended=None):
    """The three parts and their sum, step by step.

    now: acted, log_prob, entropy, value at the parameters where the loss is wanted. then: value at those where it is
    differentiated, from which advantages and returns come: constants to the gradient. ended: whether an episode was
    over after each step, and then value goes one step further; None: one episode, nothing follows the last step.
    """
    steps = len(reward)
    ended, after = ([False] * (steps - 1) + [True], 0.0) if ended is None else (ended, float(then["value"][steps]))
    expected = [float(v) for v in then["value"][:steps]]
    discounts = [0.0 if over else how.discount for over in ended]
    advantages = retention.generalized_advantages(reward, expected, discounts, after, how.trace)
    policy = value = entropy = 0.0
    for t in range(steps):
        value += (now["value"][t] - (expected[t] + advantages[t])) ** 2 / 2
        if now["acted"][t]:
            policy -= now["log_prob"][t] * advantages[t]
            entropy += now["entropy"][t]
    loss = policy + how.value * value - how.entropy * entropy
    return {"loss": loss, "policy_loss": policy, "value_loss": value, "entropy": entropy}


def reward_of_evictions(kind, read, label, support, lines):
    """For the eviction at each line, what the next one brings: its answer, or whether its question's facts are held."""
    asked = [label[t] != NOTHING for t in range(lines)]
    if kind == "facts":
        brought = retention.facts_held(np.asarray(read["entries"]), asked, support)
    else:
        brought = [(2 * is_right(read["logits"][t], label[t]) - 1) if asked[t] else 0.0 for t in range(lines)]
    return [*brought[1:lines], 0.0]


def stream(now, then, label, support, lines, kind, how):
    """One row of a batch of streams of `lines` lines: losses of the answers, summed; of the policy, by the line."""
    questions = [t for t in range(lines) if label[t] != NOTHING]
    answered = [answer(now["logits"][t], label[t]) for t in questions]
    reward = reward_of_evictions(kind, then, label, support, lines)
    parts = actor_critic(now, then, reward, how)
    by_line = {name: part / lines for name, part in parts.items()}
    total = sum(row["answer_loss"] for row in answered) + by_line["loss"]
    return means(answered) | by_line | {"loss": total}


def episodes(rows, steps, ended, won):
    """(loss, means) of a batch of streams of `steps` steps: by the step; `rows` are their `actor_critic`.

    ended, won: how many episodes of each did.
    """
    found = {name: np.mean([row[name] for row in rows]) / steps for name in rows[0]}
    count = np.sum(ended)
    return found.pop("loss"), found | {"steps": steps * len(rows) / count, "accuracy": np.sum(won) / count}


# A split.


def tally(rows, tags):
    """What an evaluation says of `rows`, each the four sums of an example.

    tags: for each of them the names of its values, and the value of each example.
    """

    def of(chosen):
        right = sum(row[2] for row in chosen if np.isfinite(row[0]))
        asked = sum(row[3] for row in chosen)
        return {"accuracy": right / asked, "answers": asked, "examples": len(chosen)}

    diverged = sum(not np.isfinite(row[0]) for row in rows)
    count = sum(row[1] for row in rows)
    loss = {}
    if diverged:
        loss["answer_loss"] = np.nan
    elif count:
        loss["answer_loss"] = sum(row[0] for row in rows) / count
    by_tag = {}
    for tag, (names, values) in tags.items():
        groups = {name: [row for row, v in zip(rows, values, strict=True) if v == n] for n, name in enumerate(names)}
        by_tag[tag] = {name: of(group) for name, group in groups.items() if group}
    return {**of(rows), **loss, "diverged": diverged, "tags": by_tag}
