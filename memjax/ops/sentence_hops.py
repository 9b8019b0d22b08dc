"""End-To-End Memory Networks: sentences as vectors, and one hop of a question over them."""

import jax
import jax.numpy as jnp

from memjax.ops.attention import accumulated, masked_softmax
from memjax.ops.checked import checked
from memjax.typing import Array, Bool, Float, Int, Literal

Encoding = Literal["position", "bag"]


@checked
def position_weights(mask: Bool[Array, "N"], width: int) -> Float[Array, "N d"]:
    """How much each coordinate of each word counts in a sentence, by the word's place: `[N, d]`; 0 for padding.

    `l_kj = (1 - j/J) - (k/d)(1 - 2j/J)` with j = 1..J over the sentence's J real words and k = 1..d. The first word
    speaks through the low coordinates, the last through the high ones, so that a sum of words keeps their order.
    Source: End-To-End Memory Networks (Sukhbaatar et al. 2015), section 4.1.

    Args:
        mask: which words are no padding.
        width: of a word's vector.

    Returns:
        The weights.

    >>> import jax.numpy as jnp
    >>> position_weights(jnp.array([True, True, False]), 2).tolist()
    [[0.5, 0.5], [0.5, 1.0], [0.0, 0.0]]
    """
    constant, slope = _affine(mask)
    k_over_d = jnp.arange(1, width + 1) / width
    return constant[:, None] - slope[:, None] * k_over_d


@checked
def centred_weights(mask: Bool[Array, "N"], width: int, places: int) -> Float[Array, "N d"]:
    """As `position_weights`, but by the place alone, whatever the sentence's length: `[N, d]`; 0 for padding.

    `l_kj = 1 + 4 (k - (d+1)/2)(j - (J+1)/2) / (dJ)` with j = 1, 2, .. over the sentence's real words, k = 1..d, and J =
    `places` for all sentences: about twice those for J words, and 1 in the middle.
    Source: the code of the authors of End-To-End Memory Networks.

    Args:
        mask: which words are no padding.
        width: of a word's vector.
        places: J, for all sentences.

    Returns:
        The weights.

    >>> import jax.numpy as jnp
    >>> centred_weights(jnp.array([True, True, False]), 2, 4).tolist()
    [[1.375, 0.625], [1.125, 0.875], [0.0, 0.0]]
    """
    constant, slope = _centred(mask, width, places)
    return constant[:, None] - slope[:, None] * jnp.arange(1, width + 1, dtype=slope.dtype) / width


@checked
def embed_sentence(
    words: Float[Array, "N d"], mask: Bool[Array, "N"] | None = None, *, encoding: Encoding = "position"
) -> Float[Array, "d"]:
    """A sentence as one vector: `sum_j l_j * x_j` of its word vectors, `l` as in `position_weights`.

    Source: End-To-End Memory Networks, section 4.1. Summed in float32 or better.

    Args:
        words: vectors of the words.
        mask: which words are no padding; all, if not given.
        encoding: "position", by the words' places; "bag", the words as they are.

    Returns:
        The vector; zeros for a sentence of padding.

    >>> import jax.numpy as jnp
    >>> embed_sentence(jnp.ones((3, 2)), jnp.array([True, True, False])).tolist()
    [1.0, 1.5]
    """
    if mask is None:
        mask = jnp.ones(words.shape[0], bool)
    wide = jnp.promote_types(words.dtype, jnp.float32)
    clean = jnp.where(mask[:, None], words, 0).astype(wide)
    return (position_weights(mask, words.shape[1]) * clean).sum(0) if encoding == "position" else clean.sum(0)


@checked
def sentence_weights(
    ids: Int[Array, "N"], mask: Bool[Array, "N"], vocabulary: int, *, encoding: Encoding = "position"
) -> Float[Array, "2 V"]:
    """A sentence as two numbers for each word of the vocabulary, with which `embed_weights` embeds it without a lookup.

    `position_weights` is affine in k: the words that are v add up to `(a_v - (k/d) b_v) A_vk` with
    `a_v = sum_{j: x_j = v} (1 - j/J)` and `b_v = sum_{j: x_j = v} (1 - 2j/J)`. A bag of words counts: b is 0. They do
    not depend on what is learned.

    Args:
        ids: of the words.
        mask: which words are no padding.
        vocabulary: V.
        encoding: as of `embed_sentence`.

    Returns:
        Both numbers of every word.

    >>> import jax.numpy as jnp
    >>> sentence_weights(jnp.array([2, 1]), jnp.ones(2, bool), 3).tolist()
    [[0.0, 0.0, 0.5], [0.0, -1.0, 0.0]]
    """
    each = mask.astype(float)
    affine = jnp.stack(_affine(mask) if encoding == "position" else (each, 0 * each))
    return affine @ jax.nn.one_hot(ids, vocabulary, dtype=affine.dtype)


@checked
def centred_sentence_weights(
    ids: Int[Array, "N"], mask: Bool[Array, "N"], vocabulary: int, width: int, places: int
) -> Float[Array, "2 V"]:
    """As `sentence_weights`, by `centred_weights`: `embed_weights` of it embeds the sentence.

    Args:
        ids: of the words.
        mask: which words are no padding.
        vocabulary: V.
        width: of a word's vector.
        places: J, for all sentences.

    Returns:
        Both numbers of every word.

    >>> import jax.numpy as jnp
    >>> table, ids, mask = jnp.arange(6.0).reshape(3, 2), jnp.array([2, 1]), jnp.ones(2, bool)
    >>> by_weights = embed_weights(table, centred_sentence_weights(ids, mask, 3, 2, 4))
    >>> bool(jnp.allclose(by_weights, (centred_weights(mask, 2, 4) * table[ids]).sum(0)))
    True
    """
    affine = jnp.stack(_centred(mask, width, places))
    return affine @ jax.nn.one_hot(ids, vocabulary, dtype=affine.dtype)


@checked
def embed_weights(table: Float[Array, "V d"], weights: Float[Array, "2 V"]) -> Float[Array, "d"]:
    """`embed_sentence` of a sentence given as `sentence_weights`: `a A - (k/d) * (b A)`, as a dense product.

    For a vocabulary of hundreds of words it is faster than lookups on CPU, where the gradient of a lookup is a loop.
    Summed in float32 or better.

    Args:
        table: of the embeddings.
        weights: of `sentence_weights` or `centred_sentence_weights`.

    Returns:
        The sentence's vector.

    >>> import jax.numpy as jnp
    >>> table = jnp.arange(6.0).reshape(3, 2)
    >>> ids, mask = jnp.array([2, 1]), jnp.ones(2, bool)
    >>> by_weights = embed_weights(table, sentence_weights(ids, mask, 3))
    >>> bool(jnp.allclose(by_weights, embed_sentence(table[ids], mask)))
    True
    """
    k_over_d = (jnp.arange(1, table.shape[1] + 1) / table.shape[1]).astype(table.dtype)
    # One product for both: of many sentences, its gradient is one product too.
    return accumulated(weights.reshape(-1), jnp.concatenate([table, -k_over_d * table]))


@checked
def memory_hop(
    query: Float[Array, "d"],
    keys: Float[Array, "M d"],
    values: Float[Array, "M d"],
    mask: Bool[Array, "M"] | None = None,
    *,
    transition: Float[Array, "d d"] | None = None,
    linear: bool | Bool[Array, ""] = False,
    empty: int | Int[Array, ""] = 0,
) -> tuple[Float[Array, "M"], Float[Array, "d"]]:
    """One hop: `p = softmax_i(u · m_i)`, `o = sum_i p_i c_i`, `u + o`.

    Source: End-To-End Memory Networks, Eq. 1, 2 and 4. Weights and result are float32 or better.

    Args:
        query: u.
        keys: m, of the rows.
        values: c, of the rows.
        mask: which rows are no padding; the others have weight 0.
        transition: H of `H u + o`, as with layer-wise tying; none, if not given.
        linear: True, or a traced True, leaves the softmax out: `p_i = u · m_i` (linear start).
        empty: how many rows of zeros there are beside these, in a memory of fixed size that is not full; they too have
            a share of the softmax.

    Returns:
        The weights of the rows, and the next query.

    >>> import jax.numpy as jnp
    >>> weights, query = memory_hop(jnp.zeros(2), jnp.ones((4, 2)), 2 * jnp.ones((4, 2)))
    >>> weights.tolist(), query.tolist()
    ([0.25, 0.25, 0.25, 0.25], [2.0, 2.0])
    """
    if mask is None:
        mask = jnp.ones(keys.shape[0], bool)
    keys, values = (jnp.where(mask[:, None], rows, 0) for rows in (keys, values))
    return hop_over(query, keys, values, mask, transition=transition, linear=linear, empty=empty)


def hop_over(
    query: Float[Array, "d"],
    keys: Float[Array, "M d"],
    values: Float[Array, "M d"],
    mask: Bool[Array, "M"],
    *,
    transition: Float[Array, "d d"] | None = None,
    linear: bool | Bool[Array, ""] = False,
    empty: int | Int[Array, ""] = 0,
) -> tuple[Float[Array, "M"], Float[Array, "d"]]:
    """`memory_hop` over rows that are finite in padding too.

    Where many questions share the rows, each with a mask of its own, `jax.vmap` makes one matrix product of it;
    clearing the padding would make a copy of the rows for each question.
    """
    scores = accumulated(keys, query)
    # The empty rows, of score 0 each, as one row more.
    together = jnp.log(jnp.maximum(jnp.asarray(empty), 1).astype(scores.dtype))
    shares = masked_softmax(jnp.append(scores, together), jnp.append(mask, jnp.asarray(empty) > 0), axis=0)[:-1]
    weights = jnp.where(linear, jnp.where(mask, scores, 0), shares)
    carried = query if transition is None else accumulated(query, transition.T)
    return weights, carried + accumulated(weights.astype(values.dtype), values)


def _affine(mask: Bool[Array, "N"]) -> tuple[Float[Array, "N"], Float[Array, "N"]]:
    """`1 - j/J` and `1 - 2j/J` of each word; 0 for padding."""
    place = jnp.cumsum(mask) / jnp.maximum(mask.sum(), 1)
    return jnp.where(mask, 1 - place, 0), jnp.where(mask, 1 - 2 * place, 0)


def _centred(mask: Bool[Array, "N"], width: int, places: int) -> tuple[Float[Array, "N"], Float[Array, "N"]]:
    """`a` and `b` of each word, whose weights are `a - (k/d) b`; 0 for padding."""
    off = (jnp.cumsum(mask, dtype=float) - (places + 1) / 2) / places
    return jnp.where(mask, 1 - 2 * off * (width + 1) / width, 0), jnp.where(mask, -4 * off, 0)
