"""How fast is the kernel of a chunk of surprise memory on this accelerator? Beside the closed form, in turns.

    python benchmarks/bench_kernel.py              # on a GPU or TPU: 256 heads, 2,048 tokens each
    python benchmarks/bench_kernel.py --quick      # tiny sizes: does it run?

Forward, and the gradient by all inputs. `error` is that of what is read, relative to the largest number of it, from
the recurrence token by token in float64; of the gradient by the keys likewise. `share` is what the kernel's products
(results/kernel_limits.json) make a second, over what one product of large float32 matrices in full precision makes,
which takes its turn beside the others. Kept in results/bench_kernel.json, row by row: on a GPU the programs of a row
take up to a minute to compile.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kernel_limits
import numpy as np
import timing

from memjax import ops

RESULTS = Path(__file__).parents[1] / "results" / "bench_kernel.json"
HEADS, LENGTH, MATRIX = 256, 2048, 8192
WAYS = ("pallas", "closed_form")
Inputs = tuple[jax.Array, ...]


def tokens(heads: int, length: int, width: int) -> Inputs:
    """q, k, v and gates of many heads: keys of unit length, a memory that keeps things for some 1,000 tokens."""
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, heads, length, width)) / np.sqrt([width, width, 1])[:, None, None, None]
    keep, momentum, lr = rng.uniform([0.997, 0.3, 0.0], [1.0, 0.9, 0.5], (heads, length, 3)).transpose(2, 0, 1)
    return tuple(jnp.asarray(x, jnp.float32) for x in (q, k, v, np.log(keep), np.log(momentum), lr))


def read(impl: str, chunk: int, inputs: Inputs) -> jax.Array:
    """What all heads read."""
    return jax.vmap(lambda *x: ops.surprise_linear(*x, chunk_size=chunk, impl=impl)[0])(*inputs)


def gradient(impl: str, chunk: int, inputs: Inputs) -> Inputs:
    """Of a mean square of what is read, by all inputs."""
    return jax.grad(lambda x: jnp.square(read(impl, chunk, x)).mean())(inputs)


JOBS: dict[str, Callable[[str, int, Inputs], Any]] = {"forward": read, "backward": gradient}


def errors(chunk: int, inputs: Inputs) -> dict[str, dict[str, float]]:
    """Of each way and job, from float64, on two heads."""
    few = tuple(x[:2] for x in inputs)
    with jax.enable_x64(True):
        exact = tuple(x.astype(jnp.float64) for x in few)
        truth = {job: jax.device_get(jax.jit(partial(f, "sequential", chunk))(exact)) for job, f in JOBS.items()}
    found: dict[str, dict[str, float]] = {impl: {} for impl in WAYS}
    for impl in WAYS:
        for job, f in JOBS.items():
            got, want = jax.jit(partial(f, impl, chunk))(few), truth[job]
            got, want = (got, want) if job == "forward" else (got[1], want[1])
            found[impl][job] = float(np.abs(np.asarray(got) - want).max() / np.abs(want).max())
    return found


def rows_of(chunk: int, width: int, heads: int, length: int, repeats: int, matrix: int) -> Iterator[dict[str, Any]]:
    """A row for each job.

    Args:
        chunk: its tokens, C.
        width: of keys and values, d.
        heads: side by side.
        length: tokens of each.
        repeats: turns.
        matrix: the size of the product that takes its turn too.
    """
    inputs = tokens(heads, length, width)
    side = jnp.ones((matrix, matrix))
    product = jax.jit(partial(jnp.matmul, precision="highest"))
    error = errors(chunk, inputs)
    flops = {row["job"]: row["flops"] / chunk for row in kernel_limits.limits(chunk, width)}
    flops["backward"] += flops["forward"]  # a gradient is both
    for job, f in JOBS.items():
        ready = {impl: timing.compiled(partial(f, impl, chunk), inputs) for impl in WAYS}
        contenders: dict[str, Callable[[], Any]] = {impl: partial(run, inputs) for impl, (run, _) in ready.items()}
        times = timing.take_turns(contenders | {"matmul": partial(product, side, side)}, repeats)
        rate = 2 * matrix**3 / timing.spread(times["matmul"])["median"]
        row: dict[str, Any] = {"C": chunk, "d": width, "job": job, "matmul_flops": rate}
        for impl in WAYS:
            pace = heads * length / timing.spread(times[impl])["median"]
            row[impl] = {"tokens_per_s": pace, "error": error[impl][job], **ready[impl][1]}
        row["pallas"]["share"] = row["pallas"]["tokens_per_s"] * flops[job] / rate
        row["closed_form/pallas"] = timing.ratio(times["closed_form"], times["pallas"])
        yield row


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run?")
    parser.add_argument("--repeats", type=int, default=15, help="turns")
    parser.add_argument("--out", type=Path, help="the file to write; results/bench_kernel.json, and none for --quick")
    options = parser.parse_args(argv)
    out = options.out or (None if options.quick else RESULTS)
    heads, length, matrix = (2, 24, 16) if options.quick else (HEADS, LENGTH, MATRIX)
    how = {"heads": heads, "length": length, "repeats": options.repeats, "matrix": matrix}
    sizes = ((8, 8),) if options.quick else kernel_limits.SIZES[:4]
    rows: list[dict[str, Any]] = []
    found = {"machine": timing.machine() | {"device": jax.devices()[0].device_kind}, "sizes": how, "rows": rows}
    for chunk, width in sizes:
        for row in rows_of(chunk, width, **how):
            rows.append(row)
            print(row, flush=True)
            if out:
                timing.save(out, {"command": timing.command(), **found})


if __name__ == "__main__":
    main()
