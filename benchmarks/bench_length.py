"""Does a token cost the same in a long sequence? A layer of surprise memory at 4,096 and at 65,536 tokens.

    python benchmarks/bench_length.py
    python benchmarks/bench_length.py --quick        # short ones: does it run?

The layers, weights and jobs of bench_surprise.py. The two lengths take turns, the short one as often in its turn as
makes up the long one, and ratios are taken turn by turn: what slows the machine for a while slows both.
"""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import jax
import surprise_contenders as contenders
import timing
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
LIMIT = 1.1  # cost of a token in the long sequence over that in the short one
LENGTHS, QUICK = (4096, 65536), (128, 512)


def measure(sizes: contenders.Sizes, lengths: tuple[int, int], args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each layer and job."""
    short, long = lengths
    rows = []
    for name in ("token", "chunk", "mlp"):
        for job in contenders.JOBS:
            print(f"{name}, {job}", file=sys.stderr, flush=True)
            once = {length: contenders.ready(sizes, name, job, length, args.seed)[0] for length in lengths}

            def often(call=once[short]):
                for _ in range(long // short - 1):
                    jax.block_until_ready(call())
                return call()

            # The same work for both: as many tokens.
            times = timing.take_turns({"long": once[long], "short": often}, args.repeats)
            pace = {which: 1e6 * timing.spread(values)["median"] / long for which, values in times.items()}
            ratio = timing.ratio(times["long"], times["short"])
            rows.append({"layer": name, "job": job, "us_per_token": pace, "long/short": ratio})
    return rows


def main() -> None:
    """Runs everything, prints the table, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short sequences; no number means anything")
    parser.add_argument("--repeats", type=int, default=9, help="timed turns of each length")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the JSON goes; default: results/, but nowhere with --quick")
    args = parser.parse_args()
    out = args.out or (None if args.quick else ROOT / "results" / "bench_length.json")
    sizes, lengths = (contenders.QUICK, QUICK) if args.quick else (contenders.Sizes(), LENGTHS)
    machine = timing.machine()
    rows = measure(sizes, lengths, args)
    table = Table("layer", "job", *(f"us/token, L={length:,}" for length in lengths), "ratio (quartiles)", "below 1.1")
    for row in rows:
        ratio, pace = row["long/short"], row["us_per_token"]
        spread = f"{ratio['median']:.3f} ({ratio['q1']:.3f}-{ratio['q3']:.3f})"
        met = "yes" if ratio["median"] < LIMIT else "[bold red]NO[/]"
        table.add_row(row["layer"], row["job"], f"{pace['short']:.2f}", f"{pace['long']:.2f}", spread, met)
    Console(width=120).print(table)
    if out:
        found = {"command": timing.command(), "machine": machine, "sizes": dataclasses.asdict(sizes)}
        timing.save(out, found | {"lengths": lengths, "quick": args.quick, "rows": rows})
        print(f"wrote {out}")


if __name__ == "__main__":
    main()
