"""The checkpoint of a phase that was best in validation, beside the newest ones, from which a run goes on."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from etils import epath
from jax.sharding import Mesh

from memjax.errors import remark, require
from memjax.training import checkpoint
from memjax.training.step import TrainState

# Of a validation, how good it is: the more, the better; minus infinity where it diverged, NaN where it has no result.
Worth = Callable[[Mapping[str, Any]], float]
Keep = Callable[[int, TrainState, Mapping[str, Any]], None]


def best_place(folder: Path, elsewhere: str, phase: str) -> epath.Path:
    """Where it lies: beside the phase's own folder."""
    return checkpoint.place(folder, elsewhere) / f"{phase}_best"


@contextlib.contextmanager
def keeping_best(
    place: epath.Path, worth: Worth, start: TrainState, mesh: Mesh, saved: Callable[[], int | None]
) -> Iterator[Keep]:
    """Saves what is better than all before it, of this run and of what it goes on from.

    Args:
        place: as of `best_place`.
        worth: of a validation.
        start: from which the phase goes on. What was saved after it is trained again, and deleted.
        mesh: all devices.
        saved: the step from which the phase would go on by now. The best up to there is not given up for a better one
            that is behind it, and might have to be trained again.

    Yields:
        `keep(step, state, metrics)`, to be called after each validation.
    """
    with checkpoint.saving(place, checkpoint.Behind(saved)) as manager:
        for step in [step for step in manager.all_steps() if step > int(start.step)]:
            manager.delete(step)
        highest, among = math.nan, 0.0  # nothing is above NaN or below: the first is kept whatever it is
        if manager.all_steps():
            _, [kept] = checkpoint.restore(manager, start, mesh, "to keep the best from here on")
            highest, among = kept["worth"], kept.get("examples", 0)
        elif int(start.step):
            remark(f"up to step {int(start.step):,} no best in validation is kept: the best from here on will be")

        def keep(step: int, state: TrainState, metrics: Mapping[str, Any]) -> None:
            nonlocal highest, among
            found, examples = worth(metrics), metrics.get("examples", 0)
            require(not math.isnan(found), "a validation has no result by which config.training.keep=best could go")
            if among and among != examples:
                remark(f"validated on {examples:,} examples now, on {among:,.0f} before: the best is that from here on")
                highest = math.nan
            among = examples
            if not found <= highest:
                checkpoint.save(manager, step, state, [{"worth": found, "examples": examples}])
                highest = found

        yield keep
        manager.wait_until_finished()
