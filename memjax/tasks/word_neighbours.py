"""Vectors of words from the texts of a task alone: by what stands beside them."""

from collections.abc import Iterable, Iterator

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import svds

from memjax.errors import require

WINDOW = 5  # words to either side that count as neighbours
SMOOTHING = 0.75  # the power of a neighbour's own count: rare ones would else have the largest information
AT_ONCE = 1 << 20  # words whose pairs are counted together
MOST = 10_000_000  # words that are read, so that any corpus takes minutes


def word_vectors(texts: Iterable[np.ndarray], known: int, width: int) -> np.ndarray:
    """Of each word a vector of length 1, `[known, width]` float32; words with like neighbours have like vectors.

    `c_ij = sum 1 / distance` over all places where words i and j stand at most 5 apart;
    `P_ij = max(0, log(c_ij sum_k c_k^.75 / (c_i c_j^.75)))`, `P ~ U S V^T` by its largest singular values, and
    `v_i = U_i sqrt(S)`, scaled; 0 of a word that has no neighbour. Source: Levy, Goldberg and Dagan 2015, *Improving
    Distributional Similarity with Lessons Learned from Word Embeddings* (TACL 3), 2.1, 2.2 and 3. They stand where
    papers have vectors that were made of a corpus.

    Args:
        texts: ids of words each, [L]; those of `known` and above count as the unknown word, 1.
        known: how many words have a vector, at least 2.
        width: of a vector.

    Raises:
        MemjaxError: for sizes that cannot be.

    >>> red, blue, fox, owl = range(2, 6)
    >>> vectors = word_vectors([np.array([red, fox, 1, red, owl, 1, blue, 1, 1, 1, blue, 1])], known=6, width=3)
    >>> bool(vectors[fox] @ vectors[owl] > vectors[fox] @ vectors[blue])
    True
    """
    require(known >= 2 and width >= 1, f"known must be at least 2 and width at least 1, not {known} and {width}")
    counts = scipy.sparse.csr_matrix((known, known))
    for ids in _pieces(texts):
        counts += _behind(np.where(ids < known, ids, 1), known)
    vectors = np.zeros((known, width), np.float32)
    information = _information(counts + counts.T)
    kept = min(width, known - 1)
    if information.nnz:
        left, size, _ = svds(information, k=kept, v0=np.full(known, known**-0.5), return_singular_vectors="u")
        # A singular vector may have either sign, and which one it is given differs from machine to machine.
        largest = left[np.abs(left).argmax(0), np.arange(kept)]
        found = left * np.sign(largest) * np.sqrt(size)
        length = np.linalg.norm(found, axis=1, keepdims=True)
        vectors[:, :kept] = found / np.where(length > 1e-6, length, np.inf)
    return vectors


def _pieces(texts: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Texts one after another, some of them together, with padding between them, which is no word."""
    held: list[np.ndarray] = []
    count = total = 0
    for text in texts:
        held += [text, np.zeros(WINDOW, text.dtype)]
        count += len(text)
        if count >= AT_ONCE:
            yield np.concatenate(held)
            total, held, count = total + count, [], 0
        if total >= MOST:
            return
    if count:
        yield np.concatenate(held)


def _behind(ids: np.ndarray, known: int) -> scipy.sparse.csr_matrix:
    """Of one piece, the part of c in which the second word stands behind the first."""
    counts = scipy.sparse.csr_matrix((known, known))
    for distance in range(1, WINDOW + 1):
        one, other = ids[:-distance], ids[distance:]
        real = (one != 0) & (other != 0)
        share = np.full(int(real.sum()), 1 / distance)
        counts += scipy.sparse.coo_matrix((share, (one[real], other[real])), shape=(known, known)).tocsr()
    return counts


def _information(counts: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """P."""
    own = np.asarray(counts.sum(1)).ravel()
    of_neighbour = own**SMOOTHING
    pairs = counts.tocoo()
    told = np.log(pairs.data * of_neighbour.sum() / (own[pairs.row] * of_neighbour[pairs.col]))
    more = told > 0
    return scipy.sparse.csr_matrix((told[more], (pairs.row[more], pairs.col[more])), shape=counts.shape)
