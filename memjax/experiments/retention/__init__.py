"""Learned retention: its config, losses, rewards, and what is shown of a buffer."""

from memjax.experiments.retention.buffer_watch import watch
from memjax.experiments.retention.eviction_rewards import rewards, rollout
from memjax.experiments.retention.retention_family import FAMILY, build_reader, retention_objective

__all__ = ["FAMILY", "build_reader", "retention_objective", "rewards", "rollout", "watch"]
