"""What is minimised and measured where the answer is a span of what a buffer holds, or of a whole document."""

from typing import cast

import jax
import jax.numpy as jnp

from memjax.experiments.spans.span_scores import Reward, SpanScores, rollout, span_scores
from memjax.memories.policies import policies
from memjax.models import BiDAF, DocumentReader, SpanLogits
from memjax.models.document_reader import Retained
from memjax.training.actor_critic import ActorCritic, actor_critic_loss
from memjax.training.evaluate import MetricSums
from memjax.training.objective import Example, Loss, Metrics, mean_objective
from memjax.typing import Array, Int, Key, Params


def fifo_blocks(example: Example, entries: int, key: Key) -> Int[Array, "N"]:
    """What FIFO holds of a document that ends while it still has the answer; at which block, is drawn.

    Args:
        example: of `Spans`.
        entries: N, of the buffer.
        key: to draw with.
    """
    blocks = example["stream"]
    words, count = blocks.shape[1], (blocks != 0).any(1).sum()
    low, high = example["last"] // words, example["first"] // words + entries
    end = jax.random.randint(key, (), low, jnp.maximum(jnp.minimum(high, count), low + 1))
    numbers = jnp.maximum(end - entries + 1, 0) + jnp.arange(entries)
    return jnp.where(numbers <= end, numbers, -1)


def base_objective(reader: DocumentReader, longest: int) -> Loss:
    """Cross-entropy of the answer's first and last word, of documents that end while FIFO still holds the answer.

    Of whole documents of train FIFO never would: their answers come early.

    Args:
        reader: the model.
        longest: the most words that are answered.
    """

    def one(params: Params, frozen: Params, example: Example) -> Metrics:
        return _shown(_by_fifo(reader, params, example, longest, example["key"]))

    return mean_objective(one, lambda means: (means["answer_loss"], means))


def spans_objective(reader: DocumentReader, longest: int, config: ActorCritic, reward: Reward) -> Loss:
    """`base_objective`, the same loss of what the policy holds at the document's end, and the actor-critic's.

    What is not held has no part in the second. The actor-critic's is the mean over the document's blocks.

    Args:
        reader: the model.
        longest: the most words that are answered.
        config: discount, trace and weights.
        reward: one of `rewards`, what evictions are rewarded for.
    """

    def one(params: Params, frozen: Params, example: Example) -> Metrics:
        key, draw_key, drop_key = jax.random.split(example["key"], 3)
        base = _by_fifo(reader, params, example, longest, key)
        retained = _retained(reader, params, example, draw_key)
        scores = _of_held(reader, params, example, longest, retained.held[-1], drop_key)
        brought = reward(retained, example, scores.f1)
        loss, parts = actor_critic_loss(rollout(retained, example, brought), jnp.zeros(()), config)
        blocks = (example["stream"] != 0).any(1).sum()
        means = {name: part / blocks for name, part in parts.items()} | {"base_loss": base.loss}
        return {"loss": base.loss + scores.loss + loss / blocks, **_shown(scores), **means}

    return mean_objective(one, lambda means: (means.pop("loss"), means))


def whole_objective(reader: BiDAF, longest: int) -> Loss:
    """Cross-entropy of the answer's first and last word among those of the whole document.

    Args:
        reader: the model.
        longest: the most words that are answered.
    """

    def one(params: Params, frozen: Params, example: Example) -> Metrics:
        return _shown(_of_all(reader, params, example, longest, example["key"]))

    return mean_objective(one, lambda means: (means["answer_loss"], means))


def measure_reader(reader: DocumentReader, longest: int, params: Params, example: Example) -> MetricSums:
    """One question about a document of which the policy keeps what it finds likeliest.

    Args:
        reader: the model.
        longest: the most words that are answered.
        params: of the reader.
        example: of `Spans`.
    """
    held = read_greedily(reader, params, example).held[-1]
    return _measured(_of_held(reader, params, example, longest, held, None))


def measure_whole(reader: BiDAF, longest: int, params: Params, example: Example) -> MetricSums:
    """One question about a document all of which is read at once.

    Args:
        reader: the model.
        longest: the most words that are answered.
        params: of the reader.
        example: of `Spans`.
    """
    return _measured(_of_all(reader, params, example, longest, None))


def read_greedily(reader: DocumentReader, params: Params, example: Example) -> Retained:
    """A document as it is read in a test: the likeliest block is evicted, or of `uniform` one that is drawn.

    Args:
        reader: the model.
        params: of the reader.
        example: of `Spans`.
    """
    blocks = example["stream"]
    # By the document, so that every test is the same.
    key = jax.random.fold_in(jax.random.key(0), (blocks * (1 + jnp.arange(blocks.shape[1]))).sum())
    return _retained(reader, params, example, policies[reader.policy].test_key(key))


def _retained(reader: DocumentReader, params: Params, example: Example, key: Key | None) -> Retained:
    return cast(Retained, reader.apply(params, example["stream"], key, method="retain"))


def _of_held(
    reader: DocumentReader, params: Params, example: Example, longest: int, held: Int[Array, "N"], key: Key | None
) -> SpanScores:
    logits = reader.apply(params, example["stream"], held, example["query"], key, method="answer")
    return span_scores(cast(SpanLogits, logits), held, example, longest)


def _by_fifo(reader: DocumentReader, params: Params, example: Example, longest: int, key: Key) -> SpanScores:
    draw_key, drop_key = jax.random.split(key)
    held = fifo_blocks(example, reader.entries, draw_key)
    return _of_held(reader, params, example, longest, held, drop_key)


def _of_all(reader: BiDAF, params: Params, example: Example, longest: int, key: Key | None) -> SpanScores:
    blocks = example["stream"]
    logits = reader.apply(params, blocks, example["query"], key)
    return span_scores(cast(SpanLogits, logits), jnp.arange(len(blocks)), example, longest)


def _shown(scores: SpanScores) -> Metrics:
    return {"answer_loss": scores.loss, "accuracy": scores.exact, "f1": scores.f1, "held": scores.held}


def _measured(scores: SpanScores) -> MetricSums:
    means = {"em": scores.exact, "f1": scores.f1, "held": scores.held}  # an exact match is what accuracy counts
    return MetricSums(scores.loss, scores.held, scores.exact, jnp.ones(()), means=means)
