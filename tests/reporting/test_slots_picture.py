"""What was read from which slot, as a picture: what is drawn where, and what a damaged file says."""

import base64
import zlib

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from memjax.reporting.slots_picture import draw_slots

T, K, HOPS = 4, 3, 2


def one(seed=0, film=True, **changes):
    rng = np.random.default_rng(seed)
    pictures = rng.integers(0, 256, (T, 8, 8, 3), np.uint8)
    told = {
        "question": "where does it go",
        "answer": "left",
        "given": "up",
        "weights": rng.dirichlet(np.ones(K), HOPS).tolist(),
        "changes": rng.gamma(1, 1, (T, K)).tolist(),
    }
    packed = base64.b64encode(zlib.compress(pictures.tobytes())).decode()
    return told | ({"pictures": packed, "shape": [T, 8, 8, 3], "seen": [1, 2]} if film else {}) | changes


def axes_of(figure):
    return [part.axes for part in figure.subfigs]


def test_each_question_has_its_film_its_changes_and_what_every_hop_read():
    read = [one(0), one(1, answer="up"), one(2, film=False)]
    parts = axes_of(draw_slots(read, "a run"))
    assert [len(axes) for axes in parts] == [3, 3, 2]
    for told, (changes, weights, *_) in zip(read, parts, strict=True):
        moved = np.array(told["changes"])
        np.testing.assert_allclose(changes.images[0].get_array(), (moved / moved.max(1, keepdims=True)).T)
        lengths = np.array([bar.get_width() for bar in weights.patches])
        np.testing.assert_allclose(lengths, np.ravel(told["weights"]))


def test_the_film_stands_in_order_with_a_frame_around_what_shows_the_answer():
    told = one(3)
    ((changes, _, film),) = axes_of(draw_slots([told]))
    strip = film.images[0].get_array()
    pictures = np.frombuffer(zlib.decompress(base64.b64decode(told["pictures"])), np.uint8).reshape(T, 8, 8, 3)
    for place, picture in enumerate(pictures):
        np.testing.assert_array_equal(strip[:, place * 9 : place * 9 + 8], picture)
    framed = [[patch.get_x() for patch in ax.patches if isinstance(patch, Rectangle)] for ax in (changes, film)]
    assert framed == [[1.5, 2.5], [9, 18]]


def test_the_title_says_whether_the_answer_was_right():
    titles = [part._suptitle.get_text() for part in draw_slots([one(0), one(1, given="left")]).subfigs]
    (numbered,) = draw_slots([one(0, question="7")]).subfigs
    assert numbered._suptitle.get_text() == "question 7   given: up, correct: left"
    assert titles == ["where does it go?   given: up, correct: left", "where does it go?   given: left, correct"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": [[1.0]]}, "not of the same slots"),
        ({"changes": []}, "not of the same slots"),
        ({"shape": [T, 8, 8, 4]}, "cannot be of shape"),
        ({"shape": [10**6, 10**6, 10**6, 3]}, "cannot be of shape"),
        ({"shape": [T, 8, 9, 3]}, "not of their shape"),
        ({"shape": [T, 8, 7, 3]}, "not of their shape"),
        ({"pictures": base64.b64encode(b"no").decode()}, "damaged"),
        ({"pictures": "?"}, "base64|Incorrect|Only|padding"),
    ],
)
def test_what_cannot_be_drawn_is_an_error_that_reporting_tells_in_one_line(changes, message):
    with pytest.raises(ValueError, match=message):
        draw_slots([one(0, **changes)])


def test_no_more_is_unpacked_than_the_shape_says():
    bomb = base64.b64encode(zlib.compress(bytes(1 << 28))).decode()
    with pytest.raises(ValueError, match="not of their shape"):
        draw_slots([one(0, pictures=bomb)])
