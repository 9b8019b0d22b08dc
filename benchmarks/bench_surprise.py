"""How fast is surprise memory? A layer of it, forward and gradient, against titans-pytorch and plain scans, in one run.

    python benchmarks/bench_surprise.py              # B=1, 4 heads of 64, L = 2,048 to 65,536
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
- LMM sequential        LMM token by token, forward alone: what to take where nothing is trained

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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import counting
import jax
import jax.numpy as jnp
import numpy as np
import surprise_layers
import timing
from rich.console import Console
from rich.table import Table

from memjax import ops
from memjax.typing import PyTree

try:
    import torch
    import torch_titans
except ImportError:
    torch = None

ROOT = Path(__file__).parents[1]
TOLERANCE = 1e-4
BLOCK = 2048  # tokens
MATMUL = "matmul"
PEAKS_UP_TO = 4096  # tokens: a process for each, most of whose time is compiling
RESET_PEAK = Path("/proc/self/clear_refs")  # of Linux; elsewhere there are no peaks
JOBS = ("forward", "gradient")
OURS = ("token", "chunk", "mlp", "sequential", "associative")
THEIRS = {  # depth of the memory, tokens that share a gate
    "titans, per token": (1, 1),
    "titans, per chunk": (1, 64),
    "titans mlp, per token": (2, 1),
    "titans mlp, per chunk": (2, 64),
}
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


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of one benchmark run."""

    lengths: tuple[int, ...] = (2048, 4096, 16384, 65536)
    heads: int = 4
    width: int = 64  # of a head
    expansion: float = 4.0  # of the MLP memory
    chunk: int = 64
    matmul: int = 2048  # rows and columns of the matrices whose product is the measure


QUICK = Sizes(lengths=(128,), heads=2, width=8, matmul=128)


def layer(params: dict, state: PyTree, x: jax.Array, *, name: str, chunk: int) -> tuple[PyTree, jax.Array]:
    """Our side: the layer of titans-pytorch, `[L, d]` in and out, around our op."""
    heads = params["lr"][1].shape[0]

    def norm(weight):
        return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + jnp.finfo(x.dtype).eps) * weight

    def split(y):
        return y.reshape(*y.shape[:-1], heads, -1).swapaxes(0, 1)

    stored, read = norm(params["store_norm"]), norm(params["read_norm"])
    q, k, v = split(read @ params["q"]), split(stored @ params["k"]), split(stored @ params["v"])
    lr, momentum, decay = (stored @ params[gate][0] + params[gate][1] for gate in ("lr", "momentum", "decay"))
    # Its loss is the mean of |M(k) - v|^2 over the width, ours half the sum.
    lr = jax.nn.sigmoid(lr) * (2 / v.shape[-1])
    gates = [gate.T for gate in (jax.nn.log_sigmoid(-decay), jax.nn.log_sigmoid(momentum), lr)]
    out, state = jax.vmap(partial(memory, name, chunk))(state, q, k, v, *gates)
    out = out * jax.nn.sigmoid(read @ params["read_gate"]).T[:, :, None]
    return state, out.swapaxes(0, 1).reshape(x.shape) @ params["out"]


def memory(name: str, chunk: int, state: tuple[PyTree, PyTree], *tokens: jax.Array):
    """One head. Its state: the memory's matrices and their momenta."""
    if name == "mlp":
        gelu = partial(jax.nn.gelu, approximate=False)
        out, end = ops.surprise_mlp(state[0], *tokens, ops.SurpriseState(*state), activation=gelu, chunk_size=chunk)
        return out, (end.memory, end.momentum)
    impl = name if name in ("sequential", "associative") else "closed_form"
    size = len(tokens[0]) if name == "sequential" else chunk  # the plain scan knows no chunks
    start = ops.SurpriseState(*(matrices[0] for matrices in state))
    gradient_at = "chunk" if name == "chunk" else "token"
    out, end = ops.surprise_linear(*tokens, start, gradient_at=gradient_at, impl=impl, chunk_size=size)
    return out, ((end.memory,), (end.momentum,))


def start_of(params: dict) -> tuple[PyTree, PyTree]:
    """The learned memory, and no momentum."""
    return params["memory"], jax.tree.map(jnp.zeros_like, params["memory"])


def read_whole(params: dict, x: jax.Array, *, name: str, chunk: int) -> jax.Array:
    """The layer over a sequence."""
    return layer(params, start_of(params), x, name=name, chunk=chunk)[1]


def read_in_blocks(params: dict, x: jax.Array, *, name: str, chunk: int) -> jax.Array:
    """The same, `BLOCK` tokens at a time where that many divide the sequence."""
    if x.shape[0] % BLOCK:
        return read_whole(params, x, name=name, chunk=chunk)
    step = partial(layer, params, name=name, chunk=chunk)
    return jax.lax.scan(step, start_of(params), x.reshape(-1, BLOCK, x.shape[1]))[1].reshape(x.shape)


def peer(sizes: Sizes, name: str, seed: int):
    """The contender of titans-pytorch; its weights are a function of its sizes and the seed."""
    depth, gates_every = THEIRS[name]
    gates_every = 1 if gates_every == 1 else sizes.chunk
    return torch_titans.make(sizes.heads, sizes.width, depth, sizes.expansion, sizes.chunk, gates_every, seed)


def params_of(sizes: Sizes, name: str, seed: int) -> dict:
    """Our weights: the peer's if there is one, else some of the same shapes."""
    depth = 2 if name == "mlp" else 1
    if torch is not None:
        module = peer(sizes, "titans mlp, per token" if depth == 2 else "titans, per token", seed)
        return jax.tree.map(jnp.asarray, torch_titans.weights(module))
    keys = iter(jax.random.split(jax.random.key(seed), 16))
    heads, width, inside = sizes.heads, sizes.heads * sizes.width, int(sizes.expansion * sizes.width)

    def normal(*shape):
        return (
            jax.random.normal(next(keys), shape) * (3 * shape[-2]) ** -0.5
        )  # as torch begins; with more the MLP diverges

    widths = (sizes.width, inside, sizes.width) if depth == 2 else (sizes.width, sizes.width)
    params = {name: normal(width, width) for name in ("q", "k", "v", "out")}
    params |= {
        name: (normal(width, heads), jnp.full(heads, bias))
        for name, bias in (("lr", -3.0), ("momentum", 0.0), ("decay", -4.0))
    }
    params |= {"store_norm": jnp.ones(width), "read_norm": jnp.ones(width), "read_gate": normal(width, heads)}
    return params | {"memory": tuple(normal(heads, a, b) for a, b in itertools.pairwise(widths))}


def stream(sizes: Sizes, length: int, seed: int) -> np.ndarray:
    """One sequence of unit variance `[L, H * d]`."""
    shape = (length, sizes.heads * sizes.width)
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def ready(sizes: Sizes, name: str, job: str, length: int, seed: int) -> tuple[Callable[[], Any], dict]:
    """A contender ready to be called, and the facts of its compilation."""
    x = stream(sizes, length, seed)
    if name in THEIRS:
        return torch_titans.job(job, peer(sizes, name, seed), x[None]), {}
    x = jnp.asarray(x)
    if name in surprise_layers.LAYERS:
        one = surprise_layers.make(name, sizes.heads, sizes.width, sizes.expansion, sizes.chunk)
        params, function = one.init(jax.random.key(seed), x[: sizes.chunk]), surprise_layers.jobs(one, BLOCK)[job]
    else:
        params, kind = params_of(sizes, name, seed), {"name": name, "chunk": sizes.chunk}
        slope = jax.value_and_grad(lambda p, x: jnp.square(read_whole(p, x, **kind)).mean(), argnums=(0, 1))
        function = partial(read_in_blocks, **kind) if job == "forward" else slope
    run, facts = timing.compiled(function, params, x)
    facts["flops"] = counting.products(jax.make_jaxpr(function)(params, x).jaxpr)["flops"]
    return partial(run, params, x), facts


def matmul(sizes: Sizes) -> Callable[[], Any]:
    """One product of large matrices, ready to be called."""
    a, b = jax.random.normal(jax.random.key(0), (2, sizes.matmul, sizes.matmul))
    return partial(timing.compiled(partial(jnp.matmul, precision="highest"), a, b)[0], a, b)


def check(sizes: Sizes, seed: int) -> dict[str, float]:
    """Largest differences between outputs of what should be equal, on sequences that end inside a chunk and do not."""
    pairs = [("token", "sequential"), ("token", "associative"), ("LMM", "LMM sequential")]
    if torch is not None:
        pairs += [("chunk", "titans, per token"), ("mlp", "titans mlp, per token")]
    found = {}

    def compare(what: str, ours: np.ndarray, other: np.ndarray) -> None:
        found[what] = float(np.abs(ours - other.reshape(ours.shape)).max() / np.abs(ours).max())
        if not found[what] < TOLERANCE:
            raise SystemExit(f"not the same function: {what} differ by {found[what]:.2e}")

    for length in (3 * sizes.chunk, 2 * sizes.chunk + 5):
        for names in pairs:
            both = (np.asarray(ready(sizes, name, "forward", length, seed)[0]()) for name in names)
            compare(f"{names[0]} and {names[1]}, L={length}", *both)
    x = jnp.asarray(stream(sizes, 2 * BLOCK, seed))
    for name in ("token", "chunk", "mlp"):
        params = params_of(sizes, name, seed)
        ways = (jax.jit(partial(read, name=name, chunk=sizes.chunk)) for read in (read_whole, read_in_blocks))
        compare(f"{name}, whole and in blocks, L={2 * BLOCK}", *(np.asarray(way(params, x)) for way in ways))
    for name in surprise_layers.LAYERS:
        one = surprise_layers.make(name, sizes.heads, sizes.width, sizes.expansion, sizes.chunk)
        params = one.init(jax.random.key(seed), x[: sizes.chunk])
        ways = (surprise_layers.read_whole, partial(surprise_layers.read_in_blocks, block=BLOCK))
        both = (np.asarray(jax.jit(partial(way, one))(params=params, x=x)) for way in ways)
        compare(f"{name}, whole and in blocks, L={2 * BLOCK}", *both)
    return found


def fits(sizes: Sizes, name: str, length: int, memory_gb: float) -> bool:
    """Whether the gradient of a contender may be tried."""
    parameters = sizes.width**2 * (2 * sizes.expansion if "mlp" in name else 1)
    return STATES_PER_TOKEN.get(name, 0) * 4 * parameters * sizes.heads * length <= memory_gb * 1e9


def peak(name: str, job: str, length: int, args) -> int:
    """Bytes that a fresh process needs above what it held before, with one call of the job."""
    options = ["--quick"] if args.quick else []
    command = [sys.executable, __file__, *options, f"--seed={args.seed}", "--peak", name, job, str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


def print_peak(sizes: Sizes, name: str, job: str, length: int, seed: int) -> None:
    """What `peak` runs. A small call first, so that libraries and compilers are not counted."""
    ready(sizes, name, job, sizes.chunk, seed)[0]()
    call, _ = ready(sizes, name, job, length, seed)
    # Not ru_maxrss: it begins with what the parent held, and compiling takes more than a small job.
    status = Path("/proc/self/status")
    RESET_PEAK.write_text("5")  # the high-water mark begins again, at what is held now
    before = _high_water(status)
    jax.block_until_ready(call())
    print(_high_water(status) - before)


def _high_water(status: Path) -> int:
    return next(1024 * int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def measure(sizes: Sizes, args) -> tuple[list[dict], list[dict], list[dict], list[str]]:
    """Rows of times, rows of ratios, what a product of matrices made a second beside them, and what was left out."""
    rows, ratios, rates, notes = [], [], [], []
    contenders = [*OURS, *surprise_layers.LAYERS, *(THEIRS if torch is not None else ())]
    product, work = matmul(sizes), 2.0 * sizes.matmul**3
    for length in sizes.lengths:
        names = [name for name in contenders if fits(sizes, name, length, args.memory_gb)]
        if left := [name for name in contenders if name not in names]:
            notes.append(f"L={length}: {'; '.join(left)} left out, they would not fit into {args.memory_gb:g} GB.")
        for job in JOBS:
            ready_for = [name for name in names if job == "forward" or name not in surprise_layers.INFERENCE]
            print(f"{job}, L={length}: {'; '.join(ready_for)}", file=sys.stderr, flush=True)
            made = {name: ready(sizes, name, job, length, args.seed) for name in ready_for}
            calls = {MATMUL: product} | {name: call for name, (call, _) in made.items()}
            times = timing.take_turns(calls, args.repeats)
            where, of_product = {"L": length, "job": job}, times.pop(MATMUL)
            rates.append({**where, "flops_per_s": timing.spread([work / seconds for seconds in of_product])})
            for name, values in times.items():
                facts = made[name][1]
                if job == "gradient" and length <= PEAKS_UP_TO and os.access(RESET_PEAK, os.W_OK):
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


def judge(sizes: Sizes, rows: list[dict], ratios: list[dict]) -> list[dict]:
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


def show(results: dict) -> None:
    """Prints the results as tables."""
    console = Console(width=120)
    table = Table("job", "L", "contender", "tokens/s", "ms (quartiles)", "compile s", "temp MB", "peak MB", "matmul %")
    for column in table.columns[3:]:
        column.justify = "right"
    for row in results["rows"]:
        compile_s = f"{row['compile_s']:.1f}" if "compile_s" in row else "-"
        temp = f"{row['temp_bytes'] / 1e6:.0f}" if "temp_bytes" in row else "-"
        spread = f"{1e3 * row['median']:.1f} ({1e3 * row['q1']:.1f}-{1e3 * row['q3']:.1f})"
        peak_mb = f"{row['peak_bytes'] / 1e6:.0f}" if "peak_bytes" in row else "-"
        where = row["job"], str(row["L"]), row["contender"]
        share = f"{100 * row['matmul_share']:.0f}" if "matmul_share" in row else "-"
        table.add_row(*where, f"{row['tokens_per_s']:,.0f}", spread, compile_s, temp, peak_mb, share)
    console.print(table)
    for row in results.get("matmul", ()):
        rate = f"{row['flops_per_s']['median'] / 1e9:.0f} GFLOP/s"
        console.print(f"Beside {row['job']}, L={row['L']}, a product of matrices made {rate}.", highlight=False)
    table = Table("job", "L", "ratio, turn by turn", "median", "quartiles")
    for row in results["ratios"]:
        quartiles = f"{row['q1']:.2f}-{row['q3']:.2f}"
        table.add_row(row["job"], str(row["L"]), row["ratio"], f"{row['median']:.2f}", quartiles)
    console.print(table)
    table = Table("target", "found", "met")
    for row in results["targets"]:
        table.add_row(row["target"], f"{row['found']:.3f}", "yes" if row["met"] else "[bold red]NO[/]")
    console.print(table)
    for note in results["notes"]:
        console.print(note, highlight=False)


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
    sizes = QUICK if args.quick else Sizes()
    if torch is not None:
        torch.set_num_threads(timing.cores())
    if args.peak:
        name, job, length = args.peak
        print_peak(sizes, name, job, int(length), args.seed)
        return
    if args.lengths:
        sizes = dataclasses.replace(sizes, lengths=tuple(args.lengths))
    machine = timing.machine()
    differences = check(sizes, args.seed)
    rows, ratios, rates, notes = measure(sizes, args)
    if torch is None:
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
    show(results)
    if args.out:
        timing.save(args.out, results)
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
