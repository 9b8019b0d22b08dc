"""How long does a whole training step of Rehearsal Memory take on one core, and what share of a matmul's rate is that?

    python benchmarks/bench_step.py
    python benchmarks/bench_step.py --quick      a tiny model: does it run?

A step is that of `memjax train` (loss, gradient, Adam's update) on a batch of configs/evidence.py at `small` and
`paper`, consecutive, whose streams are all as long as the longest: rehearsed, with `rehearsal.fragments=0`, and
rehearsed with `model.dtype=bfloat16`. Random fields and the history sampler are part of it, reading the batch is not.
The steps of a size take turns with a product of two float32 matrices.

`flops` are those of all products of matrices and vectors in the traced step, loops in full and a branch as if it were
taken (`counting.products`; XLA's cost analysis counts a loop's body once). `matmul_share` is the rate at which a step
makes them over that of the product, `faster` the time of the size's first row over a row's own; both turn by turn.
"""

import math
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

if hasattr(os, "sched_setaffinity"):  # before JAX makes its threads
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import counting
import jax
import jax.numpy as jnp
import numpy as np
import timing
from rich.console import Console
from rich.table import Table

from memjax.experiments.arguments import read_settings
from memjax.experiments.prepare import prepare
from memjax.training.phase import initial_state
from memjax.training.sharding import place_batch, placed
from memjax.training.step import make_optimizer, make_step

ROOT = Path(__file__).parents[1]
KINDS = {
    "rehearsed": "",
    "not rehearsed": "--config.rehearsal.fragments=0",
    "rehearsed, bfloat16": "--config.model.dtype=bfloat16",
}
LONGEST = "--config.task.shortest=0 --config.task.curriculum=0 --config.training.buckets=1"  # of all training streams
TINY = "--config.training.batch_size=8 --config.model.width=8 --config.memory.layers=1 --config.rehearsal.layers=1"
FULL = {"variants": ["small", "paper"], "kinds": list(KINDS), "overrides": LONGEST, "matmul": 2048}
QUICK = {"variants": ["demo"], "kinds": list(KINDS)[:2], "overrides": f"{LONGEST} {TINY}", "matmul": 64}


class Stepper(NamedTuple):
    """A training step, compiled.

    Attributes:
        call: makes the next step, on the same batch.
        facts: the config's batch size, operations, seconds of compiling, bytes besides the arguments.
    """

    call: Callable[[], Any]
    facts: dict[str, float]


def stepper(arguments: str) -> Stepper:
    """The training step that a command of `memjax train` would make, on its first examples."""
    made = prepare(read_settings(arguments.split())[0])
    phase, training = made.phases[-1], made.config.training
    frozen = jax.jit(lambda: initial_state(made, made.phases[0]).params)() if len(made.phases) > 1 else None
    start = jax.jit(lambda: initial_state(made, phase))()
    states = [jax.device_put(start, placed(made.mesh, start))]
    examples = made.task.examples("train", np.arange(training.batch_size))
    batch = place_batch(made.mesh, examples, training.batch_size)
    optimizer = make_optimizer(made.config.optimizer, phase.steps)
    step = make_step(phase.loss, optimizer, made.mesh, training.batch_size, 1, training.seed, made.recipe.layout.extend)
    traced = step.trace(states[0], frozen, batch)
    began = time.perf_counter()
    run = traced.lower().compile()
    facts = {"streams": training.batch_size, "flops": counting.products(traced.jaxpr)["flops"]}
    facts["compile_s"] = time.perf_counter() - began
    if (analysis := run.memory_analysis()) is not None:
        facts["temp_bytes"] = analysis.temp_size_in_bytes

    def call() -> Any:
        state, metrics = run(states.pop(), frozen, batch)  # which takes the state before it away
        states.append(state)
        return metrics, state.step

    return Stepper(call, facts)


def measure(variant: str, sizes: dict[str, Any], repeats: int) -> list[dict[str, Any]]:
    """A row for each kind of step at a size; they and the product of matrices take turns."""
    steps = {}
    for kind in sizes["kinds"]:
        print(f"compiling {variant}, {kind}", file=sys.stderr, flush=True)
        source = f"--config={ROOT / 'configs' / 'evidence.py'}:{variant}"
        steps[kind] = stepper(f"{source} {sizes['overrides']} {KINDS[kind]}")
    print(f"timing {variant}", file=sys.stderr, flush=True)
    side = jax.random.normal(jax.random.key(0), (sizes["matmul"], sizes["matmul"]))
    product = partial(timing.compiled(partial(jnp.matmul, precision="highest"), side, side)[0], side, side)
    times = timing.take_turns({"matmul": product} | {kind: step.call for kind, step in steps.items()}, repeats)
    work, rows = 2.0 * sizes["matmul"] ** 3, []
    for kind, step in steps.items():
        seconds, flops = times[kind], step.facts["flops"]
        shares = [flops / work * of_product / each for of_product, each in zip(times["matmul"], seconds, strict=True)]
        rates = {
            "seconds": seconds,
            "steps_per_s": [1 / each for each in seconds],
            "flops_per_s": [flops / each for each in seconds],
            "matmul_share": shares,
        }
        told = {name: timing.spread(values) for name, values in rates.items()}
        faster = timing.ratio(times[sizes["kinds"][0]], seconds)
        matmul = timing.spread([work / each for each in times["matmul"]])
        rows.append({"variant": variant, "kind": kind, **step.facts, **told, "faster": faster, "matmul_per_s": matmul})
    return rows


def main() -> None:
    """Measures, shows and keeps it."""
    args = timing.arguments(__doc__, 5, ROOT / "results" / "bench_step.json")
    machine, sizes = timing.machine(), QUICK if args.quick else FULL
    rows = [row for variant in sizes["variants"] for row in measure(variant, sizes, args.repeats)]
    table = Table("step", "streams", "seconds", "Gflop", "Gflop/s", "matmul Gflop/s", "share", "times as fast", "MiB")
    for row in rows:
        cells = [f"{row['variant']}, {row['kind']}", f"{row['streams']}", f"{row['seconds']['median']:.3f}"]
        cells += [f"{row['flops'] / 1e9:.1f}"]
        cells += [f"{row[rate]['median'] / 1e9:.1f}" for rate in ("flops_per_s", "matmul_per_s")]
        cells += [f"{100 * row['matmul_share']['median']:.0f}%", f"{row['faster']['median']:.2f}"]
        table.add_row(*cells, f"{row.get('temp_bytes', math.nan) / 2**20:,.0f}")
    Console(width=140).print(table)
    if args.out:
        told = {"command": timing.command(), "machine": machine, "quick": args.quick}
        timing.save(args.out, told | {"sizes": {**sizes, "repeats": args.repeats}, "rows": rows})
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
