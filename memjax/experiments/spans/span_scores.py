"""How good an answer is by SQuAD's rule, whether it could be given, and what evictions are rewarded for."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.models import SpanLogits, best_span
from memjax.models.document_reader import Retained, held_words
from memjax.tasks.spans import UNSCORED
from memjax.training.actor_critic import Rollout
from memjax.training.objective import Example
from memjax.typing import Array, Bool, Float, Int


class SpanScores(NamedTuple):
    """What is measured of one answer.

    Attributes:
        loss: cross-entropy of its first and of its last word, in nats; 0 where it is not held.
        held: 1 if all blocks that the span lies in are held.
        exact: 1 if it is the same as one of those that count as right.
        f1: the best with any of these.
    """

    loss: Float[Array, ""]
    held: Float[Array, ""]
    exact: Float[Array, ""]
    f1: Float[Array, ""]


def squad_scores(said: Int[Array, "P"], answers: Int[Array, "A W"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Exact match and F1 of what was said, by SQuAD's rule: the best with any of the answers; articles do not count.

    `f1 = 2 n / (scored words said + those of the answer)`, n how many words they have in common, each as often as it is
    in both. Source: SQuAD (Rajpurkar et al. 2016, 1606.05250), its evaluation.

    Args:
        said: ids of `Spans`, by whose words the rest of the rule is kept; below `UNSCORED` what does not count.
        answers: ids, padding where there are fewer.

    >>> wolf, grey, big, the = 5, 6, 7, 4
    >>> exact, f1 = squad_scores(jnp.array([the, grey, wolf]), jnp.array([[big, grey, wolf], [wolf, 0, 0]]))
    >>> float(exact), round(float(f1), 3)
    (0.0, 0.8)
    """
    said, answers = _scored(said), jax.vmap(_scored)(answers)
    spoken, given = said != 0, answers != 0
    # The i-th word said is in common if the answer has it more often than it was said before.
    before = jnp.tril(said[:, None] == said[None, :], -1).sum(1)
    times = (answers[:, None, :] == said[None, :, None]).sum(2)
    common = (spoken & (before < times)).sum(1)
    f1 = 2 * common / jnp.maximum(spoken.sum() + given.sum(1), 1)
    width = max(said.shape[0], answers.shape[1])
    same = (_filled(said, width) == _filled(answers, width)).all(1) & given.any(1)
    return same.any().astype(jnp.float32), f1.max()


def _scored(words: Int[Array, "W"]) -> Int[Array, "W"]:
    """Those that count, moved to the front; 0 behind them."""
    counts = words >= UNSCORED
    return jnp.where(jnp.sort(~counts), 0, words[jnp.argsort(~counts, stable=True)])


def _filled(words: Array, width: int) -> Array:
    return jnp.pad(words, [(0, 0)] * (words.ndim - 1) + [(0, width - words.shape[-1])])


def held_span(
    held: Int[Array, "N"], first: Int[Array, ""], last: Int[Array, ""], block: int
) -> tuple[Bool[Array, ""], Int[Array, ""], Int[Array, ""]]:
    """Where a span of a document lies in the words of the blocks that are held.

    Args:
        held: their numbers, rising, -1 for none.
        first: the place of its first word in the document.
        last: that of its last word.
        block: words of a block.

    Returns:
        Whether all its blocks are held, and the places of its first and last word; 0 where it is not.

    >>> there, first, last = held_span(jnp.array([0, 3, 4, -1]), jnp.array(39), jnp.array(41), 10)
    >>> bool(there), int(first), int(last)
    (True, 19, 21)
    """
    inside = (held >= first // block) & (held <= last // block)
    there = inside.sum() == last // block - first // block + 1
    begin = inside.argmax() * block + first % block
    return there, jnp.where(there, begin, 0), jnp.where(there, begin + last - first, 0)


def said_words(logits: SpanLogits, blocks: Int[Array, "T W"], held: Int[Array, "N"], longest: int) -> Int[Array, "P"]:
    """What is answered, the likeliest span of the blocks that were held; padding behind its end.

    Args:
        logits: of their words.
        blocks: of the document.
        held: their numbers, rising, -1 for none.
        longest: the most words that are answered.
    """
    begin, end = best_span(logits, longest)
    words = jnp.pad(held_words(blocks, held).reshape(-1), (0, longest))
    said = jax.lax.dynamic_slice(words, (begin,), (longest,))
    return jnp.where(jnp.arange(longest) <= end - begin, said, 0)


def span_scores(logits: SpanLogits, held: Int[Array, "N"], example: Example, longest: int) -> SpanScores:
    """What is measured of an answer from the blocks that were held.

    Args:
        logits: of their words.
        held: their numbers, rising, -1 for none.
        example: of `Spans`.
        longest: the most words that are answered.
    """
    blocks = example["stream"]
    there, first, last = held_span(held, example["first"], example["last"], blocks.shape[1])
    loss = -jax.nn.log_softmax(logits.first)[first] - jax.nn.log_softmax(logits.last)[last]
    exact, f1 = squad_scores(said_words(logits, blocks, held, longest), example["answers"])
    # Where logits are none, nothing is: 0 would be a loss like others.
    lost = jnp.isnan(logits.first).any() | jnp.isnan(logits.last).any()
    return SpanScores(jnp.where(lost, jnp.nan, jnp.where(there, loss, 0)), there.astype(jnp.float32), exact, f1)


Reward = Callable[[Retained, Example, Array], Array]


def answer_reward(retained: Retained, example: Example, f1: Float[Array, ""]) -> Float[Array, "T"]:
    """F1 of the answer, behind the last block; 0 before.

    Args:
        retained: what the policy did.
        example: of `Spans`.
        f1: of the answer.
    """
    return jnp.where(_ends(example) & _real(example), f1, 0)


def held_reward(retained: Retained, example: Example, f1: Float[Array, ""]) -> Float[Array, "T"]:
    """Behind every block from the end of the answer's span on: 1 / T if all of it is held, else -1 / T.

    T are the blocks of the document, so that the sum is at most 1, as F1 is: larger returns would make the critic's
    error the largest part of the loss, and shape the encodings, which it shares with BiDAF. What will be asked, nobody
    knows at the time; a policy is trained by it, and tested without.

    Args:
        retained: what the policy did.
        example: of `Spans`.
        f1: of the answer.
    """
    blocks = example["stream"]
    place = example["first"], example["last"], blocks.shape[1]
    there = jax.vmap(lambda held: held_span(held, *place)[0])(retained.held)
    real = _real(example)
    come = (jnp.arange(len(blocks)) >= example["last"] // blocks.shape[1]) & real
    return jnp.where(come, jnp.where(there, 1.0, -1.0), 0.0) / real.sum()


rewards: dict[str, Reward] = {"f1": answer_reward, "held": held_reward}


def rollout(retained: Retained, example: Example, brought: Float[Array, "T"]) -> Rollout:
    """What the policy did in a document, for the actor-critic.

    Args:
        retained: what it did.
        example: of `Spans`.
        brought: what each eviction brought.
    """
    did = retained.acted, retained.log_prob, retained.entropy
    return Rollout(*did, jnp.where(_real(example), retained.value, 0), brought, _ends(example))


def _real(example: Example) -> Bool[Array, "T"]:
    return (example["stream"] != 0).any(1)


def _ends(example: Example) -> Bool[Array, "T"]:
    """At the last block, and at the padding behind it."""
    return ~jnp.append(_real(example)[1:], False)
