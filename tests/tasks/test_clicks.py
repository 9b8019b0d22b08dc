"""Clicks: every example against a slow reading of the file; nothing of what is asked is told before."""

import functools
import gzip
import re
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from training.tiny import config_file

from memjax import memories, tasks
from memjax.errors import MemjaxError
from memjax.experiments.reading import from_mapping
from memjax.tasks.click_log import read_clicks
from memjax.tasks.stream_task import check_batch
from memjax.typing import SPLITS, WithLengths

DATA = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")
ITEMS = 12
BACK = {"train": 3, "valid": 2, "test": 1}  # how far from a user's end the last item stands that is asked


def made(seed=0, users=9, most=40):
    """(user, item) of a small log: users' lines interleaved, items repeated, numbers with gaps; one user is short."""
    random = np.random.default_rng(seed)
    lengths = [2, 4, 5, *random.integers(6, most, users - 4), most]
    owners = np.repeat(np.arange(users) * 3 + 5, lengths)
    random.shuffle(owners)
    # Nobody touches the last two items, whose owner is a user of their own.
    clicks = [(int(user), int(random.integers(ITEMS - 2)) * 10 + 7) for user in owners]
    return clicks + [(1, (ITEMS - 2 + i % 2) * 10 + 7) for i in range(6)]


def written(folder, clicks, file="log.txt.gz"):
    text = "".join(f"{user} {item}\n" for user, item in clicks)
    Path(folder, file).write_bytes(gzip.compress(text.encode()) if file.endswith(".gz") else text.encode())
    return file


def spec_of(folder, file="log.txt.gz", **changes):
    sizes = {"length": 12, "segment": 4, "views": 30, "least": 4, "seed": 0}
    return tasks.ClicksSpec(file=file, data_dir=str(folder), **{**sizes, **changes})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clicks")
    written(folder, made())
    return folder


def histories(clicks, least=4):
    """The ids of each user's items, in order, of the users who are kept."""
    numbers = sorted({item for _, item in clicks})
    found = defaultdict(list)
    for user, item in clicks:
        found[user].append(numbers.index(item))
    return [found[user] for user in sorted(found) if len(found[user]) >= least]


def every(task, split):
    return task.examples(split, np.arange(task.size(split)))


def stream_of(batch, row):
    """The items of a stream, one list for each of its segments."""
    segments = [s[m].tolist() for s, m in zip(batch["stream"][row], batch["mask"][row], strict=True)]
    return [s for s in segments if s]


def flat(segments):
    return [item for segment in segments for item in segment]


@pytest.mark.parametrize("sizes", [{}, {"length": 11}, {"segment": 1}, {"segment": 12}, {"length": 100, "segment": 7}])
@pytest.mark.parametrize("split", SPLITS)
def test_a_stream_is_what_came_before_and_the_positive_is_what_came_next(folder, split, sizes):
    task, users = tasks.create(spec_of(folder, **sizes)), histories(made())
    size, length, batch = task.spec.segment, task.spec.length, every(task, split)
    check_batch(task.shape, batch)
    assert task.size(split) == len(users) * (30 if split == "train" else 1)
    for row in range(task.size(split)):
        history = users[row % len(users)]
        segments = stream_of(batch, row)
        stream = flat(segments)
        assert [len(s) for s in segments[1:]] == [size] * (len(segments) - 1) and 1 <= len(segments[0]) <= size
        assert batch["mask"][row, 0, : len(segments[0])].all()  # its padding stands behind them
        asked, after = batch["asked"][row].all(1), batch["after"][row].tolist()
        query, label = (batch[name][row][asked].ravel().tolist() for name in ("query", "label"))
        assert (asked[:, None] == batch["asked"][row]).all() and label == [1, 0] * asked.sum()
        assert asked[: asked.sum()].all()
        after = after[: asked.sum()]
        assert all(item not in history for item in query[1::2])
        last = len(history) - BACK[split]  # the place that may be asked last
        if split == "train":
            begins = [b for b in range(last + 1) if history[b : b + len(stream)] == stream]
            assert after == list(range(1, len(segments) + 1))
            ends = np.cumsum([len(s) for s in segments])
            begins = [b for b in begins if [history[b + e] for e in ends if b + e <= last] == query[::2]]
            assert begins and (last > length or 0 in begins)
            assert length - size < len(stream) <= length or (last <= length and last - size < len(stream) <= last)
        else:
            assert stream == history[max(0, last - length) : last]
            assert query[0] == history[last] and after == [len(segments)]


@pytest.mark.parametrize("split", SPLITS)
def test_in_training_several_of_the_next_items_may_be_asked(folder, split):
    one, several = tasks.create(spec_of(folder)), tasks.create(spec_of(folder, ahead=3))
    users, few, many = histories(made()), every(one, split), every(several, split)
    check_batch(several.shape, many)
    assert several.shape.questions == (3, 6)
    if split != "train":
        assert all((many[name] == few[name]).all() for name in few)
        return
    for row in range(several.size(split)):
        history = users[row % len(users)]
        assert (many["stream"][row] == few["stream"][row]).all() and (
            many["query"][row, :, 0] == few["query"][row, :, 0]
        ).all()
        for moment in np.flatnonzero(few["asked"][row].any(1)):
            asked = many["asked"][row, moment]
            positives = many["query"][row, moment][asked & (many["label"][row, moment] == 1)].tolist()
            negatives = many["query"][row, moment][asked & (many["label"][row, moment] == 0)].tolist()
            assert len(positives) == len(negatives) and not set(negatives) & set(history)
            last = len(history) - BACK[split]
            begins = [b for b in range(last + 1) if history[b : b + 3][: last + 1 - b] == positives]
            assert begins and 1 <= len(positives) <= 3
    assert (many["asked"].sum((1, 2)) > few["asked"].sum((1, 2))).any()


@pytest.mark.parametrize("split", ["train", "valid"])
def test_what_is_asked_later_is_in_no_earlier_example(tmp_path, split):
    # No item is repeated: then an item that is asked cannot have been read, and is known by its number alone.
    random = np.random.default_rng(1)
    clicks = [(user, int(item)) for user in range(8) for item in random.permutation(60)[: 10 + 5 * user]]
    task = tasks.create(spec_of(tmp_path, written(tmp_path, clicks), length=20))
    users, batch = histories(clicks), every(task, split)
    for row in range(task.size(split)):
        history, segments = users[row % 8], stream_of(batch, row)
        later = history[len(history) - BACK[split] + 1 :]
        positives = batch["asked"][row] & (batch["label"][row] == 1)
        assert later and not set(later) & {*flat(segments), *batch["query"][row][batch["asked"][row]].tolist()}
        for moment, question in np.argwhere(positives):
            after, positive = batch["after"][row][moment], batch["query"][row][moment, question]
            assert positive not in flat(segments[:after])


def test_every_offset_of_the_segments_occurs_and_every_item_is_asked(folder):
    task, users = tasks.create(spec_of(folder, views=400)), histories(made())
    batch = every(task, "train")
    for number, history in enumerate(users):
        rows = slice(number, None, len(users))
        offsets = Counter(batch["mask"][rows, 0].sum(axis=1).tolist())
        room = min(4, len(history) - 3, 12)
        assert set(offsets) == set(range(1, room + 1))
        assert max(offsets.values()) < 2 * min(offsets.values()) or room == 1
        asked = batch["query"][rows][batch["asked"][rows] & (batch["label"][rows] == 1)]
        assert set(asked.tolist()) == set(history[1:-2])


def test_a_long_history_is_cut_anywhere(tmp_path):
    clicks = [(0, i) for i in range(103)] + [(1, 200 + i) for i in range(4)]
    task = tasks.create(spec_of(tmp_path, written(tmp_path, clicks), views=1000))
    batch = every(task, "train")
    begins = {stream_of(batch, row)[0][0] for row in range(0, task.size("train"), 2)}
    assert begins == set(range(101 - 9))  # the shortest stream has 9 items, and is asked for the one behind


def test_lengths_are_those_of_the_streams(folder):
    task = tasks.create(spec_of(folder))
    assert isinstance(task, WithLengths)
    for split in SPLITS:
        batch, lengths = every(task, split), task.lengths(split)
        assert (batch["mask"].any(axis=2) == (np.arange(task.shape.segments) < lengths[:, None])).all()
        assert len(set(lengths.tolist())) > 1
        assert (batch["asked"].sum(axis=(1, 2)) == (2 * lengths if split == "train" else 2)).all()
    assert task.shape.segments == 3 and task.shape.questions == (3, 2)
    short = tasks.create(spec_of(folder, length=1000))
    assert short.shape.segments == max(short.lengths("test")) == 10  # 39 of the longest user's 40 items


@pytest.mark.parametrize("split", SPLITS)
def test_an_example_is_a_function_of_split_and_index_alone(folder, split):
    one, again = tasks.create(spec_of(folder)), tasks.create(spec_of(folder))
    indices = np.array([0, 5, 3, 6, 3])
    together = one.examples(split, indices)
    for row, index in enumerate(indices):
        alone = again.examples(split, np.array([index]))
        assert set(alone) == set(together)
        for name in together:
            np.testing.assert_array_equal(together[name][row], alone[name][0], err_msg=name)
    other = tasks.create(spec_of(folder, seed=1))
    assert (every(other, split)["query"] != every(one, split)["query"]).any()
    assert (every(other, split)["query"][..., 0] == every(one, split)["query"][..., 0]).all() == (split != "train")


def test_negatives_are_drawn_uniformly_or_by_popularity_from_what_was_never_touched(tmp_path):
    # Items 0 to 9 in the training part as often as their number says; the user in question touched 3 and 9 alone.
    clicks = [(0, 3), (0, 9), (0, 3), (0, 9)] * 2
    clicks += [(1 + i, item) for i in range(1000) for item in (3, 9, 9, 3)]
    clicks += [(2000, item) for item in range(10) for _ in range(item)] + [(2000, 0)] * 2
    task = tasks.create(spec_of(tmp_path, written(tmp_path, clicks), least=4, views=3))
    users = task.size("test")
    assert users == 1001 and "1 of 1,002 users are left out" in task.notes[0]  # the last one touched all there are
    batch, rest = every(task, "train"), [item for item in range(10) if item not in (3, 9)]
    negatives = Counter(batch["query"][batch["asked"] & (batch["label"] == 0)].tolist())
    expected = sum(negatives.values()) / 8
    assert set(negatives) == set(rest) and sum((n - expected) ** 2 / expected for n in negatives.values()) < 30
    # The training part holds 3 and 9 alone: all others are as popular as each other.
    assert set(task.ranked("test", np.arange(users))["popular"].tolist()) == set(rest)

    extra = [(3000, item) for item in range(9) for _ in range(item)] + [(3000, 0)] * 2
    task = tasks.create(spec_of(tmp_path, written(tmp_path, clicks + extra), least=4, views=3))
    popular = Counter(task.ranked("test", np.arange(users))["popular"].tolist())
    assert 0 not in popular  # it is what this user is asked in valid and test alone
    total = sum(item for item in rest)
    weights = {item: users * item / total for item in rest if item}
    assert sum((popular[item] - n) ** 2 / n for item, n in weights.items()) < 30


def test_what_is_left_out_of_a_ranking_is_what_the_user_had_before(tmp_path):
    clicks = list(dict.fromkeys(made()))  # nobody has an item twice
    task, users = tasks.create(spec_of(tmp_path, written(tmp_path, clicks))), histories(clicks)
    for split in ("valid", "test"):
        ranked = task.ranked(split, np.arange(task.size(split)))
        assert ranked["left_out"].shape == (len(users), ITEMS) and ranked["left_out"].dtype == bool
        for row, history in enumerate(users):
            before = history[: len(history) - BACK[split]]  # also what stands before the longest stream
            assert set(np.flatnonzero(ranked["left_out"][row]).tolist()) == set(before)
            assert ranked["target"][row] == history[len(history) - BACK[split]]
            assert ranked["popular"][row] not in history
    indices = np.array([4, 1])
    for name, value in task.ranked("test", indices).items():
        np.testing.assert_array_equal(value, ranked[name][indices])
    with pytest.raises(MemjaxError, match="the train split has no target"):
        task.ranked("train", indices)


def test_where_users_touch_items_again_nothing_is_left_out_of_a_ranking(folder):
    # Else a target that its user had before were the only item there that the user had before.
    task = tasks.create(spec_of(folder))
    assert not task.ranked("test", np.arange(task.size("test")))["left_out"].any()
    assert "users touch items again: all items are ranked" in task.notes[-1]


def test_users_with_too_few_items_are_left_out_counted_and_said(folder):
    told = tasks.create(spec_of(folder)).notes[0]
    assert told == "1 of 10 users are left out: fewer than 4 items, or all there are"
    assert tasks.create(spec_of(folder, least=6)).size("test") == 7
    (folder / "each.txt").write_text("".join(f"{user} {i}\n" for user in (1, 2) for i in (1, 2, 3, 4)))
    with pytest.raises(MemjaxError, match="no user who left one of its 4 items untouched: nothing is to rank"):
        tasks.create(spec_of(folder, "each.txt"))
    (folder / "all.txt").write_text("".join(f"1 {i}\n" for i in (1, 1, 1, 1, 2)) + "2 3\n")
    assert tasks.create(spec_of(folder, "all.txt")).size("test") == 1  # 3, of a user who is left out, is an item


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda tmp: spec_of(tmp, "few.txt"),
            "no user with 4 items or more; lower config.task.le",
        ),
        (lambda tmp: spec_of(tmp, least=3), "least must be at least 4, not 3"),
        (lambda tmp: spec_of(tmp, segment=0), "segment must be at least 1"),
        (lambda tmp: spec_of(tmp, segment=13), "segment must be at most 12"),
        (lambda tmp: spec_of(tmp, length=2**20), "length must be at most 65536"),
        (lambda tmp: spec_of(tmp, views=10**6), "views must be at most 1000"),
        (lambda tmp: spec_of(tmp, seed=-1), "seed"),
    ],
)
def test_what_cannot_be_is_one_clear_line(make, words, tmp_path):
    (tmp_path / "few.txt").write_text("1 1\n1 2\n1 3\n2 4\n")
    written(tmp_path, made())
    with pytest.raises(MemjaxError, match=words) as caught:
        tasks.create(make(tmp_path))
    assert "\n" not in str(caught.value)


def test_an_index_that_the_split_has_not_is_one_clear_line(folder):
    task = tasks.create(spec_of(folder))
    for wrong in ([9], [-1], []):
        for ask in (task.examples, task.ranked):
            with pytest.raises(MemjaxError, match=re.escape("example indices must be in [0, 9) for the test split")):
                ask("test", np.array(wrong))


@pytest.mark.usefixtures("unchecked")
def test_items_are_encoded_as_the_file_was_and_a_new_one_is_named(folder):
    task = tasks.create(spec_of(folder))
    for items in (task.vocabulary, list(task.vocabulary), np.array(task.vocabulary, np.uint64)):
        assert task.encode(items).tolist() == list(range(ITEMS))
    assert task.encode([27, 7, 27]).tolist() == [2, 0, 2] and task.encode([7]).dtype == np.int32
    assert task.encode([]).shape == (0,) and task.encode([]).dtype == np.int32
    row = task.examples("test", np.array([8]))
    last = [item for user, item in made() if user == 29][-13:-1]  # the longest user's, before the last
    assert row["stream"][row["mask"]].tolist() == task.encode(last).tolist()
    for wrong, words in (
        ([7, 8], "log.txt.gz has no item 8: leave it out of what is written, nothing is learned of it"),
        ([2**70], f"has no item {2**70}: leave"),
        (["7"], "items are whole numbers in log.txt.gz, not str"),
        ([7.0], "items are whole numbers in log.txt.gz, not float"),
        ([True], "items are whole numbers in log.txt.gz, not bool"),
        (np.array([[7]]), "items are [L] in log.txt.gz, not [1, 1]"),
        ([[7], [7, 7]], "items are one list in log.txt.gz, and these are none"),
    ):
        with pytest.raises(MemjaxError, match=re.escape(words)) as caught:
            task.encode(wrong)
        assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("unchecked")
def test_words_are_encoded_in_any_form_of_unicode(tmp_path):
    items = ["caf\u00e9", "a", "b", "c", "a", "d"]
    table = {"user": [1] * 6 + [2] * 4, "item": [*items, "e", "a", "b", "c"]}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "log.parquet")
    task = tasks.create(spec_of(tmp_path, "log.parquet"))
    assert task.encode(["cafe\u0301", "a"]).tolist() == task.encode(np.array(items[:2], object)).tolist() == [3, 0]
    with pytest.raises(MemjaxError, match=r"log\.parquet has no item 'f\\n': leave"):
        task.encode(["a", "f\n"])
    with pytest.raises(MemjaxError, match=r"items are words in log\.parquet, not int"):
        task.encode([1])


@functools.cache
def shipped(variant):
    settings = config_file("clicks")(variant).task.to_dict()
    settings.pop("name")
    names = {"ml1m": "ml1m_sequences", "small": "movielens_latest_small"}
    return tasks.create(tasks.ClicksSpec(**{**settings, "data_dir": str(DATA / names[variant])}))


@pytest.mark.parametrize("name", memories.registry)
def test_the_config_has_the_sizes_of_every_memory(name):
    config = from_mapping(config_file("clicks")(f"small,memory={name}").to_dict())
    assert config.memory.name == name and config.task.file == "ratings.csv.gz" and config.system == "memory"
    sizes = config.memory.sizes
    extended = {"context": 4, "scores": "additive" if name == "continual" else "both", "position_std": 1.0}
    assert (extended.items() <= sizes.items()) == (name in ("rehearsal", "continual"))


@pytest.mark.parametrize("arg", ["large", "ml1m,memory=rehersal"])
def test_a_config_that_there_is_not_is_one_clear_line(arg):
    with pytest.raises(MemjaxError, match="unknown"):
        config_file("clicks")(arg)


@real
@pytest.mark.parametrize(("variant", "users", "items"), [("ml1m", 6040, 3416), ("small", 610, 9724)])
def test_the_real_files_have_the_published_numbers(variant, users, items):
    task = shipped(variant)
    assert (task.size("test"), task.shape.items, task.shape.segments) == (users, items, 50)
    log = read_clicks(Path(task.spec.data_dir, task.spec.file))
    assert len(log.items) == {"ml1m": 999_611, "small": 100_836}[variant]
    assert np.diff(log.begin).max() == {"ml1m": 2277, "small": 2698}[variant]
    if variant == "ml1m":
        assert task.vocabulary == tuple(range(1, 3417)) and task.notes == ()
    else:
        assert task.notes[1].startswith("15,790 ratings have the time of the one before")
    for split in SPLITS:
        check_batch(task.shape, task.examples(split, np.arange(64)))
        lengths = task.lengths(split)
        assert lengths.min() == 1 and lengths.max() == 50


@real
def test_no_user_of_the_real_file_is_asked_for_what_was_read():
    task = shipped("ml1m")  # in which no user has an item twice
    batch = task.examples("train", np.arange(500))
    ranked = {split: task.ranked(split, np.arange(500)) for split in ("valid", "test")}
    test = every(task, "test")
    for row in range(500):
        segments = stream_of(batch, row)
        asked = batch["asked"][row]
        told = {*flat(segments), *batch["query"][row][asked].tolist()}
        assert not told & {int(ranked[split]["target"][row]) for split in ranked}
        for moment, question in np.argwhere(asked):
            after, query = batch["after"][row][moment], batch["query"][row][moment, question]
            assert query not in flat(segments[:after])
        assert flat(stream_of(test, row))[-1] == ranked["valid"]["target"][row]
        assert not ranked["test"]["left_out"][row, ranked["test"]["target"][row]]


@real
def test_a_batch_takes_some_milliseconds():
    task, times = shipped("ml1m"), []
    for start in range(0, 640, 64):
        began = time.perf_counter()
        task.examples("train", np.arange(start, start + 64))
        times.append(time.perf_counter() - began)
    assert min(times) < 0.05
