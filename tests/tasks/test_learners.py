"""Learners: every example against a slow reading of the files; each step is asked once, and never after it was read.

Slips that were tried, each of which fails a test here: the query of another problem; a segment asked after it was read;
fold f + 1 in train; a later half without its first step; the end of a student who is cut left out.
"""

import gzip
import io
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from fuzzing import refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.tasks import LearnersSpec
from memjax.tasks.learner_log import ASSISTMENTS, STATICS, read_learners
from memjax.tasks.stream_task import check_batch
from memjax.typing import SPLITS, WithLengths

DATA = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")


FILES = {"assist2017": "assist2017_fold2.csv.gz", "statics2011": "statics2011.tar.gz"}  # one that is read of each


def students(seed, count=4, most=23):
    """[(problem, skill, right)] of some students; numbers with gaps, and a problem of two skills."""
    random = np.random.default_rng(seed)
    rows = []
    for steps in [1, *random.integers(2, most, count - 2), most]:
        problems = random.choice([3, 7, 8, 20, 2**62, 2**62 + 1], steps)
        skills = np.where((problems == 7) & (random.random(steps) < 0.5), 9, problems % 4 - 1)
        rows.append(list(zip(problems.tolist(), skills.tolist(), random.integers(0, 2, steps).tolist(), strict=True)))
    return rows


def lines(rows, kind):
    """The lines of a file."""
    text = []
    for number, steps in enumerate(rows):
        problems, skills, right = (",".join(map(str, column)) for column in zip(*steps, strict=True))
        own = [f"{number},77", problems, skills, right] if kind == ASSISTMENTS else [str(len(steps)), problems, right]
        text += [line + "," * (kind == ASSISTMENTS) for line in own]
    return "\n".join(text) + "\n"


def write_folds(root):
    """The five files of ASSISTments 2017."""
    for fold in range(1, 6):
        data = gzip.compress(lines(students(fold), ASSISTMENTS).encode())
        (root / f"assist2017_fold{fold}.csv.gz").write_bytes(data)


def write_statics(root):
    """The archive of Statics 2011, with fold 2."""
    with tarfile.open(root / "statics2011.tar.gz", "w:gz") as archive:
        for name, seed in (("train2", 12), ("valid2", 13), ("test", 14), ("train1", 15)):
            data = lines(students(seed), STATICS).encode()
            member = tarfile.TarInfo(f"kt_statics2011/STATICS_{name}.csv")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


@pytest.fixture
def folder(tmp_path):
    write_folds(tmp_path)
    write_statics(tmp_path)
    return tmp_path


def wanted(file, fold, split):
    """The students of a split."""
    if file == "statics2011":
        return students({"train": 12, "valid": 13, "test": 14}[split])
    after = [(fold + later) % 5 + 1 for later in range(4)]
    folds = {"test": [fold], "valid": after[:1], "train": after[1:]}[split]
    return [steps for f in folds for steps in students(f)]


def made(folder, file="assist2017", fold=2, length=100, segment=4):
    return tasks.create(LearnersSpec(file, fold, length, segment, str(folder)))


def every(task, split):
    return task.examples(split, np.arange(task.size(split)))


@pytest.mark.parametrize("file", ["assist2017", "statics2011"])
@pytest.mark.parametrize("sizes", [{}, {"segment": 1}, {"length": 9}, {"segment": 50}])
def test_every_step_is_asked_once_before_its_segment_is_read(folder, file, sizes):
    task = made(folder, file, **sizes)
    size, length, names = task.spec.segment, task.spec.length, {}
    for split in SPLITS:
        batch = every(task, split)
        check_batch(task.shape, batch)
        pieces = [s[b : b + length] for s in wanted(file, 2, split) for b in range(0, len(s), length)]
        assert sorted(batch["mask"].sum((1, 2)).tolist()) == sorted(map(len, pieces))
        found = []
        for row in range(task.size(split)):
            asked = {}
            for time, question in np.argwhere(batch["asked"][row]):
                place = batch["after"][row][time] * size + question  # of what comes next, the first `size` are asked
                assert place not in asked and time == batch["after"][row][time]
                asked[place] = batch["query"][row][time, question], batch["label"][row][time, question]
                half = batch["half"][row][time, question]
                assert half == (2 * place >= batch["mask"][row].sum())
            stream = batch["stream"][row][batch["mask"][row]]
            assert sorted(asked) == list(range(len(stream)))
            for place, item in enumerate(stream):
                query, right = asked[place]
                parts = task.shape.item_parts.table[item].tolist()
                assert parts[:-1] == task.shape.query_parts.table[query].tolist()
                assert parts[-1] == task.shape.item_parts.count - 2 + right
            found.append([(*task.shape.query_parts.table[asked[p][0]], asked[p][1]) for p in range(len(stream))])
        for steps, piece in zip(sorted(found, key=len), sorted(pieces, key=len), strict=True):
            assert len(steps) == len(piece)
        # Numbers of the file and parts of ours are one for one, over all splits.
        for steps, piece in zip(found, pieces, strict=True):
            for (problem, *skill, right), (number, told, was) in zip(steps, piece, strict=True):
                assert right == was and names.setdefault(("problem", number), problem) == problem
                assert not skill or names.setdefault(("skill", told), skill[0]) == skill[0]
    assert len(set(names.values())) == len(names) == task.shape.item_parts.count - 2


def test_a_student_with_more_steps_is_read_afresh_and_that_is_said(folder):
    assert made(folder).notes == ()
    task = made(folder, length=9)
    cut = sum(len(steps) > 9 for split in SPLITS for steps in wanted("assist2017", 2, split))
    assert task.notes == (f"{cut} of 20 students have more than 9 steps: read afresh after each so many",)
    for split in SPLITS:  # streams of one student are not independent
        pieces = [-(-len(steps) // 9) for steps in wanted("assist2017", 2, split)]
        assert task.groups(split).tolist() == np.repeat(np.arange(len(pieces)), pieces).tolist()


@pytest.mark.parametrize("length", [100, 9])
def test_lengths_are_those_of_the_streams(folder, length):
    task = made(folder, length=length)
    assert isinstance(task, WithLengths)
    for split in SPLITS:
        mask = every(task, split)["mask"]
        assert (mask.any(axis=2) == (np.arange(task.shape.segments) < task.lengths(split)[:, None])).all()


def test_an_example_is_a_function_of_split_and_index_alone(folder):
    indices = np.array([0, 3, 1, 3])
    together = made(folder).examples("train", indices)
    for row, index in enumerate(indices):
        for name, value in made(folder).examples("train", np.array([index])).items():
            np.testing.assert_array_equal(together[name][row], value[0], err_msg=name)


@pytest.mark.parametrize("fold", range(1, 6))
def test_no_student_is_in_two_splits_and_all_are_in_one(folder, fold):
    task = made(folder, fold=fold)
    assert [task.size(split) for split in SPLITS] == [12, 4, 4]
    tests = [every(made(folder, fold=f), "test")["stream"].tobytes() for f in range(1, 6)]
    assert len(set(tests)) == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no students; one is the lines index,student, problems, skills, right"),
        ("1,2\n3\n4\n", "has 3 lines, which are not 4 for each student"),
        ("1,2\n3,4\n5,6\n1\n", "the student on line 1 has not as many problems, skills, right"),
        ("1,2\n3\n4\n2\n", "the student on line 1 has answers beside 0 and 1"),
        ("1,2\n3\n\nx\n0\n", "line 4 of .* is 'x', not whole numbers with commas between"),
        ("1,2\n3\n4\n" + "9" * 40 + "\n", "line 4 of .* not whole numbers"),
    ],
)
def test_a_file_that_is_not_as_it_must_be_is_one_clear_line(tmp_path, text, words):
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(MemjaxError, match=words) as caught:
        read_learners(tmp_path / "log.csv", ASSISTMENTS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2\n3\n1\n", "line 1 says other than 1, the steps that follow"),
        ("1\n3,4\n1\n", "has not as many problems, right"),
    ],
)
def test_a_count_that_does_not_fit_is_one_clear_line(tmp_path, text, words):
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(MemjaxError, match=words):
        read_learners(tmp_path / "log.csv", STATICS)


def test_a_missing_file_or_member_is_one_clear_line(folder, tmp_path):
    (folder / "assist2017_fold3.csv.gz").unlink()
    with pytest.raises(MemjaxError, match=r"there is no .*assist2017_fold3\.csv\.gz; put it there, or name its folder"):
        made(folder)
    with pytest.raises(MemjaxError, match=r"statics2011\.tar\.gz has no member kt_statics2011/STATICS_train4\.csv"):
        made(folder, "statics2011", fold=4)


@pytest.mark.parametrize("changes", [{"fold": 0}, {"fold": 6}, {"length": 0}, {"segment": 0}, {"segment": 101}])
def test_settings_out_of_range_are_one_clear_line(folder, changes):
    with pytest.raises(MemjaxError, match=re.escape(next(iter(changes)))):
        made(folder, **changes)


@given(data=st.binary(max_size=200) | st.text("0123456789,\n-x", max_size=200).map(str.encode))
@settings(max_examples=200, deadline=None)
def test_whatever_a_file_holds_it_is_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_bytes(data)
    for kind in (ASSISTMENTS, STATICS):
        found = []
        if refusal(lambda kind=kind, found=found: found.append(read_learners(path, kind))) is None:
            (log,) = found
            assert log.begin[-1] == len(log.problems) == len(log.right) and (np.diff(log.begin) > 0).all()


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), packed=st.booleans(), file=st.sampled_from([*FILES]))
@settings(max_examples=60, deadline=None)
def test_a_log_with_any_byte_changed_is_read_or_refused_in_one_line(tmp_path_factory, place, byte, packed, file):
    """Of the gzip or tar around it, or of what these hold."""
    folder = tmp_path_factory.mktemp("logs")
    write_folds(folder)
    write_statics(folder)
    path = folder / FILES[file]
    data = bytearray(path.read_bytes() if packed else gzip.decompress(path.read_bytes()))
    data[place % len(data)] = byte
    path.write_bytes(data if packed else gzip.compress(data))

    def read():
        task = made(folder, file)
        for split in SPLITS:
            check_batch(task.shape, every(task, split))

    refusal(read)


@real
def test_the_real_files_have_the_counts_of_their_readme():
    task = made(DATA / "kt_assist2017", length=3060, segment=20)
    steps = [every(task, split)["asked"].sum(axis=(1, 2)) for split in SPLITS]
    assert sum(map(len, steps)) == 1705 and sum(s.sum() for s in steps) == 941_502
    assert max(s.max() for s in steps) == 3057 and task.shape.item_parts.count == 3162 + 102 + 2
    statics = made(DATA / "kt_statics2011", "statics2011", fold=1, length=3060, segment=20)
    counts = {split: every(statics, split)["asked"].sum(axis=(1, 2)) for split in SPLITS}
    assert {split: (len(c), c.sum()) for split, c in counts.items()} == {
        "train": (193, 108_647), "valid": (36, 21_537), "test": (104, 59_113),
    }  # fmt: skip
    assert round(float(every(statics, "test")["label"][every(statics, "test")["asked"]].mean()), 3) == 0.773
