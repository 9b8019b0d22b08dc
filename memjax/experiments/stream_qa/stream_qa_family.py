"""Stream QA: a stream is read once, then a question is asked. A sampler is trained first where one is needed."""

from functools import partial
from typing import Any

from memjax import memories
from memjax.errors import require
from memjax.experiments.family import Compared, Family
from memjax.experiments.stream_qa.answer_measures import cut_to, measure_answer, trimmed
from memjax.experiments.stream_qa.fixed_words import check_words, with_fixed_words
from memjax.experiments.stream_qa.item_ranking import Ranked, rank_items
from memjax.experiments.stream_qa.learned_embeddings import with_learned_embeddings
from memjax.experiments.stream_qa.rehearsal_objective import (
    answer_objective,
    init_params,
    of_other_rows,
    rehearsal_objective,
)
from memjax.experiments.stream_qa.shown_examples import shown_examples
from memjax.experiments.stream_qa.shown_slots import slots_read
from memjax.experiments.stream_qa.slot_measures import (
    SLOT_EXAMPLES,
    changes_by_segment,
    memorized,
    read_examples,
    recollected_by_age,
    slot_changes,
    slot_cosines,
)
from memjax.experiments.stream_qa.stream_qa_config import StreamQAConfig, check_stream_qa
from memjax.experiments.stream_qa.stream_qa_models import DIRECT, build, build_sampler
from memjax.experiments.stream_qa.stream_qa_report import stream_qa_report
from memjax.functional import functional
from memjax.models import HistorySampler, MemoryModel, System
from memjax.tasks import Task, TaskShape, check_batch
from memjax.training.data import Layout, borders_of
from memjax.training.objective import Loss
from memjax.training.phase import Phase, Recipe, state_bytes
from memjax.typing import Ordered, Params, Split


def stream_qa_recipe(config: StreamQAConfig, task: Task) -> Recipe:
    """The recipe of a config: the sampler's phase where there is one, then the system's."""
    check_words(config, task.shape)
    _check_context(config, task.shape)
    model, training = build(config, task.shape), config.training
    require(
        task.shape.item_width is None or config.rehearsal.among == "stream" or not config.rehearses,
        "this task's items are vectors, which have no vocabulary: give --config.rehearsal.among=stream and "
        "--config.rehearsal.negatives=30, or --config.rehearsal.fragments=0",
    )
    check = partial(check_batch, task.shape)
    layout = Layout(check, trimmed, of_other_rows, ("stream", "mask"), training.buckets, cut_to)
    borders_of(task, layout)  # a task without lengths is refused before anything compiles
    sampler = build_sampler(config, task.shape) if config.needs_sampler else None
    phases = []
    if sampler:
        phases.append(_phase("sampler", training.sampler_steps, sampler, answer_objective(sampler), stream=1))
    if isinstance(model, MemoryModel):
        drawing = sampler if config.draws_by_history else None
        loss = rehearsal_objective(model, config.rehearsal, config.rehearses, drawing)
    else:
        loss = answer_objective(model)
    phases.append(_phase("train", training.steps, model, loss))
    if config.begins_learned:
        phases[-1] = with_learned_embeddings(phases[-1], config.model.words != "own")
    if config.model.words == "fixed":
        phases = with_fixed_words(config, task, phases)

    def facts(params: Params, metrics: dict[str, Any], split: Split) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if isinstance(model, MemoryModel):
            own = {"params": params["params"].get("memory", {})}  # there are memories without parameters
            found["state_bytes"] = state_bytes(lambda: functional(model.memory).initial_state(own))
            batch, indices = read_examples(task, layout, split, min(SLOT_EXAMPLES, task.size(split)))
            slots, changed = memorized(model, params, batch), changes_by_segment(model, params, batch)
            found["slot_changes"], found["slot_cosines"] = slot_changes(changed, batch["mask"]), slot_cosines(slots)
            found["slots_read"] = slots_read(model, params, task, split, batch, indices, changed)
            if config.rehearses and config.rehearsal.recollection > 0:
                found["recollected"] = recollected_by_age(
                    model, params, batch, slots, mask_ratio=config.rehearsal.mask_ratio
                )
        if isinstance(task, Ranked) and split != "train":  # whose streams have no target to rank
            metrics |= rank_items(model, params, task, layout, split, training.batch_size)
        return found

    among = config.rehearsal.negatives + 1 if config.rehearsal.negatives else max(1, task.shape.items)
    told = {
        "sampler": sampler is not None,
        "clicks": task.shape.answer == "click",
        "ranked": isinstance(task, Ranked),
        "candidates": task.shape.answer == "candidates",
        "choices": task.shape.answer == "candidates" and task.shape.questions is None,
    }
    report = stream_qa_report(task.shape.tags, task.shape.classes, among, **told).to_json()
    notes = _nothing_to_choose(config, task.shape) + _begun_again(task, phases, training.batch_size)
    shown = partial(shown_examples, task)
    return Recipe(_label(config), tuple(phases), layout, facts, report, shown, notes, model)


def _check_context(config: StreamQAConfig, shape: TaskShape) -> None:
    """Raises `MemjaxError` where a memory's encoder is to see more items than a stream has."""
    context, items = config.memory.sizes.get("context"), shape.segments * shape.segment
    require(
        config.system != "memory" or not isinstance(context, int) or context <= items,
        f"config.memory.context {context} is more than the {items} items of the longest stream; give fewer",
    )


def _nothing_to_choose(config: StreamQAConfig, shape: TaskShape) -> tuple[str, ...]:
    """That nothing is chosen where all segments are rehearsed."""
    fragments, later = config.rehearsal.fragments, shape.segments - shape.segments // 2
    if not config.draws_by_history or fragments < 2 * later:
        return ()
    fewer = f"give fewer than {2 * later} fragments" if later > 1 else "give longer streams"
    return (
        f"the history sampler has nothing to choose: {fragments} fragments are all {shape.segments} segments of a "
        f"stream; {fewer}, or config.rehearsal.sampler=random",
    )


def _begun_again(task: Task, phases: list[Phase], batch_size: int) -> tuple[str, ...]:
    """That a phase reads the examples of a curriculum more than once."""
    size = task.size("train")
    long = [phase for phase in phases if phase.steps * batch_size > size]
    if not long or not (isinstance(task, Ordered) and task.ordered):
        return ()
    return tuple(
        f"{phase.name}: {phase.steps:,} steps of {batch_size} read more than the {size:,} examples of train: the "
        f"curriculum begins again after step {size // batch_size:,}; make train larger or the steps fewer"
        for phase in long
    )


def _phase(name: str, steps: int, model: System | HistorySampler, loss: Loss, stream: int = 0) -> Phase:
    return Phase(name, steps, partial(init_params, model), loss, partial(measure_answer, model), stream=stream)


def _label(config: StreamQAConfig) -> str:
    if config.system == "memory":
        learned = ", learned embeddings" if config.begins_learned else ""
        return f"{config.memory.name} memory{learned}" + ("" if config.rehearses else ", no rehearsal")
    return DIRECT[config.system].label


def _check_kind(config: StreamQAConfig, kind: str) -> None:
    require(config.system == "memory", f"only memories are compared, config.system is {config.system!r}")
    require(config.rehearses != bool(kind), "with these settings nothing is rehearsed; say --rehearsal=without")


FAMILY = Family(
    "stream_qa",
    StreamQAConfig,
    TaskShape,
    check_stream_qa,
    stream_qa_recipe,
    Compared(
        "memory",
        lambda: list(memories.registry),
        {"": (), " without rehearsal": ("--config.rehearsal.fragments=0",)},
        _check_kind,
    ),
    yardsticks=tuple(DIRECT),
)
