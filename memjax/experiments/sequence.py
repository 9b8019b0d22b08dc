"""Sequences of tokens: a language model of attention and surprise memories, or MemN2N's; some tokens are answers."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp

from memjax.checks import LARGEST_WIDTH, at_least, at_most, check_counts, check_widths
from memjax.config import MeshConfig, OptimizerConfig, TrainingConfig
from memjax.errors import require
from memjax.experiments.family import Compared, DtypeName, Family, require_whole_streams
from memjax.layers import LMM, MAC, MAG, MAL, SurpriseSettings, WindowAttention, gate_cost
from memjax.layers.head_memory import COSTS
from memjax.layers.surprise_settings import check_horizon
from memjax.models import LanguageModel, MemN2NLanguage, SequenceModel
from memjax.models.language_model import BLOCK
from memjax.reporting.description import ACCURACY, ERROR, Column, Report, tag_panels
from memjax.tasks import SequenceShape, SequenceTask, check_batch
from memjax.tasks.sequence import NOTHING
from memjax.training.data import Layout
from memjax.training.evaluate import MetricSums
from memjax.training.objective import Example, Loss, Metrics, answer_metrics, mean_objective
from memjax.training.phase import Phase, Recipe, state_bytes
from memjax.training.sharding import make_mesh, row_parts
from memjax.typing import Array, Int, Key, Params, PyTree, Split, State

LAYERS = {"attention": WindowAttention, "lmm": LMM, "mac": MAC, "mag": MAG, "mal": MAL}


@dataclass(kw_only=True, unsafe_hash=True)
class SequenceModelConfig(SurpriseSettings):
    """A language model and its layers: `SurpriseSettings`, and what stands here.

    Attributes:
        layer: of each block; memn2n is a model of its own.
        depth: blocks, or the hops of memn2n.
        hidden: units of a block's perceptron, 0 for none.
        window: tokens that attention sees, which the layer lmm has not; or how many memn2n holds.
        dropout: the share of what training zeroes, in [0, 1).
        carry_state: the least share of the texts of a batch that training starts in the state another text left, in
            [0, 1): they are read in chains, of a power of two each, without a gradient from one text to the one before.
        lower_horizon: the `horizon` of all blocks but the last, which then are short memories below a long one.
        gate_cost: the weight in the loss of `memjax.layers.gate_cost`: of writing and forgetting without need. It is a
            mean over all tokens, padding behind a text, too.
        dtype: of the products.
    """

    layer: Literal["attention", "lmm", "mac", "mag", "mal", "memn2n"]
    depth: int
    hidden: int
    window: int
    dropout: float
    carry_state: float = 0.0
    lower_horizon: float = 0.0
    gate_cost: float = 0.0
    dtype: DtypeName = "float32"

    def __post_init__(self):
        super().__post_init__()
        check_widths(self, "width")
        check_counts(self, 1, "depth", "memory_layers", "expansion")
        at_least(self, 1, "window")
        at_least(self, 0, "hidden")
        at_most(self, LARGEST_WIDTH, "hidden", "window", "chunk")
        for name in ("momentum", "forgetting"):
            require(
                self.remembers or getattr(self, name),
                f"{name}=False is for layers with a surprise memory; {self.layer} has none",
            )
        for name, only in (("heads", 1), ("hidden", 0), ("persistent", 0)):
            require(
                self.layer != "memn2n" or getattr(self, name) == only,
                f"{name} must be {only} for memn2n, which has none, not {getattr(self, name)}",
            )
        for name in ("dropout", "carry_state"):
            require(0 <= getattr(self, name) < 1, f"{name} must be in [0, 1), not {getattr(self, name)}")
        check_horizon(self.lower_horizon, "lower_horizon")
        require(
            self.depth > 1 or not self.lower_horizon,
            "lower_horizon is for the blocks below the last, and depth is 1; set horizon",
        )
        require(0 <= self.gate_cost <= 1e6, f"gate_cost must be from 0 to 1e6, not {self.gate_cost}")
        for name in ("horizon", "lower_horizon", "gate_cost"):
            require(
                self.remembers or not getattr(self, name),
                f"{name} is for layers with a surprise memory; {self.layer} has none; set it to 0",
            )
        require(
            self.remembers or (self.gradient_at == "token" and not self.deep),
            f"gradient_at=chunk and deep memories are for layers with a surprise memory; {self.layer} has none",
        )
        if self.layer == "mac":
            MAC.of(self, window=self.window)  # says what a segment cannot be

    @property
    def chain(self) -> int:
        """How many texts are read one after another: of these, all but the first start in another's state."""
        return 2 ** math.ceil(-math.log2(1 - self.carry_state))

    @property
    def remembers(self) -> bool:
        """Whether its layers have a surprise memory."""
        return self.layer not in ("attention", "memn2n")


@dataclass(frozen=True)
class SequenceConfig:
    """A whole experiment with sequence layers.

    Attributes:
        system: what is trained, sequence layers.
        task: its spec.
        model: the layers, and what stands around them.
        optimizer: the learning rate and what goes with it.
        training: how long, and how often to look.
        mesh: the devices.
    """

    system: Literal["sequence"]
    task: Any
    model: SequenceModelConfig
    optimizer: OptimizerConfig
    training: TrainingConfig
    mesh: MeshConfig = field(default_factory=MeshConfig)


def check_sequence(config: SequenceConfig) -> None:
    """Raises `MemjaxError` for sections that contradict each other."""
    require_whole_streams(config)
    model, length = config.model, getattr(config.task, "length", config.model.chunk)
    require(
        not model.remembers or model.chunk <= length,
        f"config.model.chunk {model.chunk} is above config.task.length {length}; lower the one, or raise the other",
    )


def build_sequence(model: SequenceModelConfig, shape: SequenceShape) -> SequenceModel:
    """The language model that a config describes.

    Args:
        model: its part of the config.
        shape: of its task.

    Raises:
        MemjaxError: for what cannot be.
    """
    dtype = jnp.dtype(model.dtype)
    if model.layer == "memn2n":
        return MemN2NLanguage(shape.vocabulary, model.width, model.depth, model.window, model.dropout, dtype)
    layer = LAYERS[model.layer]
    settings: dict[str, Any] = dataclasses.asdict(model) | {"dtype": dtype}
    own = {field.name: settings[field.name] for field in dataclasses.fields(layer) if field.name in settings}
    make: Any = partial(layer, **own)
    if model.lower_horizon:
        make = (partial(make, horizon=model.lower_horizon),) * (model.depth - 1) + (make,)
    return LanguageModel(shape.vocabulary, model.width, model.depth, model.hidden, make, model.dropout, dtype)


def sequence_recipe(config: SequenceConfig, task: SequenceTask) -> Recipe:
    """The recipe of a config: one phase."""
    shape, model = task.shape, build_sequence(config.model, task.shape)
    parts = row_parts(make_mesh(config.mesh, config.training.batch_size)) * config.training.microbatches
    rows, chain, pieces = config.training.batch_size // parts, config.model.chain, shape.pieces
    require(
        chain % pieces == 0,
        f"texts of {pieces} pieces are read in chains of as many at least: config.model.carry_state must be at least "
        f"{1 - 1 / pieces}, not {config.model.carry_state}",
    )
    require(
        pieces == 1 or config.training.microbatches == 1,
        f"texts of several pieces are read whole: config.training.microbatches must be 1, not "
        f"{config.training.microbatches}",
    )
    require(
        rows % chain == 0,
        f"config.model.carry_state={config.model.carry_state} makes chains of {chain} texts, but a device has {rows} "
        f"at once; set config.training.batch_size to a multiple of {chain * parts}, or lower carry_state",
    )
    require(
        config.model.impl != "pallas" or parts == config.training.microbatches,
        "config.model.impl=pallas is for one device; set it to closed_form, or run with one",
    )
    objective = sequence_objective(model, shape.asked, config.model.chain, config.model.gate_cost)
    measure = partial(measure_sequence, model, shape.answer, BLOCK, shape.asked)
    phase = Phase("train", config.training.steps, partial(init_sequence, model), objective, measure)

    def facts(params: Params, metrics: dict[str, Any], split: Split) -> dict[str, Any]:
        found: dict[str, Any] = {"state_bytes": state_bytes(lambda: model.apply(params, method="initial_state"))}
        if shape.text:
            found["metrics"] = metrics | {"perplexity": math.exp(min(metrics["answer_loss"], 700))}
        return found

    report = sequence_report(shape.tags, shape.choices, shape.answer, text=shape.text).to_json()
    return Recipe(_label(config.model), (phase,), Layout(partial(check_batch, shape)), facts, report)


def sequence_objective(
    model: SequenceModel, asked: int | None = None, chain: int = 1, gate_weight: float = 0.0
) -> Loss:
    """Mean answer loss over the targets of each sequence, then over the batch; whole sequences at once.

    In a chain, a text may ask nothing; it has no part in the means of its chain but that of `gate_cost`. All chains of
    a batch count alike.

    Args:
        model: of sequences.
        asked: the most targets of a sequence, if few are; a target more would be left out.
        chain: so many neighbours in a batch are read one after another, each from the state that the one before left,
            through which there is no gradient ("state passing").
        gate_weight: of `gate_cost`, which is added to the loss, so that memories write and forget no more than answers
            need.
    """

    def one(params: Params, example: Example, state: State) -> tuple[Metrics, Metrics, Array, State]:
        rngs = {"dropout": example["key"]}
        sums, state, costs = _answered(model, asked, params, example, state, train=True, rngs=rngs)
        count = sums.pop("count")
        told = {"gate_cost": gate_cost(costs)} if gate_weight else {}
        return {name: value / jnp.maximum(count, 1) for name, value in sums.items()}, told, count > 0, state

    def alone(params: Params, frozen: Params, example: Example) -> Metrics:
        metrics, told, _, _ = one(params, example, None)
        return metrics | told

    def chained(params: Params, frozen: Params, examples: Example) -> Metrics:
        def step(state, example):
            *found, state = one(params, example, state)
            return jax.lax.stop_gradient(state), found

        start = model.apply(params, method="initial_state")
        metrics, told, is_asked = jax.lax.scan(step, start, examples)[1]
        return jax.tree.map(lambda x: x.sum() / jnp.maximum(is_asked.sum(), 1), metrics) | jax.tree.map(jnp.mean, told)

    def total(means: Metrics) -> tuple[Array, Metrics]:
        loss = means["answer_loss"]
        return loss + gate_weight * means["gate_cost"] if gate_weight else loss, means

    if chain == 1:
        return mean_objective(alone, total)

    def loss(params: Params, frozen: Params, batch: Example) -> tuple[Array, Metrics]:
        rows = len(batch["tokens"])
        require(rows % chain == 0, f"chains of {chain} texts do not divide the {rows} of a device and microbatch")
        chains = jax.tree.map(lambda x: x.reshape(-1, chain, *x.shape[1:]), batch)
        return mean_objective(chained, total)(params, frozen, chains)

    return loss


def asked_places(
    target: Int[Array, "L"], most: int | None
) -> tuple[Int[Array, "A"] | None, Int[Array, "L"] | Int[Array, "A"]]:
    """Where something is asked, and the targets there; all places without `most`, the number that is enough.

    >>> asked_places(jnp.array([NOTHING, 7, NOTHING, 8]), 3)[1].tolist()
    [7, 8, -1]
    """
    if most is None or most >= target.shape[0]:
        return None, target
    at = jnp.argsort(target == NOTHING, stable=True)[:most]
    return at, target[at]


def _answered(
    model: SequenceModel, asked: int | None, params: Params, example: Example, state: State, **options: Any
) -> tuple[Metrics, State, PyTree]:
    """Sums over the targets of a sequence, or of a part: of its metrics, and their `count`; the state; `COSTS`."""
    at, target = asked_places(example["target"], asked)
    read = partial(model.apply, params, example["tokens"], state, at=at, reset=example.get("reset"), **options)
    (logits, state), costs = read(mutable=[COSTS])
    real = target != NOTHING
    metrics = answer_metrics(logits, jnp.where(real, target, 0)) | {"count": jnp.ones_like(logits[:, 0])}
    return {name: jnp.where(real, value, 0).sum() for name, value in metrics.items()}, state, costs


def measure_sequence(
    model: SequenceModel, answer: int, block: int, asked: int | None, params: Params, example: Example
) -> MetricSums:
    """One sequence of any length: loss over its targets, and answers that are right.

    Args:
        model: of sequences.
        answer: the tokens of an answer; above 1 all targets are one answer, which is right when all of them are.
        block: how many tokens are read at a time.
        asked: the most targets of a sequence, if few are.
        params: of the model.
        example: `tokens`, `target`, perhaps `reset`.
    """
    length = example["tokens"].shape[0]
    block = min(block, length)
    padding = (0, -length % block)
    blocks = {"tokens": jnp.pad(example["tokens"], padding).reshape(-1, block)}
    blocks["target"] = jnp.pad(example["target"], padding, constant_values=NOTHING).reshape(-1, block)
    if "reset" in example:
        blocks["reset"] = jnp.pad(example["reset"], padding).reshape(-1, block)

    def step(state, example):
        sums, state, _ = _answered(model, asked, params, example, state)
        return state, sums

    _, sums = jax.lax.scan(step, model.apply(params, method="initial_state"), blocks)
    loss, correct, targets = (sums[name].sum() for name in ("answer_loss", "accuracy", "count"))
    if answer > 1:
        asked_at_all = (targets > 0).astype(jnp.float32)
        return MetricSums(loss, targets, (correct == targets) * asked_at_all, asked_at_all)
    return MetricSums(loss, targets, correct, targets)


def init_sequence(model: SequenceModel, key: Key, example: Example) -> Params:
    """Parameters of a language model; their shapes do not depend on the length."""
    return jax.jit(model.init)(key, example["tokens"][:1])


def _label(model: SequenceModelConfig) -> str:
    if model.layer == "attention":
        return f"attention over {model.window}"
    if model.layer == "memn2n":
        return f"MemN2N, {model.depth} hops over {model.window}"
    missing = [f"no {name}" for name in ("momentum", "forgetting") if not getattr(model, name)]
    chunked = [f"gradients per chunk of {model.chunk}"] if model.gradient_at == "chunk" else []
    deep = [f"memories of {model.memory_layers} layers"] if model.deep else []
    return ", ".join([model.layer.upper(), *deep, *chunked, *missing])


def sequence_report(tags: Mapping[str, Sequence[str]], choices: int, answer: int, *, text: bool = False) -> Report:
    """What a report shows of sequence layers; all arguments are those of the task's shape.

    Args:
        tags: to split results by.
        choices: among how many a guess at a token would choose.
        answer: the tokens of an answer.
        text: whether the result is the perplexity.
    """
    guessing = {"accuracy": choices**-answer, "answer_loss": math.log(choices)}
    if text:
        perplexity = Column("perplexity", ("perplexity",), "number", "lower")
        return Report(
            perplexity.name, (perplexity,), tag_panels(tags), "Perplexity: exp of the mean loss of a token.", guessing
        )
    return Report(ERROR.name, (ERROR, ACCURACY), tag_panels(tags), guessing=guessing)


FAMILY = Family(
    "sequence",
    SequenceConfig,
    SequenceShape,
    check_sequence,
    sequence_recipe,
    Compared("layer", lambda: list(LAYERS)),
)
