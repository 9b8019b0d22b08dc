"""What runs on evidence hold besides their evaluation, kept in results/: tests of longer streams, how training went.

    memjax evaluate runs/medium/rehearsal-0 --config.task.length=800     and other runs, other lengths; then
    python benchmarks/collect_evidence.py longer runs/medium/*           writes results/evidence_longer.json
    python benchmarks/collect_evidence.py training runs/paper/*          writes results/paper_training.json

Runs are folders as `reproduce.py` names them, a row and a seed.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from memjax.files import read_entries, read_object

ROOT = Path(__file__).parents[1]
WINDOW = 500  # steps of training that are told together
LOSSES = ("accuracy", "recollection_loss", "familiarity_loss")


def longer(run: Path) -> dict[str, dict[str, Any]]:
    """Of each length other than that of training, accuracy early, later and in all."""
    found = {}
    row, seed = run.name.rsplit("-", 1)
    for file in sorted(run.glob("evaluation-length-*.json")):
        length, tested = int(re.findall(r"\d+", file.name)[0]), read_object(file)
        metrics = tested["metrics"]
        found[f"{row.replace('-', ' ')}, seed {seed}, {length} facts"] = {
            "row": row.replace("-", " "),
            "seed": int(seed),
            "length": length,
            "command": f"memjax evaluate runs/{run.parent.name}/{run.name} --config.task.length={length}",
            "answers": metrics["answers"],
            "devices": tested.get("devices"),
            **{half: metrics["tags"]["half"][half]["accuracy"] for half in ("early", "later")},
            "all": metrics["accuracy"],
        }
    return found


def training(run: Path) -> dict[str, dict[str, Any]]:
    """The sampler's last validation; of every `WINDOW` steps the means, and the largest norm of the gradient."""
    lines = read_entries(run / "metrics.jsonl")
    sampler = [line["accuracy"] for line in lines if line["phase"] == "sampler" and line.get("split") == "valid"]
    logged = [line for line in lines if line["phase"] == "train" and "split" not in line]
    windows = []
    for last in range(WINDOW, logged[-1]["step"] + 1, WINDOW):
        part = [line for line in logged if last - WINDOW < line["step"] <= last]
        means = {name: round(mean(line[name] for line in part), 4) for name in LOSSES if name in part[0]}
        windows.append(
            {"step": last, "largest_gradient_norm": round(max(line["grad_norm"] for line in part), 2)} | means
        )
    return {run.name: {"sampler_validation": sampler[-1] if sampler else None, "training": windows}}


KINDS = {"longer": (longer, "evidence_longer"), "training": (training, "paper_training")}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, help="default: in results/")
    arguments = parser.parse_args(argv)
    read, name = KINDS[arguments.kind]
    out = arguments.out or ROOT / "results" / f"{name}.json"
    runs = {key: value for run in arguments.runs if run.is_dir() for key, value in read(run).items()}
    command = f"python benchmarks/collect_evidence.py {arguments.kind} RUNS"
    out.write_text(json.dumps({"command": command, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
