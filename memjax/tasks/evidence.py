"""The evidence task of Continual and Rehearsal Memory: which answer does this query's evidence in the stream stand for?

Source: Rehearsal Memory, appendix B. Facts and queries fall into groups; each (query, answer) has its evidence, a
sequence of facts of the query's group. A stream of random facts holds the evidence of one answer.
"""

import math
from dataclasses import dataclass

import numpy as np

from memjax.checks import at_least, at_most, check_multiple
from memjax.errors import MemjaxError, require
from memjax.tasks.random import check_seed, example_keys, fold, uniform
from memjax.tasks.stream_task import Batch, Split, TaskShape, check_indices

MAX_DRAWS = 1000
LONGEST = 2**16  # a stream: more is a mistake
MOST_DRAWN = 2**20  # facts, for all the evidences together, and a quarter of it for a stream before it is given up


@dataclass(frozen=True)
class EvidenceSpec:
    """The settings of `Evidence`, with the paper's letters.

    Attributes:
        facts: how many there are, R_f; ids are in [0, facts).
        length: of a stream, in facts, R_l; at most 65536.
        queries: how many there are, R_q.
        answers: how many there are of each query, R_a.
        evidence: its length, in facts, R_c.
        groups: into how many facts and queries fall.
        segment: its length, in facts.
        arrangement: "consecutive" puts the evidence side by side, "discrete" spreads it, in order, over at most 20% of
            the stream.
        train: examples per (query, answer).
        valid: examples per (query, answer).
        test: examples per (query, answer).
        seed: of what is drawn.
        shortest: the least length of a training stream, in facts; how many segments one has is drawn from there on. 0
            for none shorter than `length`, which is that of valid and test.
        curriculum: after how many training examples the longest stream has grown from `shortest` to `length`. They are
            read in their order then, the same with any seed of training, and of each the query and the answer are
            drawn. A second pass begins with the shortest again: let `train` x queries x answers be at least the steps x
            batch_size of each phase. 0 for all lengths from the start, in any order.

    Raises:
        MemjaxError: for what is out of range, and for sizes that contradict each other.
    """

    facts: int
    length: int
    queries: int
    answers: int
    evidence: int
    groups: int
    segment: int
    arrangement: str
    train: int
    valid: int
    test: int
    seed: int
    shortest: int = 0
    curriculum: int = 0

    def __post_init__(self):
        sizes = ("facts", "length", "queries", "answers", "evidence", "groups", "segment", "train", "valid", "test")
        at_least(self, 1, *sizes)
        at_most(self, LONGEST, "length")
        drawn = max(1, self.facts // self.groups) * self.queries * self.answers
        require(drawn <= MOST_DRAWN, f"facts / groups x queries x answers must be at most {MOST_DRAWN}, not {drawn}")
        check_seed(self.seed)
        require(
            self.arrangement in ("consecutive", "discrete"),
            f"arrangement must be 'consecutive' or 'discrete', not {self.arrangement!r}",
        )
        check_multiple(self, "facts", "groups")
        require(self.queries >= self.groups, f"queries {self.queries} must be at least groups {self.groups}")
        per_group = self.facts // self.groups
        require(
            self.evidence <= per_group,
            f"evidence {self.evidence} needs as many facts in a group; there are {per_group} (facts / groups)",
        )
        possible = math.perm(per_group, min(self.evidence, 20))  # 20 are enough for more answers than anything can hold
        require(self.answers <= possible, f"answers {self.answers} is more than the {possible} possible evidences")
        require(
            0 <= self.shortest <= self.length, f"shortest must be from 0 to length {self.length}, not {self.shortest}"
        )
        at_least(self, 0, "curriculum")
        if self.curriculum:
            most = (self.length - 1) // self.segment * self.segment  # all segments but the last
            require(0 < self.shortest <= most, f"curriculum needs streams that grow: a shortest of 1 to {most}")
            size = self.train * self.queries * self.answers
            require(
                self.curriculum <= size,
                f"curriculum {self.curriculum} is more than the {size} examples of train (train x queries x answers)",
            )
        for name in ("length", "shortest") if self.shortest else ("length",):
            length = getattr(self, name)
            need = self.evidence if self.arrangement == "consecutive" else max(int(0.2 * length), self.evidence)
            require(
                need <= length // 2,
                f"{name} {length} must hold the evidence ({need} places) within one half of the stream",
            )


class Evidence:
    """The task's examples, each a function of (spec, split, index): implements `memjax.tasks.Task`.

    An example of index i has the logic chain (query, answer) number `i % (queries * answers)`; of a curriculum those of
    train have one that is drawn, since neighbours share a batch there. Its evidence lies in the early or the later
    half, equally likely, as the tag "half" says; tag "quarter" says where its middle lies, and "border" whether it
    lies inside one segment or crosses the border of two.

    Attributes:
        spec: its settings.
        shape: of its batches.
        chains: the evidence of each (query, answer), `[R_q, R_a, R_c]`.
        ordered: whether training reads the examples in their order: for a curriculum.
    """

    notes = ()

    def __init__(self, spec: EvidenceSpec):
        self.spec, self.ordered = spec, spec.curriculum > 0
        self.shape = TaskShape(
            items=spec.facts,
            segments=math.ceil(spec.length / spec.segment),
            segment=spec.segment,
            queries=spec.queries,
            query_words=None,
            answer="classes",
            classes=spec.answers,
            tags={
                "half": ("early", "later"),
                "quarter": ("1st", "2nd", "3rd", "4th"),
                "border": ("inside", "crossing"),
            },
        )
        self.chains = _draw_chains(spec)

    def size(self, split: Split) -> int:
        return getattr(self.spec, split) * self.spec.queries * self.spec.answers

    def lengths(self, split: Split) -> np.ndarray:
        """How many segments each stream has."""
        return -(-self._lengths(split, np.arange(self.size(split))) // self.spec.segment)

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        spec, indices = self.spec, check_indices(indices, self.size(split), split)
        query, answer = np.divmod(self._chain_numbers(split, indices), spec.answers)
        keys, lengths = example_keys(spec.seed, 1, split, indices), self._lengths(split, indices)

        facts = np.empty((len(indices), spec.length), np.int64)
        places = np.empty((len(indices), spec.evidence), np.int64)
        todo = np.arange(len(indices))
        for draw in range(min(MAX_DRAWS, MOST_DRAWN // 4 // spec.length)):
            facts[todo], places[todo] = self._draw(fold(keys[todo], draw), lengths[todo], query[todo], answer[todo])
            todo = todo[self._ambiguous(facts[todo], query[todo], answer[todo])]
            if not todo.size:
                break
        else:
            raise MemjaxError(
                f"no stream of {spec.length} facts holds the evidence of one answer alone; "
                "use a shorter stream, more facts or longer evidence"
            )

        later = places[:, 0] >= lengths // 2
        begin, end = _half(later, lengths)
        quarter = 2 * later + (2 * (places.mean(axis=1) - begin) >= end - begin)
        crossing = places[:, 0] // spec.segment != places[:, -1] // spec.segment
        real = np.arange(spec.length) < lengths[:, None]
        padding = ((0, 0), (0, self.shape.segments * spec.segment - spec.length))
        stream, mask = np.pad((facts * real).astype(np.int32), padding), np.pad(real, padding)
        segmented = (len(indices), self.shape.segments, spec.segment)
        return {
            "stream": stream.reshape(segmented),
            "mask": mask.reshape(segmented),
            "query": query.astype(np.int32),
            "label": answer.astype(np.int32),
            "half": later.astype(np.int32),
            "quarter": quarter.astype(np.int32),
            "border": crossing.astype(np.int32),
        }

    def _chain_numbers(self, split: Split, indices: np.ndarray) -> np.ndarray:
        """Which (query, answer) each example asks for."""
        chains = self.spec.queries * self.spec.answers
        if split != "train" or not self.ordered:
            return indices % chains
        return (uniform(example_keys(self.spec.seed, 8, split, indices), 1)[:, 0] * chains).astype(np.int64)

    def _lengths(self, split: Split, indices: np.ndarray) -> np.ndarray:
        """The lengths of streams, in facts."""
        spec = self.spec
        if split != "train" or not spec.shortest:
            return np.full(len(indices), spec.length)
        fewest = -(-spec.shortest // spec.segment)
        grown = np.minimum(1, indices / spec.curriculum) if spec.curriculum else 1
        further = np.floor(grown * (self.shape.segments - fewest))
        u = uniform(example_keys(spec.seed, 7, split, indices), 1)[:, 0]
        segments = fewest + (u * (further + 1)).astype(np.int64)
        return np.minimum(segments * spec.segment, spec.length)

    def _draw(
        self, keys: np.ndarray, lengths: np.ndarray, query: np.ndarray, answer: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Random streams with the evidence laid over them: facts `[B, L]` and the evidence's places `[B, R_c]`."""
        spec, rows = self.spec, np.arange(len(keys))[:, None]
        u = uniform(keys, spec.length + spec.evidence + 2)
        facts = (u[:, : spec.length] * spec.facts).astype(np.int64)
        u_half, u_start, u_gaps = u[:, -1], u[:, -2], u[:, spec.length : -2]

        begin, end = _half(u_half >= 0.5, lengths)
        if spec.arrangement == "consecutive":
            offsets = np.broadcast_to(np.arange(spec.evidence), (len(keys), spec.evidence))
        else:
            # Distinct ordered places inside a window: distinct sorted draws from a smaller range, then spread out.
            window = np.maximum((0.2 * lengths).astype(np.int64), spec.evidence)
            draws = np.sort((u_gaps * (window - spec.evidence + 1)[:, None]).astype(np.int64), axis=1)
            offsets = draws + np.arange(spec.evidence)
            offsets = offsets - offsets[:, :1]
        room = end - begin - offsets[:, -1]
        places = (begin + (u_start * room).astype(np.int64))[:, None] + offsets
        facts[rows, places] = self.chains[query, answer]
        return facts, places

    def _ambiguous(self, facts: np.ndarray, query: np.ndarray, answer: np.ndarray) -> np.ndarray:
        """Whether the evidence of another answer of the same query occurs too, `[B]`."""
        others = self.chains[query]
        if self.spec.arrangement == "consecutive":
            windows = np.lib.stride_tricks.sliding_window_view(facts, self.spec.evidence, axis=1)
            occurs = np.ones((*others.shape[:2], windows.shape[1]), bool)
            for place in range(self.spec.evidence):
                occurs &= windows[:, None, :, place] == others[:, :, None, place]
            occurs = np.any(occurs, axis=-1)
        else:
            # In order anywhere in the stream: stricter than within 20% of it, and one pass over the stream.
            found = np.zeros(others.shape[:2], np.int64)
            padded = np.concatenate([others, np.full((*others.shape[:2], 1), -1)], axis=-1)
            for place in range(self.spec.length):
                wanted = np.take_along_axis(padded, found[..., None], axis=-1)[..., 0]
                found += wanted == facts[:, place, None]
            occurs = found == self.spec.evidence
        occurs[np.arange(len(answer)), answer] = False
        return np.any(occurs, axis=1)


def _draw_chains(spec: EvidenceSpec) -> np.ndarray:
    """The evidence of each (query, answer), `[R_q, R_a, R_c]`: facts of the query's group, distinct within a query."""
    random = np.random.default_rng(spec.seed)
    per_group = spec.facts // spec.groups
    chains = np.empty((spec.queries, spec.answers, spec.evidence), np.int64)
    for query in range(spec.queries):
        group = query * spec.groups // spec.queries
        seen: set[tuple[int, ...]] = set()
        while len(seen) < spec.answers:
            evidence = tuple(random.permutation(per_group)[: spec.evidence].tolist())
            if evidence not in seen:
                chains[query, len(seen)] = group * per_group + np.array(evidence)
                seen.add(evidence)
    return chains


def _half(later: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the half begins and ends, in facts."""
    return np.where(later, length // 2, 0), np.where(later, length, length // 2)
