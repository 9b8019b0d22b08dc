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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import timing
from rich.console import Console
from rich.table import Table

from memjax import memories, ops
from memjax.memories import memorize

try:
    import torch
    import torch_rehearsal
except ImportError:
    torch = None

ROOT = Path(__file__).parents[1]
FORWARD_LIMIT, GRADIENT_LIMIT, TOLERANCE = 1.45, 1.5, 1e-4
# Peak memory over the size of the items, rounded up from XLA's own figures; only used to choose B.
FORWARD_MEMORY, GRADIENT_MEMORY = 20, 150


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of one benchmark run."""

    batch: int = 32
    lengths: tuple[int, ...] = (20, 200, 2000)
    segment: int = 10
    slots: int = 20
    width: int = 128
    layers: int = 3
    heads: int = 4
    questions: tuple[int, ...] = (1, 10, 100, 1000)


QUICK = Sizes(batch=2, lengths=(4,), segment=3, slots=4, width=8, layers=1, heads=2, questions=(1, 5))


def multiplications(sizes: Sizes) -> float:
    """Memorize over encoder, by counting the multiplications of their matrix products."""
    n, k, d = sizes.segment, sizes.slots, sizes.width
    encoder = sizes.layers * (n * 12 * d * d + 2 * n * n * d)
    features, slots = n * 4 * d * d, k * 4 * d * d  # keys and gates of the items; the slots' own
    write = features + slots + k * n * 4 * d  # scores, and the gates of what was aligned
    return (encoder + write) / encoder


def batch_that_fits(sizes: Sizes, length: int, job: str, memory_bytes: float) -> int:
    """The batch, halved until the job's estimated peak fits."""
    times = FORWARD_MEMORY if job == "forward" else GRADIENT_MEMORY
    per_stream = 4 * length * sizes.segment * sizes.width * times
    batch = sizes.batch
    while batch > 1 and batch * per_stream > memory_bytes:
        batch //= 2
    return batch


class JaxSide:
    """The JAX contenders: functions of `(params, items [B, T, N, d])`."""

    def __init__(self, sizes: Sizes, seed: int):
        self.memory = memories.create(
            "rehearsal",
            slots=sizes.slots,
            width=sizes.width,
            segment=sizes.segment,
            layers=sizes.layers,
            heads=sizes.heads,
        )
        example = jnp.ones((1, sizes.segment, sizes.width))
        self.params = self.memory.init(jax.random.key(seed), example, method=memorize)
        # Biases start at zero; a comparison of weights copied wrongly should not pass because of that.
        leaves, tree = jax.tree.flatten(self.params)
        keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
        leaves = [x + 0.02 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
        self.params = jax.tree.unflatten(tree, leaves)
        self.optimizer = optax.adam(1e-3)
        self.forwards = {"encoder": self.encode, "memorize": self.memorize, "plain": self.plain}

    def encode(self, params, items, remat=False):
        """The encoder alone, over all segments; with `remat` block by block, of the size that memorize takes."""

        def encode(segments):
            real = jnp.ones(segments.shape[:2], bool)
            return self.memory.apply(params, segments, real, method=lambda m, *a: m.encode_segments(*a))

        if not remat:
            return jax.vmap(encode)(items)
        length, longest = items.shape[1], max(1, 100 // items.shape[2])
        block = next(size for size in range(longest, 0, -1) if length % size == 0)
        blocks = items.reshape(-1, length // block, block, *items.shape[2:]).swapaxes(0, 1)
        return jax.lax.map(jax.checkpoint(jax.vmap(encode), prevent_cse=False), blocks)

    def memorize(self, params, items, remat=False):
        """What the library does."""
        return jax.vmap(lambda x: self.memory.apply(params, x, remat=remat, method=memorize)[0])(items)

    def plain(self, params, items):
        """Segment by segment: encode it, write it."""
        weights = params["params"]
        write = ops.SlotWriteParams(
            ops.AdditiveParams(*(weights[f"attention_{name}"] for name in ops.AdditiveParams._fields)),
            ops.GRUParams(*(weights[f"update_{name}"] for name in ops.GRUParams._fields)),
        )

        def step(slots, segment):
            real = jnp.ones(segment.shape[:1], bool)
            encoded = self.memory.apply(params, segment[None], real[None], method=lambda m, *a: m.encode_segments(*a))[
                0
            ]
            return ops.write_segment(write, slots, encoded, real), None

        start = self.memory.apply(params, method="initial_state")
        return jax.vmap(lambda x: jax.lax.scan(step, start, x)[0])(items)

    def job(self, job: str, name: str, items, remat: bool = False) -> tuple[Callable[[], Any], dict[str, float]]:
        """A contender ready to run, compiled ahead of time, and the facts of its compilation."""
        forward = partial(self.forwards[name], remat=True) if remat else self.forwards[name]
        if job == "forward":
            run, facts = timing.compiled(forward, self.params, items)
            return partial(run, self.params, items), facts
        loss_and_gradient = jax.value_and_grad(lambda p, x: jnp.square(forward(p, x)).mean())
        if job == "gradient":
            run, facts = timing.compiled(loss_and_gradient, self.params, items)
            return partial(run, self.params, items), facts

        def step(params, state, items):
            loss, gradient = loss_and_gradient(params, items)
            updates, state = self.optimizer.update(gradient, state, params)
            return optax.apply_updates(params, updates), state, loss

        params = jax.tree.map(jnp.copy, self.params)
        state = self.optimizer.init(params)
        run, facts = timing.compiled(step, params, state, items, donate=(0, 1))
        held = [params, state]

        def call():
            *held[:], loss = run(*held, items)
            return loss

        return call, facts


class TorchSide:
    """The PyTorch port, in inference mode or training."""

    def __init__(self, sizes: Sizes, params: Any):
        torch.set_num_threads(timing.cores())
        self.make = partial(
            torch_rehearsal.port, params, sizes.slots, sizes.width, sizes.segment, sizes.layers, sizes.heads
        )

    def job(self, job: str, items: np.ndarray) -> Callable[[], Any]:
        """A contender ready to run."""
        model, items = self.make(), torch.tensor(np.asarray(items))
        if job == "forward":
            model.eval()

            def call():
                with torch.inference_mode():
                    return model(items).numpy()

            return call
        model.train()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def call():
            optimizer.zero_grad()
            loss = model(items).square().mean()
            loss.backward()
            if job == "step":
                optimizer.step()
            return loss.item()

        return call


def streams(sizes: Sizes, batch: int, length: int, seed: int) -> jax.Array:
    """Items of unit variance `[B, T, N, d]`."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.standard_normal((batch, length, sizes.segment, sizes.width), np.float32))


def check_same_model(ours: JaxSide, sizes: Sizes, items) -> dict[str, float]:
    """Largest differences between the contenders' slots, and between their losses in three training steps."""
    slots = {name: np.asarray(ours.job("forward", name, items)[0]()) for name in ("memorize", "plain")}
    loss = {name: ours.job("step", name, items)[0] for name in ("memorize", "plain")}
    if torch is not None:
        theirs = TorchSide(sizes, ours.params)
        slots["torch"] = theirs.job("forward", items)()
        loss["torch"] = theirs.job("step", items)
    losses = {name: np.array([float(step()) for _ in range(3)]) for name, step in loss.items()}
    differences = {}
    for name in slots:
        if name != "memorize":
            differences[f"slots: {name}"] = float(np.abs(slots[name] - slots["memorize"]).max())
            differences[f"losses of 3 steps: {name}"] = float(np.abs(losses[name] - losses["memorize"]).max())
    for what, difference in differences.items():
        if not difference < TOLERANCE:
            raise SystemExit(f"not the same model: {what} differs from memorize by {difference:.2e}")
    return differences


def time_jobs(ours: JaxSide, sizes: Sizes, args) -> tuple[list[dict], list[dict]]:
    """Rows of times and rows of ratios, for every length and job."""
    rows, ratios = [], []
    for length in sizes.lengths:
        for job in ("forward", "gradient", "step"):
            batch = batch_that_fits(sizes, length, job, args.memory_gb * 1e9)
            remat = job == "gradient" and batch < sizes.batch
            batch = sizes.batch if remat else batch
            items = streams(sizes, batch, length, args.seed)
            names = ("encoder", "memorize") if job == "gradient" else ("encoder", "memorize", "plain")
            ready = {name: ours.job(job, name, items, remat) for name in names}
            calls = {name: call for name, (call, _) in ready.items()}
            facts = {name: facts for name, (_, facts) in ready.items()}
            too_big = {n: f["temp_bytes"] for n, f in facts.items() if f.get("temp_bytes", 0) > args.memory_gb * 1e9}
            if too_big:
                raise SystemExit(f"{job} at T={length}, B={batch} would take {too_big} bytes; the estimate is wrong")
            if job != "gradient" and torch is not None and not args.no_torch:
                calls["torch"] = TorchSide(sizes, ours.params).job(job, items)
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


def growth(ours: JaxSide, sizes: Sizes, rows: list[dict]) -> list[dict]:
    """Seconds per stream and segment, and bytes of state, for every length."""
    found = []
    state = sum(x.nbytes for x in jax.tree.leaves(ours.memory.apply(ours.params, method="initial_state")))
    for row in rows:
        if (row["contender"], row["job"]) == ("memorize", "forward"):
            shape = jax.eval_shape(ours.memorize, ours.params, streams(sizes, 1, row["T"], 0))
            bytes_now = math.prod(shape.shape) * shape.dtype.itemsize
            seconds = row["median"] / row["T"] / row["B"]
            found.append({"T": row["T"], "B": row["B"], "seconds_per_segment": seconds, "state_bytes": bytes_now})
    assert all(row["state_bytes"] == state for row in found)  # what one stream leaves is what it started with
    return found


def ask(ours: JaxSide, sizes: Sizes, args) -> list[dict]:
    """Q questions: one memorization and Q readings, against a memorization for each reading."""
    length = sizes.lengths[min(1, len(sizes.lengths) - 1)]
    items = streams(sizes, sizes.batch, length, args.seed)
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


def judge(sizes: Sizes, ratios: list[dict], grown: list[dict], asked: list[dict]) -> list[dict]:
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


def show(results: dict) -> None:
    """Prints the results as tables."""
    console = Console(width=120)

    def table(title: str, *columns: str) -> Table:
        made = Table(*columns, title=title, title_justify="left")
        for column in made.columns[1:]:
            column.justify = "right"
        return made

    def milliseconds(spread: dict) -> str:
        return f"{1e3 * spread['median']:.2f} ({1e3 * spread['q1']:.2f}-{1e3 * spread['q3']:.2f})"

    times = table(
        "Seconds per call: median (quartiles), ms", "job", "T", "B", "contender", "ms", "min", "compile s", "temp MB"
    )
    for row in results["rows"]:
        compile_s = f"{row['compile_s']:.1f}" if "compile_s" in row else "-"
        temp = f"{row['temp_bytes'] / 1e6:.0f}" if "temp_bytes" in row else "-"
        where = row["job"], str(row["T"]), str(row["B"]), row["contender"]
        times.add_row(*where, milliseconds(row), f"{1e3 * row['min']:.2f}", compile_s, temp)
    console.print(times)
    ratios = table("Ratios, taken turn by turn", "job", "T", "B", "ratio", "median", "quartiles", "min-max")
    for row in results["ratios"]:
        numbers = f"{row['median']:.3f}", f"{row['q1']:.3f}-{row['q3']:.3f}", f"{row['min']:.3f}-{row['max']:.3f}"
        ratios.add_row(row["job"], str(row["T"]), str(row["B"]), row["ratio"], *numbers)
    console.print(ratios)
    grown = table("Growth of memorize, forward", "T", "B", "us per stream and segment", "state bytes")
    for row in results["growth"]:
        grown.add_row(str(row["T"]), str(row["B"]), f"{1e6 * row['seconds_per_segment']:.2f}", str(row["state_bytes"]))
    console.print(grown)
    asked = table(
        "Q questions on one memory (forward)",
        "Q",
        "once ms",
        "readings ms",
        "again for each ms (* Q x one)",
        "again/once",
        "once/write",
    )
    for row in results["questions"]:
        again = milliseconds(row["again_s"]) + ("" if row["again_measured"] else " *")
        gain, share = row["again/once"]["median"], row["once/write"]["median"]
        once, read = milliseconds(row["once_s"]), milliseconds(row["read_s"])
        asked.add_row(str(row["Q"]), once, read, again, f"{gain:.1f}", f"{share:.3f}")
    console.print(asked)
    targets = table("Targets", "target", "found", "met")
    for row in results["targets"]:
        targets.add_row(row["target"], f"{row['found']:.3f}", "yes" if row["met"] else "[bold red]NO[/]")
    console.print(targets)
    for note in results["notes"]:
        console.print(note, highlight=False)


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
    global torch
    args = parse()
    if args.no_torch:
        torch = None
    sizes = QUICK if args.quick else Sizes()
    changes = {"batch": args.batch, "lengths": tuple(args.lengths) if args.lengths else None}
    sizes = dataclasses.replace(sizes, **{name: value for name, value in changes.items() if value})
    machine = timing.machine()
    ours = JaxSide(sizes, args.seed)
    differences = check_same_model(ours, sizes, streams(sizes, 2, min(sizes.lengths), args.seed))
    rows, ratios = time_jobs(ours, sizes, args)
    grown, asked = growth(ours, sizes, rows), ask(ours, sizes, args)
    notes = [
        f"By counting multiplications, memorize/encoder = {multiplications(sizes):.3f}.",
        "Before timing, largest difference from memorize: "
        + ", ".join(f"{what} {difference:.1e}" for what, difference in differences.items()),
    ]
    if torch is None:
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
        "targets": judge(sizes, ratios, grown, asked),
        "notes": notes,
    }
    show(results)
    if args.out:
        timing.save(args.out, results)
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
