"""The settings that all layers with a surprise memory have, once: for the layers, and for whoever describes one."""

import dataclasses
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, TypeVar

import flax.linen as nn
import jax.numpy as jnp

from memjax.checks import at_least, check_scales, one_of
from memjax.deprecated import old_keyword
from memjax.errors import require
from memjax.typing import Any

S = TypeVar("S", bound="SurpriseSettings")
GRADIENTS = ("token", "chunk")


@old_keyword("retention", new="time_constant")
@dataclass(unsafe_hash=True)
class SurpriseSettings:
    """What `LMM`, `MAC`, `MAG` and `MAL` are made with, each field set once.

    A dataclass that says `frozen` cannot be the base of a Flax module, so that this one keeps its fields itself.

    Args:
        width: of the tokens.
        heads: each with a memory of its own.
        persistent: how many learned tokens stand before the first of any stream.
        momentum: False is an ablation of Titans (2501.00663), Table 5.
        forgetting: False is another.
        gradient_at: "token", exact; or "chunk", as published for training.
        chunk: how many tokens are written at once.
        time_constant: for about how many tokens a memory keeps what is not written over, at the start.
        dtype: of the products.

    Raises:
        MemjaxError: for settings that cannot be.

    >>> SurpriseSettings(8, heads=2, chunk=0)
    Traceback (most recent call last):
        ...
    memjax.errors.MemjaxError: chunk must be at least 1, not 0
    """

    width: int
    heads: int
    _: KW_ONLY
    persistent: int = 0
    momentum: bool = True
    forgetting: bool = True
    gradient_at: Literal["token", "chunk"] = "token"
    chunk: int = 64
    time_constant: float = 1000.0
    dtype: Any = jnp.float32

    renamed_keywords: ClassVar[dict[str, str]]

    def __post_init__(self):
        at_least(self, 1, "width", "heads", "chunk")
        at_least(self, 0, "persistent")
        require(self.width % self.heads == 0, f"width {self.width} must be a multiple of heads {self.heads}")
        check_scales(self, "time_constant")
        one_of(self, GRADIENTS, "gradient_at")
        whole = self.gradient_at == "token" or self.persistent % self.chunk == 0
        require(whole, f"persistent {self.persistent} must be a multiple of chunk {self.chunk} with gradient_at=chunk")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}; dataclasses.replace makes another")
        super().__setattr__(name, value)

    @classmethod
    def of(cls: type[S], source: "SurpriseSettings", **own: Any) -> S:
        """One with the settings of another, be that a layer, a config or settings alone; own: what differs, or more.

        >>> from memjax.layers import LMM, MAG
        >>> MAG.of(LMM(width=8, heads=2, chunk=16), window=4).chunk
        16
        """
        shared = {field.name: getattr(source, field.name) for field in dataclasses.fields(SurpriseSettings)}
        return cls(**(shared | own))


class SurpriseLayer(nn.Module, SurpriseSettings):
    """A Flax module with these settings as fields; width and heads may be given by place, the others by name."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        old_keyword("retention", new="time_constant")(cls)

    def __post_init__(self):
        SurpriseSettings.__post_init__(self)
        super().__post_init__()

    @property
    def settings(self) -> SurpriseSettings:
        """Alone, for a module inside."""
        return SurpriseSettings.of(self)
