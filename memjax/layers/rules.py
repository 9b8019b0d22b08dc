"""The rules by which published memories are written, each as the settings that make it of Titans' layers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from memjax.errors import unknown

PER_CHUNK = {"gradient_at": "chunk"}
PLAIN = {"momentum": False, "forgetting": False}

RULES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "titans": {},  # 2501.00663, linear memory, Eq. 9 to 15 at every token
        "titans_chunked": PER_CHUNK,  # 2501.00663, 3.2: as it was published for training
        "titans_deep": PER_CHUNK | {"memory_layers": 2},  # 2501.00663, 3.1
        "deltanet": PLAIN,  # 2406.06484
        "gated_deltanet": {"momentum": False, "decay_before_gradient": True},  # 2412.06464, Eq. 10
        # 2510.26692, Kimi Delta Attention.
        "kda": {"momentum": False, "decay_before_gradient": True, "decay": "channel"},
        # 2407.04620, 2.3 to 2.7, which have GELU, biases and chunks of 16.
        "ttt_linear": PLAIN | PER_CHUNK | {"memory_norm": True},
        "ttt_mlp": PLAIN | PER_CHUNK | {"memory_norm": True, "memory_layers": 2, "expansion": 4},
        # 2504.13173 (Miras): Huber's loss number by number, where Yaad's goes by the norm; the loss of Moneta, p = 3.
        "huber": PER_CHUNK | {"loss": "huber"},
        "l3": PER_CHUNK | {"loss": "l3"},
    }
)


def rule(name: str) -> dict[str, Any]:
    """The settings of a published rule, for `LMM`, `MAC`, `MAG`, `MAL`, `SurpriseSettings` or a config.

    They are the recurrences of the papers that stand beside them; projections, gates and the way out stay those of the
    layer. Of Miras the losses are here, not its ways of retaining. With MAC those per chunk also need chunk=window.

    Args:
        name: titans, titans_chunked, titans_deep, deltanet, gated_deltanet, kda, ttt_linear, ttt_mlp, huber or l3.

    Raises:
        MemjaxError: for a name that none has.

    >>> from memjax.layers import LMM
    >>> LMM(width=8, heads=2, **rule("gated_deltanet")).decay_before_gradient
    True
    """
    if name not in RULES:
        raise unknown("rule", name, RULES)
    return dict(RULES[name])
