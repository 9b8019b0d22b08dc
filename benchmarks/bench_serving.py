"""How many clicks and questions a second does one core serve, for 100,000 users whose states are in memory?

    python benchmarks/bench_serving.py
    python benchmarks/bench_serving.py --quick      few users: does it run?

A batch writes a segment of 20 new clicks of each of 256 users, or asks 256 users about an item each, or ranks all
3,416 items for 16 users, whose ten likeliest are given. Against it stands what keeps no state: a GRU (GRU4REC) as wide,
which reads a user's last 1,000 clicks again for each question. All take turns on one core; parameters are random, sizes
as in configs/clicks.py. Bytes are those of a user's state, and of 1,000 clicks as 32-bit ids.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

if hasattr(os, "sched_setaffinity"):  # before JAX makes its threads
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import numpy as np
import timing
from rich.console import Console
from rich.table import Table

from memjax import memories, streaming
from memjax.memories.memory_registry import size_fields
from memjax.models import GRU4Rec, MemoryModel
from memjax.tasks import TaskShape

ROOT = Path(__file__).parents[1]
RATES = ("writes", "questions", "rankings")
ITEMS, SEGMENT, READ, TOP = 3416, 20, 1000, 10
MEMORIES = ("rehearsal", "continual", "dnc", "hpmn", "mimn")
SIZES = {"layers": 2, "heads": 4, "memory_width": 32, "hidden": 64, "context": 4, "scores": "both", "slots": 20}
GRU = f"GRU, reads {READ:,} clicks again"
OWN = {"continual": {"scores": "additive"}}
FULL = {"users": 100_000, "batch": 256, "ranked": 16, "width": 64}
QUICK = {"users": 40, "batch": 4, "ranked": 2, "width": 8}


def shape(segments: int) -> TaskShape:
    """Of a task of clicks."""
    return TaskShape(ITEMS, segments, SEGMENT, ITEMS, None, "click", 2, query_is_item=True)


def started(model: MemoryModel | GRU4Rec, segments: int) -> dict:
    """Random parameters."""

    def everything(model, stream, mask, query):
        return model.answer(model.memorize(stream, mask)[0], query)

    stream = jnp.zeros((segments, SEGMENT), jnp.int32)
    init = jax.jit(partial(model.init, method=everything))
    return init(jax.random.key(0), stream, jnp.ones_like(stream, bool), jnp.array(0))


class Served(NamedTuple):
    """One system, ready to serve.

    Attributes:
        bytes: that it keeps of a user.
        calls: what is timed: "writes" of clicks, "questions", "rankings".
        counts: how many of them a call serves.
    """

    bytes: int
    calls: dict[str, Callable[[], Any]]
    counts: dict[str, int]


def memory_served(name: str, sizes: dict[str, int]) -> Served:
    """The states of all users, in one memory."""
    fields = size_fields(memories.registry[name])
    given = {key: value for key, value in (SIZES | OWN.get(name, {})).items() if key in fields or key == "slots"}
    given |= {key: value for key, value in {"width": sizes["width"], "segment": SEGMENT}.items() if key in fields}
    model = MemoryModel(shape(1), memories.create(name, **given), sizes["width"], 1, 2, 2, 4, item_scale=8.0)
    params, random = started(model, 1), np.random.default_rng(0)
    states = streaming.start(model, params, sizes["users"])
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(states)) // sizes["users"]
    mask = jnp.ones((sizes["batch"], 1, SEGMENT), bool)
    write = jax.jit(partial(streaming.write, model), donate_argnums=1)
    answer = jax.jit(partial(streaming.answer, model))

    def rank():
        return streaming.rank(model, params, states, users(sizes["ranked"]), TOP)

    def users(count: int) -> jnp.ndarray:
        return jnp.asarray(random.choice(sizes["users"], count, replace=False))

    def written():
        nonlocal states
        clicks = jnp.asarray(random.integers(ITEMS, size=mask.shape))
        states = write(params, states, users(sizes["batch"]), clicks, mask)
        return states

    def asked():
        return answer(params, states, users(sizes["batch"]), jnp.asarray(random.integers(ITEMS, size=sizes["batch"])))

    calls = {"writes": written, "questions": asked, "rankings": rank}
    counts = {"writes": sizes["batch"] * SEGMENT, "questions": sizes["batch"], "rankings": sizes["ranked"]}
    return Served(size, calls, counts)


def reading_served(sizes: dict[str, int]) -> Served:
    """A GRU that reads again."""
    model, random = GRU4Rec(shape(READ // SEGMENT), sizes["width"]), np.random.default_rng(0)
    params, batch = started(model, READ // SEGMENT), min(64, sizes["batch"])
    clicks = jnp.asarray(random.integers(ITEMS, size=(batch, READ // SEGMENT, SEGMENT)))
    mask = jnp.ones_like(clicks, bool)

    @jax.jit
    def answer(params, clicks, mask, items):
        def one(clicks, mask, items):
            slots, _ = model.apply(params, clicks, mask, method="memorize")
            return jax.vmap(partial(model.apply, params, slots, method="answer"))(items)

        return jax.vmap(one)(clicks, mask, items)

    every = jnp.broadcast_to(jnp.arange(ITEMS), (batch, ITEMS))
    calls = {
        "questions": lambda: answer(params, clicks, mask, jnp.asarray(random.integers(ITEMS, size=(batch, 1)))),
        "rankings": lambda: answer(params, clicks, mask, every),
    }
    return Served(4 * READ, calls, dict.fromkeys(calls, batch))


def measure(sizes: dict[str, int], names: Sequence[str], repeats: int) -> list[dict]:
    """A row for each system; all take turns."""
    systems = {GRU: reading_served(sizes)} | {name: memory_served(name, sizes) for name in names}
    contenders = {(name, what): call for name, one in systems.items() for what, call in one.calls.items()}
    times = timing.take_turns(contenders, repeats)
    rows = []
    for name, one in systems.items():
        rates = {what: timing.spread([count / t for t in times[name, what]]) for what, count in one.counts.items()}
        against = [a / b for a, b in zip(times[GRU, "questions"], times[name, "questions"], strict=True)]
        share = one.counts["questions"] / systems[GRU].counts["questions"]
        rows.append({"system": name, "bytes": one.bytes, **rates, "ratio": timing.spread([share * r for r in against])})
    return rows


def main() -> None:
    """Measures, shows and keeps it."""
    args = timing.arguments(__doc__, 9, ROOT / "results" / "bench_serving.json")
    machine, sizes = timing.machine(), QUICK if args.quick else FULL
    rows = measure(sizes, MEMORIES[:1] if args.quick else MEMORIES, args.repeats)
    table = Table("system", "bytes a user", *(f"{what}/s" for what in RATES), "questions, times the GRU's")
    for row in rows:
        shown = [f"{row[what]['median']:,.0f}" if what in row else "–" for what in RATES]
        table.add_row(row["system"], f"{row['bytes']:,}", *shown, f"{row['ratio']['median']:.1f}")
    Console(width=140).print(table)
    if args.out:
        told = {"command": timing.command(), "machine": machine, "quick": args.quick}
        timing.save(args.out, told | {"sizes": {**sizes, "items": ITEMS, "repeats": args.repeats}, "rows": rows})
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
