"""What the kernel of a chunk of surprise memory may reach on a TPU v5e and an H200, on paper; neither is needed.

    python benchmarks/kernel_limits.py

Counts, for one head and a chunk of C tokens of width d, the flops of the kernel's matrix products and the bytes that it
reads and writes, forward and backward; and both where every product is a kernel of its own, as in the closed form
without this one, which has fewer. Kept in results/kernel_limits.json.
"""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from counting import inside, products
from timing import save

from memjax import ops
from memjax.ops.surprise_kernel import kernel_chunk

RESULTS = Path(__file__).parents[1] / "results" / "kernel_limits.json"
SIZES = ((32, 32), (64, 32), (64, 64), (128, 64), (128, 128))  # C, d
# Published peaks. In full precision, a product in float32 is six in bfloat16 on a TPU; a GPU has units for float32.
DEVICES = {"TPU v5e": {"flops": 197e12 / 6, "bytes": 819e9}, "H200": {"flops": 67e12, "bytes": 4.8e12}}


def limits(size: int, width: int) -> list[dict[str, Any]]:
    """A row for each direction: flops and bytes of a chunk of one head, and how long each device needs at least.

    Args:
        size: of the chunk, C.
        width: of keys and values, d.
    """
    matrix, tokens, gate = (jnp.zeros(shape) for shape in ((width, width), (size, width), (size,)))
    mask, inputs = jnp.ones(size, bool), (matrix, matrix, tokens, tokens, tokens, gate, gate, gate, gate)

    def by_kernel(*inputs):
        (end, surprise), out = kernel_chunk(None, *inputs, mask, slope=lambda r: r)
        return end.sum() + surprise.sum() + out.sum()

    def without(q, k, v, log_keep, log_momentum, lr):
        state = ops.SurpriseState(matrix, matrix)
        return ops.surprise_linear(q, k, v, log_keep, log_momentum, lr, state, chunk_size=size)[0].sum()

    both = jax.make_jaxpr(jax.grad(by_kernel, range(len(inputs))))(*inputs)
    kernels = list(_kernels(both.jaxpr))
    plain = [products(jax.make_jaxpr(f)(*inputs[2:8]).jaxpr) for f in (without, jax.grad(without, range(6)))]
    rows = []
    # The same kernel stands there once for each platform.
    for name, kernel, xla in (("forward", kernels[0], plain[0]), ("backward", kernels[-1], plain[1])):
        flops = products(kernel.params["jaxpr"])["flops"]
        moved = sum(math.prod(x.aval.shape) * x.aval.dtype.itemsize for x in (*kernel.invars, *kernel.outvars))
        own, before = (xla[kind] - (plain[0][kind] if name == "backward" else 0) for kind in ("flops", "bytes"))
        row = {"C": size, "d": width, "job": name, "flops": flops, "bytes": moved}
        row |= {"flops_of_products": own, "bytes_of_products": before}
        for device, peak in DEVICES.items():
            seconds = {kind: amount / peak[kind] for kind, amount in (("flops", flops), ("bytes", moved))}
            row[device] = {
                "bound": max(seconds, key=seconds.__getitem__),
                "tokens_per_s": size / max(seconds.values()),
                "without": size / max(own / peak["flops"], before / peak["bytes"]),
            }
        rows.append(row)
    return rows


def _kernels(jaxpr: Any) -> Iterator[Any]:
    """The calls of kernels in a traced program, in their order."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "pallas_call":
            yield equation
        else:
            for program in inside(equation):
                yield from _kernels(program)


def main(argv: list[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    rows = [row for sizes in SIZES for row in limits(*sizes)]
    save(RESULTS, {"command": "python benchmarks/kernel_limits.py", "devices": DEVICES, "rows": rows})


if __name__ == "__main__":
    main()
