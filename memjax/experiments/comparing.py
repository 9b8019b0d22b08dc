"""Runs side by side on one task, one after another; what is finished is not run again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from memjax.errors import TOO_LARGE, MemjaxError, is_too_large
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import read_config, to_mapping
from memjax.training import experiment, runs
from memjax.training.data_digests import changed_data


class Planned(NamedTuple):
    """One run of a comparison.

    Attributes:
        row: its name; runs of a row differ in their seed.
        seed: of its training.
        config: all of it.
        folder: of the run.
    """

    row: str
    seed: int
    config: Any
    folder: Path


def check_all(plan: Sequence[Planned]) -> None:
    """Raises `MemjaxError` for a config that cannot be run, and for a finished run that has learned from other data
    than there is now; before anything is trained or written.
    """
    for row in dict.fromkeys(planned.row for planned in plan):
        own = [planned for planned in plan if planned.row == row]
        try:
            prepared = prepare(own[0].config)
            changed = [changed_data(prepared, planned.folder) for planned in own if is_finished(planned)]
        except MemjaxError as error:
            raise MemjaxError(f"{row}: {error}") from None
        for text in filter(None, changed):
            raise MemjaxError(f"{row}: {text}, and no mean is taken of both; give another --run")


def is_finished(planned: Planned) -> bool:
    """Whether its folder holds this run, trained to its end and tested."""
    try:
        held = to_mapping(read_config(planned.folder))
        return runs.is_whole(planned.folder) and runs.is_same_run(held, to_mapping(planned.config))
    except MemjaxError:
        return False  # damaged: it is tested again


def train_all(plan: Sequence[Planned], console: Console) -> None:
    """Trains and tests every run that is not finished. One that fails does not stop the others.

    Args:
        plan: the runs, in order.
        console: for the progress.

    Raises:
        MemjaxError: after all of them, with what kept some from finishing.
    """
    failures = []
    for number, planned in enumerate(plan, 1):
        name = f"{planned.row}, seed {planned.seed}"
        if is_finished(planned):
            console.out(f"{name}: finished, in {planned.folder}")
            continue
        try:
            prepared = prepare(planned.config)
            where = f"on {prepared.task_name}, in {planned.folder} (run {number} of {len(plan)})"
            console.out(name, style="bold", end="")
            console.out(f" {where}")
            experiment.train(prepared, planned.folder, console)
            experiment.evaluate(prepared, planned.folder)
        except (MemjaxError, MemoryError, OverflowError, RuntimeError) as error:
            if not isinstance(error, MemjaxError) and not is_too_large(error):
                raise
            reason = error if isinstance(error, MemjaxError) else TOO_LARGE
            console.out(f"{name}: {reason}")
            failures.append((planned, f"{name} ({reason})"))
    # What another comparison has finished meanwhile did not fail.
    failed = [told for planned, told in failures if not is_finished(planned)]
    if failed:
        raise MemjaxError(f"not finished: {'; '.join(failed)}")
