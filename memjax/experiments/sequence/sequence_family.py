"""Sequences of tokens: a language model of attention and surprise memories, or MemN2N's."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from memjax.errors import require
from memjax.experiments.family import Compared, Family
from memjax.experiments.sequence.sequence_config import (
    LAYERS,
    SequenceConfig,
    SequenceModelConfig,
    build_sequence,
    check_sequence,
)
from memjax.experiments.sequence.sequence_objective import init_sequence, measure_sequence, sequence_objective
from memjax.models.language_model import BLOCK
from memjax.reporting.description import ACCURACY, ERROR, Column, Report, tag_panels
from memjax.tasks import SequenceShape, SequenceTask, check_batch
from memjax.training.data import Layout
from memjax.training.phase import Phase, Recipe, state_bytes
from memjax.training.sharding import make_mesh, row_parts
from memjax.typing import Params, Split


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
    objective = sequence_objective(
        model, shape.asked_in_training or shape.asked, config.model.chain, config.model.gate_cost
    )
    measure = partial(measure_sequence, model, shape.answer, BLOCK, shape.asked)
    phase = Phase("train", config.training.steps, partial(init_sequence, model), objective, measure)

    def facts(params: Params, metrics: dict[str, Any], split: Split) -> dict[str, Any]:
        found: dict[str, Any] = {"state_bytes": state_bytes(lambda: model.apply(params, method="initial_state"))}
        if shape.text:
            found["metrics"] = metrics | {"perplexity": math.exp(min(metrics["answer_loss"], 700))}
        return found

    report = sequence_report(shape.tags, shape.choices, shape.answer, text=shape.text).to_json()
    layout, notes = Layout(partial(check_batch, shape)), _may_diverge(config.model)
    return Recipe(_label(config.model), (phase,), layout, facts, report, notes=notes, model=model)


def _may_diverge(model: SequenceModelConfig) -> tuple[str, ...]:
    """That rates are higher than one key all through a chunk bears."""
    most = dataclasses.replace(model, rate_bound=0.0).bound
    if model.rate_bound <= most:
        return ()
    return (
        f"config.model.rate_bound {model.rate_bound} is above 2 / chunk, {most:.3g}: with gradient_at=chunk one key "
        "all through a chunk can make the memory diverge; give at most that, or 0, which stands for it",
    )


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
