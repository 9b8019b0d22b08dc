"""What is minimised: per example, pure, vmapped over a batch. `loss(params, frozen, batch) -> (loss, metrics)`."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from memjax.config import RehearsalConfig
from memjax.models import HistorySampler, MemoryModel, System
from memjax.models.fragments import build_fragments, draw_anywhere, draw_fragments
from memjax.typing import Any, Array, Key, Params

Example = dict[str, Array]
Loss = Callable[[Params, Params, Example], tuple[Array, dict[str, Array]]]


def answer_metrics(logits: Array, label: Array) -> dict[str, Array]:
    """Cross-entropy in nats, and whether the best answer is the right one, of one answer or of each of several."""
    logits = logits.astype(jnp.float32)
    return {
        "answer_loss": optax.softmax_cross_entropy_with_integer_labels(logits, label),
        "accuracy": (logits.argmax(-1) == label).astype(jnp.float32),
    }


def answer_example(model: System, params: Params, example: Example, key: Key | None = None) -> dict[str, Array]:
    """Memorizes and answers one example: its metrics."""
    slots, _ = _call(model, params, "memorize", example["stream"], example["mask"], key=key)
    logits = _call(model, params, "answer", slots, example["query"], example.get("candidates"))
    return answer_metrics(logits, example["label"])


def answer_objective(model: System) -> Loss:
    """Mean answer loss: for the sampler and for the systems that read the stream directly."""

    def loss(params: Params, frozen: Params, batch: Example) -> tuple[Array, dict[str, Array]]:
        del frozen
        batch = {name: value for name, value in batch.items() if name != "key"}
        metrics = jax.vmap(lambda example: answer_example(model, params, example))(batch)
        means = jax.tree.map(jnp.mean, metrics)
        return means["answer_loss"], means

    return loss


def rehearsal_objective(
    model: MemoryModel, weights: RehearsalConfig, rehearses: bool, sampler: HistorySampler | None
) -> Loss:
    """`recollection + familiarity + answer`, weighted (Rehearsal Memory, Eq. 7).

    A batch has, for each example, a `key` and `other_stream`, `other_mask`: the stream that negatives take items
    from. `frozen` holds the sampler's parameters; without a sampler, fragments are drawn anywhere in the stream.
    """

    def one(params: Params, frozen: Params, example: Example) -> dict[str, Array]:
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
        fragments = build_fragments(
            build_key,
            stream,
            mask,
            example["other_stream"],
            example["other_mask"],
            chosen,
            drawn,
            mask_ratio=weights.mask_ratio,
        )
        recollection, familiarity = _call(
            model, params, "rehearse", slots, fragments, negatives=weights.negatives, key=sample_key
        )
        return metrics | {"recollection_loss": recollection, "familiarity_loss": familiarity}

    def loss(params: Params, frozen: Params, batch: Example) -> tuple[Array, dict[str, Array]]:
        means = jax.tree.map(jnp.mean, jax.vmap(one, (None, None, 0))(params, frozen, batch))
        total = weights.answer * means["answer_loss"] + means["aux_loss"]
        if rehearses:
            total += weights.recollection * means["recollection_loss"]
            total += weights.familiarity * means["familiarity_loss"]
        return total, means

    return loss


def _call(model: System, params: Params, method: str, *args: Any, **kwargs: Any) -> Any:
    return model.apply(params, *args, method=method, **kwargs)


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
