"""Files of clicks: what is read of them is in order of time; what is damaged is one clear line."""

import gzip

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from fuzzing import refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.tasks.click_log import read_clicks
from memjax.tasks.stream_task import check_batch
from memjax.typing import SPLITS

HEADER = "userId,movieId,rating,timestamp\n"


def test_ratings_are_sorted_by_time_and_items_get_ids_in_order_of_their_numbers(tmp_path):
    rows = [(2, 30, 9), (1, 20, 5), (1, 10, 3), (1, 40, 5), (2, 10, 1), (1, 30, 5), (1, 20, 4), (2, 20, 9)]
    text = HEADER + "".join(f"{user},{item},{item / 10},{when}\n" for user, item, when in rows)
    (tmp_path / "ratings.csv").write_bytes(text.replace("\n", "\r\n").encode())
    log = read_clicks(tmp_path / "ratings.csv")
    assert log.vocabulary == (10, 20, 30, 40)
    assert log.begin.tolist() == [0, 5, 8]
    assert log.items.tolist() == [0, 1, 1, 3, 2, 0, 2, 1]  # at the same time in the order of the file
    late, tied = log.notes
    assert late.startswith("3 ratings stand behind a later one of their user in ratings.csv")
    assert tied.startswith("3 ratings have the time of the one before")
    (tmp_path / "ratings.csv").write_text(HEADER + "1,1,1,1\n1,2,1,2\n2,1,1,1\n")
    assert read_clicks(tmp_path / "ratings.csv").notes == ()


@pytest.mark.parametrize("unit", [None, "s", "ns"])
@pytest.mark.parametrize("words", [True, False])
def test_parquet_is_sorted_by_time_whatever_times_and_items_are(unit, words, tmp_path):
    rows = [(2, 30, 9), (1, 20, 5), (1, 10, 3), (1, 40, 6), (2, 10, 1), (1, 30, 7)]
    users, items, times = map(list, zip(*rows, strict=True))
    when = pyarrow.array(times, pyarrow.timestamp(unit, "UTC") if unit else pyarrow.float64())
    table = {"user": [f"u{u}" for u in users] if words else users, "item": [f"i{i}" for i in items] if words else items}
    pyarrow.parquet.write_table(pyarrow.table(table | {"time": when}), tmp_path / "log.parquet")
    log = read_clicks(tmp_path / "log.parquet")
    assert log.vocabulary == (("i10", "i20", "i30", "i40") if words else (10, 20, 30, 40))
    assert log.begin.tolist() == [0, 4, 6] and log.items.tolist() == [0, 1, 3, 2, 0, 2]
    assert log.notes == ("2 clicks stand behind a later one of their user in log.parquet: sorted by time",)
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "log.parquet")
    assert read_clicks(tmp_path / "log.parquet").items.tolist() == [1, 0, 3, 2, 2, 0]
    if words:  # as pandas writes a column of categories, and newer writers words
        categories = {name: pyarrow.array(column).dictionary_encode() for name, column in table.items()}
        views = {name: pyarrow.array(column, pyarrow.string_view()) for name, column in table.items()}
        for other in (categories, views):
            pyarrow.parquet.write_table(pyarrow.table(other), tmp_path / "log.parquet")
            assert read_clicks(tmp_path / "log.parquet").items.tolist() == [1, 0, 3, 2, 2, 0]


@pytest.mark.parametrize("name", ["timestamp", "Time", "times", "ts", "seen"])
def test_a_column_of_times_of_another_name_is_not_passed_over(name, tmp_path):
    times = pyarrow.array([5, 4], pyarrow.timestamp("s") if name == "seen" else pyarrow.int64())
    table = {"user": [1, 1], "item": [2, 3], name: times}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "log.parquet")
    with pytest.raises(MemjaxError, match=f"has no column 'time', but {name}: name it 'time' to sort by it"):
        read_clicks(tmp_path / "log.parquet")


def test_columns_of_one_name_that_are_not_read_are_no_matter(tmp_path):
    columns = [pyarrow.array([1, 1]), pyarrow.array([2, 3]), pyarrow.array([5, 4]), pyarrow.array([5, 4])]
    pyarrow.parquet.write_table(pyarrow.table(columns, ["user", "item", "x", "x"]), tmp_path / "log.parquet")
    assert read_clicks(tmp_path / "log.parquet").vocabulary == (2, 3)


def test_words_that_numpy_would_take_for_one_are_refused_and_suffixes_may_be_capitals(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"user": [1, 1], "item": ["a", "b"]}), tmp_path / "log.PARQUET")
    assert read_clicks(tmp_path / "log.PARQUET").vocabulary == ("a", "b")
    pyarrow.parquet.write_table(pyarrow.table({"user": [1, 1], "item": ["a\0", "a"]}), tmp_path / "log.parquet")
    with pytest.raises(MemjaxError, match="'item' has words that end in a NUL"):
        read_clicks(tmp_path / "log.parquet")
    (tmp_path / "log.CSV").write_text(HEADER + "1,2,3,4\n")
    assert read_clicks(tmp_path / "log.CSV").vocabulary == (2,)


def test_a_mark_in_front_and_empty_lines_at_the_end_are_passed_over(tmp_path):
    (tmp_path / "log.txt").write_text("\ufeff1 7\r\n1 8\r\n\r\n", encoding="utf-8")
    assert read_clicks(tmp_path / "log.txt").vocabulary == (7, 8)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("no.txt", r"there is no .*no\.txt; put it there, .* --data_dir=FOLDER \(ml-1m\.txt is that of"),
        ("a" * 5000, r"cannot be read: .*File name too long"),
        ("a" * 5000 + ".parquet", r"cannot be read: .*File name too long"),
        ("no.csv.gz", r"there is no .*; put it there, .*\(ratings\.csv is that of MovieLens"),
        (".", "is no regular file|cannot be read"),
        ("empty.txt", r"empty\.txt has no clicks; a line is 'user item'"),
        ("three.txt", r"line 2 of .*three\.txt is '1 2 3', not 'user item'"),
        ("word.txt", r"line 3 of .*word\.txt is '1 x', not 'user item' in whole numbers"),
        ("huge.txt", r"line 1 of .*huge\.txt is '1 9{38}', not"),
        ("short.csv", r"line 3 of .*short\.csv is '1,2,3', not 'user,item,rating,time'"),
        ("half.csv", r"line 2 of .*half\.csv is '1,2,3,4\.5', not"),
        ("other.csv", r"other\.csv begins with 'user,item', not with 'userId,movieId"),
        ("header.csv", r"header\.csv has no clicks; a line is 'user,item,rating,time'"),
    ],
)
def test_a_file_that_is_not_as_it_must_be_is_one_clear_line(file, words, tmp_path):
    files = {
        "empty.txt": "", "three.txt": "1 1\n1 2 3\n", "word.txt": "1 1\n1 2\n1 x\n", "huge.txt": f"1 {'9' * 38}\n",
        "short.csv": HEADER + "1,1,1,1\n1,2,3\n", "half.csv": HEADER + "1,2,3,4.5\n", "other.csv": "user,item\n1,2\n",
        "header.csv": HEADER.rstrip(),
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(MemjaxError, match=words) as caught:
        read_clicks(tmp_path / file)
    assert "\n" not in str(caught.value)


clicks = st.builds(b"%d %d".__mod__, st.tuples(st.integers(0, 2), st.integers(0, 6)))
ratings = st.builds(b"%d,%d,0.5,%d".__mod__, st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(-3, 3)))
damaged = st.sampled_from(
    [HEADER.strip().encode(), b"", b"1", b"1 -1", b"\x00", b"1 1\r", b"1\x0b1", b"\xff", b"1 1e3"]
)
lines = [st.lists(line, max_size=30) for line in (clicks, ratings, st.one_of(clicks, ratings, damaged))]
contents = st.one_of(*[found.map(b"\n".join) for found in lines], st.binary(max_size=60))


@given(contents, st.booleans(), st.sampled_from(["a.txt", "a.csv.gz"]))
@settings(max_examples=300, derandomize=True, deadline=None, database=None)
def test_a_random_file_is_read_or_one_clear_line(tmp_path_factory, content, packed, file):
    folder = tmp_path_factory.getbasetemp()
    header = HEADER.encode() * (file == "a.csv.gz" and not content.startswith(b"1 "))
    (folder / file).write_bytes(gzip.compress(header + content) if packed else header + content)

    def read():
        task = tasks.create(tasks.ClicksSpec(file, 3, 2, views=2, least=4, seed=0, data_dir=str(folder)))
        for split in SPLITS:
            check_batch(task.shape, task.examples(split, np.arange(task.size(split))))

    refusal(read)


@pytest.fixture(scope="module")
def parquet():
    """The bytes of logs of numbers and times, and of words, one of them a category."""
    users, items = [1, 1, 1, 1, 2, 2, 2, 2], [7, 8, 7, 9, 9, 8, 8, 9]
    words = pyarrow.array([f"i{item}" for item in items])
    times = pyarrow.array([4, 3, 2, 1, 8, 7, 6, 5], pyarrow.timestamp("s"))
    found = []
    for columns in ({"item": items, "time": times}, {"item": words}, {"item": words.dictionary_encode()}):
        for form in ("none", "snappy"):
            file = pyarrow.BufferOutputStream()
            pyarrow.parquet.write_table(pyarrow.table({"user": users} | columns), file, compression=form)
            found.append(file.getvalue().to_pybytes())
    return found


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), which=st.integers(0, 5))
@settings(max_examples=200, derandomize=True, deadline=None, database=None)
def test_parquet_with_any_byte_changed_is_read_or_one_clear_line(tmp_path_factory, parquet, place, byte, which):
    folder, data = tmp_path_factory.getbasetemp(), bytearray(parquet[which])
    data[place % len(data)] = byte
    (folder / "log.parquet").write_bytes(data)
    refusal(lambda: read_clicks(folder / "log.parquet"))
