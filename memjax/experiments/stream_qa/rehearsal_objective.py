"""What stream QA minimises: the answer's loss, and what rehearsal adds to it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from memjax.experiments.stream_qa.gradient_balance import balanced
from memjax.experiments.stream_qa.stream_qa_config import RehearsalConfig
from memjax.memories import Slots
from memjax.models import HistorySampler, MemoryModel, System
from memjax.models.fragments import Among, as_ids, build_fragments, draw_anywhere, draw_fragments
from memjax.training.initial_params import initial_params
from memjax.training.objective import Example, Loss, Metrics, answer_metrics, mean_objective
from memjax.typing import Any, Array, Float, Key, Params


class Answered(NamedTuple):
    """What one pass over a stream gives.

    Attributes:
        logits: of the answers; with leading axes A, M where the stream is asked on the way.
        aux_loss: the memory's own, one number.
    """

    logits: Float[Array, "..."]
    aux_loss: Float[Array, ""]


def answer(model: System, params: Params, example: Example, key: Key | None = None) -> Answered:
    """Memorizes one example's stream and answers its question, or all of its questions.

    Args:
        model: of stream QA.
        params: of the model.
        example: `stream`, `mask`, `query` and, where the task has them, `candidates`, or `after`.
        key: to memorize with, in training.
    """
    slots, aux_loss = _memorized(model, params, example, key)
    return Answered(_asked(model, params, slots, example), aux_loss)


def _memorized(model: System, params: Params, example: Example, key: Key | None) -> tuple[Slots, Float[Array, ""]]:
    """The slots that are asked, with a leading axis A where that is on the way, and the memory's own loss."""
    stream, mask = example["stream"], example["mask"]
    if "after" not in example:
        return _call(model, params, "memorize", stream, mask, key=key)
    return _call(model, params, "memorize_at", stream, mask, example["after"], key=key)


def _asked(model: System, params: Params, slots: Slots, example: Example) -> Float[Array, "..."]:
    """The logits of an example's question, or of all of its questions."""

    def ask(slots: Slots, query: Array) -> Array:
        return _call(model, params, "answer", slots, query, example.get("candidates"))

    if "after" not in example:
        return ask(slots, example["query"])
    # Of the questions that come at one time, what depends on the slots alone is computed once; so are candidates.
    return jax.vmap(jax.vmap(ask, (None, 0)))(slots, example["query"])


def _answer_metrics(logits: Array, example: Example) -> Metrics:
    """`answer_metrics`; of streams that are asked on the way so that their mean over a batch is that over questions.

    How many these are, an example knows from the whole batch: in a part of it, on a device or in a microbatch, streams
    have more questions or fewer than in another, and each question counts the same.
    """
    metrics = answer_metrics(logits, example["label"])
    if "asked" not in example:
        return metrics
    return {name: value.sum(where=example["asked"]) / example["asked_mean"] for name, value in metrics.items()}


def answer_objective(model: System) -> Loss:
    """Mean answer loss, and the system's own: for the sampler and for those that read the stream directly.

    A batch has, for each example, a `key`, and what `of_other_rows` adds.
    """

    def one(params: Params, frozen: Params, example: Example) -> Metrics:
        answered = answer(model, params, example, example["key"])
        return _answer_metrics(answered.logits, example) | {"aux_loss": answered.aux_loss}

    def total(means: Metrics) -> tuple[Array, Metrics]:
        return means["answer_loss"] + means["aux_loss"], means

    return mean_objective(one, total)


def rehearsal_objective(
    model: MemoryModel, weights: RehearsalConfig, rehearses: bool, sampler: HistorySampler | None
) -> Loss:
    """`recollection + familiarity + answer`, weighted (Rehearsal Memory, Eq. 7), and the memory's own `aux_loss`.

    A batch has, for each example, a `key`, its `step` and what `of_other_rows` adds. `frozen` holds the sampler's
    parameters. Where rehearsal comes first, the share of steps with answers is a metric, `answering`; where it is
    annealed, what is left of its weights is one, `rehearsing`. Where it is balanced, its gradient on the slots is: see
    `gradient_balance.balanced`; what the memory's own loss pulls is not counted.

    Args:
        model: the memory, and what stands around it.
        weights: of the losses, and what is rehearsed.
        rehearses: whether there is anything but the answer's loss and the memory's own.
        sampler: draws fragments; without one they are drawn anywhere in the stream.
    """

    def one(params: Params, frozen: Params, example: Example) -> Metrics:
        memory_key, draw_key, build_key, sample_key = jax.random.split(example["key"], 4)
        slots, aux_loss = _memorized(model, params, example, memory_key)
        asked = slots
        if rehearses and weights.balance:
            first, second = balanced(slots.values, weights.balance)
            asked, slots = slots._replace(values=first), slots._replace(values=second)
        metrics = _answer_metrics(_asked(model, params, asked, example), example) | {"aux_loss": aux_loss}
        if not rehearses:
            return metrics
        if weights.answer_after:
            metrics["answering"] = (example["step"] >= weights.answer_after).astype(jnp.float32)
        if weights.anneal_steps:
            metrics["rehearsing"] = jnp.maximum(1 - example["step"] / weights.anneal_steps, 0)
        slots, stream, mask, query = _rehearsed(slots, example)
        if sampler is None:
            chosen, drawn = draw_anywhere(draw_key, mask, weights.fragments)
        else:
            means, _ = _call(sampler, frozen, "memorize", stream, mask)
            scores = _call(sampler, frozen, "scores", means, query)
            chosen, drawn = draw_fragments(
                draw_key, scores, mask, weights.fragments, deterministic=weights.deterministic
            )
        other_mask = example["other_mask"]
        ids, others, vectors = as_ids(stream, mask, example["other_stream"], other_mask)
        fragments = build_fragments(
            build_key, ids, mask, others, other_mask, chosen, drawn, mask_ratio=weights.mask_ratio
        )
        among = Among(ids.reshape(-1), mask.reshape(-1)) if weights.among == "stream" else None
        told = {"negatives": weights.negatives, "vectors": vectors, "among": among}
        recollection, familiarity = _call(model, params, "rehearse", slots, fragments, key=sample_key, **told)
        return metrics | {"recollection_loss": recollection, "familiarity_loss": familiarity}

    def total(means: Metrics) -> tuple[Array, Metrics]:
        loss = weights.answer * means.get("answering", 1.0) * means["answer_loss"] + means["aux_loss"]
        if rehearses:
            left = means.get("rehearsing", 1.0)
            loss += left * weights.recollection * means["recollection_loss"]
            loss += left * weights.familiarity * means["familiarity_loss"]
        return loss, means

    return mean_objective(one, total)


def _rehearsed(slots: Slots, example: Example) -> tuple[Slots, Array, Array, Array]:
    """The slots of one question with what they have read, and the question: of several, one that is drawn from those
    before which something was read.
    """
    stream, mask, query = example["stream"], example["mask"], example["query"]
    if "after" not in example:
        return slots, stream, mask, query
    tickets = jax.random.uniform(jax.random.fold_in(example["key"], 4), example["asked"].shape)
    items = jnp.append(0, jnp.cumsum(mask.sum(-1)))[example["after"]]
    possible = example["asked"] & (items > 0)[:, None]
    time, question = jnp.divmod(jnp.where(possible, tickets, -1).argmax(), tickets.shape[1])
    read = jnp.arange(len(mask)) < example["after"][time]
    return jax.tree.map(lambda x: x[time], slots), stream, mask & read[:, None], query[time, question]


def of_other_rows(batch: Example) -> Example:
    """The batch with what an example takes from the others.

    Args:
        batch: a whole one.

    Returns:
        Beside what it has `other_stream` and `other_mask`, the stream of each row's neighbour, from which negatives
        take items, none where it is the same stream; where streams are asked on the way `asked_mean`, how many
        questions a stream has in the mean.
    """
    batch = batch | {f"other_{name}": jnp.roll(batch[name], 1, axis=0) for name in ("stream", "mask")}
    # Two questions about one stream may be neighbours, one of them after more of it: what "never occurred" would be of
    # the stream itself. So none is taken where the one is the other, or a part of it.
    mask, other = batch["mask"], batch["other_mask"]
    differ = batch["stream"] != batch["other_stream"]
    differ = differ.any(3) if differ.ndim > 3 else differ  # vectors
    within = ~(mask & ~other).any((1, 2)) | ~(other & ~mask).any((1, 2))
    alike = within & ~(differ & mask & other).any((1, 2))
    batch["other_mask"] = other & ~alike[:, None, None]
    if "asked" in batch:
        mean = batch["asked"].sum((1, 2), dtype=jnp.float32).mean()
        batch |= {"asked_mean": jnp.broadcast_to(mean, batch["asked"].shape[:1])}
    return batch


def init_params(model: System, key: Key, example: Example) -> Params:
    """Parameters of a system, from one example's shapes."""
    query = example["query"] if "after" not in example else example["query"][0, 0]
    arguments = (example["stream"], example["mask"], query, example.get("candidates"))
    return initial_params(model, key, *arguments, method=_everything)


def _everything(model: Any, stream: Array, mask: Array, query: Array, candidates: Array | None) -> Array:
    """All that a system does, so that all of its parameters are made."""
    slots, _ = model.memorize(stream, mask)
    logits = model.answer(slots, query, candidates)
    if isinstance(model, MemoryModel):
        chosen, drawn = jnp.zeros(1, int), jnp.ones(1, bool)
        none = jax.random.key(0)
        ids, others, vectors = as_ids(stream, mask, stream, mask)
        fragments = build_fragments(none, ids, mask, others, mask, chosen, drawn, mask_ratio=0.5)
        model.rehearse(slots, fragments, negatives=0, key=none, vectors=vectors)
    return logits


def _call(model: System, params: Params, method: str, *args: Any, **kwargs: Any) -> Any:
    return model.apply(params, *args, method=method, **kwargs)
