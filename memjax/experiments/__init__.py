"""The families of experiments, a room for each. Nothing else in memjax asks which family an experiment has."""

from memjax.experiments import algorithmic_family, maze, retention, sequence, spans, stream_qa
from memjax.experiments.family import Compared, Family

families: dict[str, Family] = {
    family.FAMILY.name: family.FAMILY for family in (stream_qa, sequence, algorithmic_family, retention, spans, maze)
}

__all__ = ["Compared", "Family", "families"]
