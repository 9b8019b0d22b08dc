"""When does a CPU read surprise memory token by token sooner than by chunks? Values alone, nothing derived.

    python benchmarks/bench_token_by_token.py
    python benchmarks/bench_token_by_token.py --quick      short sequences: does it run?

Layers of two heads, `LMM` with `impl="closed_form"` and with `impl="sequential"`; keys of 16 to 128 numbers. The two
take turns. `ops.surprise_linear` with `impl="auto"` decides by `SMALL_KEYS`, which follows from this.
"""

import itertools
from pathlib import Path
from typing import Any

import jax
import timing

from memjax.layers import LMM

ROOT = Path(__file__).parents[1]
HEADS = 2
FULL = {"keys": (16, 32, 64, 128), "sequences": (1, 8), "tokens": (256, 2048)}
QUICK = {"keys": (4,), "sequences": (2,), "tokens": (8,)}
IMPLS = ("closed_form", "sequential")


def measure(keys: int, sequences: int, tokens: int, repeats: int) -> dict[str, Any]:
    """Seconds of both ways, and their ratio."""
    width = HEADS * keys
    x, calls = jax.random.normal(jax.random.key(0), (sequences, tokens, width)), {}
    params = LMM(width=width, heads=HEADS).init(jax.random.key(1), x[0])
    for impl in IMPLS:
        layer = LMM(width=width, heads=HEADS, impl=impl)
        read, _ = timing.compiled(jax.vmap(lambda x, layer=layer: layer.apply(params, x)[0]), x)
        calls[impl] = lambda read=read: read(x)
    times = timing.take_turns(calls, repeats)
    row = {"keys": keys, "sequences": sequences, "tokens": tokens}
    row |= {impl: timing.spread(seconds) for impl, seconds in times.items()}
    return row | {"closed_form/sequential": timing.ratio(*(times[impl] for impl in IMPLS))}


def main() -> None:
    """Measures, shows and keeps it."""
    args = timing.arguments(__doc__, 9, ROOT / "results" / "bench_token_by_token.json")
    machine, sizes, rows = timing.machine(), QUICK if args.quick else FULL, []
    for keys, sequences, tokens in itertools.product(*sizes.values()):
        rows.append(measure(keys, sequences, tokens, args.repeats))
        ratio = rows[-1]["closed_form/sequential"]["median"]
        print(f"keys of {keys}, {sequences} x {tokens} tokens: by chunks takes {ratio:.2f} times as long")
    if args.out:
        told = {"command": timing.command(), "machine": machine, "quick": args.quick, "repeats": args.repeats}
        timing.save(args.out, told | {"rows": rows})
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
