"""Vectors that a task makes of its texts, in place of an embedding of words that is learned."""

from collections.abc import Callable
from functools import cache, partial
from typing import Protocol, runtime_checkable

import jax
import numpy as np

from memjax.errors import MemjaxError, require
from memjax.experiments.stream_qa.stream_qa_config import StreamQAConfig
from memjax.tasks import Task, TaskShape
from memjax.training.objective import Example, Metrics
from memjax.training.phase import Phase
from memjax.typing import Array, Key, Params


@runtime_checkable
class Worded(Task, Protocol):
    """A task whose questions and candidates are texts of the words of its streams."""

    def word_vectors(self, width: int) -> np.ndarray:
        """Vectors of the words, `[items, width]` float32, from the texts of train.

        Args:
            width: of a vector.
        """
        ...


def check_words(config: StreamQAConfig, shape: TaskShape) -> None:
    """Raises `MemjaxError` where the task's questions are no texts of the words that its streams have.

    Args:
        config: which may want one embedding for both.
        shape: of the task.
    """
    require(
        config.model.words == "own" or (shape.query_words is not None and shape.items == shape.queries),
        f"config.model.words={config.model.words} is for tasks whose questions are texts of the words of their "
        "streams, as those of configs/stories.py: give --config.model.words=own",
    )


def with_fixed_words(config: StreamQAConfig, task: Task, phases: list[Phase]) -> list[Phase]:
    """The phases of systems whose embedding, `embed`, is what the task made of its texts, and is not trained.

    Args:
        config: of the systems.
        task: with vectors.
        phases: of systems that learn their embedding.

    Raises:
        MemjaxError: for a task that makes no vectors.
    """
    if not isinstance(task, Worded):
        raise MemjaxError(
            "this task makes no vectors of its words (`word_vectors`): give --config.model.words=shared, or own"
        )
    vectors = cache(partial(task.word_vectors, config.model.width))  # made once, for the sampler too
    return [_fixed(phase, vectors) for phase in phases]


def _fixed(phase: Phase, vectors: Callable[[], np.ndarray]) -> Phase:
    def init(key: Key, example: Example) -> Params:
        # Called where training begins, not where shapes alone are asked for; of several processes by the first alone.
        return _with_table(phase.init(key, example), partial(jax.pure_callback, vectors))

    def loss(params: Params, frozen: Params, batch: Example) -> tuple[Array, Metrics]:
        return phase.loss(_with_table(params, jax.lax.stop_gradient), frozen, batch)

    return phase._replace(init=init, loss=loss)


def _with_table(params: Params, change: Callable[[Array], Array]) -> Params:
    own = params["params"]
    require(
        "embed" in own,
        "this system has no one embedding of words, `embed`, that could be fixed: give --config.model.words=own",
    )
    return {"params": {**own, "embed": {"embedding": change(own["embed"]["embedding"])}}}
