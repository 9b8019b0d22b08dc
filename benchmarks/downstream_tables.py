"""Tables of what was learned of the downstream tasks, in Markdown, from what `reproduce.py` wrote."""

import re
from collections.abc import Callable
from statistics import mean

from tables_of_runs import by_row, percent, percent_of, sizes_of

INTERVAL = "95%, one seed"
COST = ["slots that differ", "bytes of state", "parameters", "seeds", "steps", "minutes"]


def recommendation(found: dict) -> list[str]:
    """How clicks are told from others, and how high the next one stands among all items."""

    def cells(runs: list[dict]) -> list[str]:
        names = ("auc", "auc_popular", "hr_10", "ndcg_10")
        auc, popular, hits, gain = (percent_of([run["metrics"].get(name) for run in runs]) for name in names)
        of_auc, of_hits = (interval_of(runs, name, lambda end: f"{100 * end:.1f}") for name in ("auc", "hr_10"))
        return [auc, of_auc, popular, hits, of_hits, gain, *sizes_of(runs)]

    head = ["", "AUC %", INTERVAL, "popular AUC %", "HR@10 %", INTERVAL, "NDCG@10 %"]
    return table([*head, "bytes a user", "parameters", "seeds", "steps"], found, cells)


def learners(found: dict) -> list[str]:
    """AUC over all steps of the test students, and in the halves of their streams; of the first fold, and of all."""

    def cells(runs: list[dict]) -> list[str]:
        halves = (of_tag(runs, "half", half, "auc") for half in ("early", "later"))
        folds = {run["config"]["task"]["fold"] for run in runs}
        return [percent(of_all(runs, "auc")), *map(percent, halves), *sizes_of(runs), str(len(folds))]

    head = ["", "AUC %", "early %", "later %", "bytes a student", "parameters", "runs", "steps", "folds"]
    return table(head, {"runs": with_all_folds(found["runs"])}, cells)


def with_all_folds(runs: dict) -> dict:
    """The runs of the first fold; then, of each row that was run with others too, those of all its folds as a row."""
    first = {name: run for name, run in runs.items() if run["config"]["task"]["fold"] == 1}
    others = {name: run for name, run in runs.items() if name not in first}
    rows = dict.fromkeys(run["row"].rpartition(" fold ")[0] for run in others.values())
    return first | {
        f"{name}, all": run | {"row": f"{row}, all folds"}
        for row in rows
        for name, run in runs.items()
        if run["row"] == row or run["row"].startswith(f"{row} fold ")
    }


def stories(found: dict) -> list[str]:
    """Mean reciprocal ranks of the right answer: of all questions, and by the half of the story in which it lies."""

    def cells(runs: list[dict]) -> list[str]:
        ranks = of_all(runs, "mrr"), *(of_tag(runs, "place", place, "mrr") for place in ("early", "later"))
        every, early, later = (f"{mean(values):.3f}" for values in ranks)
        sure = interval_of(runs, "mrr", lambda end: f"{end:.3f}")
        return [every, sure, early, later, percent(of_all(runs, "accuracy")), *cost(runs)]

    head = ["MRR", "all", INTERVAL, "early", "later", "right %", *COST]
    guess = next(iter(found["runs"].values()))["metrics"]["mrr_chance"]
    return [*table(head, found, cells), f"| a guess | {guess:.3f} |" + " |" * (len(head) - 2)]


def choices(found: dict) -> list[str]:
    """How often the right one of several choices is chosen."""
    return table(["", "right %", *COST], found, lambda runs: [percent(of_all(runs, "accuracy")), *cost(runs)])


def videos(found: dict) -> list[str]:
    """How many answers about films are right: by the type of the question, and by where the answer is seen."""
    first = next(iter(found["runs"].values()))["metrics"]["tags"]
    places = [("type", name) for name in first["type"]] + [("place", name) for name in ("early", "later")]

    def cells(runs: list[dict]) -> list[str]:
        split = (of_tag(runs, tag, name, "accuracy") for tag, name in places)
        return [*map(percent, (of_all(runs, "accuracy"), *split)), *cost(runs)]

    return table(["right %", "all", *(name for _, name in places), *COST], found, cells)


def spans(found: dict) -> list[str]:
    """Exact match and F1 of the answers, F1 by where they stand, and how many were held in the end."""

    def cells(runs: list[dict]) -> list[str]:
        places = (of_tag(runs, "place", place, "f1") for place in ("early", "later"))
        shares = of_all(runs, "accuracy"), of_all(runs, "f1"), *places, of_all(runs, "held")
        return [*map(percent, shares), str(len(runs)), format(runs[0]["step"], ","), minutes(runs)]

    head = ["policy", "exact match %", "F1 %", "early F1 %", "later F1 %", "held %", "seeds", "steps", "minutes"]
    return table(head, found, cells)


def table(head: list[str], found: dict, cells: Callable[[list[dict]], list[str]]) -> list[str]:
    """A line for each row, by its name and what `cells` makes of its runs."""
    rows = [[row, *cells(runs)] for row, runs in by_row(found["runs"]).items()]
    lines = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    return [lines[0], "|---" * len(head) + "|", *lines[1:]]


def of_all(runs: list[dict], metric: str) -> list[float]:
    """A metric of each run."""
    return [run["metrics"][metric] for run in runs]


def interval_of(runs: list[dict], metric: str, told: Callable[[float], str]) -> str:
    """Where a metric of a row's first run lies for other users, or stories, with 95%; "-" if that was not kept."""
    found = runs[0]["metrics"].get(f"{metric}_interval")
    return " to ".join(map(told, found)) if found else "-"


def of_tag(runs: list[dict], tag: str, value: str, metric: str) -> list[float]:
    """A metric of each run, where a tag has a value."""
    return [run["metrics"]["tags"][tag][value][metric] for run in runs]


def minutes(runs: list[dict]) -> str:
    """How long a row trained, in the mean, and on what if not on a CPU alone."""
    trained = ((run.get("devices") or "").partition("; tested on")[0] for run in runs)
    chips = sorted({chip for each in trained for chip in re.findall(r"NVIDIA (\w+)", each)})
    took = f"{mean(run['seconds'] for run in runs) / 60:.0f}"
    return f"{took} ({', '.join(chips)})" if chips else took


def cost(runs: list[dict]) -> list[str]:
    """What stands under `COST`."""
    return [slots_that_differ(runs), *sizes_of(runs), minutes(runs)]


def slots_that_differ(runs: list[dict]) -> str:
    """In the mean, of how many slots a memory makes use: `K^2 / sum_jk c_jk^2` of the cosines between them.

    It is the participation ratio of the eigenvalues of that matrix: 1 where all slots hold the same, K where no two
    have anything in common.
    """
    found = [run["slot_cosines"] for run in runs if "slot_cosines" in run]
    counts = [len(own) ** 2 / sum(cosine**2 for row in own for cosine in row) for own in found]
    return f"{mean(counts):.1f}" if counts else "-"
