"""Trains the runs of a table, one after another, and collects them: a finished run is not run again.

    python benchmarks/reproduce.py evidence_demo
    python benchmarks/reproduce.py evidence_small [--runs=runs/small] [--seeds=3] [--only=rehearsal,continual]
    python benchmarks/reproduce.py evidence_medium [--only=rehearsal,"no rehearsal"]
    python benchmarks/reproduce.py evidence_paper                                   for a GPU or TPU
    python benchmarks/reproduce.py evidence_memories [--only=dnc,"dnc no rehearsal"]
    python benchmarks/reproduce.py algorithmic
    python benchmarks/reproduce.py retention --data_dir=data [--only="noisy 5 st"]
    python benchmarks/reproduce.py mazes --data_dir=FOLDER_OF_tasks.tar.gz [--only="imaze mqn 4 st"]
    python benchmarks/reproduce.py babi_single --data_dir=data [--only=1,6]
    python benchmarks/reproduce.py babi_joint --data_dir=data [--only=rehearsal]     a night each
    python benchmarks/reproduce.py babi_memories --data_dir=data [--only="6 dnc"]    every memory at one budget
    python benchmarks/reproduce.py recall
    python benchmarks/reproduce.py needle [--only=LMM] [--data_dir=data]             essays alone need data
    python benchmarks/reproduce.py mqar [--only="64x4 LMM"]
    python benchmarks/reproduce.py babilong --data_dir=data [--only=LMM,rehearsal]
    python benchmarks/reproduce.py language --data_dir=data [--only=lmm]             of ptb.zip, warandpeace.txt.gz
    python benchmarks/reproduce.py learners --data_dir=data [--only=gru4rec]         fold 1; of ASSISTments 2017
    python benchmarks/reproduce.py recommendation --data_dir=data                    of ml-1m.txt.gz
    python benchmarks/reproduce.py stories --data_dir=data                           of fairytaleqa.tar.gz
    python benchmarks/reproduce.py video [--only=rehearsal,E-SA]
    python benchmarks/reproduce.py dialogue --data_dir=data                          of DREAM's folder dream
    python benchmarks/reproduce.py spans --data_dir=data [--only=fifo,st]            of fairytaleqa.tar.gz

Every run is a `memjax train` command, kept with its figures in results/TABLE.json, and can be stopped and taken up at
any time. Several of these side by side, with different --only, share the work: --collect alone writes the file. What is
in that file counts as finished, unless its config is another than the command's today.
"""

import argparse
import dataclasses
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import jax
from rows import TABLES

from memjax import tasks
from memjax.experiments.arguments import read_settings
from memjax.experiments.reading import resolved, to_mapping
from memjax.files import read_entries, read_object, replacing
from memjax.reporting import load_run
from memjax.reporting.tables import training_seconds

ROOT = Path(__file__).parents[1]
SEEDS = dict.fromkeys(("evidence_medium", "evidence_memories", "evidence_small", "mazes", "retention", "stories"), 3)


def commands(table: str, seeds: int, data_dir: str) -> dict[tuple[str, int], str]:
    """The command of each (row, seed) of a table, without its --run; seeds outermost, to compare rows early."""
    return {
        (row, seed): f"--config=configs/{how}".replace("SEED", str(seed)).replace("DATA", shlex.quote(data_dir))
        for seed in range(seeds)
        for row, how in TABLES[table].items()
    }


def config_of(command: str) -> dict:
    """The whole config of a command, but for the place of its data."""
    return without_place(to_mapping(read_settings(shlex.split(command))[0]))


def without_place(config: dict) -> dict:
    """A config that is the same on every machine: without the places of data and checkpoints, and without its mesh."""
    training = {key: value for key, value in config["training"].items() if key != "checkpoints"}
    task = {key: value for key, value in config["task"].items() if key != "data_dir"}
    return {key: value for key, value in config.items() if key != "mesh"} | {"task": task, "training": training}


def of_today(config: dict) -> dict:
    """A config that any version has kept, as today's writes it: defaults of what is new, names of today, no places."""
    task = config["task"]
    fields = {field.name for field in dataclasses.fields(tasks.registry[task["name"]].spec)}
    places = {"data_dir": ""} if "data_dir" in fields else {}
    return without_place(resolved(config | {"task": {**places, **task}}))


def is_finished(folder: Path, config: dict) -> bool:
    """Whether a run of this config was trained to its end and tested there."""
    files = folder / "evaluation.json", folder / "config.json"
    if not all(file.exists() for file in files):
        return False
    evaluation, own = map(read_object, files)
    return of_today(own) == config and evaluation["step"] == config["training"]["steps"]


def is_known(entry: dict | None, config: dict) -> bool:
    """Whether results/ has a run of this config."""
    return entry is not None and "config" in entry and of_today(entry["config"]) == config


def collect(table: str, runs: Path, wanted: dict[tuple[str, int], str], out: Path) -> None:
    """Writes what is finished; figures of runs that are not in `wanted` any more are kept as they were."""
    known = json.loads(out.read_text())["runs"] if out.exists() else {}
    for (row, seed), command in wanted.items():
        folder = run_folder(runs, row, seed)
        config = config_of(command)
        if not is_finished(folder, config):
            continue
        evaluation = read_object(folder / "evaluation.json")
        entries = read_entries(folder / "metrics.jsonl")
        curve = [[e["step"], round(e["accuracy"], 4)] for e in entries if e["phase"] == "train" and "split" in e]
        known[run_name(row, seed)] = {
            "row": row,
            "seed": seed,
            "command": f"memjax train {command}",
            "config": config,
            "seconds": round(training_seconds(load_run(folder)), 1),
            **{key: evaluation.get(key) for key in ("step", "parameters", "state_bytes", "metrics", "sampler")},
            **({"devices": said} if (said := devices_of(evaluation)) else {}),
            "validation": curve,
            "losses": last_losses(entries),
            **{key: evaluation[key] for key in ("recollected", "slot_cosines") if key in evaluation},
        }
    in_order = [name for row, seed in wanted if (name := run_name(row, seed)) in known]
    known = {name: known[name] for name in dict.fromkeys((*in_order, *known))}
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "jax": jax.__version__}
    seeds = 1 + max((run["seed"] for run in known.values()), default=0)
    command = f"python benchmarks/reproduce.py {table}" + f" --seeds={seeds}" * (seeds > SEEDS.get(table, 1))
    out.parent.mkdir(exist_ok=True)
    with replacing(out) as file:  # another process may read it
        file.write((json.dumps({"command": command, "machine": machine, "runs": known}, indent=1) + "\n").encode())


def devices_of(evaluation: dict) -> str | None:
    """On what a run was trained, and, if it was elsewhere, tested."""
    trained, tested = evaluation.get("trained_on"), evaluation.get("devices")
    return f"{trained}; tested on {tested}" if trained and trained != tested else tested


def last_losses(entries: list[dict]) -> dict[str, float]:
    """Training's losses as last logged. Guessing: ln of the items for recollection, 2 ln 2 for familiarity."""
    last = [e for e in entries if e["phase"] == "train" and "split" not in e][-1]
    return {name: round(last[name], 4) for name in sorted(last) if name.endswith("_loss") and name != "aux_loss"}


def run_name(row: str, seed: int) -> str:
    """What a run is called in results/."""
    return f"{row}, seed {seed}"


def run_folder(runs: Path, row: str, seed: int) -> Path:
    """Where a run of a table is kept."""
    return runs / f"{row.replace(' ', '-').lower()}-{seed}"


def run(command: list[str]) -> int:
    """The exit status of a command. SIGTERM is passed on to it, and ends us after it: alone it would go on."""
    stopped = False
    with subprocess.Popen(command) as process:

        def stop(*_) -> None:
            nonlocal stopped
            stopped = True
            process.terminate()

        before = signal.signal(signal.SIGTERM, stop)
        status = process.wait()
        signal.signal(signal.SIGTERM, before)
    if stopped:
        sys.exit("stopped; the same command goes on with it")
    return status


def main() -> None:
    """Runs what is missing, then collects."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--data_dir", default="data")
    parser.add_argument("--collect", action="store_true", help="train nothing")
    args = parser.parse_args()
    runs = args.runs or Path("runs") / args.table
    out = ROOT / "results" / f"{args.table}.json"
    seeds = args.seeds or SEEDS.get(args.table, 1)
    wanted = commands(args.table, seeds, args.data_dir)
    done = json.loads(out.read_text())["runs"] if out.exists() else {}
    only = [row for row in args.only.split(",") if row]
    rows, failed = list(dict.fromkeys(row for row, _ in wanted)), []
    if foreign := [row for row in only if row not in rows]:
        parser.error(f"--only: no row {', '.join(foreign)} in {args.table}; there are: {', '.join(rows)}")
    for (row, seed), command in wanted.items():
        folder = run_folder(runs, row, seed)
        config = config_of(command)
        finished = is_finished(folder, config) or is_known(done.get(run_name(row, seed)), config)
        if args.collect or (only and row not in only) or finished:
            continue
        print(f"{row}, seed {seed}: memjax train {command}", flush=True)
        train = [sys.executable, "-m", "memjax.cli", "train", f"--run={folder}", *shlex.split(command)]
        if run(train):
            failed.append(run_name(row, seed))
    collect(args.table, runs, commands(args.table, seeds, "data"), out)  # no machine's path is kept
    if failed:
        sys.exit(f"not trained to the end: {', '.join(failed)}")


if __name__ == "__main__":
    main()
