"""All items ranked from one memory, for tasks that ask which item a user will want next."""

import math
from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

import jax
import numpy as np

from memjax.models import Recommender, System
from memjax.models.readers import click_log_odds
from memjax.tasks import Task
from memjax.training.data import Layout, evaluation_batches
from memjax.training.ranking_metrics import auc, auc_interval, by_user_interval, hit_rate, mrr, ndcg, ranks
from memjax.typing import Any, Array, Params, Split

METRICS: dict[str, Callable[[np.ndarray], float]] = {
    "hr_10": partial(hit_rate, k=10),
    "ndcg_10": partial(ndcg, k=10),
    "mrr": mrr,
}


@runtime_checkable
class Ranked(Task, Protocol):
    """A task each of whose test streams ends before one item that is to be ranked high among all."""

    def ranked(self, split: Split, indices: np.ndarray) -> dict[str, np.ndarray]:
        """What is needed to rank the items.

        Args:
            split: which examples.
            indices: of them.

        Returns:
            `target [B]`; `popular [B]`, an item that is not wanted, drawn by popularity; `left_out [B, V]` bool, the
            items that are not ranked, such as those that the user has had.
        """
        ...


def rank_items(
    model: System, params: Params, task: Ranked, layout: Layout, split: Split, batch_size: int
) -> dict[str, Any]:
    """How high the target stands among all items, asked of what is kept of each stream; nothing is read again.

    Args:
        model: of stream QA; its questions are items, its answers clicks.
        params: of the model.
        task: whose streams are read.
        layout: of its batches.
        split: which of them.
        batch_size: how many are read at a time.

    Returns:
        `hr_10`, `ndcg_10`, `mrr` and `auc_popular`, and the 95% interval (low, high) of each by users, as
        `hr_10_interval` and so on. Of a system to which every item costs another pass over the stream, `auc_popular`
        alone.
    """
    every = not isinstance(model, Recommender) or model.ranks_items

    @jax.jit
    def score(params: Params, stream: Array, mask: Array, items: Array) -> Array:
        def one(stream: Array, mask: Array, items: Array) -> Array:
            slots, _ = model.apply(params, stream, mask, method="memorize")
            return click_log_odds(model, params, slots, items)

        return jax.lax.map(lambda inputs: one(*inputs), (stream, mask, items))  # what one stream needs fills the cache

    rank, pairs, order = [], [], []
    for batch, weight, users in evaluation_batches(task, layout, split, batch_size):
        asked = task.ranked(split, users)
        pair = np.stack([asked["target"], asked["popular"]], axis=1)
        items = np.broadcast_to(np.arange(model.shape.items), (len(pair), model.shape.items)) if every else pair
        items = np.resize(items, (batch_size, items.shape[1]))
        scores = np.asarray(score(params, batch["stream"], batch["mask"], items), np.float64)[weight > 0]
        if every:
            rank.append(ranks(scores, asked["target"], asked["left_out"]))
        pairs.append(np.take_along_axis(scores, pair, axis=1) if every else scores)
        order.append(users)
    in_order = np.concatenate(order).argsort()  # whatever their batches were
    scores = np.concatenate(pairs)[in_order]
    labels, users = np.broadcast_to([1, 0], scores.shape).ravel(), np.arange(len(scores)).repeat(2)
    found: dict[str, Any] = {"auc_popular": math.nan}
    if np.isfinite(scores).all():  # else the run has diverged, which is said
        found = {"auc_popular": auc(scores.ravel(), labels)}
        found["auc_popular_interval"] = auc_interval(scores.ravel(), labels, users)
    if every:
        values = np.concatenate(rank)[in_order]
        for name, metric in METRICS.items():
            found |= {name: metric(values), f"{name}_interval": by_user_interval(metric, values)}
    return found
