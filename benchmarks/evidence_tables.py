"""Tables and curves of the runs on evidence: by place and half, and after how many steps."""

from collections.abc import Iterable
from statistics import mean

from tables_of_runs import by_row, of_tag, percent

from memjax.memories import registry


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


def slots(found: dict) -> list[str]:
    """Accuracy where a border is crossed and where none is, and what the rehearser knows from the slots."""
    places = [("border", "inside"), ("border", "crossing"), ("half", "early"), ("half", "later")]
    losses = ("recollection", "familiarity")
    head = ["", *(f"{name} %" for _, name in places), "all %", *losses, "seeds", "steps"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in by_row(found["runs"]).items():
        shares = [[of_tag(run, *place) for run in runs] for place in places]
        shares.append([run["metrics"]["accuracy"] for run in runs])
        lost = [[run["losses"].get(f"{name}_loss") for run in runs] for name in losses]
        cells = [percent(values) if None not in values else "-" for values in shares]
        cells += [f"{mean(values):.2f}" if None not in values else "-" for values in lost]
        lines.append(f"| {' | '.join([row, *cells, str(len(runs)), format(runs[0]['step'], ',')])} |")
    return lines


def recollected(found: dict) -> list[str]:
    """Which share of hidden items is named, by how many segments were written since, and over all ages."""
    rows = {row: runs for row, runs in by_row(found["runs"]).items() if all(run.get("recollected") for run in runs)}
    ages = sorted({int(age) for runs in rows.values() for run in runs for age in run["recollected"]})
    head = ["", *(f"age {age} %" for age in ages), "all %", "seeds"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in rows.items():
        shares = [[run["recollected"][str(age)]["accuracy"] for run in runs] for age in ages]
        cells = [row, *map(percent, (*shares, [mean(run) for run in zip(*shares, strict=True)])), str(len(runs))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def gradients(found: dict) -> list[str]:
    """How hard each loss pulls at the memory of a run, and the cosines between these pulls."""
    first = next(iter(found["runs"].values()))
    names, pairs = list(first["norm"]), list(first["cosine"])
    head = ["run", "step", *names, *pairs]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for run, measured in found["runs"].items():
        norms = [f"{measured['norm'][name]:.2f}" for name in names]
        cosines = [f"{measured['cosine'][pair]:.2f}" for pair in pairs]
        lines.append(f"| {' | '.join([run, format(measured['step'], ','), *norms, *cosines])} |")
    return lines


def every_memory(memories: dict, small: dict) -> dict[str, list[dict]]:
    """The runs on evidence, small, at 3,000 steps, of every memory and of every memory without rehearsal."""
    rows = by_row(small["runs"])
    printed = {"rehearsal": "rehearsal", "rehearsal no rehearsal": "no rehearsal", "continual": "continual"}
    own = {name: f"{row} as printed" for name, row in printed.items()}
    return by_row(memories["runs"]) | {name: rows[row] for name, row in own.items()}


def memories_of(rows: Iterable[str]) -> set[str]:
    """Whose rows these are, rehearsed or not; without those of a memory with another setting."""
    return {row.removesuffix(" no rehearsal") for row in rows} & registry.keys()


def rehearsed(memories: dict, small: dict) -> list[str]:
    """Accuracy of every memory with and without rehearsal, and its sizes, at 3,000 steps."""
    return _by_memory(every_memory(memories, small))


def as_long(small: dict) -> list[str]:
    """The same at 6,000 steps, Rehearsal and Continual Memory as configured."""
    rows = by_row(small["runs"])
    return _by_memory(rows | {"rehearsal no rehearsal": rows["no rehearsal"]})


def _by_memory(rows: dict[str, list[dict]]) -> list[str]:
    """Accuracy with and without rehearsal, and sizes, of all memories of which there are rows; the best first."""
    head = ["memory", "rehearsed %", "not rehearsed %", "seeds", "parameters", "state bytes"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    accuracy = {row: [run["metrics"]["accuracy"] for run in runs] for row, runs in rows.items()}
    for memory in sorted(memories_of(rows), key=lambda memory: -mean(accuracy.get(memory, [0]))):
        both = (memory, f"{memory} no rehearsal")
        cells = [percent(accuracy[row]) if row in rows else "-" for row in both]
        seeds = ", ".join(str(len(accuracy[row])) for row in both if row in rows)
        run = next(rows[row][0] for row in both if row in rows)
        sizes = f"{run['parameters']:,} | {run['state_bytes']:,}"
        lines.append(f"| {' | '.join([memory, *cells, seeds, sizes])} |")
    return lines


def accuracies(memory: str, memories: dict, small: dict) -> dict[str, str]:
    """Accuracy on evidence, small, of one memory, rehearsed and not."""
    rows = every_memory(memories, small)
    own = {"rehearsed": rows.get(memory), "not rehearsed": rows.get(f"{memory} no rehearsal")}
    return {
        label: f"{percent([run['metrics']['accuracy'] for run in runs])} % right, {len(runs)} seeds"
        for label, runs in own.items()
        if runs
    }


def learning(memories: dict, small: dict) -> dict[str, list[tuple[int, float]]]:
    """Validation accuracy by the step, the mean over the seeds, of every memory, rehearsed and not."""
    curves = {}
    for row, runs in every_memory(memories, small).items():
        together = zip(*(run["validation"] for run in runs), strict=True)
        curves[row] = [(points[0][0], mean(accuracy for _, accuracy in points)) for points in together]
    return curves


def first_step(curve: Iterable[tuple[int, float]], goal: float) -> float:
    """At which step so many questions were answered for the first time; infinity if they never were."""
    return next((step for step, accuracy in curve if accuracy >= goal), float("inf"))


def told_step(step: float) -> str:
    """As a cell of a table."""
    return "not yet" if step == float("inf") else f"{step:,}"


def steps_needed(memories: dict, small: dict) -> list[str]:
    """After how many steps each memory that was rehearsed had answered so many validation questions, in the mean over
    its seeds.
    """
    goals = (0.5, 0.8, 0.9, 0.95)
    head = [
        "memory, rehearsed",
        *(f"{100 * goal:.0f} %" for goal in goals),
        "not rehearsed, 80 %",
        "rehearsed, at the end %",
    ]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    curves = learning(memories, small)

    def first(row: str, goal: float) -> float:
        return first_step(curves.get(row, ()), goal)

    names = sorted(memories_of(curves) & curves.keys(), key=lambda row: (first(row, 0.8), -curves[row][-1][1]))
    for memory in names:
        cells = [first(memory, goal) for goal in goals] + [first(f"{memory} no rehearsal", 0.8)]
        told = [told_step(step) for step in cells]
        told[-1] = told[-1] if f"{memory} no rehearsal" in curves else "-"
        lines.append(f"| {' | '.join([memory, *told, f'{100 * curves[memory][-1][1]:.1f}'])} |")
    return lines


def steps_by_seed(found: dict) -> list[str]:
    """After how many steps each run had answered so many validation questions, for those whose curve is kept."""
    goals = (0.2, 0.5, 0.9)
    head = ["memory", "seed", *(f"{100 * goal:.0f} %" for goal in goals), "at the end %", "steps"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in by_row(found["runs"]).items():
        for run in runs:
            if curve := run.get("validation"):
                told = (told_step(first_step(curve, goal)) for goal in goals)
                cells = [row, str(run["seed"]), *told, f"{100 * curve[-1][1]:.1f}", f"{curve[-1][0]:,}"]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def longer(medium: dict, found: dict) -> list[str]:
    """Accuracy in streams of the length of training and in longer ones, rehearsed and not."""
    head = ["memory", "facts", "early %", "later %", "all %", "seeds"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    rows: dict[tuple[str, int], list[dict]] = {}
    names = {run["row"] for run in found["runs"].values()}
    for run in medium["runs"].values():
        if run["row"] in names:
            parts = {part: of_tag(run, "half", part) for part in ("early", "later")} | {
                "all": run["metrics"]["accuracy"]
            }
            rows.setdefault((run["row"], run["config"]["task"]["length"]), []).append(parts)
    for run in found["runs"].values():
        rows.setdefault((run["row"], run["length"]), []).append(run)
    for (row, length), runs in sorted(rows.items(), key=lambda item: item[0][1]):
        shares = (percent([run[part] for run in runs]) for part in ("early", "later", "all"))
        lines.append(f"| {' | '.join([row, str(length), *shares, str(len(runs))])} |")
    return lines


def training(found: dict) -> list[str]:
    """How accuracy, the losses of rehearsal and the gradient went in training, at some of the steps."""
    head = ["run", "steps up to", "right %", "recollection", "familiarity", "largest norm of the gradient"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for run, kept in found["runs"].items():
        for at in (window for window in kept["training"] if window["step"] in (1000, 2000, 4000, 7500, 10_000, 15_000)):
            losses = (f"{at[name]:.2f}" if name in at else "-" for name in ("recollection_loss", "familiarity_loss"))
            cells = [run, f"{at['step']:,}", f"{100 * at['accuracy']:.1f}", *losses]
            lines.append(f"| {' | '.join([*cells, format(at['largest_gradient_norm'], ',.1f')])} |")
    return lines


def new_questions(found: dict) -> list[str]:
    """What a new reader finds in frozen slots: answers to the questions of training, and to as many new ones."""
    columns = {
        "questions of training %": ("trained", "all"),
        "new, early %": ("new", "early"),
        "new, later %": ("new", "later"),
        "new, all %": ("new", "all"),
    }
    head = ["size", "memory", *columns, "chance %", "state bytes", "passes", "seeds"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    rows: dict[tuple[str, str, int], list[dict]] = {}
    for run in found["runs"].values():
        rows.setdefault((run["size"], run["row"], run["passes"]), []).append(run)
    for (size, row, passes), runs in rows.items():
        shares = [percent([run[kind][part] for run in runs]) for kind, part in columns.values()]
        chance, state = 100 / runs[0]["answers_each"], runs[0]["state_bytes"]
        cells = [size, row, *shares, f"{chance:.1f}", f"{state:,}", str(passes), str(len(runs))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
