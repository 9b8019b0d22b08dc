"""How fast is surprise memory? A layer of it, forward and gradient, against titans-pytorch and plain scans, in one run.

    python benchmarks/bench_surprise.py              # B=1, 4 heads of 64, L = 2,048 to 16,384
    python benchmarks/bench_surprise.py --quick      # tiny sizes: does it run?

Every contender is the same layer, with the same weights where both sides have them: norms, q, k, v, gates, memory, a
gate on what is read, output projection. Contenders:

- token                 ours, linear memory, exact gradients (at every token)
- chunk                 ours, linear memory, gradients at the start of each chunk of 64, gates for every token
- mlp                   ours, a memory of two matrices, gates for every token, read for every token
- sequential            ours, token by token in one scan; associative: the states of a chunk by an associative scan
- titans, per token     NeuralMemory(chunk_size=1, batch_size=64): computes what `chunk` does; compared before timing
- titans, per chunk     NeuralMemory(chunk_size=64, batch_size=64): one gate for a chunk, read at its start: less work
- titans mlp, ..        the same two with the memory of `mlp`, which computes what the first of them does
- LMM, LMM deep, MAC    memjax.layers as they are, with their convolution and norms: matrices with exact gradients,
                        perceptrons of two matrices, segments of 64 tokens with attention
- LMM sequential        LMM token by token, forward alone

Forward, ours read a long sequence as memjax does, 2,048 tokens at a time with the state between: what a block makes
stays in the cache, and in memory that the process already has. The gradient is of the whole sequence at once.

Turns are interleaved and ratios taken turn by turn. The peak memory of a gradient, for L up to 4,096, is that of a
process of its own, less what it held before the job (`peak_bytes`); ours have XLA's own figure too (`temp_bytes`). What
would not fit into --memory-gb is left out, and said.

`flops` are those of all products of matrices and vectors in our traced program, loops in full (`counting.products`; not
XLA's cost analysis, which counts a loop's body once); outer products, gates and norms do not count. `matmul_share` is
what that makes a second, over what one product of large float32 matrices makes, which takes its turn beside the others.
"""

import argparse
import dataclasses
import itertools
import os
import subprocess
import sys
from pathlib import Path

import jax
import printed_tables
import surprise_contenders as contenders
import surprise_layers
import timing

ROOT = Path(__file__).parents[1]
MATMUL = "matmul"
PEAKS_UP_TO = 4096  # tokens: a process for each, most of whose time is compiling
RESET_PEAK = Path("/proc/self/clear_refs")  # of Linux; elsewhere there are no peaks
# How many states of a memory a contender holds for every token (per head), for the gradient: only to leave out what
# cannot fit. Theirs and the plain scans hold memories and momenta of every token, and more of them on the way back.
STATES_PER_TOKEN = {"sequential": 8, "associative": 20, "titans, per token": 16, "titans mlp, per token": 16}
PAIRS = (
    ("titans, per token", "chunk"),
    ("titans, per chunk", "chunk"),
    ("titans, per token", "token"),
    ("titans mlp, per token", "mlp"),
    ("titans mlp, per chunk", "mlp"),
    ("sequential", "token"),
    ("associative", "token"),
    ("LMM sequential", "LMM"),
    ("LMM deep", "LMM"),
    ("MAC", "LMM"),
)
# Of the gradient. What earlier runs had must stay; the second of two is what is hoped for.
WANTED = (
    ("titans, per token / chunk", 24),
    ("titans, per chunk / chunk", 2),
    ("titans, per chunk / chunk", 3),
    ("titans mlp, per chunk / mlp", 1.5),
    ("titans mlp, per chunk / mlp", 2),
)


def fits(sizes: contenders.Sizes, name: str, length: int, memory_gb: float) -> bool:
    """Whether the gradient of a contender may be tried."""
    parameters = sizes.width**2 * (2 * sizes.expansion if "mlp" in name else 1)
    return STATES_PER_TOKEN.get(name, 0) * 4 * parameters * sizes.heads * length <= memory_gb * 1e9


def peak(name: str, job: str, length: int, args) -> int:
    """Bytes that a fresh process needs above what it held before, with one call of the job."""
    options = ["--quick"] if args.quick else []
    command = [sys.executable, __file__, *options, f"--seed={args.seed}", "--peak", name, job, str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


def print_peak(sizes: contenders.Sizes, name: str, job: str, length: int, seed: int) -> None:
    """What `peak` runs. A small call first, so that libraries and compilers are not counted."""
    contenders.ready(sizes, name, job, sizes.chunk, seed)[0]()
    call, _ = contenders.ready(sizes, name, job, length, seed)
    # Not ru_maxrss: it begins with what the parent held, and compiling takes more than a small job.
    status = Path("/proc/self/status")
    RESET_PEAK.write_text("5")  # the high-water mark begins again, at what is held now
    before = _high_water(status)
    jax.block_until_ready(call())
    print(_high_water(status) - before)


def _high_water(status: Path) -> int:
    return next(1024 * int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def measure(sizes: contenders.Sizes, args) -> tuple[list[dict], list[dict], list[dict], list[str]]:
    """Rows of times, rows of ratios, what a product of matrices made a second beside them, and what was left out."""
    rows, ratios, rates, notes = [], [], [], []
    product, work = contenders.matmul(sizes), 2.0 * sizes.matmul**3
    for length in sizes.lengths:
        names = [name for name in contenders.CONTENDERS if fits(sizes, name, length, args.memory_gb)]
        if left := [name for name in contenders.CONTENDERS if name not in names]:
            notes.append(f"L={length}: {'; '.join(left)} left out, they would not fit into {args.memory_gb:g} GB.")
        for job in contenders.JOBS:
            ready_for = [name for name in names if job == "forward" or name not in surprise_layers.INFERENCE]
            print(f"{job}, L={length}: {'; '.join(ready_for)}", file=sys.stderr, flush=True)
            made = {name: contenders.ready(sizes, name, job, length, args.seed) for name in ready_for}
            calls = {MATMUL: product} | {name: call for name, (call, _) in made.items()}
            times = timing.take_turns(calls, args.repeats)
            where, of_product = {"L": length, "job": job}, times.pop(MATMUL)
            rates.append({**where, "flops_per_s": timing.spread([work / seconds for seconds in of_product])})
            for name, values in times.items():
                facts = made[name][1]
                asked = job == "gradient" and name in sizes.peaks_of and length <= PEAKS_UP_TO
                if asked and os.access(RESET_PEAK, os.W_OK):
                    facts |= {"peak_bytes": peak(name, job, length, args)}
                if "flops" in facts:
                    faster = timing.ratio(of_product, values)["median"]
                    facts |= {"matmul_share": facts["flops"] / work * faster}
                tokens = length / timing.spread(values)["median"]
                rows.append({**where, "contender": name, "tokens_per_s": tokens, **timing.spread(values), **facts})
            ratios += [
                {**where, "ratio": f"{a} / {b}", **timing.ratio(times[a], times[b])}
                for a, b in PAIRS
                if a in times and b in times
            ]
            del made
    return rows, ratios, rates, notes


def judge(sizes: contenders.Sizes, rows: list[dict], ratios: list[dict]) -> list[dict]:
    """The targets, what was found, and whether it is met."""
    targets = []

    def target(name: str, found: float, met: bool) -> None:
        targets.append({"target": name, "found": found, "met": bool(met)})

    for row, (name, limit) in itertools.product(ratios, WANTED):
        if row["job"] == "gradient" and row["ratio"] == name:
            target(f"{name} at least {limit}, L={row['L']}", row["median"], row["median"] >= limit)
    space = {(r["contender"], r["L"]): r.get("temp_bytes", 0) / r["L"] for r in rows if r["job"] == "gradient"}
    for length in sizes.lengths:
        if ("sequential", length) in space:
            share = space["token", length] / space["sequential", length]
            target(f"memory for the gradient, token / sequential below 1/5, L={length}", share, share < 0.2)
    return targets


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes; no number means anything")
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each contender")
    parser.add_argument("--lengths", type=int, nargs="+", help="tokens of the sequence, L")
    parser.add_argument("--memory-gb", type=float, default=10, help="what may need more is left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the JSON goes; default: results/, but nowhere with --quick")
    parser.add_argument("--peak", nargs=3, metavar=("NAME", "JOB", "L"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.out = args.out or (None if args.quick else ROOT / "results" / "bench_surprise.json")
    return args


def main() -> None:
    """Runs everything, prints the tables, writes the JSON."""
    args = parse()
    sizes = contenders.QUICK if args.quick else contenders.Sizes()
    if args.peak:
        name, job, length = args.peak
        print_peak(sizes, name, job, int(length), args.seed)
        return
    if args.lengths:
        sizes = dataclasses.replace(sizes, lengths=tuple(args.lengths))
    machine = timing.machine()
    differences = contenders.check(sizes, args.seed)
    rows, ratios, rates, notes = measure(sizes, args)
    if contenders.torch_titans is None:
        notes.append("titans-pytorch left out: not installed (pip install 'memjax[bench]').")
    results = {
        "command": timing.command(),
        "machine": machine,
        "sizes": dataclasses.asdict(sizes),
        "quick": args.quick,
        "differences": differences,
        "rows": rows,
        "ratios": ratios,
        "matmul": rates,
        "targets": judge(sizes, rows, ratios),
        "notes": notes,
    }
    printed_tables.surprise(results)
    if args.out:
        timing.save(args.out, results)
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
