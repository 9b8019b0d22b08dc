"""Is a stream of surprise memory read faster when it is split between devices? On CPU devices.

    python benchmarks/bench_surprise_shards.py           # dk x dv of 16 x 16, 64 x 64 and 32 x 512; 8,192 tokens
    python benchmarks/bench_surprise_shards.py --quick   # tiny sizes: does it run?

A shard carries 2 dk columns beside its dv, so a device has less to do than one that reads the whole stream only where
shards are many. From how many on, by count and by time:

- flops       of a device, from XLA's cost analysis. It counts the body of a loop once, so they are those of one chunk,
              times the chunks of a shard; the walk over all maps is counted by hand
- share       time of one shard alone, on a mesh of one device: what a device with a core of its own would take, but for
              the exchange of the maps and the walk over the others'
- here        time of all shards at once on this machine; with fewer cores than devices they wait for each other

Each device has one thread (`--xla_cpu_multi_thread_eigen=false`), contenders take turns, ratios are taken turn by turn.
Sharded or not, the results must be the same first.
"""

import argparse
import dataclasses
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import timing
from rich.console import Console
from rich.table import Table

from memjax import ops

ROOT = Path(__file__).parents[1]
TOLERANCE = 1e-4
DEVICES = 8
JOBS = ("forward", "gradient")


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of one benchmark run."""

    widths: tuple[tuple[int, int], ...] = ((16, 16), (64, 64), (32, 512))  # dk, dv
    length: int = 8192
    shards: tuple[int, ...] = (2, 4, 8)
    chunk: int = 64


QUICK = Sizes(widths=((4, 8),), length=64, shards=(2, 8), chunk=4)


def tokens(width: tuple[int, int], length: int, seed: int) -> tuple[jax.Array, ...]:
    """Unit keys and queries, and gates near 1: a memory that stays of one size."""
    rng, (dk, dv) = np.random.default_rng(seed), width
    q, k = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.normal(size=(2, length, dk)))
    keep, momentum = np.log(rng.uniform(0.9, 1, length)), np.log(rng.uniform(0.3, 0.9, length))
    return tuple(
        jnp.asarray(x, jnp.float32)
        for x in (q, k, rng.normal(size=(length, dv)), keep, momentum, rng.uniform(0, 0.5, length))
    )


def mesh_of(shards: int) -> jax.sharding.Mesh:
    """So many devices on one axis."""
    return jax.make_mesh((shards,), ("seq",), axis_types=(jax.sharding.AxisType.Auto,))


def contender(chunk: int, job: str, shards: int | None):
    """A function of the tokens and the state before them; shards: None for the plain op."""
    read = partial(ops.surprise_linear, chunk_size=chunk)
    if shards:
        split, whole = jax.P("seq"), jax.P()
        sharded = partial(ops.surprise_linear_sharded, chunk_size=chunk, axis_name="seq")
        specs = (*[split] * 6, whole)
        read = jax.shard_map(sharded, mesh=mesh_of(shards), in_specs=specs, out_specs=(split, whole))
    if job == "forward":
        return read

    def loss(*arguments):
        out, state = read(*arguments)
        return (out**2).sum() + (state.memory**2).sum()

    return jax.grad(loss, argnums=tuple(range(7)))


def ready(sizes: Sizes, job: str, width: tuple[int, int], length: int, shards: int | None, seed: int):
    """A compiled call, its arguments where they belong, and the flops that XLA counts on a device."""
    arrays, state = tokens(width, length, seed), ops.SurpriseState(*2 * [jnp.full(width, 0.1)])
    if shards:
        mesh = mesh_of(shards)
        arrays = jax.device_put(arrays, jax.NamedSharding(mesh, jax.P("seq")))
        state = jax.device_put(state, jax.NamedSharding(mesh, jax.P()))
    run = jax.jit(contender(sizes.chunk, job, shards)).lower(*arrays, state).compile()
    return partial(run, *arrays, state), run.cost_analysis()["flops"]


def difference(found: Any, wanted: Any) -> float:
    """The largest, in parts of the largest number of its array."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(np.asarray(b)).max()) for a, b in pairs)


def measure(sizes: Sizes, job: str, width: tuple[int, int], args: argparse.Namespace) -> dict[str, Any]:
    """One table's row of numbers for each count of shards, and the plain op's."""
    print(f"{job}, dk x dv = {width[0]} x {width[1]}", file=sys.stderr, flush=True)

    calls = {"unsharded": ready(sizes, job, width, sizes.length, None, args.seed)[0]}
    for shards in sizes.shards:
        calls[f"here {shards}"] = ready(sizes, job, width, sizes.length, shards, args.seed)[0]
        calls[f"share {shards}"] = ready(sizes, job, width, sizes.length // shards, 1, args.seed)[0]
    wanted = calls["unsharded"]()
    differences = [difference(calls[f"here {shards}"](), wanted) for shards in sizes.shards]
    if not max(differences) < TOLERANCE:
        raise SystemExit(f"not the same result: it differs by {max(differences):.2e}")
    times = timing.take_turns(calls, args.repeats)
    chunks, (dk, dv) = sizes.length // sizes.chunk, width
    plain, sharded = (ready(sizes, job, width, sizes.chunk, shards, args.seed)[1] for shards in (None, 1))
    # On one device the walk has one step and the final state is another; the gradient of a product is two products.
    step = 2 * (2 * dk) ** 2 * dv * (1 if job == "forward" else 3)
    flops = {shards: (sharded - 2 * step) * chunks / shards + (shards + 1) * step for shards in sizes.shards}
    rows = [
        {
            "shards": shards,
            "flops_per_device": flops[shards],
            "unsharded/flops": plain * chunks / flops[shards],
            "here": timing.spread(times[f"here {shards}"]),
            "share": timing.spread(times[f"share {shards}"]),
            "unsharded/here": timing.ratio(times["unsharded"], times[f"here {shards}"]),
            "unsharded/share": timing.ratio(times["unsharded"], times[f"share {shards}"]),
        }
        for shards in sizes.shards
    ]
    unsharded = {"flops": plain * chunks, **timing.spread(times["unsharded"])}
    return {"job": job, "dk": dk, "dv": dv, "unsharded": unsharded, "rows": rows, "difference": differences}


def main() -> None:
    """Runs everything, prints the table, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes; no number means anything")
    parser.add_argument("--repeats", type=int, default=9, help="timed turns of each contender")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the JSON goes; default: results/, but nowhere with --quick")
    args = parser.parse_args()
    out = args.out or (None if args.quick else ROOT / "results" / "bench_surprise_shards.json")
    # Both are read when the first device is asked for: not yet.
    jax.config.update("jax_num_cpu_devices", DEVICES)
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    sizes, machine = QUICK if args.quick else Sizes(), timing.machine()
    found = [measure(sizes, job, width, args) for width in sizes.widths for job in JOBS]

    def shown(ratio):
        return f"{ratio['median']:.2f} ({ratio['q1']:.2f}-{ratio['q3']:.2f})"

    table = Table("dk x dv", "job", "shards", "flops", "time of a share", "time here", title="unsharded / sharded, by")
    for one in found:
        for row in one["rows"]:
            ratios = shown(row["unsharded/share"]), shown(row["unsharded/here"])
            widths = f"{one['dk']} x {one['dv']}"
            table.add_row(widths, one["job"], str(row["shards"]), f"{row['unsharded/flops']:.2f}", *ratios)
    Console(width=120).print(table)
    print(f"{DEVICES} devices on {machine['cores']} cores")
    if out:
        facts = {"command": timing.command(), "machine": machine, "sizes": dataclasses.asdict(sizes)}
        timing.save(out, facts | {"quick": args.quick, "devices": DEVICES, "results": found})
        print(f"wrote {out}")


if __name__ == "__main__":
    main()
