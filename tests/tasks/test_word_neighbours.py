"""Vectors of words against the equations pair by pair; texts that do not touch; what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax.errors import MemjaxError
from memjax.tasks import word_neighbours, word_vectors

KNOWN = 9


def counted(texts, known):
    counts = np.zeros((known, known))
    for text in texts:
        ids = [word if word < known else 1 for word in text]
        for i, one in enumerate(ids):
            for j, other in enumerate(ids):
                if 0 < abs(i - j) <= 5 and one and other:
                    counts[one, other] += 1 / abs(i - j)
    return counts


def oracle(texts, known, width):
    """The vectors, up to a rotation: their inner products are compared."""
    counts = counted(texts, known)
    own = counts.sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        told = np.log(counts * (own**0.75).sum() / (own[:, None] * own[None, :] ** 0.75))
    told = np.where(counts > 0, np.maximum(told, 0), 0)
    left, size, _ = np.linalg.svd(told)
    found = left[:, :width] * np.sqrt(size[:width])
    length = np.linalg.norm(found, axis=1, keepdims=True)
    return np.where(length > 1e-6, found / np.maximum(length, 1e-6), 0), size


def drawn(seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(1, KNOWN + 2, rng.integers(1, 40)) for _ in range(5)]


@pytest.mark.parametrize("width", [2, 4, 6])
def test_vectors_are_those_of_the_equations(width):
    checked = 0
    for seed in range(40):
        want, size = oracle(drawn(seed), KNOWN, width)
        if size[width - 1] - size[width] < 0.05:  # what two equal singular values span has no vectors of its own
            continue
        found = word_vectors(drawn(seed), KNOWN, width)
        assert found.shape == (KNOWN, width) and found.dtype == np.float32
        np.testing.assert_allclose(found @ found.T, want @ want.T, atol=1e-4)
        checked += 1
    assert checked >= 3


@given(
    st.lists(st.lists(st.integers(0, KNOWN + 3), min_size=1, max_size=12), min_size=1, max_size=4), st.integers(1, 12)
)
@settings(max_examples=60, deadline=None)
def test_any_texts_have_vectors_of_length_one_or_none(texts, width):
    found = word_vectors([np.array(text) for text in texts], KNOWN, width)
    length = np.linalg.norm(found, axis=1)
    assert found.shape == (KNOWN, width) and ((abs(length - 1) < 1e-4) | (length == 0)).all()


def test_the_same_texts_have_the_same_vectors_and_the_end_of_one_is_not_beside_the_next():
    texts = drawn(3)
    first = word_vectors(iter(texts), KNOWN, 4)
    np.testing.assert_array_equal(first, word_vectors(texts, KNOWN, 4))
    assert np.abs(first - word_vectors([np.concatenate(texts)], KNOWN, 4)).max() > 1e-3


def test_the_sign_of_a_vector_is_not_left_to_the_machine(monkeypatch):
    """Of each singular vector the largest number is above 0, whichever sign it was given."""
    plain = word_vectors(drawn(1), KNOWN, 4)
    given = word_neighbours.svds

    def turned(*args, **kwargs):
        left, size, right = given(*args, **kwargs)
        return left * np.array([1, -1, 1, -1]), size, right

    monkeypatch.setattr(word_neighbours, "svds", turned)
    np.testing.assert_allclose(word_vectors(drawn(1), KNOWN, 4), plain, atol=1e-6)


def test_many_texts_are_counted_piece_by_piece_up_to_a_number_of_words(monkeypatch):
    texts = [text for seed in range(6) for text in drawn(seed)]
    whole = word_vectors(texts, KNOWN, 3)
    monkeypatch.setattr(word_neighbours, "AT_ONCE", 30)
    np.testing.assert_allclose(word_vectors(texts, KNOWN, 3), whole, atol=1e-4)
    monkeypatch.setattr(word_neighbours, "MOST", 100)
    read, count = 0, 0
    while count < 100:  # whole pieces, of whole texts
        piece = 0
        while piece < 30:
            piece, read = piece + len(texts[read]), read + 1
        count += piece
    np.testing.assert_allclose(word_vectors(texts, KNOWN, 3), word_vectors(texts[:read], KNOWN, 3), atol=1e-6)
    assert read < len(texts)


def test_words_that_stand_alike_are_alike():
    rng, texts = np.random.default_rng(0), []
    for _ in range(300):  # 2 and 3 are beside 6 or 7, 4 and 5 beside 8
        texts += [np.array([1, rng.choice([2, 3]), rng.choice([6, 7]), 1]), np.array([1, rng.choice([4, 5]), 8, 1])]
    found = word_vectors(texts, KNOWN, 4)
    assert found[2] @ found[3] > 0.9 > 0.5 > found[2] @ found[4]


@pytest.mark.parametrize("sizes", [(1, 4), (9, 0)])
def test_sizes_that_cannot_be_are_one_line(sizes):
    with pytest.raises(MemjaxError, match="known must be at least 2 and width at least 1, not"):
        word_vectors(drawn(0), *sizes)
