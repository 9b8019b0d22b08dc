"""The evidence task: every example checked against a slow reading of its stream; and the random numbers under it."""

import functools
import time

import numpy as np
import pytest
from training.tiny import config_file, mapping, tiny

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.tasks.evidence import Evidence, EvidenceSpec
from memjax.tasks.random import fold, mix, uniform
from memjax.tasks.stream_task import check_batch

VARIANTS = ("demo", "small", "medium", "paper", "long")
both = pytest.mark.parametrize("discrete", [0, 1])


@functools.cache
def task(variant, discrete=0):
    settings = config_file("evidence")(f"{variant},discrete={discrete}").task.to_dict()
    settings.pop("name")
    return Evidence(EvidenceSpec(**settings))


def small_spec(**changes):
    settings = mapping()["task"]
    settings.pop("name")
    return EvidenceSpec(**{**settings, **changes})


def spread(task, split, count):
    """A batch of examples from all over a split."""
    return task.examples(split, np.linspace(0, task.size(split) - 1, count).astype(int))


def places_of(stream, evidence, arrangement):
    """Where the evidence lies in the stream: first places of all its occurrences within 20% of the stream, in order."""
    if arrangement == "consecutive":
        size = len(evidence)
        return [i for i in range(len(stream) - size + 1) if list(stream[i : i + size]) == list(evidence)]
    found, window = [], max(int(0.2 * len(stream)), len(evidence))
    for start in np.flatnonzero(stream == evidence[0]):
        rest = iter(stream[start : start + window])
        if all(fact in rest for fact in evidence):
            found.append(int(start))
    return found


@both
@pytest.mark.parametrize("variant", ["tiny", *VARIANTS])
def test_the_evidence_of_the_answer_is_there_and_that_of_no_other_answer(variant, discrete):
    if variant == "tiny":  # so small that most streams hold another answer's evidence by chance
        one = Evidence(small_spec(arrangement="discrete" if discrete else "consecutive", facts=8, answers=4))
    else:
        one = task(variant, discrete)
    spec, batch = one.spec, spread(one, "train", 16 if variant in ("paper", "long") else 64)
    check_batch(one.shape, batch)
    for i in range(len(batch["label"])):
        length = batch["mask"][i].sum()  # of `medium` some are shorter
        stream = batch["stream"][i].reshape(-1)[:length]
        chains = one.chains[batch["query"][i]]
        for answer, evidence in enumerate(chains):
            places = places_of(stream, evidence, spec.arrangement)
            if answer != batch["label"][i]:
                assert not places
                continue
            assert places
            later = batch["half"][i] == 1
            inside = [p for p in places if (p >= length // 2) == later]
            assert inside, "not in the half that the tag says"
            if spec.arrangement == "consecutive":
                quarters = {min(int((p + (spec.evidence - 1) / 2) * 4 // length), 3) for p in inside}
                assert batch["quarter"][i] in quarters
                assert batch["border"][i] in {
                    p // spec.segment < (p + spec.evidence - 1) // spec.segment for p in inside
                }
            assert batch["quarter"][i] // 2 == later


def test_evidence_that_fits_into_no_segment_crosses_a_border_always_and_in_one_segment_never():
    for segment, expected in ((1, 1), (20, 0)):
        border = spread(Evidence(small_spec(length=20, segment=segment)), "train", 64)["border"]
        assert (border == expected).all()


@both
def test_a_quarter_lies_in_its_half_when_the_length_is_odd(discrete):
    arrangement = "discrete" if discrete else "consecutive"
    one = Evidence(small_spec(arrangement=arrangement, length=5, segment=5, evidence=1, facts=50))
    batch = spread(one, "train", 100)
    assert (batch["quarter"] // 2 == batch["half"]).all()
    assert len(set(batch["quarter"].tolist())) == 4


@both
def test_discrete_evidence_stays_within_its_half_and_a_fifth_of_the_stream(discrete):
    one = task("paper", discrete)
    keys = fold(np.uint64(3), np.arange(500))
    query, answer = np.arange(500) % 40, np.arange(500) % 30
    spec = one.spec
    facts, places = one._draw(keys, np.full(500, spec.length), query, answer)
    assert (np.diff(places, axis=1) > 0).all()
    assert (places[:, -1] - places[:, 0] < (0.2 * spec.length if discrete else spec.evidence)).all()
    assert ((places >= spec.length // 2) == (places[:, :1] >= spec.length // 2)).all()
    assert places.min() >= 0 and places.max() < spec.length
    np.testing.assert_array_equal(np.take_along_axis(facts, places, 1), one.chains[query, answer])
    if discrete:
        assert (places[:, -1] - places[:, 0]).max() > 0.15 * spec.length and (np.diff(places, axis=1) > 1).any()


@both
def test_halves_and_quarters_and_labels_are_balanced(discrete):
    one = task("demo", discrete)
    batch = one.examples("train", np.arange(4000))
    assert abs(batch["half"].mean() - 0.5) < 4 * np.sqrt(0.25 / 4000)
    assert np.bincount(batch["quarter"], minlength=4).min() > 400
    np.testing.assert_array_equal(np.bincount(batch["label"]), 800)
    np.testing.assert_array_equal(np.bincount(batch["query"]), 400)


@both
def test_an_example_is_a_function_of_split_and_index_alone(discrete):
    one, again = task("demo", discrete), Evidence(task("demo", discrete).spec)
    indices = np.array([0, 7, 3, 49, 3, 19_999])
    together = one.examples("train", indices)
    for i, index in enumerate(indices):
        alone = again.examples("train", np.array([index]))
        assert set(alone) == set(together)
        for name in together:
            np.testing.assert_array_equal(together[name][i], alone[name][0], err_msg=name)


def test_splits_seeds_and_indices_give_other_streams():
    one, other = task("demo"), Evidence(EvidenceSpec(**{**vars(task("demo").spec), "seed": 1}))
    seen = {
        stream.tobytes()
        for batch in (
            *(one.examples(split, np.arange(100)) for split in ("train", "valid", "test")),
            other.examples("train", np.arange(100)),
        )
        for stream in batch["stream"]
    }
    assert len(seen) == 400
    assert (one.chains != other.chains).any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_evidences_are_distinct_and_of_the_querys_group(variant):
    one = task(variant)
    spec = one.spec
    per_group = spec.facts // spec.groups
    groups = set()
    for query, chains in enumerate(one.chains):
        assert len(set(map(tuple, chains.tolist()))) == spec.answers
        assert all(len(set(chain)) == spec.evidence for chain in chains.tolist())
        (group,) = set((chains // per_group).ravel().tolist())
        groups.add(group)
        assert abs(group - query * spec.groups / spec.queries) < 1
    assert groups == set(range(spec.groups))


@both
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_shipped_size_has_the_shapes_it_says(variant, discrete):
    one = task(variant, discrete)
    spec, shape = one.spec, one.shape
    for split in ("train", "valid", "test"):
        assert one.size(split) == getattr(spec, split) * spec.queries * spec.answers
        batch = spread(one, split, 4)
        assert batch["stream"].shape == batch["mask"].shape == (4, shape.segments, shape.segment)
        lengths = batch["mask"].sum((1, 2))
        shorter = split == "train" and spec.shortest > 0
        assert (lengths >= (spec.shortest if shorter else spec.length)).all() and (lengths <= spec.length).all()
        assert {name: str(batch[name].dtype) for name in batch} == dict.fromkeys(batch, "int32") | {"mask": "bool"}
        for tag, values in shape.tags.items():
            assert batch[tag].min() >= 0 and batch[tag].max() < len(values)


def test_a_length_that_segments_do_not_divide_is_padded():
    one = Evidence(small_spec())
    batch = one.examples("train", np.arange(5))
    assert batch["mask"].shape == (5, 6, 4)
    np.testing.assert_array_equal(batch["mask"].reshape(5, -1), [[True] * 22 + [False] * 2] * 5)


def test_streams_of_training_may_be_shorter_and_all_lengths_are_as_frequent():
    shorter = Evidence(small_spec(shortest=8, train=200))  # of segments of 4, 22 long
    lengths = shorter.lengths("train")
    assert list(np.unique(lengths)) == [2, 3, 4, 5, 6]
    assert np.bincount(lengths)[2:].min() > 0.8 * len(lengths) / 5
    batch = spread(shorter, "train", 50)
    facts = batch["mask"].sum((1, 2))
    assert set(facts) <= {8, 12, 16, 20, 22} and (batch["mask"].any(2).sum(1) == -(-facts // 4)).all()
    for split in ("valid", "test"):
        assert set(shorter.lengths(split)) == {6} and spread(shorter, split, 10)["mask"].sum() == 220


def test_in_a_curriculum_streams_grow_and_neighbours_ask_for_different_answers():
    assert set(Evidence(small_spec(shortest=20, curriculum=10)).lengths("train")) == {5, 6}
    grown = Evidence(small_spec(shortest=8, train=200, curriculum=1200))  # of 2,400 examples
    assert grown.ordered and not Evidence(small_spec(shortest=8)).ordered
    lengths = grown.lengths("train")
    for longest, (begin, end) in zip((2, 3, 4, 5, 6), ((0, 300), (300, 600), (600, 900), (900, 1200), (1200, 2400))):
        assert set(lengths[begin:end]) == set(range(2, longest + 1))
    assert set(grown.lengths("valid")) == {6}
    batch = grown.examples("train", np.arange(1200, 1320))
    asked = np.unique(batch["query"] * 3 + batch["label"], return_counts=True)[1]
    assert len(asked) == 12 and asked.max() < 30  # of 4 questions with 3 answers, 10 each on the average
    assert np.mean(np.ptp(batch["query"].reshape(40, 3), axis=1) == 0) < 0.3  # in turn all three would be the same
    for i in range(20):
        found = grown.chains[batch["query"][i], batch["label"][i]]
        assert places_of(batch["stream"][i][batch["mask"][i]], found, "consecutive")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"config.task.curriculum needs streams that grow: a shortest of 1 to 20$"),
        ({"shortest": 21}, r"config.task.curriculum needs streams that grow"),  # 6 segments, as all of 22 facts
        ({"shortest": 8, "train": 3}, r"config.task.curriculum 100 is more than the 36 examples of train"),
    ],
    ids=str,
)
def test_a_curriculum_in_which_nothing_grows_or_that_does_not_end_is_one_line(changes, message):
    with pytest.raises(MemjaxError, match=f"^{message}"):
        tiny(**{f"task__{name}": value for name, value in changes.items()}, task__curriculum=100)


def test_a_batch_is_made_faster_than_it_is_trained_on():
    one = task("demo")
    one.examples("train", np.arange(64))

    def once(start):
        began = time.perf_counter()
        one.examples("train", np.arange(start, start + 64))
        return time.perf_counter() - began

    assert min(once(64 * i) for i in range(10)) < 0.02


@pytest.mark.parametrize(
    "changes",
    [
        *({name: 0} for name in ("facts", "length", "queries", "answers", "evidence", "groups", "segment")),
        *({name: 0} for name in ("train", "valid", "test")),
        {"seed": -1},
        {"arrangement": "scattered"},
        {"groups": 3},
        {"queries": 1},
        {"evidence": 11},
        {"answers": 91},
        {"length": 3},
        {"arrangement": "discrete", "evidence": 10, "length": 19},
    ],
    ids=str,
)
def test_impossible_sizes_are_one_line(changes):
    with pytest.raises(MemjaxError, match=rf"\b({'|'.join(changes)}|arrangement)\b") as caught:
        Evidence(small_spec(**changes))
    assert "\n" not in str(caught.value)


def test_a_seed_of_more_than_64_bits_is_one_line():
    with pytest.raises(MemjaxError):
        Evidence(small_spec(seed=2**64)).examples("train", np.arange(1))


def test_streams_that_cannot_hold_the_evidence_of_one_answer_alone_are_one_line():
    sizes = {"facts": 2, "groups": 1, "queries": 1, "answers": 2, "evidence": 1, "length": 40}
    with pytest.raises(MemjaxError, match="shorter stream, more facts or longer evidence") as caught:
        Evidence(small_spec(**sizes)).examples("train", np.arange(4))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("indices", [[-1], [120], [0, 120], []])
def test_an_index_outside_of_the_split_is_one_line(indices):
    with pytest.raises(MemjaxError, match=r"\[0, 120\)"):
        Evidence(small_spec()).examples("train", np.array(indices, int))


@pytest.mark.parametrize(
    "broken", ["stream", "query", "negative", "empty", "label", "half", "quarter", "float", "wide", "none"]
)
def test_a_batch_with_ids_out_of_range_or_an_empty_stream_is_one_line(broken):
    one = Evidence(small_spec())
    batch = {name: np.array(value) for name, value in one.examples("train", np.arange(4)).items()}
    check_batch(one.shape, batch)
    if broken == "query":
        batch["query"][1] = 4
    elif broken == "empty":
        batch["mask"][1] = False
    elif broken in ("label", "half", "quarter"):
        batch[broken][1] = 99
    elif broken == "float":
        batch["stream"] = batch["stream"].astype(float)
    elif broken == "wide":
        batch |= {name: np.concatenate([batch[name]] * 2, axis=2) for name in ("stream", "mask")}
    elif broken == "none":
        batch = {name: value[:0] for name, value in batch.items()}
    else:
        batch["stream"][1, 0, 0] = 20 if broken == "stream" else -1
    with pytest.raises(MemjaxError) as caught:
        check_batch(one.shape, batch)
    assert "\n" not in str(caught.value)


def test_what_lies_in_the_padding_is_no_id():
    one = Evidence(small_spec())
    batch = {name: np.array(value) for name, value in one.examples("train", np.arange(4)).items()}
    batch["stream"][:, -1, -1] = 10**6
    check_batch(one.shape, batch)


def test_the_registry_makes_the_task():
    assert isinstance(tasks.create(tiny().task), Evidence)


# The random numbers.


def test_uniform_numbers_are_uniform():
    u = uniform(fold(np.uint64(5), np.arange(1000)), 1000)
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 1 / 2) < 4 * np.sqrt(1 / 12 / u.size)
    assert abs(u.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / u.size)
    counts = np.histogram(u, bins=100, range=(0, 1))[0]
    assert ((counts - u.size / 100) ** 2 / (u.size / 100)).sum() < 170  # 99 degrees of freedom


@pytest.mark.parametrize("base", [0, 1, 2**63])
def test_neighbouring_keys_and_places_are_uncorrelated(base):
    u = uniform(fold(np.uint64(base), np.arange(2000)), 200) - 0.5
    bound = 5 / 12 / np.sqrt(u.size)
    for lag in (1, 2, 3):
        assert abs((u[lag:] * u[:-lag]).mean()) < bound
        assert abs((u[:, lag:] * u[:, :-lag]).mean()) < bound
        assert abs((u[lag:, lag:] * u[:-lag, :-lag]).mean()) < bound
        assert abs((u[lag:, :-lag] * u[:-lag, lag:]).mean()) < bound


def test_no_two_keys_share_their_numbers():
    keys = fold(fold(np.uint64(0), np.arange(20))[:, None], np.arange(50)).reshape(-1)
    assert len(np.unique(keys)) == 1000
    assert len(np.unique(uniform(keys, 100))) == 100_000


def test_a_row_depends_on_its_key_alone_and_a_longer_row_goes_on():
    keys = fold(np.uint64(0), np.arange(10))
    np.testing.assert_array_equal(uniform(keys, 7)[3:4], uniform(keys[3:4], 9)[:, :7])


def test_mixing_is_splitmix64():
    state, mask = 1234567, 2**64 - 1
    expected = []
    for _ in range(5):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        expected.append(z ^ (z >> 31))
    assert expected[0] == 6457827717110365317  # the published first number of this seed
    numbers = uniform(np.array([1234567], np.uint64), 5)[0]
    np.testing.assert_array_equal(numbers, np.array([(z >> 11) / 2**53 for z in expected]))
    assert int(mix(np.array([0x9E3779B97F4A7C15 + 1234567], np.uint64))[0]) == expected[0]
