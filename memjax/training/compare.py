"""Runs of several memories on one task, one after another; what is finished is not run again."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from memjax.config import AnyConfig
from memjax.errors import MemjaxError
from memjax.training import experiment, runs


class Planned(NamedTuple):
    """One run of a comparison; runs of a row differ in their seed."""

    row: str
    seed: int
    config: AnyConfig
    folder: Path


def train_all(plan: Iterable[Planned], console: Console) -> None:
    """Trains and tests every run that is not finished. One that fails does not stop the others.

    Raises `MemjaxError`, after all of them, with what kept some from finishing.
    """
    failures = []
    for planned in plan:
        name = f"{planned.row}, seed {planned.seed}"
        try:
            runs.open_run(planned.folder, planned.config)
            if runs.is_whole(planned.folder):
                console.print(f"{name}: finished, in {planned.folder}")
                continue
            console.print(f"[bold]{name}[/bold] on {experiment.task_name(planned.config)}, in {planned.folder}")
            prepared = experiment.prepare(planned.config)
            experiment.train(prepared, planned.folder, console)
            experiment.evaluate(prepared, planned.folder)
        except MemjaxError as error:
            console.print(f"{name}: {error}")
            failures.append(f"{name} ({error})")
    if failures:
        raise MemjaxError(f"not finished: {'; '.join(failures)}")
