"""What grows with devices, what grows with what was written, and what would limit a pod.

    python benchmarks/bench_scaling.py           # about 15 minutes on two quiet cores
    python benchmarks/bench_scaling.py --quick   # tiny sizes: does it run?

- weak    a training step on 1, 2, 4, 8 CPU devices of one thread each, with as many rows on each device. Devices share
          the cores that there are: the ideal time is that of one device, times devices / cores once there are more of
          them. Meshes take turns, and ratios are taken turn by turn.
- flat    the time of a batch of answers by states that have read 1,000, 100,000 and 10 million items, in turns; and the
          bytes of a state
- pod     a step compiled for 256 devices, 16 x 16: what each of them has to multiply, move and send, counted in the
          traced and in the compiled program. From these, and the data sheet of a v5e: the least time that each can take

"""

import argparse
import dataclasses
import json
import math
import os
import re
import runpy
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import timing
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from rich.console import Console
from rich.table import Table

from memjax import memories, streaming
from memjax.config import from_mapping
from memjax.models import AskedMemory
from memjax.tasks import TaskShape
from memjax.training import experiment
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
LAUNCH_S = 1e-6  # an assumption: the least time of a product, however small; a chip makes them one after another


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
    pods: tuple[tuple[str, int, int], ...] = (("paper", 128, 8), ("paper", 1024, 64))  # variant, width, rows a device
    pod: tuple[int, int] = (16, 16)  # data, fsdp


ONE_LAYER = (("memory__layers", 1), ("rehearsal__layers", 1), ("model__width", 8), ("model__hops", 1))
QUICK = Sizes("demo", ONE_LAYER, (1, 2), 1, (20, 40, 200), 20, 3, 8, (("demo", 8, 1),), (2, 2))
SEGMENT = 10


def made(variant: str, **changes: Any) -> Experiment:
    """The evidence task and a rehearsal memory. `changes` are named like `model__width`."""
    config = runpy.run_path(str(ROOT / "configs" / "evidence.py"))["get_config"](variant).to_dict()
    for name, value in changes.items():
        section, key = name.split("__")
        config[section][key] = value
    return experiment.prepare(from_mapping(config))


def mesh_of(**sizes: int) -> Mesh:
    """The first devices along these axes."""
    shape = [sizes.get(axis, 1) for axis in AXES]
    return Mesh(np.array(jax.devices()[: math.prod(shape)]).reshape(shape), AXES, axis_types=(AxisType.Auto,) * 4)


def step_of(made: Experiment, mesh: Mesh, rows: int):
    """The last phase's step for a batch of so many rows."""
    optimizer = make_optimizer(made.config.optimizer, made.phases[-1].steps)
    return make_step(made.phases[-1].loss, optimizer, mesh, rows, 1, 0)


def weak(sizes: Sizes, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each mesh: bytes on a device, time of a step, and how far it is from the ideal."""
    here = made(sizes.variant, **dict(sizes.changes))
    meshes = {f"{axis}={count}": {axis: count} for axis in ("data", "fsdp") for count in sizes.devices}
    del meshes["fsdp=1"]
    calls, held = {}, {}
    for name, shape in meshes.items():
        print(f"a step on {name}", file=sys.stderr, flush=True)
        mesh, rows = mesh_of(**shape), sizes.rows * math.prod(shape.values())
        frozen, state = (jax.jit(partial(initial_state, here, phase))() for phase in (here.phases[0], here.phases[-1]))
        frozen, state = (jax.device_put(tree, placed(mesh, tree)) for tree in (frozen.params, state))
        batch = place_batch(mesh, next(train_batches(here.task, rows, args.seed)), rows)
        step = step_of(here, mesh, rows).lower(state, frozen, batch).compile()
        held[name] = sum(bytes_per_device(leaf) for leaf in jax.tree.leaves(state))
        calls[name] = partial(keep_stepping, step, [state], frozen, batch)
    times, cores = timing.take_turns(calls, args.repeats, calls=1), timing.cores()
    ideal = {name: max(1.0, math.prod(shape.values()) / cores) for name, shape in meshes.items()}
    return [
        {
            "mesh": name,
            "devices": math.prod(meshes[name].values()),
            "rows": sizes.rows * math.prod(meshes[name].values()),
            "state_bytes_per_device": held[name],
            "seconds": timing.spread(times[name]),
            "ideal": ideal[name],
            "time/ideal": timing.spread(
                [a / b / ideal[name] for a, b in zip(times[name], times["data=1"], strict=True)]
            ),
        }
        for name in meshes
    ]


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
        model = AskedMemory(shape, memory, sizes.width, hops=2, head_layers=0, rehearser_layers=1, rehearser_heads=2)
        rng, mask = np.random.default_rng(args.seed), jnp.ones((1, segments, SEGMENT), bool)

        def stream(count: int, rng=rng) -> jax.Array:
            return jnp.asarray(rng.integers(0, 500, (1, count // SEGMENT, SEGMENT)), jnp.int32)

        def everything(model, stream, mask, query):
            return model.answer(model.memorize(stream, mask)[0], query)

        first = stream(SEGMENT * 2)[0]
        params = model.init(jax.random.key(args.seed), first, mask[0, :2], jnp.array(0), method=everything)
        write = jax.jit(partial(streaming.write, model, params), donate_argnums=0)
        answer = jax.jit(partial(streaming.answer, model, params))
        row, queries = jnp.zeros(1, jnp.int32), jnp.asarray(rng.integers(0, 50, 64), jnp.int32)
        states, count, calls, facts = streaming.start(model, params, 1), 0, {}, {}
        start = time.perf_counter()
        for goal in sizes.written:
            while count < goal:
                more_items = min(sizes.at_once, goal - count)
                states = write(states, row, stream(more_items), mask[:, : more_items // SEGMENT])
                count += more_items
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


def products(jaxpr: Any) -> dict[str, float]:
    """Flops, bytes in and out, and number of all matrix products that a traced program makes; loops count in full."""
    total = dict.fromkeys(("flops", "bytes", "count"), 0.0)
    for equation in jaxpr.eqns:
        inner = [j for value in equation.params.values() for j in (value if isinstance(value, tuple) else (value,))]
        inner = [getattr(j, "jaxpr", j) for j in inner]
        inner = [products(j) for j in inner if hasattr(j, "eqns")]
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        for found in inner:
            total = {key: total[key] + times * found[key] for key in total}
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left, out = equation.invars[0].aval, equation.outvars[0].aval
            shapes = [*(var.aval for var in equation.invars), out]
            total["flops"] += 2 * out.size * math.prod(left.shape[axis] for axis in contracted)
            total["bytes"] += sum(shape.size * shape.dtype.itemsize for shape in shapes)
            total["count"] += 1
    return total


def messages(text: str) -> dict[str, dict[str, float]]:
    """For each kind of message of a compiled step: how many there are, and the bytes that a device sends by a ring."""
    pattern = r"= (\(.*?\)|\S+) (all-reduce|all-gather|reduce-scatter|collective-permute)(?:-start)?\((.*)"
    width = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2, "pred": 1, "s64": 8}
    found: dict[str, dict[str, float]] = {}
    for out, kind, rest in re.findall(pattern, text):
        size = sum(
            width[kind_of] * math.prod(map(int, filter(None, dims.split(","))))
            for kind_of, dims in re.findall(r"(\w+)\[([\d,]*)\]", out)
        )
        groups = re.search(r"replica_groups=(?:\[\d+,(\d+)\]|\{\{([\d,]*)\})", rest)
        ring = int(groups[1] or len(groups[2].split(","))) if groups else 2
        share = {"all-reduce": 2 * (ring - 1) / ring, "all-gather": (ring - 1) / ring, "reduce-scatter": ring - 1}
        one = found.setdefault(kind, {"count": 0, "bytes": 0.0})
        one["count"], one["bytes"] = one["count"] + 1, one["bytes"] + size * share.get(kind, 1)
    return found


def pod(sizes: Sizes, variant: str, width: int, rows: int, seed: int) -> dict[str, Any]:
    """What a step on the pod does on each device, and the least time that it takes there."""
    data, fsdp = sizes.pod
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
    sent = messages(traced.lower().compile(compiler_options=quick).as_text())
    work, leaves = products(traced.jaxpr), jax.tree.leaves(state.params)
    least = {
        "products, one after another": work["count"] * LAUNCH_S,
        "flops": work["flops"] / V5E["flops"],
        "bytes of the products": work["bytes"] / V5E["memory"],
        "messages": sum(kind["bytes"] for kind in sent.values()) / V5E["ring"],
        "data, by a core of a host for each chip": seconds_of_data * rows,
    }
    return {
        "variant": variant, "width": width, "rows_per_device": rows, "data": data, "fsdp": fsdp,
        "parameter_bytes": sum(leaf.size * leaf.dtype.itemsize for leaf in leaves),
        "products": work, "messages": sent, "seconds_of_data_per_row": seconds_of_data, "least_seconds": least,
    }  # fmt: skip


def show(found: dict[str, Any], console: Console) -> None:
    """Three tables."""
    table = Table("mesh", "devices", "rows", "state bytes/device", "ms", "time / ideal (quartiles)", title="weak")
    for row in found["weak"]:
        ratio, seconds = row["time/ideal"], row["seconds"]["median"]
        spread = f"{ratio['median']:.2f} ({ratio['q1']:.2f}-{ratio['q3']:.2f})"
        held = f"{row['state_bytes_per_device']:,}"
        table.add_row(row["mesh"], str(row["devices"]), str(row["rows"]), held, f"{1e3 * seconds:.0f}", spread)
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
    table = Table(
        "least ms on a v5e", *(f"width {row['width']}, {row['rows_per_device']} rows" for row in found["pod"])
    )
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
    jax.config.update("jax_num_cpu_devices", math.prod(sizes.pod) if args.pod else 8)
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    if args.pod:
        print(json.dumps([pod(sizes, *one, args.seed) for one in sizes.pods]))
        return
    machine = timing.machine()
    found: dict[str, Any] = {"weak": weak(sizes, args), "flat": flat(sizes, args)}
    # A process of its own, for it has other devices.
    child = [sys.executable, __file__, "--pod", f"--seed={args.seed}", *["--quick"] * args.quick]
    found["pod"] = json.loads(subprocess.run(child, check=True, stdout=subprocess.PIPE).stdout)
    show(found, Console(width=120))
    if out:
        facts = {"command": timing.command(), "machine": machine, "sizes": dataclasses.asdict(sizes)}
        timing.save(out, facts | {"quick": args.quick, "v5e": V5E, "launch_s": LAUNCH_S, **found})
        print(f"wrote {out}")


if __name__ == "__main__":
    main()
