"""Fair timings on a shared machine: contenders take turns, ratios are taken turn by turn, medians are quoted."""

import argparse
import importlib.metadata
import json
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

PAUSE_S = 0.01  # lets one library's worker threads stop spinning before the other's turn


def compiled(fn: Callable, *args, donate: tuple[int, ...] = ()) -> tuple[Callable, dict[str, float]]:
    """Compiles ahead of time: `(executable, {"compile_s", "temp_bytes"})`, so that memory is known before a run."""
    start = time.perf_counter()
    executable = jax.jit(fn, donate_argnums=donate).lower(*args).compile()
    facts = {"compile_s": time.perf_counter() - start}
    analysis = executable.memory_analysis()
    if analysis is not None:
        facts["temp_bytes"] = analysis.temp_size_in_bytes
    return executable, facts


def take_turns(contenders: Mapping[str, Callable[[], Any]], repeats: int, calls: int = 1) -> dict[str, list[float]]:
    """Seconds per call of each contender, in turns A B C A B C ..; each turn times `calls` calls after one untimed.

    A contender returns what it computed, which is waited for. One whole untimed round comes first.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, call in contenders.items():
            time.sleep(PAUSE_S)
            if calls > 1:
                jax.block_until_ready(call())
            start = time.perf_counter()
            for _ in range(calls):
                jax.block_until_ready(call())
            if turn:
                times[name].append((time.perf_counter() - start) / calls)
    return times


def spread(values: list[float]) -> dict[str, float]:
    """Median, quartiles and extremes."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": statistics.median(values), "q1": low, "q3": high, "min": min(values), "max": max(values)}


def ratio(numerator: list[float], denominator: list[float]) -> dict[str, float]:
    """The spread of the ratios taken turn by turn: what slows the machine for a while slows both sides."""
    return spread([a / b for a, b in zip(numerator, denominator, strict=True)])


def machine() -> dict[str, Any]:
    """Where the numbers come from: processor, cores, versions, load at the start."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    versions = {}
    for package in ("jax", "jaxlib", "flax", "optax", "numpy", "torch"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "cpu": model,
        "cores": cores(),
        "load": [round(x, 2) for x in os.getloadavg()],
        "platform": platform.platform(),
        "backend": jax.default_backend(),
        "python": platform.python_version(),
        **versions,
    }


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def command() -> str:
    """The command line that is running, to be typed again."""
    return shlex.join(["python", *sys.argv])


def arguments(doc: str | None, repeats: int, out: Path) -> argparse.Namespace:
    """--quick, --repeats and --out of a benchmark; where nothing is to be written, `out` is None.

    Args:
        doc: what it does, for --help.
        repeats: how many turns, if nothing is said.
        out: the file of results.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; no number means anything")
    parser.add_argument("--repeats", type=int, default=repeats, help="timed turns of each")
    parser.add_argument("--out", type=Path, help="where the JSON goes; default: results/, but nowhere with --quick")
    args = parser.parse_args()
    args.out = args.out or (None if args.quick else out)
    return args


def save(path: str | Path, results: Mapping[str, Any]) -> None:
    """Writes results as JSON, making the folder if there is none."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
