"""Tables of parts: compared by what they hold, so that a shape that has them is static; refused where they are none."""

import dataclasses

import numpy as np
import pytest

from memjax.errors import MemjaxError
from memjax.tasks import Parts, TaskShape

TABLE = np.array([[0, 2], [1, 2], [1, -1]])


def test_tables_that_hold_the_same_are_equal_and_hash_alike():
    one, same = Parts(TABLE, 3), Parts(TABLE.astype(np.int64).copy(), 3)
    assert one == same and hash(one) == hash(same) and len(one) == 3
    for other in (Parts(TABLE, 4), Parts(TABLE[::-1], 3), Parts(TABLE.reshape(2, 3), 3)):
        assert one != other
    assert one != "parts"
    with pytest.raises(ValueError, match="read-only"):
        one.table[0, 0] = 1


@pytest.mark.parametrize(
    ("table", "count", "words"),
    [
        (np.array([0, 1]), 2, r"must be whole numbers \[ids, P\], not int64\[2\]"),
        (np.array([[0.5]]), 2, "must be whole numbers"),
        (np.zeros((0, 2), int), 2, "must be whole numbers"),
        (np.array([[0, 2]]), 2, r"a part in \[0, 2\), and -1 where it has no more; they are from 0 to 2"),
        (np.array([[0, -2]]), 2, "from -2 to 0"),
        (np.array([[0, 1], [-1, -1]]), 2, "every id needs a part"),
    ],
)
def test_what_is_no_table_of_parts_is_one_line(table, count, words):
    with pytest.raises(MemjaxError, match=words):
        Parts(table, count)


def test_a_shape_whose_parts_do_not_fit_is_one_line():
    items, queries = Parts(TABLE, 3), Parts(TABLE[:2, :1], 3)
    shape = TaskShape(3, 2, 2, 2, None, "click", 2, item_parts=items, query_parts=queries)
    assert hash(shape) == hash(dataclasses.replace(shape))
    for change, words in (
        ({"items": 4}, "item_parts must have 4 rows"),
        ({"queries": 3}, "query_parts must have 3 rows"),
        ({"item_parts": None}, "a query has parts where items have parts"),
        ({"query_parts": Parts(TABLE[:2], 4)}, "as many"),
        ({"queries": 3, "query_is_item": True, "query_parts": items}, "neither an item nor a text"),
        ({"query_words": 4}, "neither an item nor a text"),
    ):
        with pytest.raises(MemjaxError, match=words):
            dataclasses.replace(shape, **change)
