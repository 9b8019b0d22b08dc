"""Writes the tables of the README from results/: python benchmarks/readme_tables.py"""

import json
import re
from pathlib import Path
from statistics import mean, stdev

from reproduce import RETENTION

ROOT = Path(__file__).parents[1]


def percent(values: list[float]) -> str:
    """Mean in %, with the deviation where there are several."""
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread}"


def by_row(runs: dict) -> dict[str, list[dict]]:
    """The runs of each row, in the order of their first."""
    rows: dict[str, list[dict]] = {}
    for run in runs.values():
        rows.setdefault(run["row"], []).append(run)
    return rows


def evidence(found: dict) -> list[str]:
    """Accuracy by the half and the quarter of the stream that the evidence lies in."""
    places = [("half", "early"), ("half", "later"), *(("quarter", q) for q in ("1st", "2nd", "3rd", "4th"))]
    names = [name if tag == "half" else f"{name} quarter" for tag, name in places]
    head = ["", *(f"{name} %" for name in (*names, "all")), "seeds", "steps"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in by_row(found["runs"]).items():
        split = [[run["metrics"]["tags"][tag][name]["accuracy"] for run in runs] for tag, name in places]
        every = [run["metrics"]["accuracy"] for run in runs]
        cells = [row, *map(percent, (*split, every)), str(len(runs)), f"{runs[0]['step']:,}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def rehearsed(found: dict) -> list[str]:
    """Accuracy of every memory with and without rehearsal, and its sizes; the best first."""
    head = ["memory", "rehearsed %", "not rehearsed %", "seeds", "parameters", "state bytes"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    rows = by_row(found["runs"])
    accuracy = {row: [run["metrics"]["accuracy"] for run in runs] for row, runs in rows.items()}
    for memory in sorted({row.split()[0] for row in rows}, key=lambda memory: -mean(accuracy.get(memory, [0]))):
        both = (memory, f"{memory} no rehearsal")
        cells = [percent(accuracy[row]) if row in rows else "-" for row in both]
        seeds = ", ".join(str(len(accuracy[row])) for row in both if row in rows)
        run = next(rows[row][0] for row in both if row in rows)
        sizes = f"{run['parameters']:,} | {run['state_bytes']:,}"
        lines.append(f"| {' | '.join([memory, *cells, seeds, sizes])} |")
    return lines


def babi(found: dict) -> list[str]:
    """Test error by task, and how long its training took."""
    lines = ["| task | test error % | steps | minutes |", "|---|---|---|---|"]
    for row, runs in sorted(by_row(found["runs"]).items(), key=lambda item: int(item[0].split()[0])):
        error = percent([1 - run["metrics"]["accuracy"] for run in runs])
        minutes = mean(run["seconds"] for run in runs) / 60
        lines.append(f"| {row} | {error} | {runs[0]['step']:,} | {minutes:.0f} |")
    return lines


def by_task(found: dict) -> list[str]:
    """Test error of every memory, by task."""
    errors = {
        row: percent([1 - run["metrics"]["accuracy"] for run in runs]) for row, runs in by_row(found["runs"]).items()
    }
    tasks = sorted({row.split()[0] for row in errors}, key=int)
    names = list(dict.fromkeys(row.split(maxsplit=1)[1] for row in errors))
    lines = [f"| test error % | {' | '.join(f'task {task}' for task in tasks)} |", "|---" * (1 + len(tasks)) + "|"]
    return [
        *lines,
        *(f"| {name} | {' | '.join(errors.get(f'{task} {name}', '-') for task in tasks)} |" for name in names),
    ]


def wrong_bits(found: dict) -> list[str]:
    """Wrong bits of a sequence in the mean, by its length; the shortest is the longest of training."""
    lines = ["| task and cell | wrong bits of a sequence, by length | steps | minutes |", "|---|---|---|---|"]
    for row, runs in by_row(found["runs"]).items():
        lengths = list(runs[0]["metrics"]["wrong_bits_by_length"])
        wrong = {length: mean(run["metrics"]["wrong_bits_by_length"][length] for run in runs) for length in lengths}
        cells = ", ".join(f"{length}: {number:.3g}" for length, number in wrong.items())
        lines.append(f"| {row} | {cells} | {runs[0]['step']:,} | {mean(run['seconds'] for run in runs) / 60:.0f} |")
    return lines


PUBLISHED_RETENTION = {
    "original 5": (41.4, 23.7, 20.3, 17.5, 37.5, 34.7),
    "noisy 5": (50.2, 40.2, 40.6, 11.7, 41.6, 40.6),
    "original 10": (16.5, 16.1, 5.0, 4.6, 12.7, 7.1),
    "noisy 10": (44.1, 18.9, 4.8, 3.9, 38.4, 38.0),
    "large 10": (32.4, 9.0, 5.1, 5.6, 17.7, 6.3),
}
POLICIES = ("fifo", "im", "s", "st", "shuffled_s", "shuffled_st")


def retention(found: dict) -> list[str]:
    """Test error of the best run and in the mean, beside the paper's best; on the public draw where it was tested."""
    head = ("task, entries, policy", "best error %", "mean error %", "public draw, mean %", "paper's best %", "runs")
    lines = [f"| {' | '.join((*head, 'minutes'))} |", "|---" * 7 + "|"]
    rows = by_row(found["runs"])
    for row, runs in sorted(rows.items(), key=lambda item: RETENTION.index(item[0])):
        kind, entries, policy, *reward = row.split()
        sources = [run["metrics"]["tags"].get("source", {}) for run in runs]
        own = [1 - (s["generated"] if s else run["metrics"])["accuracy"] for s, run in zip(sources, runs, strict=True)]
        public = percent([1 - source["file"]["accuracy"] for source in sources]) if all(sources) else "-"
        paper = "-" if reward else PUBLISHED_RETENTION[f"{kind} {entries}"][POLICIES.index(policy)]
        minutes = mean(run["seconds"] for run in runs) / 60
        cells = [f"{100 * min(own):.1f}", percent(own), public, f"{paper}", str(len(runs)), f"{minutes:.0f}"]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return lines


PUBLISHED_MAZES = {
    "mqn 5 fifo": (68.9, 60.4),
    "mqn 5 st": (73.2, 74.8),
    "frmqn 5 fifo": (84.3, 91.2),
    "frmqn 5 st": (88.5, 93.7),
}


def mazes(found: dict) -> list[str]:
    """Success in % of the agents: in I-mazes by length, then on the sets of random mazes, beside the paper's."""
    lines = []
    for kind, tag in (("imaze", "length"), ("single_indicator", "mazes")):
        rows = {row: runs for row, runs in by_row(found["runs"]).items() if row.startswith(kind)}
        if not rows:
            continue
        names = list(next(iter(rows.values()))[0]["metrics"]["tags"][tag])
        known = tag == "mazes"
        head = [f"{kind}: agent, entries, policy", *names, *["paper's"] * known, "runs", "minutes"]
        lines += [*[""] * bool(lines), f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for row, runs in rows.items():
            agent = row.removeprefix(f"{kind} ")
            cells = [percent([run["metrics"]["tags"][tag][name]["accuracy"] for run in runs]) for name in names]
            paper = [", ".join(map(str, PUBLISHED_MAZES[agent]))] if known else []
            minutes = f"{mean(run['seconds'] for run in runs) / 60:.0f}"
            lines.append(f"| {' | '.join([agent, *cells, *paper, str(len(runs)), minutes])} |")
    return lines


def by_length(found: dict) -> list[str]:
    """Accuracy by the length of the test, the first that of training, and how long training took."""
    rows = by_row(found["runs"])
    lengths = list(next(iter(rows.values()))[0]["metrics"]["tags"]["length"])
    head = ["accuracy %", *(f"{int(length):,}" for length in lengths), "seeds", "minutes"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in rows.items():
        split = [[run["metrics"]["tags"]["length"][length]["accuracy"] for run in runs] for length in lengths]
        minutes = mean(run["seconds"] for run in runs) / 60
        lines.append(f"| {' | '.join([row, *map(percent, split), str(len(runs)), f'{minutes:.0f}'])} |")
    return lines


def language(found: dict) -> list[str]:
    """Test perplexity, and what it cost."""
    lines = ["| layers | test perplexity | parameters | state KiB | steps | minutes |", "|---|---|---|---|---|---|"]
    for row, runs in by_row(found["runs"]).items():
        run = runs[0]
        perplexity = mean(run["metrics"]["perplexity"] for run in runs)
        sizes = f"{run['parameters']:,} | {run['state_bytes'] / 1024:.0f} | {run['step']:,}"
        lines.append(f"| {row} | {perplexity:.1f} | {sizes} | {mean(run['seconds'] for run in runs) / 60:.0f} |")
    return lines


def surprise(found: dict) -> list[str]:
    """How many times the time of the second contender the first one takes: gradient, forward."""
    ratios = {(row["ratio"], row["job"], row["L"]): row["median"] for row in found["ratios"]}
    lengths, names = found["sizes"]["lengths"], list(dict.fromkeys(name for name, _, _ in ratios))
    lines = [f"| gradient, forward | {' | '.join(f'L = {length:,}' for length in lengths)} |"]
    lines.append("|---" * (1 + len(lengths)) + "|")

    def cell(name: str, length: int) -> str:
        both = (ratios.get((name, job, length)) for job in ("gradient", "forward"))
        return ", ".join("-" if ratio is None else f"{ratio:.3g}" for ratio in both)

    return [*lines, *(f"| {name} | {' | '.join(cell(name, length) for length in lengths)} |" for name in names)]


def shards(found: dict) -> list[str]:
    """How many times faster a stream is read in shards: by a share's time, and here, where shards wait for cores."""
    counts = found["sizes"]["shards"]
    lines = [f"| unsharded / share, unsharded / here | {' | '.join(f'{count} shards' for count in counts)} |"]
    lines.append("|---" * (1 + len(counts)) + "|")
    for one in found["results"]:
        ratios = ((row["unsharded/share"]["median"], row["unsharded/here"]["median"]) for row in one["rows"])
        cells = " | ".join(f"{share:.2f}, {here:.2f}" for share, here in ratios)
        lines.append(f"| {one['dk']} x {one['dv']}, {one['job']} | {cells} |")
    return lines


def memories_cost(found: dict) -> list[str]:
    """What a token costs in each memory."""
    lines = ["| memory | us per token, forward | with gradient | state KiB | parameters |", "|---|---|---|---|---|"]
    pace = {(row["memory"], row["job"]): row["us_per_token"] for row in found["rows"]}
    for row in found["rows"]:
        if row["job"] == "forward":
            cells = (
                f"{row['us_per_token']:.1f} | {pace[row['memory'], 'gradient']:.1f} | {row['state_bytes'] / 1024:.0f}"
            )
            lines.append(f"| {row['memory']} | {cells} | {row['parameters']:,} |")
    return lines


def race(found: dict) -> list[str]:
    """PyPI's DNC against ours, on one device and on one for each core."""
    (devices,) = {one["devices"] for one in found["dnc"].values()}
    lines = [
        f"| DNC | PyPI's time over ours | quartiles | sharded over {devices} cores | quartiles |",
        "|---|---|---|---|---|",
    ]
    for name, one in found["dnc"].items():
        sizes = one["sizes"]
        cells = [f"{name}: {sizes['rows']} rows of {sizes['memory_width']}, R = {sizes['heads']}"]
        for ratio in one["ratios"].values():
            cells += [f"{ratio['median']:.1f}", f"{ratio['q1']:.1f} to {ratio['q3']:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def length(found: dict) -> list[str]:
    """What a token costs in a long sequence, against a short one."""
    short, long = found["lengths"]
    lines = [f"| | us per token, L = {short:,} | L = {long:,} | ratio | quartiles |", "|---|---|---|---|---|"]
    for row in found["rows"]:
        ratio, pace = row["long/short"], row["us_per_token"]
        cells = f"{pace['short']:.1f} | {pace['long']:.1f} | {ratio['median']:.2f}"
        lines.append(f"| {row['layer']}, {row['job']} | {cells} | {ratio['q1']:.2f} to {ratio['q3']:.2f} |")
    return lines


def weak(found: dict) -> list[str]:
    """What a step takes with more devices, and what each of them holds."""
    lines = ["| mesh | rows | state KiB on each device | ms a step | cores used | time / ideal | quartiles |"]
    lines.append("|---" * 7 + "|")
    for row in found["weak"]:
        ratio, held = row["time/ideal"], row["state_bytes_per_device"] / 1024
        milliseconds = 1e3 * row["seconds"]["median"]
        cells = f"{row['rows']} | {held:,.0f} | {milliseconds:.0f} | {row['cores']:.1f} | {ratio['median']:.2f}"
        lines.append(f"| {row['mesh']} | {cells} | {ratio['q1']:.2f} to {ratio['q3']:.2f} |")
    return lines


def flat(found: dict) -> list[str]:
    """What an answer takes, and the bytes of a state, by how much was written."""
    head = ["memory", "state KiB", *(f"us after {int(goal):,} items" for goal in found["flat"][0]["written"])]
    lines = [f"| {' | '.join([*head, 'last / first', 'quartiles'])} |", "|---" * (len(head) + 2) + "|"]
    for row in found["flat"]:
        facts = list(row["written"].values())
        ratio = facts[-1]["time/first"]
        held = sorted({f"{fact['state_bytes'] / 1024:.1f}" for fact in facts})
        cells = [row["memory"], ", ".join(held), *(f"{1e6 * fact['seconds']['median']:.0f}" for fact in facts)]
        lines.append(f"| {' | '.join(cells)} | {ratio['median']:.3f} | {ratio['q1']:.3f} to {ratio['q3']:.3f} |")
    return lines


def pod(found: dict) -> list[str]:
    """The least milliseconds that each part of a step takes on a pod."""
    rows = found["pod"]
    head = [
        f"width {row['width']}, {row['rows_per_device']} rows a chip, {row['data']} x {row['fsdp']}" for row in rows
    ]
    lines = [f"| least ms of a step on a v5e-256 | {' | '.join(head)} |", "|---" * (1 + len(head)) + "|"]
    for name in found["pod"][0]["least_seconds"]:
        cells = (f"{1e3 * row['least_seconds'][name]:.3g}" for row in found["pod"])
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def memory_network(found: dict) -> list[str]:
    """Test error by task, beside the paper's."""
    ours, paper = found["test_error"], found["paper"]
    lines = [f"| test error % | {' | '.join(ours['tasks'])} | mean |", "|---" * (2 + len(ours["tasks"])) + "|"]
    for name, errors, mean_error in (
        ("here", ours["tasks"].values(), ours["mean"]),
        ("paper", paper["tasks"], paper["mean"]),
    ):
        lines.append(f"| {name} | {' | '.join(f'{error:g}' for error in errors)} | {mean_error:g} |")
    return lines


def main() -> None:
    """Replaces what lies between the markers of each table whose results exist."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    for marker, name, table in (
        ("demo", "evidence_demo", evidence),
        ("small", "evidence_small", evidence),
        ("memories", "evidence_memories", rehearsed),
        ("babi", "babi_single", babi),
        ("babi_memories", "babi_memories", by_task),
        ("algorithmic", "algorithmic", wrong_bits),
        ("retention", "retention", retention),
        ("mazes", "mazes", mazes),
        ("recall", "recall", by_length),
        ("needle", "needle", by_length),
        ("language", "language", language),
        ("surprise", "bench_surprise", surprise),
        ("length", "bench_length", length),
        ("shards", "bench_surprise_shards", shards),
        ("cost", "bench_memories", memories_cost),
        ("race", "bench_memories", race),
        ("weak", "bench_scaling", weak),
        ("flat", "bench_scaling", flat),
        ("pod", "bench_scaling", pod),
        ("memn2n", "memn2n_joint", memory_network),
    ):
        path = ROOT / "results" / f"{name}.json"
        if not path.exists():
            continue
        found = json.loads(path.read_text())
        body = "\n".join([*table(found), "", f"`{found['command']}` wrote [{path.name}](results/{path.name})."])
        pattern = rf"(<!-- results:{marker} -->).*?(<!-- /results:{marker} -->)"
        text = re.sub(pattern, lambda m, body=body: f"{m[1]}\n{body}\n{m[2]}", text, flags=re.DOTALL)
    readme.write_text(text)


if __name__ == "__main__":
    main()
