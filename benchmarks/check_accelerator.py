"""Does this machine's accelerator compute what a CPU computes? A run's evaluation and gradient on both, row by row.

    python benchmarks/check_accelerator.py --config=configs/evidence.py:medium
    python benchmarks/check_accelerator.py --config=configs/babi.py:dnc,task=1 --data_dir=data
    python benchmarks/check_accelerator.py --config=... --run=FOLDER      the parameters of a run, where it was trained

Compilers for accelerators err: on an H200 and an H100 with jax 0.11.2 evaluations of evidence's `medium` were wrong
in every second row of a batch, without a warning, until a fusion was avoided. The first batch of validation is
measured and the first of training is differentiated, in one process, all products in full precision; parameters are
those that training begins with unless the run has others. Exit code 1 where a row's loss is off by more than
--tolerance of its size, or a gradient by that of its largest number. With an accelerator that is wrong,
XLA_FLAGS=--xla_gpu_verify_triton_fusion_numerics=true may name the fusion.
"""

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from memjax.experiments.arguments import read_settings
from memjax.experiments.prepare import prepare
from memjax.training.data import evaluation_batches, train_batches
from memjax.training.phase import Experiment, initial_state, load_phase
from memjax.training.step import step_fields
from memjax.typing import PyTree


def starts(experiment: Experiment, run: Path) -> list[PyTree]:
    """The parameters of each phase: where it ended in a whole run, else those it begins with."""
    if (run / "evaluation.json").exists():
        return [load_phase(experiment, run, phase)[1] for phase in experiment.phases]
    found: list[PyTree] = []
    for phase in experiment.phases:
        own = initial_state(experiment, phase).params
        found.append(phase.begin(own, found[-1] if found else None))
    return found


def on(device: jax.Device, function: Callable[..., PyTree], *inputs: PyTree) -> PyTree:
    """What a device makes of these inputs."""
    placed = jax.device_put(jax.device_get(inputs), device)
    return jax.device_get(jax.jit(function)(*placed))


def wrong_rows(ours: np.ndarray, reference: np.ndarray, tolerance: float) -> list[int]:
    """The rows that are further apart than `tolerance` times their size, or than it if they are small."""
    far = np.abs(ours - reference) > tolerance * np.maximum(1, np.abs(reference))
    return np.nonzero(far | ~np.isfinite(ours))[0].tolist()


def gradient_error(ours: PyTree, reference: PyTree) -> tuple[float, str]:
    """The largest error of a parameter's gradient, over the largest number of the whole gradient; and its path."""
    leaves = jax.tree.leaves_with_path(jax.tree.map(lambda a, b: np.abs(a - b).max(initial=0), ours, reference))
    largest = max(np.abs(x).max(initial=0) for x in jax.tree.leaves(reference))
    path, error = max(leaves, key=lambda leaf: leaf[1] if np.isfinite(leaf[1]) else np.inf)
    return float(error / largest), jax.tree_util.keystr(path)


def check(experiment: Experiment, run: Path, tolerance: float) -> bool:
    """Prints what differs; whether nothing does."""
    accelerator, cpu = jax.devices()[0], jax.devices("cpu")[-1]
    print(f"{accelerator.device_kind} beside {cpu.device_kind}, jax {jax.__version__}")
    layout, size, task = experiment.recipe.layout, experiment.config.training.batch_size, experiment.task
    phase, (*before, params) = experiment.phases[-1], starts(experiment, run)

    batch, *_ = next(evaluation_batches(task, layout, "valid", size))

    def losses(params: PyTree, batch: PyTree) -> jax.Array:
        return jax.vmap(phase.measure, (None, 0))(params, batch).loss_sum

    wrong = wrong_rows(*(on(device, losses, params, batch) for device in (accelerator, cpu)), tolerance)
    print(f"evaluation: {len(wrong)} of {size} rows differ", *([f": {wrong}"] if wrong else []), sep="")

    frozen, batch = before[-1] if before else None, next(iter(train_batches(task, layout, size, seed=0)))

    def loss_of(params: PyTree, batch: PyTree) -> jax.Array:
        return phase.loss(params, frozen, layout.extend(batch | step_fields(jax.random.key(0), phase.steps, size)))[0]

    step = jax.value_and_grad(loss_of)
    (loss, gradient), (loss_of_cpu, of_cpu) = (on(device, step, params, batch) for device in (accelerator, cpu))
    error, path = gradient_error(gradient, of_cpu)
    print(f"training: loss {loss:.6g} and {loss_of_cpu:.6g}; the gradient is off by {error:.1e}, most at {path}")
    return not wrong and error <= tolerance and not wrong_rows(loss[None], loss_of_cpu[None], tolerance)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tolerance", type=float, default=1e-2)
    options, settings = parser.parse_known_args(argv)
    config, run = read_settings(settings)
    with jax.default_matmul_precision("highest"):
        right = check(prepare(config), run, options.tolerance)
    print("the same" if right else f"NOT the same: {shlex.join(settings)}")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
