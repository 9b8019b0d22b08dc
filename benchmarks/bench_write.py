"""How fast is a write? Memorizing a stream, against its encoder alone, a plain scan, and PyTorch, in one run.

    python benchmarks/bench_write.py                 # B=32, T=20/200/2000, N=10, K=20, d=128
    python benchmarks/bench_write.py --quick         # tiny sizes: does it run?

Contenders, all on the same streams with the same weights, their slots compared before any is timed:

- encoder    the memory's Transformer encoder over all segments, and nothing else
- memorize   encoder over all segments at once, items projected once (into the gates too), then the scan of writes
- plain      the encoder inside the scan, segment by segment, nothing taken out of it
- torch      a straightforward PyTorch port: encoder over all segments at once, a Python loop of writes

and three jobs: forward; gradient (of a mean square, with respect to all weights); step (gradient and an Adam update).
By counting multiplications, memorize costs 1.35 times its encoder. Turns are interleaved and ratios taken turn by turn.
What would not fit into --memory-gb: a gradient keeps only what is at the borders of blocks of segments and computes the
rest again, the encoder alone like memorize; other jobs run on fewer streams, all contenders alike. The table says so.
"""

import argparse
import dataclasses
import math
import sys
from pathlib import Path

import jax
import printed_tables
import timing
import write_contenders as contenders

from memjax import ops

ROOT = Path(__file__).parents[1]
FORWARD_LIMIT, GRADIENT_LIMIT = 1.45, 1.5
# Peak memory over the size of the items, rounded up from XLA's own figures; only used to choose B.
FORWARD_MEMORY, GRADIENT_MEMORY = 20, 150


def multiplications(sizes: contenders.Sizes) -> float:
    """Memorize over encoder, by counting the multiplications of their matrix products."""
    n, k, d = sizes.segment, sizes.slots, sizes.width
    encoder = sizes.layers * (n * 12 * d * d + 2 * n * n * d)
    features, slots = n * 4 * d * d, k * 4 * d * d  # keys and gates of the items; the slots' own
    write = features + slots + k * n * 4 * d  # scores, and the gates of what was aligned
    return (encoder + write) / encoder


def batch_that_fits(sizes: contenders.Sizes, length: int, job: str, memory_bytes: float) -> int:
    """The batch, halved until the job's estimated peak fits."""
    times = FORWARD_MEMORY if job == "forward" else GRADIENT_MEMORY
    per_stream = 4 * length * sizes.segment * sizes.width * times
    batch = sizes.batch
    while batch > 1 and batch * per_stream > memory_bytes:
        batch //= 2
    return batch


def time_jobs(
    ours: contenders.JaxSide, theirs: contenders.TorchSide | None, sizes: contenders.Sizes, args
) -> tuple[list[dict], list[dict]]:
    """Rows of times and rows of ratios, for every length and job."""
    rows, ratios = [], []
    for length in sizes.lengths:
        for job in ("forward", "gradient", "step"):
            batch = batch_that_fits(sizes, length, job, args.memory_gb * 1e9)
            remat = job == "gradient" and batch < sizes.batch
            batch = sizes.batch if remat else batch
            items = contenders.streams(sizes, batch, length, args.seed)
            names = ("encoder", "memorize") if job == "gradient" else ("encoder", "memorize", "plain")
            ready = {name: ours.job(job, name, items, remat) for name in names}
            calls = {name: call for name, (call, _) in ready.items()}
            facts = {name: facts for name, (_, facts) in ready.items()}
            too_big = {n: f["temp_bytes"] for n, f in facts.items() if f.get("temp_bytes", 0) > args.memory_gb * 1e9}
            if too_big:
                raise SystemExit(f"{job} at T={length}, B={batch} would take {too_big} bytes; the estimate is wrong")
            if job != "gradient" and theirs is not None:
                calls["torch"] = theirs.job(job, items)
            repeats = args.repeats if length < 1000 else max(5, args.repeats // 5)
            print(f"{job}, T={length}, B={batch}: {', '.join(calls)}", file=sys.stderr, flush=True)
            times = timing.take_turns(calls, repeats, max(1, args.calls // length))
            where = {"T": length, "B": batch, "job": job, "remat": remat}
            for name, values in times.items():
                rows.append(
                    {**where, "contender": name, "repeats": repeats, **timing.spread(values)} | facts.get(name, {})
                )
            pairs = [("memorize", "encoder"), ("plain", "memorize"), ("torch", "memorize")]
            for a, b in pairs:
                if a in times and b in times:
                    ratios.append({**where, "ratio": f"{a}/{b}", **timing.ratio(times[a], times[b])})
            del calls, ready
    return rows, ratios


def growth(ours: contenders.JaxSide, sizes: contenders.Sizes, rows: list[dict]) -> list[dict]:
    """Seconds per stream and segment, and bytes of state, for every length."""
    found = []
    state = sum(x.nbytes for x in jax.tree.leaves(ours.memory.apply(ours.params, method="initial_state")))
    for row in rows:
        if (row["contender"], row["job"]) == ("memorize", "forward"):
            shape = jax.eval_shape(ours.memorize, ours.params, contenders.streams(sizes, 1, row["T"], 0))
            bytes_now = math.prod(shape.shape) * shape.dtype.itemsize
            seconds = row["median"] / row["T"] / row["B"]
            found.append({"T": row["T"], "B": row["B"], "seconds_per_segment": seconds, "state_bytes": bytes_now})
    assert all(row["state_bytes"] == state for row in found)  # what one stream leaves is what it started with
    return found


def ask(ours: contenders.JaxSide, sizes: contenders.Sizes, args) -> list[dict]:
    """Q questions: one memorization and Q readings, against a memorization for each reading."""
    length = sizes.lengths[min(1, len(sizes.lengths) - 1)]
    items = contenders.streams(sizes, sizes.batch, length, args.seed)
    width = sizes.width
    draw = iter(jax.random.split(jax.random.key(args.seed), 16))
    normal = lambda *shape: jax.random.normal(next(draw), shape) * shape[0] ** -0.5  # noqa: E731
    hops = [ops.AdditiveParams(normal(width, width), normal(width, width), normal(width), normal(width)) for _ in "12"]
    reader = ops.ReadParams(tuple(ops.HopParams(hop) for hop in hops), normal(2 * width, width))
    read = jax.vmap(jax.vmap(ops.multi_hop_read, (None, None, 0)), (None, 0, 0))
    write, _ = timing.compiled(ours.memorize, ours.params, items)
    found = []
    for count in sizes.questions:
        questions = jax.random.normal(next(draw), (sizes.batch, count, width))
        slots = write(ours.params, items)
        read_all, _ = timing.compiled(read, reader, slots, questions)
        read_one, _ = timing.compiled(read, reader, slots, questions[:, :1])
        calls = {
            "once": lambda: read_all(reader, write(ours.params, items), questions),  # noqa: B023
            "one question": lambda: read_one(reader, write(ours.params, items), questions[:, :1]),  # noqa: B023
            "write": lambda: write(ours.params, items),
            "read": lambda: read_all(reader, slots, questions),  # noqa: B023
        }
        repeats = max(3, args.repeats // 5)
        print(f"{count} questions, T={length}, B={sizes.batch}", file=sys.stderr, flush=True)
        if count <= 10:
            one = calls["one question"]
            calls["again for each"] = lambda: [one() for _ in range(count)]  # noqa: B023
        times = timing.take_turns(calls, repeats)
        measured = "again for each" in times
        again = times.get("again for each") or [count * s for s in times["one question"]]
        found.append(
            {
                "Q": count,
                "T": length,
                "B": sizes.batch,
                "once_s": timing.spread(times["once"]),
                "again_s": timing.spread(again),
                "again_measured": measured,  # else Q times the measured time of one memorization and one reading
                "read_s": timing.spread(times["read"]),
                "again/once": timing.ratio(again, times["once"]),
                "once/write": timing.ratio(times["once"], times["write"]),
            }
        )
    return found


def judge(ratios: list[dict], grown: list[dict], asked: list[dict]) -> list[dict]:
    """The targets, what was found, and whether it is met."""
    targets = []

    def target(name: str, found: float, met: bool) -> None:
        targets.append({"target": name, "found": found, "met": bool(met)})

    for row in ratios:
        where = f"{row['job']}, T={row['T']}, B={row['B']}"
        if row["ratio"] == "memorize/encoder" and row["job"] != "step":
            limit = FORWARD_LIMIT if row["job"] == "forward" else GRADIENT_LIMIT
            target(f"memorize at most {limit} x encoder: {where}", row["median"], row["median"] <= limit)
        elif row["ratio"] != "memorize/encoder":
            rival = row["ratio"].split("/")[0]
            target(f"memorize ahead of {rival}: {where}", row["median"], row["median"] > 1)
    if len(grown) > 1:
        first, last = grown[0], grown[-1]
        exponent = 1 + math.log(last["seconds_per_segment"] / first["seconds_per_segment"]) / math.log(
            last["T"] / first["T"]
        )
        target(
            f"cost ~ T^1 from T={first['T']} to {last['T']} (exponent within 0.1)", exponent, abs(exponent - 1) < 0.1
        )
        sizes_seen = {row["state_bytes"] for row in grown}
        target("state of one size for every T (bytes)", max(sizes_seen), len(sizes_seen) == 1)
    for row in asked[1:]:
        found = row["again/once"]["median"]
        target(f"Q={row['Q']} questions on one memory cheaper than memorizing again for each", found, found > 1)
    return targets


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to see that it runs; no number means anything"
    )
    parser.add_argument("--repeats", type=int, default=15, help="timed turns of each contender; a fifth at T >= 1000")
    parser.add_argument("--calls", type=int, default=60, help="calls per turn: this many over T, at least one")
    parser.add_argument("--lengths", type=int, nargs="+", help="segments per stream, T")
    parser.add_argument("--batch", type=int, help="streams at a time, B")
    parser.add_argument("--memory-gb", type=float, default=10, help="a job that may need more runs on fewer streams")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the JSON goes; default: results/, but nowhere with --quick")
    args = parser.parse_args()
    args.out = args.out or (None if args.quick else ROOT / "results" / "bench_write.json")
    return args


def main() -> None:
    """Runs everything, prints the tables, writes the JSON."""
    args = parse()
    sizes = contenders.QUICK if args.quick else contenders.Sizes()
    changes = {"batch": args.batch, "lengths": tuple(args.lengths) if args.lengths else None}
    sizes = dataclasses.replace(sizes, **{name: value for name, value in changes.items() if value})
    machine = timing.machine()
    ours = contenders.JaxSide(sizes, args.seed)
    theirs = None if args.no_torch or contenders.torch is None else contenders.TorchSide(sizes, ours.params)
    differences = contenders.check_same_model(ours, theirs, contenders.streams(sizes, 2, min(sizes.lengths), args.seed))
    rows, ratios = time_jobs(ours, theirs, sizes, args)
    grown, asked = growth(ours, sizes, rows), ask(ours, sizes, args)
    notes = [
        f"By counting multiplications, memorize/encoder = {multiplications(sizes):.3f}.",
        "Before timing, largest difference from memorize: "
        + ", ".join(f"{what} {difference:.1e}" for what, difference in differences.items()),
    ]
    if theirs is None:
        notes.append("PyTorch left out: " + ("--no-torch." if args.no_torch else "not installed (pip install torch)."))
    fewer = sorted({(row["T"], row["B"], row["job"]) for row in rows if row["B"] < sizes.batch})
    notes += [
        f"T={length}, {job}: B={batch} instead of {sizes.batch}, to stay within {args.memory_gb:g} GB."
        for length, batch, job in fewer
    ]
    again = sorted({row["T"] for row in rows if row["remat"]})
    notes += [f"T={length}, gradient: in blocks, computed again on the way back, both contenders." for length in again]
    results = {
        "command": timing.command(),
        "machine": machine,
        "sizes": dataclasses.asdict(sizes),
        "quick": args.quick,
        "differences": differences,
        "multiplications": multiplications(sizes),
        "rows": rows,
        "ratios": ratios,
        "growth": grown,
        "questions": asked,
        "targets": judge(ratios, grown, asked),
        "notes": notes,
    }
    printed_tables.write(results)
    if args.out:
        timing.save(args.out, results)
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
