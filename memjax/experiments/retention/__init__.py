"""Learned retention: its config, losses, rewards, and what is shown of a buffer."""

from memjax.experiments.retention.buffer_watch import read_greedily, watch
from memjax.experiments.retention.eviction_rewards import rewards, rollout
from memjax.experiments.retention.retention_family import (
    FAMILY,
    ReaderConfig,
    RetentionConfig,
    build_reader,
    measure_reader,
    retention_objective,
)

__all__ = [
    "FAMILY",
    "ReaderConfig",
    "RetentionConfig",
    "build_reader",
    "measure_reader",
    "read_greedily",
    "retention_objective",
    "rewards",
    "rollout",
    "watch",
]
