"""The models of stream QA that a config describes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from memjax import memories
from memjax.errors import MemjaxError, require
from memjax.experiments.stream_qa.stream_qa_config import ModelConfig, StreamQAConfig
from memjax.memories.memory_registry import size_fields
from memjax.models import (
    DIEN,
    EMN,
    ESA,
    EVQA,
    HCRN,
    MSAN,
    RUM,
    AttentionSumReader,
    Caser,
    DirectlyReason,
    GRU4Rec,
    HistorySampler,
    MemN2NRanker,
    MemoryModel,
    MultiHopReason,
    MultiStream,
    Recommender,
    RUMFeatures,
    SASRec,
    System,
    TextReader,
)
from memjax.tasks import TaskShape


class Direct(NamedTuple):
    """A system that reads the stream itself.

    Attributes:
        label: how tables call it.
        make: from the task's shape, and from what `config.model` says.
    """

    label: str
    make: Callable[[TaskShape, ModelConfig], System]


def _published(cls: type[Recommender] | type[TextReader]) -> Callable[[TaskShape, ModelConfig], System]:
    """With the published settings but for its width."""
    return lambda shape, model: cls(shape, model.width, jnp.dtype(model.dtype))


def _of_our_settings(cls: Any, *others: str) -> Callable[[TaskShape, ModelConfig], System]:
    """With all that `config.model` says; `others`: settings that not all of these systems have."""
    return lambda shape, model: cls(
        shape,
        model.width,
        model.head_layers,
        jnp.dtype(model.dtype),
        shared_words=model.words != "own",
        **{name: getattr(model, name) for name in others},
    )


# By the values of `config.system`, but for "memory".
DIRECT = {
    "directly": Direct("Directly Reason", _of_our_settings(DirectlyReason)),
    "multi_hop": Direct("Multi-Hop Reason", _of_our_settings(MultiHopReason, "hops")),
    "as_reader": Direct("AS Reader", _published(AttentionSumReader)),
    "e2e_mn": Direct(
        "E2E-MN", lambda shape, model: MemN2NRanker(shape, model.width, jnp.dtype(model.dtype), hops=model.hops)
    ),
    "multi_stream": Direct("Multi-Stream", _published(MultiStream)),
    "msan": Direct("MSAN", _published(MSAN)),
    "e_vqa": Direct("E-VQA", _of_our_settings(EVQA)),
    "e_mn": Direct("E-MN", _of_our_settings(EMN, "hops")),
    "e_sa": Direct("E-SA", _of_our_settings(ESA)),
    "hcrn": Direct("HCRN", _of_our_settings(HCRN)),
    "gru4rec": Direct("GRU4REC", _published(GRU4Rec)),
    "caser": Direct("Caser", _published(Caser)),
    "rum": Direct("RUM, items", _published(RUM)),
    "rum_features": Direct("RUM, features", _published(RUMFeatures)),
    "dien": Direct("DIEN", _published(DIEN)),
    "sasrec": Direct(
        "SASRec", lambda shape, model: SASRec(shape, model.width, jnp.dtype(model.dtype), dropout=model.dropout)
    ),
}


def build(config: StreamQAConfig, shape: TaskShape) -> System:
    """The system that a config describes.

    Args:
        config: all of it.
        shape: of its task.

    Raises:
        MemjaxError: for sizes that cannot be.
    """
    model, dtype = config.model, jnp.dtype(config.model.dtype)
    if config.system in DIRECT:
        return DIRECT[config.system].make(shape, model)
    name = config.memory.name
    shared = {"width": model.width, "segment": shape.segment, "dtype": dtype}
    if name in memories.registry:
        fields = size_fields(memories.registry[name]).keys()
        shared = {key: value for key, value in shared.items() if key in fields}
        missing = sorted(fields - shared.keys() - config.memory.sizes.keys())
        require(
            not missing,
            f"config.memory lacks {', '.join(missing)}, which {name!r} wants: give them, or let the config choose the "
            f"memory, as --config=configs/evidence.py:small,memory={name} does",
        )
    try:
        memory = memories.create(name, slots=config.memory.slots, **config.memory.sizes, **shared)
    except MemjaxError as error:
        raise MemjaxError(f"config.memory: {error}") from None
    rehearser = (config.rehearsal.layers, config.rehearsal.heads, config.rehearsal.norm_slots)
    return MemoryModel(
        shape,
        memory,
        model.width,
        model.hops,
        model.head_layers,
        *rehearser,
        dtype,
        model.item_scale,
        config.rehearsal.position_std,
        shared_words=model.words != "own",
        rehearser_tied=config.rehearsal.tied,
        query_scale=model.query_scale,
        read_scores=model.read_scores,
    )


def build_sampler(config: StreamQAConfig, shape: TaskShape) -> HistorySampler:
    """The history sampler of a config: the model's width, parameters of its own."""
    model = config.model
    shared = model.words != "own"
    return HistorySampler(shape, model.width, model.head_layers, jnp.dtype(model.dtype), shared_words=shared)
