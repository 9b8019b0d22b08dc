"""The tables of README and of the manual, from results/: `python benchmarks/results_tables.py` writes README's.

The manual is filled in when it is built: a block `results` in docs/ names a table of `TABLES`.
"""

import json
import re
from functools import cache
from pathlib import Path

import downstream_tables as downstream
import evidence_tables as evidence
import tables_of_runs as runs
import tables_of_times as times

ROOT = Path(__file__).parents[1]
EVIDENCE = ("evidence_memories", "evidence_small")  # all memories on one task
# What a table is called, its file or files in results/, and who writes it.
TABLES = {
    "demo": ("evidence_demo", evidence.evidence),
    "small": ("evidence_small", evidence.evidence),
    "paper": ("evidence_paper", evidence.evidence),
    "longer": (("evidence_medium", "evidence_longer"), evidence.longer),
    "paper_training": ("paper_training", evidence.training),
    "slots": ("evidence_small", evidence.slots),
    "as_long": ("evidence_small", evidence.as_long),
    "recollected": ("evidence_small", evidence.recollected),
    "medium": ("evidence_medium", evidence.slots),
    "medium_steps": ("evidence_medium", evidence.steps_by_seed),
    "new_questions": ("new_questions", evidence.new_questions),
    "gradients": ("loss_gradients", evidence.gradients),
    "memories": (EVIDENCE, evidence.rehearsed),
    "steps": (EVIDENCE, evidence.steps_needed),
    "recommendation": ("recommendation", downstream.recommendation),
    "learners": ("learners", downstream.learners),
    "stories": ("stories", downstream.stories),
    "dialogue": ("dialogue", downstream.choices),
    "video": ("video", downstream.videos),
    "spans": ("spans", downstream.spans),
    "babi": ("babi_single", runs.babi),
    "babi_joint": ("babi_joint", runs.joint),
    "babi_memories": ("babi_memories", runs.by_task),
    "algorithmic": ("algorithmic", runs.wrong_bits),
    "retention": ("retention", runs.retention),
    "mazes": ("mazes", runs.mazes),
    "maze_bounds": ("maze_bounds", runs.maze_bounds),
    "recall": ("recall", runs.by_length),
    "mqar": ("mqar", runs.multi_query),
    "needle": ("needle", runs.by_length),
    "needle_gates": ("needle_gates", runs.needle_gates),
    "babilong": ("babilong", runs.hidden_facts),
    "babilong_tasks": ("babilong", runs.by_task_and_length),
    "language": ("language", runs.language),
    "memn2n": ("memn2n_joint", runs.memory_network),
    "memn2n_one": ("memn2n_joint_1", runs.memory_network),
    "memn2n_single": ("memn2n_single", runs.memory_network),
    "step": ("bench_step", times.step),
    "write": ("bench_write", times.write),
    "questions": ("bench_write", times.questions),
    "surprise": ("bench_surprise", times.surprise),
    "surprise_pace": ("bench_surprise", times.surprise_pace),
    "kernel": ("kernel_limits", times.kernel),
    "on_gpu": ("evaluation_on_gpu", runs.on_gpu),
    "kernel_pace": ("bench_kernel", times.kernel_pace),
    "length": ("bench_length", times.length),
    "shards": ("bench_surprise_shards", times.shards),
    "buckets": ("bench_buckets", times.buckets),
    "serving": ("bench_serving", times.serving),
    "asked": ("bench_asked", times.asked),
    "token_by_token": ("bench_token_by_token", times.token_by_token),
    "cost": ("bench_memories", times.memories_cost),
    "race": ("bench_memories", times.race),
    "worlds": ("bench_retention", times.worlds),
    "weak": ("bench_scaling", times.weak),
    "flat": ("bench_scaling", times.flat),
    "pod": ("bench_scaling", times.pod),
}


@cache
def load(name: str) -> dict:
    """What is in a file of results/."""
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def files() -> list[Path]:
    """All that the tables are made of."""
    return sorted((ROOT / "results").glob("*.json"))


def markdown(table: str) -> str:
    """A table, and the command that wrote its file."""
    names, make = TABLES[table]
    names = (names,) if isinstance(names, str) else names
    sources = " ".join(f"`{load(name)['command']}` wrote `results/{name}.json`." for name in names)
    return "\n".join([*make(*map(load, names)), "", sources])


def facts(memory: str) -> str:
    """What was measured of one memory: sizes, cost, and how well it did."""
    cost = {row["job"]: row for row in load("bench_memories")["rows"] if row["memory"] == memory}
    if not cost:
        return "Not measured yet: what an item costs, evidence, bAbI. [Clicks and serving](../results/index.md) are."
    forward, gradient = cost["forward"], cost["gradient"]
    lines = [
        "| measured | |",
        "|---|---|",
        f"| state | {forward['state_bytes'] / 1024:.1f} KiB at K = 20, width 64 |",
        f"| parameters of the memory | {forward['parameters']:,} |",
        f"| a token, forward | {forward['us_per_token']:.1f} us |",
        f"| a token, with its gradient | {gradient['us_per_token']:.1f} us |",
    ]
    for label, accuracy in evidence.accuracies(memory, *map(load, EVIDENCE)).items():
        lines.append(f"| evidence, small, {label} | {accuracy} |")
    errors = runs.errors_by_task(load("babi_memories")).get(memory, {})
    told = ", ".join(f"{error} (task {task})" for task, error in errors.items())
    lines.append(f"| bAbI en-10k, 4,000 steps, test error % | {told} |")
    sources = "`bench_memories.json`, `evidence_small.json`, `evidence_memories.json`, `babi_memories.json`"
    return "\n".join([*lines, "", f"From {sources} in `results/`; 2 CPU cores. {{doc}}`What they say </choosing>`."])


def main() -> None:
    """Replaces what lies between the markers of each table in the README."""
    readme = ROOT / "README.md"
    readme.write_text(filled_in(readme.read_text()))


def filled_in(text: str) -> str:
    """A text whose tables are those of results/."""
    pattern = r"(<!-- results:(\w+) -->\n).*?(<!-- /results:\2 -->)"
    return re.sub(pattern, lambda m: f"{m[1]}{markdown(m[2])}\n{m[3]}", text, flags=re.DOTALL)


if __name__ == "__main__":
    main()
