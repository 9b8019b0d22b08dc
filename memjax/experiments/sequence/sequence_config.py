"""The config of sequences of tokens: sequence layers, and what stands around them."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal

import flax.linen as nn
import jax.numpy as jnp

from memjax.checks import LARGEST_WIDTH, at_least, at_most, check_counts, check_penalties, check_shares, check_widths
from memjax.config import MeshConfig, OptimizerConfig, TrainingConfig
from memjax.errors import require
from memjax.experiments.family import DtypeName, require_whole_streams
from memjax.layers import LMM, MAC, MAG, MAL, SurpriseSettings, WindowAttention
from memjax.layers.surprise_settings import check_horizon
from memjax.models import LanguageModel, MemN2NLanguage, SequenceModel
from memjax.tasks import SequenceShape

LAYERS = {"attention": WindowAttention, "lmm": LMM, "mac": MAC, "mag": MAG, "mal": MAL}


@dataclass(kw_only=True, unsafe_hash=True)
class SequenceModelConfig(SurpriseSettings):
    """A language model and its layers: `SurpriseSettings`, and what stands here.

    Attributes:
        layer: of each block; memn2n is a model of its own.
        depth: blocks, or the hops of memn2n.
        hidden: units of a block's perceptron, 0 for none.
        window: tokens that attention sees, which the layer lmm has not; or how many memn2n holds.
        dropout: the share of what training zeroes, in [0, 1).
        carry_state: the least share of the texts of a batch that training starts in the state another text left, in
            [0, 1): they are read in chains, of a power of two each, without a gradient from one text to the one before.
        lower_horizon: the `horizon` of all blocks but the last, which then are short memories below a long one.
        bounded: as of `SurpriseSettings`; runs from before there was a choice bounded each write.
        impl: as of `SurpriseSettings`; runs from before there was a choice had the closed form.
        gate_cost: the weight in the loss of `memjax.layers.gate_cost`: of writing and forgetting without need. It is a
            mean over all tokens, padding behind a text, too.
        dtype: of the products.
    """

    layer: Literal["attention", "lmm", "mac", "mag", "mal", "memn2n"]
    depth: int
    hidden: int
    window: int
    dropout: float
    carry_state: float = 0.0
    lower_horizon: float = 0.0
    gate_cost: float = 0.0
    bounded: Literal["token", "write"] = "write"
    impl: Literal["auto", "closed_form", "pallas", "sequential"] = "closed_form"
    dtype: DtypeName = "float32"

    def __post_init__(self):
        super().__post_init__()
        check_widths(self, "width")
        check_counts(self, 1, "depth", "memory_layers", "expansion")
        at_least(self, 1, "window")
        at_least(self, 0, "hidden")
        at_most(self, LARGEST_WIDTH, "hidden", "window", "chunk")
        for name in ("momentum", "forgetting", "convolution"):
            require(
                self.remembers or getattr(self, name),
                f"{name}=False is for layers with a surprise memory; {self.layer} has none",
            )
        for name, only in (("heads", 1), ("hidden", 0), ("persistent", 0)):
            require(
                self.layer != "memn2n" or getattr(self, name) == only,
                f"{name} must be {only} for memn2n, which has none, not {getattr(self, name)}",
            )
        check_shares(self, "dropout", "carry_state")
        check_horizon(self.lower_horizon, "lower_horizon")
        require(
            self.depth > 1 or not self.lower_horizon,
            "lower_horizon is for the blocks below the last, and depth is 1; set horizon",
        )
        check_penalties(self, "gate_cost")
        for name in ("horizon", "lower_horizon", "gate_cost"):
            require(
                self.remembers or not getattr(self, name),
                f"{name} is for layers with a surprise memory; {self.layer} has none; set it to 0",
            )
        require(
            self.remembers or (self.gradient_at == "token" and not self.deep),
            f"gradient_at=chunk and deep memories are for layers with a surprise memory; {self.layer} has none",
        )
        if self.layer == "mac":
            MAC.of(self, window=self.window)  # says what a segment cannot be

    @property
    def chain(self) -> int:
        """How many texts are read one after another: of these, all but the first start in another's state."""
        return 2 ** math.ceil(-math.log2(1 - self.carry_state))

    @property
    def remembers(self) -> bool:
        """Whether its layers have a surprise memory."""
        return self.layer not in ("attention", "memn2n")


@dataclass(frozen=True)
class SequenceConfig:
    """A whole experiment with sequence layers.

    Attributes:
        system: what is trained, sequence layers.
        task: its spec.
        model: the layers, and what stands around them.
        optimizer: the learning rate and what goes with it.
        training: how long, and how often to look.
        mesh: the devices.
    """

    system: Literal["sequence"]
    task: Any
    model: SequenceModelConfig
    optimizer: OptimizerConfig
    training: TrainingConfig
    mesh: MeshConfig = field(default_factory=MeshConfig)


def check_sequence(config: SequenceConfig) -> None:
    """Raises `MemjaxError` for sections that contradict each other."""
    require_whole_streams(config)
    model, length = config.model, getattr(config.task, "length", config.model.chunk)
    require(
        not model.remembers or model.chunk <= length,
        f"config.model.chunk {model.chunk} is above config.task.length {length}; lower the one, or raise the other",
    )


def build_sequence(model: SequenceModelConfig, shape: SequenceShape) -> SequenceModel:
    """The language model that a config describes.

    Args:
        model: its part of the config.
        shape: of its task.

    Raises:
        MemjaxError: for what cannot be.
    """
    dtype = jnp.dtype(model.dtype)
    if model.layer == "memn2n":
        return MemN2NLanguage(shape.vocabulary, model.width, model.depth, model.window, model.dropout, dtype)
    layer = LAYERS[model.layer]
    settings: dict[str, Any] = dataclasses.asdict(model) | {"dtype": dtype}
    own = {field.name: settings[field.name] for field in dataclasses.fields(layer) if field.name in settings}
    make: Any = _maker(layer, *own.items())
    if model.lower_horizon:
        lower = _maker(layer, *(own | {"horizon": model.lower_horizon}).items())
        make = (lower,) * (model.depth - 1) + (make,)
    return LanguageModel(shape.vocabulary, model.width, model.depth, model.hidden, make, model.dropout, dtype)


@cache
def _maker(layer: type[nn.Module], *settings: tuple[str, Any]) -> Callable[[], nn.Module]:
    """What makes a layer: one for the same settings, so that models of the same settings are equal."""
    return partial(layer, **dict(settings))
