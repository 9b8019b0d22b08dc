"""Tables of what was learned, in Markdown, from what `reproduce.py` and `memory_networks.py` wrote."""

from statistics import mean, stdev

from memory_networks import PAPER
from rows import RETENTION


def percent(values: list[float]) -> str:
    """Mean in %, with the deviation where there are several."""
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread}"


def percent_of(values: list[float | None]) -> str:
    """As `percent`; "-" for what a system does not have, and of how many it is the mean where others diverged."""
    known = [value for value in values if value is not None]
    some = "" if len(known) == len(values) else f" ({len(known)} of {len(values)})"
    return percent(known) + some if known else "-"


def by_row(runs: dict) -> dict[str, list[dict]]:
    """The runs of each row, in the order of their first."""
    rows: dict[str, list[dict]] = {}
    for run in runs.values():
        rows.setdefault(run["row"], []).append(run)
    return rows


def needle_gates(found: dict) -> list[str]:
    """What each head of a run writes and forgets, how many characters are right, and from states put together."""
    heads = next(iter(found["runs"].values()))["heads"]
    names = [f"layer {head['layer'] + 1}, head {head['head'] + 1}: rate / forgotten" for head in heads]
    states = {
        "from_end": "early needle, right %",
        "last_then": "last layer as then",
        "lower_then": "first layer as then",
    }
    lines = [f"| run | {' | '.join([*names, 'right %', *states.values()])} |", "|---" * (len(names) + 5) + "|"]
    for run, measured in found["runs"].items():
        cells = [f"{head['rate']:.2f} / {head['forgotten']:.0f}" for head in measured["heads"]]
        cells += [f"{100 * measured[name]:.0f}" for name in ("accuracy", *states)]
        lines.append(f"| {' | '.join([run, *cells])} |")
    return lines


def of_tag(run: dict, tag: str, value: str) -> float | None:
    """Accuracy of a run where a tag has a value; None where the run is older than the tag."""
    return run["metrics"]["tags"].get(tag, {}).get(value, {}).get("accuracy")


def of_values(runs: list[dict], tag: str, values: list[str]) -> list[str]:
    """Accuracy of a row's runs at each value of a tag, "-" where they were not tested."""
    found = ([of_tag(run, tag, value) for run in runs] for value in values)
    return ["-" if None in accuracies else percent(accuracies) for accuracies in found]


def babi(found: dict) -> list[str]:
    """Test error by task beside MemN2N's published one, how long training took, and the mean of today's config."""
    head = ["task", "test error %", "MemN2N, published, 10k joint: test error %", "steps", "minutes"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    pairs = []  # of rows that are called by their task alone: ours, MemN2N's
    for row, runs in sorted(by_row(found["runs"]).items(), key=lambda item: int(item[0].split()[0])):
        errors = [1 - run["metrics"]["accuracy"] for run in runs]
        published = PAPER["joint", "en-10k"]["tasks"][int(row.split()[0]) - 1]
        minutes = mean(run["seconds"] for run in runs) / 60
        lines.append(f"| {row} | {percent(errors)} | {published:.1f} | {runs[0]['step']:,} | {minutes:.0f} |")
        if row.isdecimal():
            pairs.append((100 * mean(errors), published))
    if pairs:
        ours, theirs = (f"{mean(errors):.1f}" for errors in zip(*pairs, strict=True))
        lines.append(f"| mean of the {len(pairs)} tasks run with today's config | {ours} | {theirs} | | |")
    return lines


def errors_by_task(found: dict) -> dict[str, dict[str, str]]:
    """Test errors in % of every memory, by task."""
    errors: dict[str, dict[str, str]] = {}
    for row, runs in sorted(by_row(found["runs"]).items(), key=lambda item: int(item[0].split()[0])):
        task, name = row.split(maxsplit=1)
        errors.setdefault(name, {})[task] = percent([1 - run["metrics"]["accuracy"] for run in runs])
    return errors


def by_task(found: dict) -> list[str]:
    """Test error of every memory, by task."""
    errors = errors_by_task(found)
    tasks = sorted({task for own in errors.values() for task in own}, key=int)
    lines = [f"| test error % | {' | '.join(f'task {task}' for task in tasks)} |", "|---" * (1 + len(tasks)) + "|"]
    return [
        *lines,
        *(f"| {name} | {' | '.join(errors[name].get(task, '-') for task in tasks)} |" for name in sorted(errors)),
    ]


def joint(found: dict) -> list[str]:
    """Test error on each task of what was trained on all of them, their mean, and how many are failed (above 5%)."""
    tasks = list(next(iter(found["runs"].values()))["metrics"]["tags"]["task"])
    head = ["test error %", *tasks, "mean", "failed", "seeds", "steps"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in by_row(found["runs"]).items():
        errors = [mean(1 - run["metrics"]["tags"]["task"][task]["accuracy"] for run in runs) for task in tasks]
        cells = [row, *(f"{100 * error:.1f}" for error in errors), f"{100 * mean(errors):.1f}"]
        cells += [f"{sum(error > 0.05 for error in errors)}", f"{len(runs)}", f"{runs[0]['step']:,}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


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


SETS_OF_MAZES = {"SingleIndicatorTest": "test", "SingleIndicatorLarge": "large"}
ENDS_OF_EPISODES = {
    "accuracy": "right",
    "wrong_exit": "wrong exit",
    "out_of_time": "out of time",
    "drawn": "right, drawn",
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
        shown = [(name, key) for name in names for key in (ENDS_OF_EPISODES if known else ("accuracy",))]
        told = [f"{SETS_OF_MAZES[name]}: {ENDS_OF_EPISODES[key]}" if known else name for name, key in shown]
        head = [f"{kind}: agent, entries, policy", *told, *["paper's"] * known, "runs", "minutes"]
        lines += [*[""] * bool(lines), f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for row, runs in rows.items():
            agent = row.removeprefix(f"{kind} ")
            cells = [percent_of([run["metrics"]["tags"][tag][name].get(key) for run in runs]) for name, key in shown]
            paper = [", ".join(map(str, PUBLISHED_MAZES[agent]))] if known else []
            minutes = f"{mean(run['seconds'] for run in runs) / 60:.0f}"
            lines.append(f"| {' | '.join([agent, *cells, *paper, str(len(runs)), minutes])} |")
    return lines


def maze_bounds(found: dict) -> list[str]:
    """How far a few of the last views can take an agent, in %."""
    held = f"{found['entries']} views and the present one"
    names = {
        "reachable": "the right exit can be reached",
        "straight_success": f"success with {held}, straight",
        "looking_back_success": f"success with {held}, looking back",
    }
    lines = [f"| | {' | '.join(found['sets'])} |", "|---" * (1 + len(found["sets"])) + "|"]
    for key, name in names.items():
        lines.append(f"| {name} | {' | '.join(f'{100 * of[key]:.1f}' for of in found['sets'].values())} |")
    return lines


def by_length(found: dict) -> list[str]:
    """Accuracy by the length of the test, the first that of training, and how long training took."""
    rows = by_row(found["runs"])
    lengths = list(max((runs[0]["metrics"]["tags"]["length"] for runs in rows.values()), key=len))
    head = ["accuracy %", *(f"{int(length):,}" for length in lengths), "seeds", "steps", "minutes"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in rows.items():
        split = of_values(runs, "length", lengths)
        minutes = mean(run["seconds"] for run in runs) / 60
        cells = [row, *split, f"{len(runs)}", f"{runs[0]['step']:,}", f"{minutes:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def hidden_facts(found: dict) -> list[str]:
    """Accuracy by the characters of the text, 0 for the facts alone, of layers and memories; what a state takes."""
    rows = by_row(found["runs"])
    lengths = list(next(iter(rows.values()))[0]["metrics"]["tags"]["length"])
    head = ["accuracy %", *("facts" if length == "0" else f"{int(length):,}" for length in lengths)]
    head += ["bytes of state", "parameters", "seeds", "steps", "minutes"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in rows.items():
        minutes = mean(run["seconds"] for run in runs) / 60
        cells = [row, *of_values(runs, "length", lengths), *sizes_of(runs), f"{minutes:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def by_task_and_length(found: dict) -> list[str]:
    """Accuracy on each task in the facts alone and in the longest text."""
    rows = by_row(found["runs"])
    tags = next(iter(rows.values()))[0]["metrics"]["tags"]
    tasks, (first, *_, last) = list(tags["task"]), tags["length"]
    head = ["accuracy %, facts alone / longest text", *(f"task {task}" for task in tasks)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in rows.items():
        ends = [of_values(runs, "task x length", [f"{task} x {length}" for task in tasks]) for length in (first, last)]
        lines.append(f"| {' | '.join([row, *(' / '.join(pair) for pair in zip(*ends))])} |")
    return lines


def multi_query(found: dict) -> list[str]:
    """Accuracy on each cell of LENGTHxPAIRS, beside the numbers of the state."""
    rows = by_row(found["runs"])
    cells = list(dict.fromkeys(cell for runs in rows.values() for cell in runs[0]["metrics"]["tags"]["length x pairs"]))
    head = ["accuracy %", *cells, "width", "numbers of state", "steps", "seeds", "minutes"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in rows.items():
        split = of_values(runs, "length x pairs", cells)
        run, minutes = runs[0], mean(run["seconds"] for run in runs) / 60
        sizes = [f"{run['config']['model']['width']}", f"{run['state_bytes'] // 4:,}", f"{run['step']:,}"]
        lines.append(f"| {' | '.join([row, *split, *sizes, str(len(runs)), f'{minutes:.0f}'])} |")
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


def memory_network(found: dict) -> list[str]:
    """Test error by task, beside the paper's."""
    ours, paper = found["test_error"], found["paper"]
    lines = [f"| test error % | {' | '.join(ours['tasks'])} | mean |", "|---" * (2 + len(ours["tasks"])) + "|"]
    theirs = paper["tasks"] or ["-"] * len(ours["tasks"])
    for name, errors, mean_error in (("here", ours["tasks"].values(), ours["mean"]), ("paper", theirs, paper["mean"])):
        cells = (error if isinstance(error, str) else f"{error:g}" for error in errors)
        lines.append(f"| {name} | {' | '.join(cells)} | {mean_error:g} |")
    return lines


def on_gpu(found: dict) -> list[str]:
    """Accuracy in training and in tests, these by the rows of a batch, of the same run on several machines."""
    lines = ["| on | jax | seed | training % | test % | even rows % | odd rows % |", "|---" * 7 + "|"]
    for run in found["runs"]:
        shares = (f"{100 * run[name]:.1f}" for name in ("training", "test", "even_rows", "odd_rows"))
        lines.append(f"| {run['devices']} | {run['jax']} | {run['seed']} | {' | '.join(shares)} |")
    return lines


def sizes_of(runs: list[dict]) -> list[str]:
    """Bytes of a state, parameters, seeds and steps of a row."""
    first = runs[0]
    state = "-" if first["state_bytes"] is None else f"{first['state_bytes']:,}"
    return [state, f"{first['parameters']:,}", str(len(runs)), f"{first['step']:,}"]
