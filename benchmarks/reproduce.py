"""Trains the runs of a table, one after another, and collects them: a finished run is not run again.

    python benchmarks/reproduce.py evidence_demo
    python benchmarks/reproduce.py evidence_small [--runs=runs/small] [--seeds=3] [--only=rehearsal,continual]
    python benchmarks/reproduce.py babi_single --data_dir=data [--only=1,6]

Every run is a `memjax train` command, kept with its figures in results/TABLE.json, and can be stopped and taken up at
any time. Several of these side by side, with different --only, share the work: --collect alone writes the file. What is
in that file counts as finished: to make its figures anew, delete it.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import jax

ABLATIONS = {
    "rehearsal": "",
    "continual": "",
    "no rehearsal": "--config.rehearsal.fragments=0",
    "recollection only": "--config.rehearsal.familiarity=0",
    "familiarity only": "--config.rehearsal.recollection=0",
    "random sampler": "--config.rehearsal.sampler=random",
    "Directly Reason": "",
    "Multi-Hop Reason": "",
}
VARIANTS = {
    "continual": ",memory=continual",
    "Directly Reason": ",system=directly",
    "Multi-Hop Reason": ",system=multi_hop",
}
DEMO = ("rehearsal", "no rehearsal", "Directly Reason", "Multi-Hop Reason")
BABI_TASKS = ("1", "6", "9", "15", "20")


def commands(table: str, seeds: int, data_dir: str) -> dict[tuple[str, int], str]:
    """The command of each (row, seed) of a table, without its --run; seeds outermost, to compare rows early."""
    if table in ("evidence_demo", "evidence_small"):
        rows = {row: ABLATIONS[row] for row in (ABLATIONS if table == "evidence_small" else DEMO)}
        size = table.removeprefix("evidence_")
        return {
            (row, seed): f"--config=configs/evidence.py:{size},seed={seed}{VARIANTS.get(row, '')} {extra}".strip()
            for seed in range(seeds)
            for row, extra in rows.items()
        }
    return {
        (task, seed): f"--config=configs/babi.py:rehearsal,task={task},seed={seed} --data_dir={data_dir}"
        for seed in range(seeds)
        for task in BABI_TASKS
    }


def collect(table: str, runs: Path, wanted: dict[tuple[str, int], str], out: Path) -> None:
    """Writes what is finished; figures of runs that are not in `wanted` any more are kept as they were."""
    known = json.loads(out.read_text())["runs"] if out.exists() else {}
    for (row, seed), command in wanted.items():
        folder = run_folder(runs, row, seed)
        if not (folder / "evaluation.json").exists():
            continue
        evaluation = json.loads((folder / "evaluation.json").read_text())
        entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        curve = [[e["step"], round(e["accuracy"], 4)] for e in entries if e["phase"] == "train" and "split" in e]
        # Seconds start again with each phase and each resume: add up the stretches.
        seconds = [e["seconds"] for e in entries if "seconds" in e]
        total = sum(a for a, b in zip(seconds, [*seconds[1:], 0.0]) if b < a)
        known[run_name(row, seed)] = {
            "row": row,
            "seed": seed,
            "command": f"memjax train {command}",
            "seconds": round(total, 1),
            **{key: evaluation[key] for key in ("step", "parameters", "state_bytes", "metrics", "sampler")},
            "validation": curve,
        }
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "jax": jax.__version__}
    command = f"python benchmarks/reproduce.py {table}"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"command": command, "machine": machine, "runs": known}, indent=1) + "\n")


def run_name(row: str, seed: int) -> str:
    """What a run is called in results/."""
    return f"{row}, seed {seed}"


def run_folder(runs: Path, row: str, seed: int) -> Path:
    """Where a run of a table is kept."""
    return runs / f"{row.replace(' ', '-').lower()}-{seed}"


def main() -> None:
    """Runs what is missing, then collects."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("babi_single", "evidence_demo", "evidence_small"))
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--data_dir", default="data")
    parser.add_argument("--collect", action="store_true", help="train nothing")
    args = parser.parse_args()
    runs = args.runs or Path("runs") / args.table
    out = Path("results") / f"{args.table}.json"
    wanted = commands(args.table, args.seeds or (3 if args.table == "evidence_small" else 1), args.data_dir)
    done = json.loads(out.read_text())["runs"] if out.exists() else {}
    only = [row for row in args.only.split(",") if row]
    for (row, seed), command in wanted.items():
        folder = run_folder(runs, row, seed)
        finished = (folder / "evaluation.json").exists() or run_name(row, seed) in done
        if args.collect or (only and row not in only) or finished:
            continue
        print(f"{row}, seed {seed}: memjax train {command}", flush=True)
        subprocess.run(
            [sys.executable, "-m", "memjax.cli", "train", f"--run={folder}", *shlex.split(command)], check=True
        )
    collect(args.table, runs, wanted, out)


if __name__ == "__main__":
    main()
