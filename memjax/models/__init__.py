"""Around a memory: query encoders, readers, heads, rehearser; systems that read the stream itself; sequence layers."""

import dataclasses
from functools import partial
from typing import Any

import jax.numpy as jnp

from memjax import memories
from memjax.config import CellConfig, Config, NavigatorConfig, ReaderConfig, SequenceModelConfig
from memjax.deprecated import renamed
from memjax.errors import MemjaxError, require
from memjax.layers import LMM, MAC, MAG, MAL, DNCCell, ExternalCell, NTMCell, NUTMCell, WindowAttention
from memjax.models.direct import DirectlyReason, HistorySampler, MultiHopReason
from memjax.models.language import LanguageModel, SequenceModel, generate
from memjax.models.memory_model import MemoryModel
from memjax.models.memory_network import MemN2N, answer_rows
from memjax.models.memory_network_language import MemN2NLanguage
from memjax.models.navigator import Navigator
from memjax.models.stream_reader import StreamReader
from memjax.tasks.algorithmic import BitsShape
from memjax.tasks.contract import TaskShape
from memjax.tasks.episodic import Episodic
from memjax.tasks.sequence import SequenceShape

System = MemoryModel | DirectlyReason | MultiHopReason | HistorySampler

__all__ = [
    "LMM",
    "MAC",
    "MAG",
    "MAL",
    "DNCCell",
    "DirectlyReason",
    "HistorySampler",
    "LanguageModel",
    "MemN2N",
    "MemN2NLanguage",
    "MemoryModel",
    "MultiHopReason",
    "NTMCell",
    "NUTMCell",
    "Navigator",
    "StreamReader",
    "System",
    "WindowAttention",
    "answer_rows",
    "build",
    "build_cell",
    "build_navigator",
    "build_reader",
    "build_sampler",
    "build_sequence",
    "generate",
]


def __getattr__(name: str) -> Any:
    return renamed(__name__, {"AskedMemory": MemoryModel}, name)


def build(config: Config, shape: TaskShape) -> System:
    """The system that a config describes, for a task of this shape. Raises `MemjaxError` for impossible sizes."""
    model, dtype = config.model, jnp.dtype(config.model.dtype)
    if config.system == "directly":
        return DirectlyReason(shape, model.width, model.head_layers, dtype)
    if config.system == "multi_hop":
        return MultiHopReason(shape, model.width, model.head_layers, dtype, model.hops)
    name = config.memory.name
    shared = {"width": model.width, "segment": shape.segment, "dtype": dtype}
    if name in memories.registry:
        fields = {field.name for field in dataclasses.fields(memories.registry[name])} - {"parent", "name", "num_slots"}
        shared = {key: value for key, value in shared.items() if key in fields}
        missing = sorted(fields - shared.keys() - config.memory.sizes.keys())
        require(  # no default outside configs
            not missing,
            f"config.memory lacks {', '.join(missing)}, which {name!r} wants: give them, or let the config choose the "
            f"memory, as --config=configs/evidence.py:small,memory={name} does",
        )
    try:
        memory = memories.create(name, slots=config.memory.slots, **config.memory.sizes, **shared)
    except MemjaxError as error:
        raise MemjaxError(f"config.memory: {error}") from None
    rehearser = (config.rehearsal.layers, config.rehearsal.heads, config.rehearsal.norm_slots)
    return MemoryModel(shape, memory, model.width, model.hops, model.head_layers, *rehearser, dtype)


def build_sampler(config: Config, shape: TaskShape) -> HistorySampler:
    """The history sampler of a config: the model's width, parameters of its own."""
    return HistorySampler(shape, config.model.width, config.model.head_layers, jnp.dtype(config.model.dtype))


def build_sequence(model: SequenceModelConfig, shape: SequenceShape) -> SequenceModel:
    """The language model that a config describes, for a task of this shape. Raises `MemjaxError` for what cannot be."""
    dtype = jnp.dtype(model.dtype)
    if model.layer == "memn2n":
        return MemN2NLanguage(shape.vocabulary, model.width, model.depth, model.window, model.dropout, dtype)
    layer = {"attention": WindowAttention, "lmm": LMM, "mac": MAC, "mag": MAG, "mal": MAL}[model.layer]
    settings: dict[str, Any] = dataclasses.asdict(model) | {"dtype": dtype}
    own = {field.name: settings[field.name] for field in dataclasses.fields(layer) if field.name in settings}
    return LanguageModel(
        shape.vocabulary, model.width, model.depth, model.hidden, partial(layer, **own), model.dropout, dtype
    )


def build_cell(model: CellConfig, shape: BitsShape) -> ExternalCell:
    """The cell that a config describes, for a task of this shape."""
    cell = {"dnc": DNCCell, "ntm": NTMCell, "nutm": NUTMCell}[model.cell]
    own = {"programs": model.programs} if model.cell == "nutm" else {}
    sizes = model.rows, model.memory_width, model.read_heads, model.hidden
    return cell(shape.outputs, *sizes, dtype=jnp.dtype(model.dtype), **own)


def build_reader(model: ReaderConfig, task: Episodic, policy: str) -> StreamReader:
    """The reader that a config describes, for this task, with this policy."""
    rows, shape = answer_rows(task.vocabulary, task.answers), task.shape
    sizes = model.width, model.hops, model.entries, policy, model.nop
    return StreamReader(shape.words, shape.line, shape.questions, rows, *sizes)


def build_navigator(model: NavigatorConfig, codes: int, actions: int) -> Navigator:
    """The agent that a config describes, for mazes whose views have these codes."""
    return Navigator(codes, actions, model.base, model.width, model.entries, model.policy, model.nop)
