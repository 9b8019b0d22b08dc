"""Plots of what was measured, from results/, as small SVG files."""

import textwrap
from pathlib import Path

import evidence_tables
import matplotlib
import results_tables
import tables_of_runs

matplotlib.use("agg")
import matplotlib.pyplot as plt

STYLE = {"svg.fonttype": "none", "svg.hashsalt": "memjax", "font.size": 9, "axes.spines.top": False}
STYLE |= {"axes.spines.right": False}
# Rows of evidence, small, whose slots are drawn; the tables have them all.
COMPARED = ("rehearsal", "additive scores", "dot scores", "continual", "dnc")


def draw(folder: Path) -> None:
    """All plots of the manual."""
    with matplotlib.rc_context(STYLE):
        _save(_learning(), folder / "learning.svg")
        _save(_cost(), folder / "cost.svg")
        _save(_recollected(), folder / "recollected.svg")
        _save(_cosines(), folder / "slot_cosines.svg")
        _save(_new_questions(), folder / "new_questions.svg")
        _save(_needles(), folder / "needles.svg")
        _save(_babi_joint(), folder / "babi_joint.svg")


def _save(figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def _learning():
    """Validation accuracy on evidence, small, by the step; one panel with rehearsal, one without."""
    curves = evidence_tables.learning(*map(results_tables.load, results_tables.EVIDENCE))
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    names = sorted({row.split()[0] for row in curves})
    colours = dict(zip(names, (*matplotlib.colormaps["tab20"].colors[::2], (0, 0, 0)), strict=False))
    for panel, suffix, title in ((panels[0], "", "rehearsed"), (panels[1], " no rehearsal", "not rehearsed")):
        for name in names:
            if name + suffix in curves:
                steps, accuracies = zip(*curves[name + suffix], strict=True)
                panel.plot(steps, [100 * a for a in accuracies], color=colours[name], label=name, lw=1.5)
        panel.set(title=title, xlabel="steps", ylim=(0, 100))
        panel.axhline(10, color="0.7", lw=0.8, ls=":")
    panels[0].set_ylabel("validation accuracy %")
    panels[0].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(2.2, 0.5))
    return figure


def _cost():
    """Accuracy on evidence, small, against what a token costs with its gradient; the area is the bytes of state."""
    cost = {row["memory"]: row for row in results_tables.load("bench_memories")["rows"] if row["job"] == "gradient"}
    rows = evidence_tables.every_memory(*map(results_tables.load, results_tables.EVIDENCE))
    figure, panel = plt.subplots(figsize=(8, 4.4))
    for name, row in cost.items():
        accuracy = 100 * sum(run["metrics"]["accuracy"] for run in rows[name]) / len(rows[name])
        panel.scatter(row["us_per_token"], accuracy, s=row["state_bytes"] / 100, alpha=0.5)
        panel.annotate(name, (row["us_per_token"], accuracy), xytext=(4, 4), textcoords="offset points", fontsize=8)
    panel.set(xscale="log", xlabel="us a token, with its gradient", ylabel="evidence, small, rehearsed, %")
    return figure


def _with(key: str, shown: tuple[str, ...]) -> dict[str, list[dict]]:
    """Of these rows of evidence, small, the runs that have a measurement."""
    rows = tables_of_runs.by_row(results_tables.load("evidence_small")["runs"])
    return {row: [run for run in rows[row] if key in run] for row in shown}


def _recollected():
    """The share of hidden items that are recollected, by how many segments were written after; mean over the seeds."""
    figure, panel = plt.subplots(figsize=(8, 3.4))
    for row, runs in _with("recollected", (*COMPARED, "random sampler", "rehearsal first")).items():
        ages = sorted(map(int, runs[0]["recollected"]))
        shares = [100 * sum(run["recollected"][str(age)]["accuracy"] for run in runs) / len(runs) for age in ages]
        panel.plot(ages, shares, marker="o", markersize=4, lw=1.5, label=row)
    panel.set(xlabel="segments written after it", ylabel="hidden items recollected, %", ylim=(0, None))
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


def _cosines():
    """How alike what two slots hold is, of the first seed of each row."""
    rows = _with("slot_cosines", COMPARED)
    figure, panels = plt.subplots(1, len(rows), figsize=(2.6 * len(rows) + 0.6, 2.8), squeeze=False)
    for panel, (row, runs) in zip(panels[0], rows.items(), strict=True):
        drawn = panel.imshow(runs[0]["slot_cosines"], vmin=0, vmax=1, cmap="cividis")
        panel.set(title=textwrap.fill(row, 20), xlabel="slot")
    panels[0][0].set_ylabel("slot")
    figure.colorbar(drawn, ax=panels[0].tolist(), fraction=0.03, pad=0.02, label="mean absolute cosine")
    return figure


def _needles():
    """The share of needles found, by the length of the text and the place of the needle in it; mean over the seeds."""
    rows = tables_of_runs.by_row(results_tables.load("needle")["runs"])
    shown = ("LMM", "MAG", "MAL", "LMM no pieces", "LMM plain", "MAG plain")
    figure, panels = plt.subplots(2, 3, figsize=(10, 5), sharey=True, constrained_layout=True)
    for panel, row in zip(panels.ravel(), shown, strict=True):
        tags = rows[row][0]["metrics"]["tags"]
        lengths, depths = list(tags["length"]), list(tags["depth"])
        cells = [
            [
                sum(run["metrics"]["tags"]["length x depth"][f"{n} x {depth}"]["accuracy"] for run in rows[row])
                for n in lengths
            ]
            for depth in depths
        ]
        shares = [[100 * cell / len(rows[row]) for cell in line] for line in cells]
        drawn = panel.imshow(shares, vmin=0, vmax=100, cmap="cividis", aspect="auto")
        for y, line in enumerate(shares):
            for x, share in enumerate(line):
                colour = "black" if share > 55 else "white"
                panel.text(x, y, f"{share:.0f}", ha="center", va="center", color=colour, fontsize=7)
        seeds = len(rows[row])
        panel.set(title=f"{row}, {seeds} seed{'s' * (seeds > 1)}", xlabel="characters")
        panel.set_xticks(range(len(lengths)), [f"{int(n):,}" for n in lengths], fontsize=7)
        panel.set_yticks(range(len(depths)), depths)
    for line in panels:
        line[0].set_ylabel("place of the needle")
    figure.colorbar(drawn, ax=panels, label="needles found, %")
    return figure


def _babi_joint():
    """Validation accuracy of what is trained on all bAbI tasks, by the step; a line for each run."""
    figure, panel = plt.subplots(figsize=(7, 3.4))
    for row, runs in tables_of_runs.by_row(results_tables.load("babi_joint")["runs"]).items():
        for run in (run for run in runs if "validation" in run):
            steps, accuracies = zip(*run["validation"], strict=True)
            label, percent = f"{row}, seed {run['seed']}", [100 * a for a in accuracies]
            # A run that was taken up is behind the one that it is longer than.
            panel.plot(steps, percent, lw=1.5, zorder=2 + 1 / steps[-1], label=label)
    panel.set(xlabel="steps", ylabel="validation accuracy %", ylim=(40, 100))
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


def _new_questions():
    """New questions that are answered from frozen slots, rehearsed and not, with the spread over the seeds."""
    pairs = {
        "medium, 10 slots": ("medium", "rehearsal", "no rehearsal"),
        "medium, 4 slots": ("medium", "4 slots", "4 slots no rehearsal"),
        "papers' size, 20 slots": ("paper", "slow curriculum", "slow curriculum no rehearsal"),
    }
    runs = results_tables.load("new_questions")["runs"].values()
    figure, panel = plt.subplots(figsize=(7, 2.6))
    for bar, label, colour in ((0, "rehearsed", "tab:blue"), (1, "not rehearsed", "0.65")):
        for place, (size, *rows) in enumerate(pairs.values()):
            shares = [
                100 * run["new"]["all"]
                for run in runs
                if (run["size"], run["row"], run["passes"]) == (size, rows[bar], 10)
            ]
            at, mean = place + 0.36 * bar, sum(shares) / len(shares)
            panel.barh(at, mean, height=0.34, color=colour, label=None if place else label)
            panel.plot(shares, [at] * len(shares), "k.", markersize=3)
            panel.annotate(
                f"{mean:.1f}", (max(shares), at), xytext=(8, 0), textcoords="offset points", va="center", fontsize=8
            )
    panel.set(xlim=(0, 100), xlabel="new questions answered, % (dots: seeds)")
    panel.set_yticks([place + 0.18 for place in range(len(pairs))], pairs)
    panel.invert_yaxis()
    panel.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure
