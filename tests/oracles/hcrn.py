"""HCRN, subset by subset, in NumPy: from clips of real frames, and real words, to logits."""

import math
from fractions import Fraction

import numpy as np

from oracles.attention import softmax
from oracles.external import sigmoid
from oracles.multi_stream import bidirectional_lstm
from oracles.recommenders import linear
from oracles.video_readers import head, lstm_states


def elu(x):
    return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)


def sizes(most, largest):
    found, k = [], 2
    while k <= largest and (k < most or k == 2):
        found.append(k)
        k += 1
    return found


def members(count, size, subset, subsets):
    """The objects of a subset: evenly spread, and the s-th subset s/t of a step further."""
    step = Fraction(count, size)
    return [math.floor((i + Fraction(subset, subsets)) * step) for i in range(size)]


def unit(p, objects, condition, ks, subsets, gated):
    found = []
    for number, k in enumerate(ks):
        of_size = []
        for s in range(subsets):
            g = sum(objects[i] for i in members(len(objects), k, s, subsets)) / k
            joined = np.concatenate([g, condition])
            h = elu(joined @ p["relate_w"][number] + p["relate_b"][number])
            if gated:
                h = h * sigmoid(joined @ p["gate_w"][number] + p["gate_b"][number])
            of_size.append(h)
        found.append(sum(of_size) / subsets)
    return found


def attend(p, objects, asked):
    scores = []
    for o in objects:
        m = o @ p["seen"]["kernel"]
        joined = np.concatenate([m, m * (asked @ p["asked"]["kernel"])])
        scores.append(linear(p["score"], elu(linear(p["joined"], joined)))[0])
    return sum(a * o for a, o in zip(softmax(np.array(scores)), objects, strict=True))


def logits(p, clips, words, most_frames, most_clips, largest, subsets):
    """`clips` are lists of frames, none of them empty; the most frames and clips there could be give the sizes."""
    asked, _ = bidirectional_lstm(p["query"]["text"], p["query"]["embed"]["embedding"][words])
    first, motions = [], []
    for clip in clips:
        frames = [linear(p["embed"], frame) for frame in clip]
        motions.append(lstm_states(p["frames"], frames)[-1])
        by_motion = unit(p["clip_motion"], frames, motions[-1], sizes(most_frames, largest), subsets, False)
        then = sizes(len(by_motion), largest)
        first.append(unit(p["clip_question"], by_motion, asked, then, subsets, True))
    motion, objects = lstm_states(p["clips"], motions)[-1], []
    for place in range(len(first[0])):
        of_clips = [clip[place] for clip in first]
        by_motion = unit(p["video_motion"], of_clips, motion, sizes(most_clips, largest), subsets, False)
        objects += unit(p["video_question"], by_motion, asked, sizes(len(by_motion), largest), subsets, True)
    seen = attend(p, objects, asked)
    return head(p, elu(linear(p["fused"], np.concatenate([seen, linear(p["question"], asked)]))))
