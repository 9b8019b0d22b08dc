"""From a ConfigDict at the door to typed dataclasses inside, and back; the parts that all configs have."""

from memjax.config.arg import parse_arg
from memjax.config.sections import MeshConfig, OptimizerConfig, TrainingConfig
from memjax.config.typed import plain, setting, typed

__all__ = ["MeshConfig", "OptimizerConfig", "TrainingConfig", "parse_arg", "plain", "setting", "typed"]
