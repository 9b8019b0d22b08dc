"""Algorithmic tasks: an RNN cell with a memory of rows reads vectors of bits, and is asked for others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from memjax.checks import check_counts, check_widths
from memjax.config import MeshConfig, OptimizerConfig, TrainingConfig
from memjax.errors import require
from memjax.experiments.family import Compared, DtypeName, Family, choices, require_whole_streams
from memjax.layers import DNCCell, NTMCell, NUTMCell
from memjax.reporting.description import ERROR, Column, Lines, Report, tag_panels
from memjax.tasks import BitsShape, BitsTask, check_batch
from memjax.training.data import Layout
from memjax.training.evaluate import MetricSums
from memjax.training.initial_params import initial_params
from memjax.training.objective import Example, Loss, Metrics, mean_objective
from memjax.training.phase import Phase, Recipe, state_bytes
from memjax.typing import Array, Key, Params, Split

CELLS = {"dnc": DNCCell, "ntm": NTMCell, "nutm": NUTMCell}


@dataclass(frozen=True)
class CellConfig:
    """An RNN cell with a memory of rows.

    Attributes:
        cell: which one.
        rows: of the memory.
        memory_width: of a row.
        read_heads: how many rows are read at once.
        hidden: units of the LSTM.
        programs: of the nutm, which alone has more than one.
        dtype: of the products.
    """

    cell: Literal["dnc", "ntm", "nutm"]
    rows: int
    memory_width: int
    read_heads: int
    hidden: int
    programs: int
    dtype: DtypeName

    def __post_init__(self):
        check_widths(self, "rows", "memory_width", "hidden", "programs")
        check_counts(self, 1, "read_heads")
        require(
            self.cell == "nutm" or self.programs == 1,
            f"programs={self.programs} is for the cell nutm; the {self.cell} has one program",
        )


@dataclass(frozen=True)
class AlgorithmicConfig:
    """A whole experiment with an RNN cell on an algorithmic task.

    Attributes:
        system: what is trained, a cell.
        task: its spec.
        model: the cell.
        optimizer: the learning rate and what goes with it.
        training: how long, and how often to look.
        mesh: the devices.
    """

    system: Literal["cell"]
    task: Any
    model: CellConfig
    optimizer: OptimizerConfig
    training: TrainingConfig
    mesh: MeshConfig = field(default_factory=MeshConfig)


def build_cell(model: CellConfig, shape: BitsShape) -> DNCCell | NTMCell:
    """The cell that a config describes, for a task of this shape."""
    own = {"programs": model.programs} if model.cell == "nutm" else {}
    sizes = model.rows, model.memory_width, model.read_heads, model.hidden
    return CELLS[model.cell](shape.outputs, *sizes, dtype=jnp.dtype(model.dtype), **own)


def algorithmic_recipe(config: AlgorithmicConfig, task: BitsTask) -> Recipe:
    """The recipe of a config: one phase."""
    cell = build_cell(config.model, task.shape)
    model = nn.RNN(cell)
    measure = partial(measure_bits, model)
    phase = Phase("train", config.training.steps, partial(_init, model), algorithmic_objective(model), measure)

    def facts(params: Params, metrics: dict[str, Any], split: Split) -> dict[str, Any]:
        state = state_bytes(lambda: cell.initialize_carry(jax.random.key(0), (task.shape.inputs,)))
        return {"state_bytes": state, "metrics": metrics | _wrong_bits(metrics)}

    layout, report = Layout(partial(check_batch, task.shape)), algorithmic_report(task.shape.tags)
    return Recipe(config.model.cell.upper(), (phase,), layout, facts, report.to_json(), model=model)


def _wrong_bits(metrics: dict[str, Any]) -> dict[str, Any]:
    """Wrong bits of a sequence in the mean, over all and by length (Graves et al. 2014: "bit error per sequence")."""

    def per_sequence(found: dict[str, Any]) -> float:
        return (1 - found["accuracy"]) * found["answers"] / found["examples"]

    by_length = {length: per_sequence(found) for length, found in metrics["tags"]["length"].items()}
    return {"wrong_bits": per_sequence(metrics), "wrong_bits_by_length": by_length}


def _losses(model: nn.RNN, params: Params, example: Example) -> tuple[Array, Array, Array]:
    """Sums over the bits that are asked of one sequence: cross-entropy (nats), bits that are correct, bits."""
    logits = jnp.asarray(model.apply(params, example["inputs"]), jnp.float32)
    asked = jnp.broadcast_to(example["asked"][:, None], logits.shape)
    loss = optax.sigmoid_binary_cross_entropy(logits, example["bits"])
    correct = (logits > 0) == (example["bits"] > 0.5)
    return jnp.where(asked, loss, 0).sum(), (asked & correct).sum(), asked.sum()


def algorithmic_objective(model: nn.RNN) -> Loss:
    """Mean cross-entropy of a bit in each sequence, then over the batch."""

    def one(params: Params, frozen: Params, example: Example) -> Metrics:
        loss, correct, bits = _losses(model, params, example)
        return {"answer_loss": loss / bits, "accuracy": correct / bits}

    return mean_objective(one, lambda means: (means["answer_loss"], means))


def measure_bits(model: nn.RNN, params: Params, example: Example) -> MetricSums:
    """One sequence: every bit that is asked is an answer."""
    loss, correct, bits = (x.astype(jnp.float32) for x in _losses(model, params, example))
    return MetricSums(loss, bits, correct, bits)


def _init(model: nn.RNN, key: Key, example: Example) -> Params:
    return initial_params(model, key, example["inputs"])


def algorithmic_report(tags: Mapping[str, Sequence[str]]) -> Report:
    """RNN cells on sequences of bits. tags: of the task's shape."""
    wrong = Column("wrong bits", ("wrong_bits",), "number", "lower")
    by_length = Lines(
        "wrong_bits",
        "Wrong bits by length",
        "Wrong bits of a sequence by its length, in the mean over the tested sequences.",
        ("metrics", "wrong_bits_by_length"),
        "length",
        "wrong bits",
        "number",
    )
    meaning = "Wrong bits: of a sequence, in the mean over all tested lengths."
    guessing = {"accuracy": 0.5, "answer_loss": math.log(2)}
    return Report(wrong.name, (wrong, ERROR), (*tag_panels(tags), by_length), meaning, guessing)


FAMILY = Family(
    "algorithmic",
    AlgorithmicConfig,
    BitsShape,
    require_whole_streams,
    algorithmic_recipe,
    Compared("cell", lambda: choices(CellConfig, "cell")),
)
