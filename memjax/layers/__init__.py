"""What people put into networks of their own: sequence layers with a state of fixed size, and cells with a memory."""

from memjax.layers.cells import DNCCell, ExternalCell, NTMCell, NUTMCell
from memjax.layers.head_memory import gate_cost
from memjax.layers.lmm import LMM
from memjax.layers.rules import RULES, rule
from memjax.layers.surprise_settings import SurpriseSettings
from memjax.layers.titans import MAC, MAG, MAL
from memjax.layers.window_attention import WindowAttention

__all__ = [
    "LMM",
    "MAC",
    "MAG",
    "MAL",
    "RULES",
    "DNCCell",
    "ExternalCell",
    "NTMCell",
    "NUTMCell",
    "SurpriseSettings",
    "WindowAttention",
    "gate_cost",
    "rule",
]
