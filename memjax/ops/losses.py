"""The two rehearsal losses, recalling what was there and knowing what was; and how alike slots are."""

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import require
from memjax.ops.attention import accumulated
from memjax.ops.checked import checked
from memjax.typing import Array, Bool, Float, Int

LEAST = 1e-12  # added to a squared norm: at 0 it has a gradient


@checked
def recollection_loss(
    predicted: Float[Array, "N d"],
    candidates: Float[Array, "V d"],
    target: Int[Array, "N"],
    masked: Bool[Array, "N"],
    *,
    valid: Bool[Array, "N V"] | None = None,
) -> Float[Array, ""]:
    """Mean over the masked items of `-log softmax_v(predicted_n · candidate_v)[target_n]`, in nats.

    Source: Rehearsal Memory, Eq. 3; Continual Memory, Eq. 4; divided by the number of masked items really there.

    Args:
        predicted: of each item.
        candidates: what it might be; with the vocabulary's embeddings, `target` is the item's id.
        target: which candidate it is.
        masked: which items were hidden, and count.
        valid: with sampled candidates, which of them count for which item (a drawn negative equal to the true item does
            not); the target always counts.

    Returns:
        The loss; 0 if no item is masked.

    Raises:
        MemjaxError: a masked item's target names no candidate. Under `jit`, where it is not known, the loss is NaN.

    >>> import jax.numpy as jnp
    >>> loss = recollection_loss(jnp.zeros((2, 3)), jnp.ones((4, 3)), jnp.array([0, 1]), jnp.array([True, False]))
    >>> round(float(loss), 4)  # log 4
    1.3863
    """
    # Cleared before, not only left out after: what an unmasked item holds must not reach the gradient either.
    predicted, target = jnp.where(masked[:, None], predicted, 0), jnp.where(masked, target, 0)
    count = candidates.shape[0]
    if not isinstance(target, jax.core.Tracer):
        known = np.asarray(target)
        require(
            ((known >= 0) & (known < count)).all(),
            f"recollection_loss: target must name one of the {count} candidates, from 0 to {count - 1}; it goes from "
            f"{known.min(initial=0)} to {known.max(initial=0)}",
        )
    target = jnp.where(target < 0, count, target)  # a negative one would count from the end
    logits_NxV = accumulated(predicted, candidates.T)
    if valid is not None:
        valid = valid | jax.nn.one_hot(target, count, dtype=bool)
        logits_NxV = jnp.where(valid, logits_NxV, -jnp.inf)
    true_N = jnp.take_along_axis(logits_NxV, target[:, None], axis=1, mode="fill")[:, 0]
    losses_N = jax.nn.logsumexp(logits_NxV, axis=1) - true_N
    return jnp.where(masked, losses_N, 0).sum() / jnp.maximum(masked.sum(dtype=losses_N.dtype), 1)


@checked
def familiarity_loss(
    positive_logit: Float[Array, "F"], negative_logit: Float[Array, "F"], mask: Bool[Array, "F"] | None = None
) -> Float[Array, ""]:
    """Mean over fragments of `-log s(positive) - log(1 - s(negative))`, in nats, from logits.

    Source: Rehearsal Memory, Eq. 4; Continual Memory, Eq. 5. Their second term is printed with the opposite sign, which
    is unbounded below.

    Args:
        positive_logit: of fragments that have occurred.
        negative_logit: of fragments that have not.
        mask: which pairs count; all, if not given.

    Returns:
        The loss; 0 if no pair counts.

    >>> import jax.numpy as jnp
    >>> round(float(familiarity_loss(jnp.zeros(3), jnp.zeros(3))), 4)  # 2 log 2
    1.3863
    """
    if mask is None:
        mask = jnp.ones(positive_logit.shape, bool)
    positive_logit, negative_logit = (jnp.where(mask, logit, 0) for logit in (positive_logit, negative_logit))
    losses_F = jax.nn.softplus(-positive_logit) + jax.nn.softplus(negative_logit)
    losses_F = losses_F.astype(jnp.promote_types(losses_F.dtype, jnp.float32))
    return jnp.where(mask, losses_F, 0).sum() / jnp.maximum(mask.sum(dtype=losses_F.dtype), 1)


@checked
def covariance_norm(slots: Float[Array, "K d"]) -> Float[Array, ""]:
    """Frobenius norm of the slots' covariance without its diagonal, `sqrt(sum over i != j of C_ij^2 + 1e-12)`.

    `C = (M - mean) (M - mean)^T / d`, means over the d coordinates of each slot. Source: HPMN (Ren et al. 2019), the
    covariance regularization.

    Args:
        slots: K of them, M.

    Returns:
        The norm, in float32 or better; near 0 for slots that do not vary together.

    >>> import jax.numpy as jnp
    >>> round(float(covariance_norm(jnp.array([[1.0, -1.0], [2.0, -2.0]]))), 4)  # the square root of 2^2 + 2^2
    2.8284
    """
    slots = slots.astype(jnp.promote_types(slots.dtype, jnp.float32))
    centred = slots - slots.mean(1, keepdims=True)
    covariance = jnp.matmul(centred, centred.T, precision="highest") / slots.shape[1]
    off_diagonal = covariance * (1 - jnp.eye(slots.shape[0], dtype=slots.dtype))
    return jnp.sqrt((off_diagonal**2).sum() + LEAST)
