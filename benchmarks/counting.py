"""What a program has to do, counted without running it: products in the traced one, messages in the compiled one."""

import math
import re
from typing import Any


def products(jaxpr: Any) -> dict[str, float]:
    """Flops, bytes in and out, and number of all matrix products that a traced program makes; loops count in full."""
    total = dict.fromkeys(("flops", "bytes", "count"), 0.0)
    for equation in jaxpr.eqns:
        inner = [products(program) for program in inside(equation)]
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


def inside(equation: Any) -> list[Any]:
    """The programs that an equation of a traced program has in it: a loop's body, branches, a kernel."""
    values = [value if isinstance(value, tuple) else (value,) for value in equation.params.values()]
    programs = [getattr(part, "jaxpr", part) for parts in values for part in parts]
    return [program for program in programs if hasattr(program, "eqns")]


def _devices(rest: str) -> int:
    """How many devices a message goes between, of what a compiled program says behind its kind."""
    if of_mesh := re.search(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}", rest):  # as JAX 0.12 has it: 'a'=2,'b'=4 and 'b'
        sizes = dict(re.findall(r"('\w+')=(\d+)", of_mesh[1]))
        return math.prod(int(sizes[axis]) for axis in of_mesh[2].split(","))
    groups = re.search(r"replica_groups=(?:\[\d+,(\d+)\]|\{\{([\d,]*)\})", rest)
    return int(groups[1] or len(groups[2].split(","))) if groups else 2


def messages(text: str, side: int) -> dict[str, dict[str, float]]:
    """For each kind of message of a compiled step: how many there are, the bytes that a device sends, and the hops.

    One in a loop counts once: the steps have none there. They go round rings of at most `side` devices; to more of them
    along one axis of a torus, then along the other.
    """
    pattern = r"= (\(.*?\)|\S+) (all-reduce|all-gather|reduce-scatter|collective-permute)(?:-start)?\((.*)"
    width = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2, "pred": 1, "s64": 8}
    found: dict[str, dict[str, float]] = {}
    for out, kind, rest in re.findall(pattern, text):
        size = sum(
            width[kind_of] * math.prod(map(int, filter(None, dims.split(","))))
            for kind_of, dims in re.findall(r"(\w+)\[([\d,]*)\]", out)
        )
        ring = _devices(rest)
        share = {"all-reduce": 2 * (ring - 1) / ring, "all-gather": (ring - 1) / ring, "reduce-scatter": ring - 1}
        hops = {"collective-permute": 1}.get(kind, ring - 1 if ring <= side else 2 * (math.isqrt(ring) - 1))
        one = found.setdefault(kind, {"count": 0, "bytes": 0.0, "hops": 0})
        one["count"] += 1
        one["bytes"] += size * share.get(kind, 1)
        one["hops"] += hops * (2 if kind == "all-reduce" else 1)
    return found
