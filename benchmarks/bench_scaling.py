"""What grows with devices, what grows with what was written, and what would limit a pod.

    python benchmarks/bench_scaling.py           # about 15 minutes on two quiet cores
    python benchmarks/bench_scaling.py --quick   # tiny sizes: does it run?

- weak    a training step on 1, 2, 4, 8 CPU devices of one thread each, with as many rows on each device. Devices share
          the cores that there are: the ideal time is that of one device, times devices / cores once there are more of
          them. Meshes take turns, and ratios are taken turn by turn.
- flat    the time of a batch of answers by states that have read 1,000, 100,000 and 10 million items, in turns; and the
          bytes of a state
- pod     a step compiled for 256 devices: what each of them has to multiply, move and send, counted in the traced and
          in the compiled program. From these, and the data sheet of a v5e: the least time that each of these takes
"""

import argparse
import dataclasses
import json
import math
import os
import runpy
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import counting
import jax
import jax.numpy as jnp
import numpy as np
import timing
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from rich.console import Console
from rich.table import Table

from memjax import memories, streaming
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.models import MemoryModel
from memjax.tasks import TaskShape
from memjax.training.data import train_batches
from memjax.training.phase import Experiment, initial_state
from memjax.training.placement import bytes_per_device
from memjax.training.sharding import ROWS, place_batch, placed
from memjax.training.step import make_optimizer, make_step

ROOT = Path(__file__).parents[1]
AXES = ("data", "fsdp", "sequence", "model")
LIMIT = 1.05  # the time of an answer after 10 million items over that after 1,000
# Google's data sheet of a v5e: 197 TFLOP/s (bfloat16), 819 GB/s, 400 GB/s of links, both ways, by four ports; a ring
# along one axis of the torus sends by two of them.
V5E = {"flops": 197e12, "memory": 819e9, "ring": 100e9}
# Assumptions: a chip makes products one after another, none in less than this; a message takes as much for each hop.
LAUNCH_S = HOP_S = 1e-6


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of one benchmark run."""

    variant: str = "small"
    changes: tuple[tuple[str, int], ...] = ()  # to the config of it
    devices: tuple[int, ...] = (1, 2, 4, 8)
    rows: int = 8  # of a batch, on each device
    written: tuple[int, ...] = (1_000, 100_000, 10_000_000)
    at_once: int = 10_000  # items of a call
    slots: int = 20
    width: int = 64
    # On a pod: variant, width, rows on each device, data, fsdp.
    pods: tuple[tuple[str, int, int, int, int], ...] = (
        ("paper", 128, 8, 256, 1),
        ("paper", 128, 8, 16, 16),
        ("paper", 1024, 64, 16, 16),
    )


ONE_LAYER = (("memory__layers", 1), ("rehearsal__layers", 1), ("model__width", 8), ("model__hops", 1))
QUICK = Sizes("demo", ONE_LAYER, (1, 2), 1, (20, 40, 200), 20, 3, 8, (("demo", 8, 1, 2, 2),))
SEGMENT = 10


def made(variant: str, **changes: Any) -> Experiment:
    """The evidence task and a rehearsal memory. `changes` are named like `model__width`."""
    config = runpy.run_path(str(ROOT / "configs" / "evidence.py"))["get_config"](variant).to_dict()
    for name, value in changes.items():
        section, key = name.split("__")
        config.setdefault(section, {})[key] = value
    return prepare(from_mapping(config))


def mesh_of(**sizes: int) -> Mesh:
    """The first devices along these axes."""
    shape = [sizes.get(axis, 1) for axis in AXES]
    return Mesh(np.array(jax.devices()[: math.prod(shape)]).reshape(shape), AXES, axis_types=(AxisType.Auto,) * 4)


def step_of(made: Experiment, mesh: Mesh, rows: int):
    """The last phase's step for a batch of so many rows."""
    optimizer = make_optimizer(made.config.optimizer, made.phases[-1].steps)
    return make_step(made.phases[-1].loss, optimizer, mesh, rows, 1, 0, made.recipe.layout.extend)


def weak(sizes: Sizes, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each mesh: bytes on a device, time of a step, and how far it is from the ideal."""
    here = made(sizes.variant, **dict(sizes.changes))
    meshes = {f"{axis}={count}": {axis: count} for axis in ("data", "fsdp") for count in sizes.devices}
    del meshes["fsdp=1"]
    calls, held = {}, {}
    first, last = (jax.jit(partial(initial_state, here, phase))() for phase in (here.phases[0], here.phases[-1]))
    for name, shape in meshes.items():
        print(f"a step on {name}", file=sys.stderr, flush=True)
        mesh, rows = mesh_of(**shape), sizes.rows * math.prod(shape.values())
        start = jax.tree.map(jnp.copy, (first.params, last))  # a step uses the memory of its state again
        frozen, state = (jax.device_put(tree, placed(mesh, tree)) for tree in start)
        layout = here.recipe.layout
        batch = next(train_batches(here.task, layout, rows, args.seed))
        batch = place_batch(mesh, batch, rows, layout.segmented)
        step = step_of(here, mesh, rows).lower(state, frozen, batch).compile()
        held[name] = sum(bytes_per_device(leaf) for leaf in jax.tree.leaves(state))
        calls[name] = partial(keep_stepping, step, [state], frozen, batch)
    times, cores = timing.take_turns(calls, args.repeats, calls=1), timing.cores()
    used = {name: cores_used(call) for name, call in calls.items()}
    ideal = {name: max(1.0, math.prod(shape.values()) / cores) for name, shape in meshes.items()}
    return [
        {
            "mesh": name,
            "devices": math.prod(meshes[name].values()),
            "rows": sizes.rows * math.prod(meshes[name].values()),
            "state_bytes_per_device": held[name],
            "seconds": timing.spread(times[name]),
            "cores": used[name],
            "ideal": ideal[name],
            "time/ideal": timing.ratio(times[name], [ideal[name] * seconds for seconds in times["data=1"]]),
        }
        for name in meshes
    ]


def cores_used(call: Any, steps: int = 5) -> float:
    """Seconds of processor in a second: XLA may use other cores than a device's own for parts of a step."""
    began, processor = time.perf_counter(), time.process_time()
    for _ in range(steps):
        jax.block_until_ready(call())
    return (time.process_time() - processor) / (time.perf_counter() - began)


def keep_stepping(step, kept: list, frozen: Any, batch: Any) -> Any:
    """The next step from the last state: a step takes the state before it away."""
    kept[0], metrics = step(kept[0], frozen, batch)
    return metrics


def flat(sizes: Sizes, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each memory: times of answers and bytes, by how much was written."""
    own = {
        "rehearsal": {"segment": SEGMENT, "layers": 1, "heads": 2},
        "surprise": {"segment": SEGMENT, "layers": 1, "heads": 2},
        "ntm": {"memory_width": 16, "read_heads": 1, "hidden": 32},
    }
    rows = []
    for name, more in own.items():
        print(f"answers of {name}", file=sys.stderr, flush=True)
        memory = memories.create(name, slots=sizes.slots, width=sizes.width, **more)
        segments = sizes.at_once // SEGMENT
        shape = TaskShape(500, segments, SEGMENT, 50, None, "classes", 10)
        model = MemoryModel(shape, memory, sizes.width, hops=2, head_layers=0, rehearser_layers=1, rehearser_heads=2)
        rng, mask = np.random.default_rng(args.seed), jnp.ones((1, segments, SEGMENT), bool)

        def stream(count: int, rng=rng) -> jax.Array:
            return jnp.asarray(rng.integers(0, 500, (1, count // SEGMENT, SEGMENT)), jnp.int32)

        def everything(model, stream, mask, query):
            return model.answer(model.memorize(stream, mask)[0], query)

        first = stream(SEGMENT * 2)[0]
        init = jax.jit(partial(model.init, method=everything))
        params = init(jax.random.key(args.seed), first, mask[0, :2], jnp.array(0))
        write = jax.jit(partial(streaming.write, model, params), donate_argnums=0)
        answer = jax.jit(partial(streaming.answer, model, params))
        row, queries = jnp.zeros(1, jnp.int32), jnp.asarray(rng.integers(0, 50, 64), jnp.int32)
        states, count, calls, facts = streaming.start(model, params, 1), 0, {}, {}
        start = time.perf_counter()
        for goal in sizes.written:
            while count < goal:
                new = min(sizes.at_once, goal - count)
                states = write(states, row, stream(new), mask[:, : new // SEGMENT])
                count += new
            kept = jax.tree.map(jnp.copy, states)
            calls[str(goal)] = partial(answer, kept, jnp.zeros(64, jnp.int32), queries)
            facts[str(goal)] = {"state_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(kept))}
        seconds = time.perf_counter() - start
        answers = [np.asarray(call()) for call in calls.values()]
        finite = all(np.isfinite(found).all() for found in answers)
        if not finite or any(np.array_equal(answers[0], other) for other in answers[1:]):
            raise SystemExit(f"{name}: answers are not finite, or nothing was written")
        times = timing.take_turns(calls, args.repeats, calls=50)
        for goal, values in times.items():
            facts[goal] |= {
                "seconds": timing.spread(values),
                "time/first": timing.ratio(values, times[str(sizes.written[0])]),
            }
        rows.append({"memory": name, "seconds_of_writing": seconds, "questions": 64, "written": facts})
    return rows


def pod(sizes: Sizes, variant: str, width: int, rows: int, data: int, fsdp: int) -> dict[str, Any]:
    """What a step on the pod does on each device, and the least time that it takes there."""
    print(f"a pod, width {width}, data={data}, fsdp={fsdp}", file=sys.stderr, flush=True)
    rows_of_all = data * fsdp * rows
    changes = {"model__width": width, "training__batch_size": rows_of_all, "mesh__data": data, "mesh__fsdp": fsdp}
    here = made(variant, **dict(sizes.changes) | changes)
    start = time.perf_counter()
    here.task.examples("train", np.arange(rows_of_all) % here.task.size("train"))
    seconds_of_data = (time.perf_counter() - start) / rows_of_all
    one = here.task.examples("train", np.arange(1))
    by_rows = NamedSharding(here.mesh, PartitionSpec(ROWS))

    def lying(tree: Any) -> Any:
        place = partial(jax.tree.map, lambda leaf, at: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=at))
        return place(tree, placed(here.mesh, tree))

    frozen, state = (jax.eval_shape(partial(initial_state, here, phase)) for phase in (here.phases[0], here.phases[-1]))
    batch = {
        name: jax.ShapeDtypeStruct((rows_of_all, *x.shape[1:]), jnp.asarray(x).dtype, sharding=by_rows)
        for name, x in one.items()
    }
    traced = step_of(here, here.mesh, rows_of_all).trace(lying(state), lying(frozen.params), batch)
    quick = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # it is not run
    sent = counting.messages(traced.lower().compile(compiler_options=quick).as_text(), math.isqrt(data * fsdp))
    work, leaves = counting.products(traced.jaxpr), jax.tree.leaves(state.params)
    least = {
        "products, one after another": work["count"] * LAUNCH_S,
        "flops": work["flops"] / V5E["flops"],
        "bytes of the products": work["bytes"] / V5E["memory"],
        "bytes of the messages": sum(kind["bytes"] for kind in sent.values()) / V5E["ring"],
        "hops of the messages": sum(kind["hops"] for kind in sent.values()) * HOP_S,
        "data, by a core of a host for each chip": seconds_of_data * rows,
    }
    return {
        "variant": variant, "width": width, "rows_per_device": rows, "data": data, "fsdp": fsdp,
        "parameter_bytes": sum(leaf.size * leaf.dtype.itemsize for leaf in leaves),
        "products": work, "messages": sent, "seconds_of_data_per_row": seconds_of_data, "least_seconds": least,
    }  # fmt: skip


def show(found: dict[str, Any], console: Console) -> None:
    """Three tables."""
    table = Table("mesh", "rows", "state bytes/device", "ms", "cores", "time / ideal (quartiles)", title="weak")
    for row in found["weak"]:
        ratio, seconds = row["time/ideal"], row["seconds"]["median"]
        spread = f"{ratio['median']:.2f} ({ratio['q1']:.2f}-{ratio['q3']:.2f})"
        cells = str(row["rows"]), f"{row['state_bytes_per_device']:,}", f"{1e3 * seconds:.0f}", f"{row['cores']:.1f}"
        table.add_row(row["mesh"], *cells, spread)
    console.print(table)
    table = Table("memory", "items written", "bytes of the state", "us", "time / first (quartiles)", title="flat")
    for row in found["flat"]:
        for goal, facts in row["written"].items():
            ratio = facts["time/first"]
            spread = f"{ratio['median']:.3f} ({ratio['q1']:.3f}-{ratio['q3']:.3f})"
            spread += "" if ratio["median"] < LIMIT else " [bold red]NOT FLAT[/]"
            seconds = facts["seconds"]["median"]
            table.add_row(row["memory"], f"{int(goal):,}", f"{facts['state_bytes']:,}", f"{1e6 * seconds:.0f}", spread)
    console.print(table)
    names = (f"width {row['width']}, {row['data']} x {row['fsdp']}" for row in found["pod"])
    table = Table("least ms on a v5e", *names)
    for name in found["pod"][0]["least_seconds"]:
        table.add_row(name, *(f"{1e3 * row['least_seconds'][name]:.3f}" for row in found["pod"]))
    console.print(table)


def main() -> None:
    """Runs everything, prints the tables, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes; no number means anything")
    parser.add_argument("--repeats", type=int, default=15, help="timed turns of each contender")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the JSON goes; default: results/, but nowhere with --quick")
    parser.add_argument("--pod", action="store_true", help="only count what a pod does, and print JSON")
    args = parser.parse_args()
    out = args.out or (None if args.quick else ROOT / "results" / "bench_scaling.json")
    sizes = QUICK if args.quick else Sizes()
    # Both are read when the first device is asked for: not yet.
    jax.config.update("jax_num_cpu_devices", math.prod(sizes.pods[0][-2:]) if args.pod else 8)
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    if args.pod:
        print(json.dumps([pod(sizes, *one) for one in sizes.pods]))
        return
    machine = timing.machine()
    found: dict[str, Any] = {"weak": weak(sizes, args), "flat": flat(sizes, args)}
    # A process of its own, for it has other devices.
    child = [sys.executable, __file__, "--pod", *["--quick"] * args.quick]
    found["pod"] = json.loads(subprocess.run(child, check=True, stdout=subprocess.PIPE).stdout)
    show(found, Console(width=120))
    if out:
        facts = {"command": timing.command(), "machine": machine, "sizes": dataclasses.asdict(sizes)}
        timing.save(out, facts | {"quick": args.quick, "v5e": V5E, "launch_s": LAUNCH_S, "hop_s": HOP_S, **found})
        print(f"wrote {out}")


if __name__ == "__main__":
    main()
