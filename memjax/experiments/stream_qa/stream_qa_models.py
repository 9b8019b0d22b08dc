"""The models of stream QA that a config describes."""

import jax.numpy as jnp

from memjax import memories
from memjax.errors import MemjaxError, require
from memjax.experiments.stream_qa.stream_qa_config import StreamQAConfig
from memjax.memories.registration import size_fields
from memjax.models import DirectlyReason, HistorySampler, MemoryModel, MultiHopReason, System
from memjax.tasks import TaskShape


def build(config: StreamQAConfig, shape: TaskShape) -> System:
    """The system that a config describes.

    Args:
        config: all of it.
        shape: of its task.

    Raises:
        MemjaxError: for sizes that cannot be.
    """
    model, dtype = config.model, jnp.dtype(config.model.dtype)
    if config.system == "directly":
        return DirectlyReason(shape, model.width, model.head_layers, dtype)
    if config.system == "multi_hop":
        return MultiHopReason(shape, model.width, model.head_layers, dtype, model.hops)
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
    )


def build_sampler(config: StreamQAConfig, shape: TaskShape) -> HistorySampler:
    """The history sampler of a config: the model's width, parameters of its own."""
    return HistorySampler(shape, config.model.width, config.model.head_layers, jnp.dtype(config.model.dtype))
