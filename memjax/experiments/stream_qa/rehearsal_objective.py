"""What stream QA minimises: the answer's loss, and what rehearsal adds to it."""

import jax
import jax.numpy as jnp

from memjax.experiments.stream_qa.stream_qa_config import RehearsalConfig
from memjax.models import HistorySampler, MemoryModel, System
from memjax.models.fragments import build_fragments, draw_anywhere, draw_fragments
from memjax.training.objective import Example, Loss, Metrics, answer_metrics, mean_objective
from memjax.typing import Any, Array, Key, Params


def answer(model: System, params: Params, example: Example, key: Key | None = None) -> tuple[Array, Array]:
    """Memorizes and answers one example.

    Args:
        model: of stream QA.
        params: of the model.
        example: `stream`, `mask`, `query` and, where the task has them, `candidates`.
        key: to memorize with, in training.

    Returns:
        The logits, and the memory's own loss.
    """
    slots, aux_loss = _call(model, params, "memorize", example["stream"], example["mask"], key=key)
    return _call(model, params, "answer", slots, example["query"], example.get("candidates")), aux_loss


def answer_objective(model: System) -> Loss:
    """Mean answer loss: for the sampler and for the systems that read the stream directly."""

    def one(params: Params, frozen: Params, example: Example) -> Metrics:
        return answer_metrics(answer(model, params, example)[0], example["label"])

    return mean_objective(one, lambda means: (means["answer_loss"], means))


def rehearsal_objective(
    model: MemoryModel, weights: RehearsalConfig, rehearses: bool, sampler: HistorySampler | None
) -> Loss:
    """`recollection + familiarity + answer`, weighted (Rehearsal Memory, Eq. 7), and the memory's own `aux_loss`.

    A batch has, for each example, a `key` and `other_stream`, `other_mask`: the stream that negatives take items
    from. `frozen` holds the sampler's parameters.

    Args:
        model: the memory, and what stands around it.
        weights: of the losses, and what is rehearsed.
        rehearses: whether there is anything but the answer's loss and the memory's own.
        sampler: draws fragments; without one they are drawn anywhere in the stream.
    """

    def one(params: Params, frozen: Params, example: Example) -> Metrics:
        memory_key, draw_key, build_key, sample_key = jax.random.split(example["key"], 4)
        stream, mask, query = example["stream"], example["mask"], example["query"]
        slots, aux_loss = _call(model, params, "memorize", stream, mask, key=memory_key)
        logits = _call(model, params, "answer", slots, query, example.get("candidates"))
        metrics = answer_metrics(logits, example["label"]) | {"aux_loss": aux_loss}
        if not rehearses:
            return metrics
        if sampler is None:
            chosen, drawn = draw_anywhere(draw_key, mask, weights.fragments)
        else:
            means, _ = _call(sampler, frozen, "memorize", stream, mask)
            scores = _call(sampler, frozen, "scores", means, query)
            chosen, drawn = draw_fragments(
                draw_key, scores, mask, weights.fragments, deterministic=weights.deterministic
            )
        others = example["other_stream"], example["other_mask"]
        fragments = build_fragments(build_key, stream, mask, *others, chosen, drawn, mask_ratio=weights.mask_ratio)
        recollection, familiarity = _call(
            model, params, "rehearse", slots, fragments, negatives=weights.negatives, key=sample_key
        )
        return metrics | {"recollection_loss": recollection, "familiarity_loss": familiarity}

    def total(means: Metrics) -> tuple[Array, Metrics]:
        loss = weights.answer * means["answer_loss"] + means["aux_loss"]
        if rehearses:
            loss += weights.recollection * means["recollection_loss"]
            loss += weights.familiarity * means["familiarity_loss"]
        return loss, means

    return mean_objective(one, total)


def neighbours(batch: Example) -> Example:
    """The batch with the stream of each row's neighbour beside its own: what negatives take items from."""
    return batch | {f"other_{name}": jnp.roll(batch[name], 1, axis=0) for name in ("stream", "mask")}


def init_params(model: System, key: Key, example: Example) -> Params:
    """Parameters of a system, from one example's shapes."""

    def everything(model: Any, stream: Array, mask: Array, query: Array, candidates: Array | None) -> Array:
        slots, _ = model.memorize(stream, mask)
        logits = model.answer(slots, query, candidates)
        if isinstance(model, MemoryModel):
            chosen, drawn = jnp.zeros(1, int), jnp.ones(1, bool)
            none = jax.random.key(0)
            fragments = build_fragments(none, stream, mask, stream, mask, chosen, drawn, mask_ratio=0.5)
            model.rehearse(slots, fragments, negatives=0, key=none)
        return logits

    arguments = (example["stream"], example["mask"], example["query"], example.get("candidates"))
    return jax.jit(lambda key, *arguments: model.init(key, *arguments, method=everything))(key, *arguments)


def _call(model: System, params: Params, method: str, *args: Any, **kwargs: Any) -> Any:
    return model.apply(params, *args, method=method, **kwargs)
