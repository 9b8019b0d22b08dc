"""The settings that all layers with a surprise memory have, once: for the layers, and for whoever describes one."""

import dataclasses
import math
import re
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, TypeVar

import flax.linen as nn
import jax.numpy as jnp

from memjax.checks import at_least, check_multiple, check_scales, check_whole, one_of
from memjax.deprecated import old_keyword
from memjax.errors import require
from memjax.ops.surprise_losses import SLOPES, LossName
from memjax.typing import Any

S = TypeVar("S", bound="SurpriseSettings")
GRADIENTS = ("token", "chunk")
DECAYS = ("token", "channel")
BOUNDED = ("token", "write")
IMPLS = ("auto", "closed_form", "pallas", "sequential")


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
        convolution: False is another: queries, keys and values are then of their own token alone.
        gradient_at: "token", exact; or "chunk", as published for training.
        chunk: how many tokens are written at once.
        time_constant: for about how many tokens a memory keeps what is not written over, at the start.
        horizon: for at most about how many tokens a memory keeps anything: `keep` is multiplied by `1 - 1 / horizon`; 0
            for as many as it may.
        rate_bound: the highest rate, in (0, 1], of what `bounded` says. 0 stands for 1 per token and for 2 / chunk with
            gradient_at="chunk": then one key all through a chunk cannot make the memory diverge; above that it can. The
            rates of a deep memory without a norm are normalised as well: see `normalize_lr` of `ops.surprise_mlp`. The
            loss "l3", whose slope grows with what it misses, has no bound: values longer than 2 or so can make it
            diverge.
        bounded: "token", all that is written of a token: with momentum a geometric series of writes, so that the rate
            is multiplied by 1 - momentum (its own: where momentum is more behind it, more is written). Or "write", one
            of these writes, as Titans prints it: a key that comes again once they are done is written with
            `rate / (1 - momentum)` in all, and beyond 2 the memory diverges. With gradient_at="chunk" always "token".
            Neither bounds a key that comes in runs with pauses: where momentum is above about 0.7 and rates are as high
            as they may be, it can carry the memory past the value, further with every run.
        memory_layers: of each memory. More than 1, a deep memory, are a perceptron with a learned start; needs
            `gradient_at="chunk"` (in MAC with `chunk=window`).
        expansion: a deep memory's hidden width, in widths of a head.
        memory_norm: a layer norm behind the memory's last matrix, with a learned scale; such a memory is deep, and
            needs the same.
        loss: what surprises: "l2", "huber" or "l3", as of `ops.surprise_linear`.
        decay_before_gradient: the gradient is taken at the memory that has forgotten already; for linear memories.
        decay: "token", a head forgets all of its memory alike; or "channel", each row of it, a channel of the keys, as
            a function of the token of its own; for linear memories.
        impl: "auto", as of `ops.surprise_linear`, and for deep memories the closed form; "closed_form"; "pallas", the
            same with a kernel for each chunk, for linear memories on one TPU or GPU; or "sequential", token by token,
            for any loss with gradients at every token.
        dtype: of the projections; the memory, gates and attention are in float32, whatever it is.

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
    convolution: bool = True
    gradient_at: Literal["token", "chunk"] = "token"
    chunk: int = 64
    time_constant: float = 1000.0
    horizon: float = 0.0
    rate_bound: float = 0.0
    bounded: Literal["token", "write"] = "token"
    memory_layers: int = 1
    expansion: int = 2
    memory_norm: bool = False
    loss: LossName = "l2"
    decay_before_gradient: bool = False
    decay: Literal["token", "channel"] = "token"
    impl: Literal["auto", "closed_form", "pallas", "sequential"] = "auto"
    dtype: Any = jnp.float32

    renamed_keywords: ClassVar[dict[str, str]]

    def __post_init__(self):
        check_whole(self, "width", "heads", "persistent", "chunk", "memory_layers", "expansion")
        at_least(self, 1, "width", "heads", "chunk")
        at_least(self, 0, "persistent")
        check_multiple(self, "width", "heads")
        check_scales(self, "time_constant")
        one_of(self, GRADIENTS, "gradient_at")
        one_of(self, DECAYS, "decay")
        one_of(self, BOUNDED, "bounded")
        one_of(self, tuple(SLOPES), "loss")
        one_of(self, IMPLS, "impl")
        at_least(self, 1, "memory_layers", "expansion")
        check_horizon(self.horizon, "horizon")
        sound = isinstance(self.rate_bound, (int, float)) and 0 <= self.rate_bound <= 1
        require(sound, f"rate_bound must be in [0, 1], beyond which it diverges, not {self.rate_bound}")
        chunked = self.gradient_at == "chunk"
        require(chunked or not self.deep, "gradient_at must be chunk for a deep memory, not token")
        require(
            chunked or self.loss == "l2" or self.impl == "sequential",
            f"loss={self.loss} has no closed form per token; set gradient_at=chunk or impl=sequential",
        )
        require(
            self.impl != "pallas" or not (self.deep or self.by_channel),
            "impl=pallas is for linear memories with decay=token; set impl=closed_form",
        )
        require(
            not (self.deep and self.decay_before_gradient),
            "decay_before_gradient is for linear memories; set memory_layers=1 without memory_norm",
        )
        require(
            not self.by_channel or (self.forgetting and not self.deep),
            "decay=channel is for linear memories that forget; set decay=token, or forgetting=True and memory_layers=1 "
            "without memory_norm",
        )

    @property
    def deep(self) -> bool:
        """Whether its memories are more than a matrix each."""
        return self.memory_layers > 1 or self.memory_norm

    @property
    def by_channel(self) -> bool:
        """Whether each row of a memory forgets at its own pace."""
        return self.decay == "channel"

    @property
    def bound(self) -> float:
        """Of the rate, before momentum is taken into account."""
        return self.rate_bound or (min(1.0, 2 / self.chunk) if self.gradient_at == "chunk" else 1.0)

    @property
    def bounds_tokens(self) -> bool:
        """Whether all that is written of a token is bounded, and not each write."""
        return self.bounded == "token" or self.gradient_at == "chunk"

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
        cls.__doc__ = _with_settings(cls.__doc__ or "")
        old_keyword("retention", new="time_constant")(cls)

    def __post_init__(self):
        SurpriseSettings.__post_init__(self)
        super().__post_init__()

    @property
    def settings(self) -> SurpriseSettings:
        """Alone, for a module inside."""
        return SurpriseSettings.of(self)


def check_horizon(horizon: float, name: str) -> None:
    """Raises `MemjaxError` for what is no number of tokens above 1, and not 0 either; name: of the setting."""
    sound = isinstance(horizon, (int, float)) and (horizon == 0 or 1 < horizon < math.inf)
    require(sound, f"{name} must be above 1, or 0 for none, not {horizon}")


def _with_settings(doc: str) -> str:
    """A layer's docstring, at the end of its Args those settings that it does not explain itself."""
    if "    Args:\n" not in doc:
        return doc
    before, rest = doc.split("    Args:\n", 1)
    own, blank, after = rest.partition("\n\n")
    settings = (SurpriseSettings.__doc__ or "").split("    Args:\n", 1)[1].split("\n\n")[0]
    entries = re.split(r"\n(?=        \w)", settings)
    told = set(re.findall(r"^        (\w+):", own, re.MULTILINE))
    missing = [entry for entry in entries if entry.split(":")[0].strip() not in told]
    return f"{before}    Args:\n" + "\n".join([own.rstrip(), *missing]) + (f"{blank}{after}" if blank else "\n    ")
