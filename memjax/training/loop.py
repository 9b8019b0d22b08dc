"""The loop: batches through the step, with progress, metrics, validation and checkpoints; resumes where it was."""

import contextlib
import functools
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from memjax.config import TrainingConfig
from memjax.errors import Interrupted, MemjaxError, Preempted, remark, require
from memjax.files import own_folder, writing
from memjax.training import checkpoint
from memjax.training.best_checkpoint import Keep, Worth, best_place, keeping_best
from memjax.training.data import Examples, Layout, train_batches
from memjax.training.objective import Example, Metrics
from memjax.training.placement import placement_table
from memjax.training.processes import devices, is_first
from memjax.training.runs import MetricsLog, NoLog
from memjax.training.sharding import place_batch, placed, rows_here
from memjax.training.step import TrainState
from memjax.typing import Params


class Fit(NamedTuple):
    """A phase of a run, to be trained until step `steps`.

    Attributes:
        folder: of the run.
        name: of the phase.
        steps: the step at which it ends.
        step: as `make_step` makes one.
        frozen: what the phase before has learned.
        validate: the metrics of parameters, for the log.
        task: whose examples it is trained on.
        layout: of the task's batches.
        config: how often to log, to validate and to save; batch size and seed.
        mesh: where all of it is computed.
        worth: of a validation, how good it is, where the best is kept; None where it is not.
        before: how many steps the phases before it have: by a number that rises through all of a run several processes
            agree on where to stop.
    """

    folder: Path
    name: str
    steps: int
    step: Callable[[TrainState, Params, Example], tuple[TrainState, Metrics]]
    frozen: Params
    validate: Callable[[Params], dict[str, Any]]
    task: Examples
    layout: Layout
    config: TrainingConfig
    mesh: Mesh
    worth: Worth | None = None
    before: int = 0


def fit(job: Fit, state: TrainState, console: Console, profile: bool = False) -> TrainState:
    """Trains a phase to its end, from its newest checkpoint in the run folder if there is one.

    Writes metrics, and checkpoints under `folder/name`, or elsewhere if the config says so.

    Args:
        job: the phase.
        state: before its first step.
        console: for the progress.
        profile: whether a trace of a few steps, behind those that compile, is written to `folder/profile/name`.

    Returns:
        The state after its last step.

    Raises:
        MemjaxError: on a loss that is not finite, naming the step, the part and the last good checkpoint.
        Preempted: when it was asked to stop (SIGTERM), after one more checkpoint.
        Interrupted: at a Ctrl-C, after one more checkpoint.
    """
    folder, phase, steps, config, mesh = job.folder, job.name, job.steps, job.config, job.mesh
    state = jax.device_put(state, placed(mesh, state))
    if mesh.size > 1:
        console.print(placement_table(state))
    with (
        writing(folder),
        contextlib.closing(MetricsLog(folder, phase) if is_first() else NoLog()) as log,
        checkpoint.saving(checkpoint.place(folder, config.checkpoints) / phase) as manager,
        _progress(console) as progress,
        _signals() as stop,
        contextlib.ExitStack() as opened,
    ):
        unlogged: checkpoint.Unlogged = []
        if manager.latest_step() is not None:
            state, unlogged = checkpoint.restore(manager, state, mesh)
        start = int(state.step)
        require(start <= steps, f"{phase} has {start} steps already, more than {steps}; give more, or another --run")
        for damaged in (step for step in manager.all_steps() if step > start):
            manager.delete(damaged)
        keep: Keep | None = None
        if job.worth is not None:
            kept = best_place(folder, config.checkpoints, phase)
            keep = opened.enter_context(keeping_best(kept, job.worth, state, mesh, manager.latest_step))
        rows = rows_here(mesh, config.batch_size)
        data = opened.enter_context(
            contextlib.closing(train_batches(job.task, job.layout, config.batch_size, config.seed, start, rows))
        )
        bar = progress.add_task(phase, total=steps, completed=start, latest="compiling")
        began, pending = time.perf_counter() - log.truncate(start), None

        if profile and start == steps:
            remark(f"{phase} is at its last step; nothing is left to profile")
        stopping = False
        traced = range(min(start + 11, steps), min(start + 16, steps + 1)) if profile else range(0)
        tracing = opened.enter_context(contextlib.ExitStack())

        for step in range(start + 1, steps + 1):
            if step in traced[:1]:
                tracing.enter_context(jax.profiler.trace(own_folder(folder, "profile", phase)))
            batch = place_batch(mesh, next(data), config.batch_size, job.layout.segmented)
            state, metrics = job.step(state, job.frozen, batch)
            stop.saves = True
            if step in traced[-1:]:
                jax.block_until_ready(metrics)
                tracing.close()
            # The metrics of the step before are fetched while this one runs.
            previous, pending = pending, (step, metrics)
            if previous:
                unlogged.append(_fetched(previous, phase, manager))
            # Several processes agree on a step at which all of them stop.
            stopping = manager.reached_preemption(job.before + step) if jax.process_count() > 1 else stop.asked
            saving = step % config.checkpoint_every == 0 or step == steps or stopping
            logging = step % config.log_every == 0 or step == steps
            if saving or logging:
                unlogged.append(_fetched(pending, phase, manager))
                pending = None
            if logging:
                means = {name: float(np.mean([entry[name] for entry in unlogged])) for name in unlogged[0]}
                unlogged = []
                shown = (name for name in ("answer_loss", "accuracy") if name in means)
                latest = "  ".join(f"{name.replace('_', ' ')} {means[name]:.3f}" for name in shown)
                progress.update(bar, completed=step, latest=latest)
                log.write(step, means | {"seconds": time.perf_counter() - began, "devices": devices()})
            if step % config.validate_every == 0 or step == steps:
                valid = job.validate(state.params)
                _require_finite(valid, f"{phase} step {step}, validation", manager)
                log.write(step, {"split": "valid"} | valid)
                if keep is not None:
                    keep(step, state, valid)
                if not console.is_terminal:
                    name = "auc" if "auc" in valid else "accuracy"
                    seconds = f"{time.perf_counter() - began:.0f} s"
                    console.out(f"{phase} {step}/{steps}  validation {name} {valid[name]:.3f}  {seconds}")
            if saving:
                checkpoint.save(manager, step, state, unlogged)
            if stopping:
                break
        manager.wait_until_finished()
        if stopping or stop.asked:  # the last step may have been over when it was asked
            raise (Interrupted if stop.interrupted else Preempted)(f"{phase} step {int(state.step)} is saved")
    return state


class _Stop:
    """What signals asked for. saves: whether there are steps that a Ctrl-C has to save before it leaves."""

    asked = interrupted = saves = False

    def terminate(self, *_: object) -> None:
        """SIGTERM: the step that runs is the last one."""
        self.asked = True

    def interrupt(self, number: int, frame: FrameType | None, leave: Callable[[int, FrameType | None], object]) -> None:
        """SIGINT: the same, and with nothing to save, or the second time, it leaves at once."""
        if self.interrupted or not self.saves:
            leave(number, frame)
            return
        self.asked = self.interrupted = True
        with contextlib.suppress(RuntimeError):  # it came while something else is said
            remark("interrupted: the step that runs is the last one, and is saved; Ctrl-C again leaves at once")


@contextlib.contextmanager
def _signals() -> Iterator[_Stop]:
    """What SIGTERM and Ctrl-C ask for, in place of ending the process. Signals are the main thread's alone; of several
    processes JAX takes them, and tells them all.
    """
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread() or jax.process_count() > 1:
        yield stop
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, stop.terminate)}
    leave = signal.getsignal(signal.SIGINT)
    if callable(leave):  # else it is ignored, as behind `nohup`
        before[signal.SIGINT] = signal.signal(signal.SIGINT, functools.partial(stop.interrupt, leave=leave))
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _fetched(pending: tuple[int, dict], phase: str, manager) -> dict[str, float]:
    """The metrics of a step, as numbers that are finite."""
    step, metrics = pending
    values = {name: float(value) for name, value in jax.device_get(metrics).items()}
    _require_finite(values, f"{phase} step {step}", manager)
    return values


def _require_finite(values: dict[str, Any], where: str, manager) -> None:
    broken = [name for name, value in values.items() if isinstance(value, float) and not math.isfinite(value)]
    if broken:
        good = manager.latest_step()
        kept = f"the last good checkpoint is step {good} in {manager.directory}" if good else "no checkpoint was saved"
        raise MemjaxError(
            f"{where}: {', '.join(broken)} is not finite; {kept}; "
            "lower config.optimizer.learning_rate or config.optimizer.clip_norm, with another --run"
        )


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:>8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[latest]}  left"),
        TimeRemainingColumn(),
        console=console,
        # Without a terminal a bar is a stream of control characters; the metrics file tells the progress there.
        disable=not console.is_terminal,
    )
