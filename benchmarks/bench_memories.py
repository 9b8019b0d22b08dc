"""What does a token cost in each memory? Time and bytes, for all of the registry; and the DNC against PyPI's `dnc`.

    python benchmarks/bench_memories.py              # B=16, T=20, N=10, K=20, d=64; DNC: B=16, L=50, three sizes
    python benchmarks/bench_memories.py --quick      # tiny sizes: does it run?

Every memory reads the same streams at the sizes that configs/evidence.py gives it for a CPU: forward, and the gradient
of a mean square of its slots in all its weights. Turns are interleaved. bytes: of the state, which no stream changes;
and what XLA needs for the gradient beside its arguments, over the tokens of a stream.

The DNC of PyPI has the same sizes, and a pass over a sequence of vectors with its gradient. Before timing, one access
to the memory from the same state must give the same: there the two define the same thing, but for what each does to the
numbers of its interface. (Its controller is not told what was read before, which spares it a product.) PyTorch has its
threads on all cores; ours is timed as it is, and sharded, as training shards it: a device for each core, each with its
part of the sequences, the gradients' mean over the devices.
"""

import argparse
import dataclasses
import math
import runpy
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import timing
from dnc_access import DNCSizes, our_access, random_access
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from rich.console import Console
from rich.table import Table

from memjax import functional, memories
from memjax.memories import memorize
from memjax.models import DNCCell

try:
    import torch_dnc
except ImportError:
    torch_dnc = None

ROOT = Path(__file__).parents[1]
TOLERANCE = 1e-4
TARGET = 5.0  # PyPI's dnc over ours


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of one benchmark run."""

    batch: int = 16
    segments: int = 20
    segment: int = 10
    slots: int = 20
    width: int = 64
    length: int = 50  # of the DNC's sequences, and their width
    inputs: int = 64
    changes: tuple[tuple[str, int], ...] = ()  # to what the config gives a memory that has such a setting


QUICK = Sizes(2, 3, 2, 4, 8, length=4, inputs=5, changes=(("layers", 1), ("heads", 2)))
QUICK_DNC = {"tiny": DNCSizes(6, 4, 2, 7)}
DNC = {
    "evidence": DNCSizes(20, 32, 4, 64),  # configs/evidence.py, as many rows as slots
    "algorithmic": DNCSizes(128, 20, 1, 100),  # configs/algorithmic.py
    "bAbI": DNCSizes(256, 64, 4, 256),  # of the DNC's paper
}


def own_sizes(name: str, sizes: Sizes) -> dict[str, Any]:
    """What configs/evidence.py gives a memory on a CPU, as it is printed, and the sizes of this benchmark."""
    config = runpy.run_path(str(ROOT / "configs" / "evidence.py"))["get_config"](f"small,memory={name},printed=1")
    settings = {key: value for key, value in config.memory.items() if key not in ("name", "slots")}
    fields = {field.name for field in dataclasses.fields(memories.registry[name])}
    shared = {"width": sizes.width, "segment": sizes.segment, **dict(sizes.changes)}
    return settings | {key: value for key, value in shared.items() if key in fields}


def jobs(name: str, sizes: Sizes, seed: int) -> tuple[dict[str, Callable], dict[str, Any]]:
    """The two jobs of a memory, compiled, and its facts."""
    memory = memories.create(name, slots=sizes.slots, **own_sizes(name, sizes))
    shape = (sizes.batch, sizes.segments, sizes.segment, sizes.width)
    items = jnp.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32))
    params = jax.jit(partial(memory.init, method=memorize))(jax.random.key(seed), items[0, :1])

    def slots(params, items):
        state, aux_loss = memory.apply(params, items, method=memorize)
        return memory.apply(params, state, method="slots").values, aux_loss

    def loss(params, items):
        values, aux_losses = jax.vmap(slots, (None, 0))(params, items)
        return (values**2).mean() + aux_losses.mean()

    forward, _ = timing.compiled(jax.vmap(slots, (None, 0)), params, items)
    gradient, facts = timing.compiled(jax.grad(loss), params, items)
    state = jax.eval_shape(lambda: functional(memory).initial_state(params))
    facts |= {
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
        "state_bytes": sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)),
    }
    return {"forward": partial(forward, params, items), "gradient": partial(gradient, params, items)}, facts


def measure(sizes: Sizes, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each memory and job."""
    made = {}
    for name in memories.registry:
        print(f"compiling {name}", file=sys.stderr, flush=True)
        made[name] = jobs(name, sizes, args.seed)
    rows, tokens = [], sizes.batch * sizes.segments * sizes.segment
    for job in ("forward", "gradient"):
        times = timing.take_turns({name: calls[job] for name, (calls, _) in made.items()}, args.repeats)
        for name, values in times.items():
            facts = dict(made[name][1])
            temp = facts.pop("temp_bytes", None)
            if job == "gradient" and temp is not None:
                facts["gradient_bytes_per_token"] = temp / tokens
            spread = timing.spread(values)
            rows.append(
                {"memory": name, "job": job, "us_per_token": 1e6 * spread["median"] / tokens, **spread, **facts}
            )
    return rows


def check(sizes: DNCSizes, seed: int) -> dict[str, float]:
    """Largest differences from PyPI's dnc after one access, from a random state."""
    flat, start = random_access(sizes, seed)
    theirs = torch_dnc.access(sizes.rows, sizes.memory_width, sizes.heads, flat, start)
    ours = our_access(sizes, flat, start)
    found = {name: float(np.abs(ours[name] - other).max()) for name, other in theirs.items()}
    for name, difference in found.items():
        if not difference < TOLERANCE:
            raise SystemExit(f"not the same function: {name} of the DNC differs by {difference:.2e}")
    return found


def race(sizes: Sizes, dnc: DNCSizes, args: argparse.Namespace) -> dict[str, Any]:
    """Forward and backward over a sequence: the times of the two, and the ratio of theirs over ours."""
    x = np.random.default_rng(args.seed).standard_normal((sizes.batch, sizes.length, sizes.inputs), np.float32)
    model = nn.RNN(DNCCell(sizes.inputs, *dataclasses.astuple(dnc)))
    params = jax.jit(model.init)(jax.random.key(args.seed), x)
    slope = jax.value_and_grad(lambda params, x: jnp.square(model.apply(params, x)).mean(), argnums=(0, 1))
    mesh = jax.make_mesh((math.gcd(sizes.batch, jax.device_count()),), ("data",))
    contenders: dict[str, Callable] = {}
    facts = {}
    given = (params, jnp.asarray(x))
    shared_out = jax.device_put(given, (NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))))
    for name, job, put in (("memjax", slope, given), ("memjax, sharded", over_devices(slope, mesh), shared_out)):
        run, facts[name] = timing.compiled(job, *put)
        contenders[name] = partial(run, *put)
    found = [jax.device_get(call()) for call in contenders.values()]
    difference = max(jax.tree.leaves(jax.tree.map(lambda one, other: float(np.abs(one - other).max()), *found)))
    if torch_dnc is not None:
        contenders["PyPI dnc"] = torch_dnc.gradient(dnc, x)
    times = timing.take_turns(contenders, args.repeats)
    theirs = times.get("PyPI dnc")
    return {
        "sizes": dataclasses.asdict(dnc),
        "devices": mesh.size,
        "sharding_difference": difference,
        "rows": [{"contender": name, **timing.spread(values), **facts.get(name, {})} for name, values in times.items()],
        "ratios": {name: timing.ratio(theirs, times[name]) for name in facts} if theirs else {},
    }


def over_devices(slope: Callable, mesh: Mesh) -> Callable:
    """The same loss and gradients, the sequences split over the devices: one message for all, after the last item."""

    def local(params, x):
        loss, (by_params, by_x) = slope(params, x)
        loss, by_params = jax.lax.pmean((loss, by_params), "data")
        return loss, (by_params, by_x / mesh.size)

    specs = {"in_specs": (P(), P("data")), "out_specs": (P(), (P(), P("data")))}
    return jax.shard_map(local, mesh=mesh, check_vma=False, **specs)


def show(results: dict[str, Any]) -> None:
    """Prints the results as tables."""
    console = Console(width=120)
    table = Table("memory", "us/token forward", "us/token gradient", "state KiB", "gradient bytes/token", "parameters")
    for column in table.columns[1:]:
        column.justify = "right"
    by_job = {(row["memory"], row["job"]): row for row in results["rows"]}
    for name in dict.fromkeys(row["memory"] for row in results["rows"]):
        forward, gradient = by_job[name, "forward"], by_job[name, "gradient"]
        sizes = f"{gradient['state_bytes'] / 1024:.1f}", f"{gradient.get('gradient_bytes_per_token', 0):,.0f}"
        pace = f"{forward['us_per_token']:.2f}", f"{gradient['us_per_token']:.2f}"
        table.add_row(name, *pace, *sizes, f"{gradient['parameters']:,}")
    console.print(table)
    for name, found in results["dnc"].items():
        times = ", ".join(f"{row['contender']} {1e3 * row['median']:.0f} ms" for row in found["rows"])
        console.print(f"DNC, {name} sizes, gradient: {times}", highlight=False)
        for contender, ratio in found["ratios"].items():
            met = "met" if ratio["median"] >= TARGET else "NOT met"
            spread = f"{ratio['median']:.2f} ({ratio['q1']:.2f}-{ratio['q3']:.2f})"
            console.print(f"PyPI dnc / {contender}: {spread}; at least {TARGET:g} asked: {met}", highlight=False)
    for note in results["notes"]:
        console.print(note, highlight=False)


def main() -> None:
    """Runs everything, prints the tables, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes; no number means anything")
    parser.add_argument("--repeats", type=int, default=9, help="timed turns of each contender")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the JSON goes; default: results/, but nowhere with --quick")
    args = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", timing.cores())
    args.out = args.out or (None if args.quick else ROOT / "results" / "bench_memories.json")
    sizes, dnc, machine = QUICK if args.quick else Sizes(), QUICK_DNC if args.quick else DNC, timing.machine()
    differences = {name: check(one, args.seed) for name, one in dnc.items()} if torch_dnc is not None else {}
    notes = [] if torch_dnc is not None else ["PyPI's dnc left out: not installed (pip install 'memjax[bench]')."]
    races = {name: race(sizes, one, args) for name, one in dnc.items()}
    results = {
        "command": timing.command(),
        "machine": machine,
        "sizes": dataclasses.asdict(sizes),
        "quick": args.quick,
        "differences": differences,
        "rows": measure(sizes, args),
        "dnc": races,
        "notes": notes,
    }
    show(results)
    if args.out:
        timing.save(args.out, results)
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
