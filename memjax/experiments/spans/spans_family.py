"""Spans with learned retention: a document is read into a buffer of few blocks, from which a span is answered."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal

import jax
import numpy as np

from memjax.checks import at_least, check_counts, check_shares, check_widths
from memjax.config import MeshConfig, OptimizerConfig, TrainingConfig
from memjax.errors import require
from memjax.experiments.family import Compared, Family, PolicyName, choices, require_whole_streams
from memjax.experiments.spans.span_objective import (
    base_objective,
    measure_reader,
    measure_whole,
    spans_objective,
    whole_objective,
)
from memjax.experiments.spans.span_scores import rewards
from memjax.experiments.spans.span_watch import watch
from memjax.models import BiDAF, DocumentReader
from memjax.reporting.description import BufferPicture, Column, Report, tag_panels
from memjax.reporting.description import Phase as ShownPhase
from memjax.tasks import Spans, SpansShape, check_batch
from memjax.training.actor_critic import ActorCritic
from memjax.training.data import Layout
from memjax.training.initial_params import initial_params
from memjax.training.objective import Example
from memjax.training.phase import Phase, Recipe, with_learned
from memjax.typing import Batch, Key, Params, Split

F1 = Column("F1 %", ("f1",), "percent", "higher")
EXACT = Column("exact match %", ("accuracy",), "percent", "higher")
HELD = Column("held %", ("held",), "percent", "higher")
HELD_BLOCKS = BufferPicture(
    "buffer",
    "What the buffer held",
    "Which blocks of a document of the test were held when each block came, and in the end, when the question came.",
    ("buffer",),
)
SHOWN = 12  # questions, with what was answered
Vectors = Callable[[], np.ndarray]  # of words, `[known, width]`
Made = tuple[str, DocumentReader | BiDAF, tuple[Phase, ...]]  # the label, what is trained, its phases
MEANING = (
    "F1 and exact match by SQuAD's rule; held: of how many questions the answer's span was in the buffer in the end."
)


@dataclass(frozen=True)
class SpanReaderConfig:
    """BiDAF on a buffer, and the policy over it (`memjax.models.DocumentReader`).

    Attributes:
        width: of all vectors.
        layers: of BiDAF's modelling GRUs.
        dropout: of the inputs of all layers.
        longest: the most words that are answered.
        entries: how many blocks are held.
        policy: what is evicted.
    """

    width: int
    layers: int
    dropout: float
    longest: int
    entries: int
    policy: PolicyName

    def __post_init__(self):
        check_widths(self, "width", "entries")
        check_counts(self, 1, "layers", "longest")
        require(self.width % 2 == 0, f"width must be even, not {self.width}")
        check_shares(self, "dropout")


@dataclass(frozen=True)
class SpansTrainingConfig(TrainingConfig):
    """`TrainingConfig`, and what stands here.

    Attributes:
        base_steps: of a phase before, of the reader alone; 0 for none.
        reward: what an eviction is rewarded for (`rewards`).
    """

    base_steps: int = 0
    reward: Literal["f1", "held"] = "f1"

    def __post_init__(self):
        super().__post_init__()
        at_least(self, 0, "base_steps")


@dataclass(frozen=True)
class SpansConfig:
    """A whole experiment with questions about spans of documents.

    Attributes:
        system: what is trained: "buffer", a reader of what a policy keeps, or "whole", BiDAF on whole documents.
        task: its spec.
        model: the reader and the policy; "whole" has no policy and no entries.
        actor_critic: how the policy learns from rewards.
        optimizer: the learning rate and what goes with it.
        training: how long, and how often to look.
        mesh: the devices.
    """

    system: Literal["buffer", "whole"]
    task: Any
    model: SpanReaderConfig
    actor_critic: ActorCritic
    optimizer: OptimizerConfig
    training: SpansTrainingConfig
    mesh: MeshConfig = field(default_factory=MeshConfig)


def check_spans(config: SpansConfig) -> None:
    """Raises `MemjaxError` for sections that contradict each other."""
    require_whole_streams(config)
    require(
        config.system == "buffer" or config.training.base_steps == 0,
        "config.training.base_steps is for a buffer; BiDAF on whole documents has one phase: it must be 0",
    )


def build_document_reader(model: SpanReaderConfig, shape: SpansShape, policy: str) -> DocumentReader:
    """The reader that a config describes.

    Args:
        model: its part of the config, but for the policy.
        shape: of the task.
        policy: what is evicted.
    """
    return DocumentReader(shape.known, model.width, model.layers, model.dropout, model.entries, policy)


def trimmed(shape: SpansShape, batch: Batch) -> Batch:
    """The batch without blocks at its end that are padding in every document, a multiple of those of train left.

    So there are few shapes to compile, and one for train.

    Args:
        shape: of the task.
        batch: of it.
    """
    longest = int(np.flatnonzero((batch["stream"] != 0).any(axis=(0, 2))).max(initial=0)) + 1
    return batch | {"stream": batch["stream"][:, : -(-longest // shape.train_blocks) * shape.train_blocks]}


def spans_recipe(config: SpansConfig, task: Spans) -> Recipe:
    """The recipe of a config."""
    vectors = cache(partial(task.word_vectors, config.model.width))  # made once
    label, reader, phases = (_of_buffer if config.system == "buffer" else _of_whole)(config, task.shape, vectors)
    shown = tuple(ShownPhase(phase.name, "reader alone") for phase in phases[:-1])
    columns, panels = (F1, EXACT, HELD), (*tag_panels(task.shape.tags, "percent"), HELD_BLOCKS)
    report = Report(F1.name, columns, panels, MEANING, phases=shown)
    layout = Layout(partial(check_batch, task.shape), partial(trimmed, task.shape))

    def facts(params: Params, metrics: dict[str, Any], split: Split) -> dict[str, Any]:
        size = task.size(split)
        indices = np.sort(np.random.default_rng(0).choice(size, min(SHOWN, size), replace=False))
        batch = trimmed(task.shape, task.examples(split, indices))
        return watch(reader, config.model.longest, task, params, batch)

    return Recipe(label, phases, layout, facts, report.to_json(), model=reader)


def _of_buffer(config: SpansConfig, shape: SpansShape, vectors: Vectors) -> Made:
    """First a phase "base" of the reader, measured under FIFO, then both with the config's own policy."""
    model, training = config.model, config.training
    reader, fifo = (build_document_reader(model, shape, policy) for policy in (model.policy, "fifo"))
    base = base_objective(fifo, model.longest)
    joint = spans_objective(reader, model.longest, config.actor_critic, rewards[training.reward])

    def phase(name: str, steps: int, reader: DocumentReader, loss: Any) -> Phase:
        measure = partial(measure_reader, reader, model.longest)
        return Phase(name, steps, partial(_init, reader, vectors), loss, measure, with_learned)

    first = (phase("base", training.base_steps, fifo, base),) if training.base_steps else ()
    label = f"{model.policy.upper()}, {model.entries} blocks"
    return label, reader, (*first, phase("train", training.steps, reader, joint))


def _of_whole(config: SpansConfig, shape: SpansShape, vectors: Vectors) -> Made:
    model = config.model
    reader = BiDAF(shape.known, model.width, model.layers, model.dropout)
    loss, measure = whole_objective(reader, model.longest), partial(measure_whole, reader, model.longest)
    init = partial(_init, reader, vectors)
    return "BiDAF, whole document", reader, (Phase("train", config.training.steps, init, loss, measure),)


def _init(reader: DocumentReader | BiDAF, vectors: Vectors, key: Key, example: Example) -> Params:
    """Parameters as they begin; the vectors of words, which are not trained, are those of the task's texts."""
    params = initial_params(reader, key, example["stream"], example["query"])["params"]
    base = params["base"] if isinstance(reader, DocumentReader) else params
    # Called where training begins, not where shapes alone are asked for; of several processes by the first alone.
    base["embed"] = {"embedding": jax.pure_callback(vectors, base["embed"]["embedding"])}
    return {"params": params}


def _check_policy(config: SpansConfig, kind: str) -> None:
    require(config.system == "buffer", f"only policies are compared, config.system is {config.system!r}")


FAMILY = Family(
    "spans",
    SpansConfig,
    SpansShape,
    check_spans,
    spans_recipe,
    Compared("policy", lambda: choices(SpanReaderConfig, "policy"), check=_check_policy),
    yardsticks=("whole",),
)
