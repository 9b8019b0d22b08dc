"""What is minimised: `loss(params, frozen, batch) -> (loss, metrics)`, made of what one example gives."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from memjax.typing import Array, Params

Example = dict[str, Array]
Metrics = dict[str, Array]
Loss = Callable[[Params, Params, Example], tuple[Array, Metrics]]


def mean_objective(
    one: Callable[[Params, Params, Example], Metrics], total: Callable[[Metrics], tuple[Array, Metrics]]
) -> Loss:
    """An objective made of the means over a batch.

    Args:
        one: `one(params, frozen, example)`, what one example gives.
        total: from the means of that to the loss and the metrics that are logged.

    Returns:
        `loss(params, frozen, batch) -> (loss, metrics)`.

    >>> one = lambda params, frozen, example: {"error": (params - example["y"]) ** 2}
    >>> objective = mean_objective(one, lambda means: (means["error"], means))
    >>> float(objective(1.0, None, {"y": jnp.array([1.0, 3.0])})[0])
    2.0
    """

    def loss(params: Params, frozen: Params, batch: Example) -> tuple[Array, Metrics]:
        return total(jax.tree.map(jnp.mean, jax.vmap(one, (None, None, 0))(params, frozen, batch)))

    return loss


def answer_metrics(logits: Array, label: Array) -> Metrics:
    """What is logged of one answer, or of each of several.

    Args:
        logits: `[..., C]`.
        label: `[...]`; -1 for an answer that no model can give, which is an error, and has no part in the loss.

    Returns:
        `answer_loss`, cross-entropy in nats, and `accuracy`, 1 where the best answer is the right one, `[...]` each.
    """
    logits = logits.astype(jnp.float32)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, label)  # of -1, that of the last class
    return {
        "answer_loss": jnp.where(label >= 0, loss, 0),
        "accuracy": (logits.argmax(-1) == label).astype(jnp.float32),
    }
