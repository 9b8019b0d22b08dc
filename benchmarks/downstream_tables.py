"""Tables of what was learned of the downstream tasks, in Markdown, from what `reproduce.py` wrote."""

from statistics import mean

from tables_of_runs import by_row, percent, sizes_of


def recommendation(found: dict) -> list[str]:
    """How clicks are told from others, and how high the next one stands among all items."""
    columns = {"auc": "AUC %", "auc_popular": "popular AUC %", "hr_10": "HR@10 %", "ndcg_10": "NDCG@10 %"}
    head = ["", *columns.values(), "bytes a user", "parameters", "seeds", "steps"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in by_row(found["runs"]).items():
        cells = [percent_of([run["metrics"].get(name) for run in runs]) for name in columns]
        lines.append(f"| {' | '.join([row, *cells, *sizes_of(runs)])} |")
    return lines


def learners(found: dict) -> list[str]:
    """AUC over all steps of the test students, and in the two halves of their streams."""
    head = ["", "AUC %", "early %", "later %", "bytes a student", "parameters", "seeds", "steps"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in by_row(found["runs"]).items():
        halves = ([run["metrics"]["tags"]["half"][half]["auc"] for run in runs] for half in ("early", "later"))
        cells = [percent([run["metrics"]["auc"] for run in runs]), *map(percent, halves)]
        lines.append(f"| {' | '.join([row, *cells, *sizes_of(runs)])} |")
    return lines


def stories(found: dict) -> list[str]:
    """Mean reciprocal ranks of the right answer: of all questions, and by the half of the story in which it lies."""
    head = ["MRR", "all", "early", "later", "right %", "bytes of state", "parameters", "seeds", "steps", "minutes"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in by_row(found["runs"]).items():
        places = ([run["metrics"]["tags"]["place"][place]["mrr"] for run in runs] for place in ("early", "later"))
        ranks = [f"{mean(values):.3f}" for values in ([run["metrics"]["mrr"] for run in runs], *places)]
        minutes = f"{mean(run['seconds'] for run in runs) / 60:.0f}"
        right = percent([run["metrics"]["accuracy"] for run in runs])
        lines.append(f"| {' | '.join([row, *ranks, right, *sizes_of(runs), minutes])} |")
    guess = next(iter(found["runs"].values()))["metrics"]["mrr_chance"]
    return [*lines, f"| a guess | {guess:.3f} |" + " |" * (len(head) - 2)]


def choices(found: dict) -> list[str]:
    """How often the right one of several choices is chosen."""
    head = ["", "right %", "bytes of state", "parameters", "seeds", "steps", "minutes"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in by_row(found["runs"]).items():
        minutes = f"{mean(run['seconds'] for run in runs) / 60:.0f}"
        right = percent([run["metrics"]["accuracy"] for run in runs])
        lines.append(f"| {' | '.join([row, right, *sizes_of(runs), minutes])} |")
    return lines


def videos(found: dict) -> list[str]:
    """How many answers about films are right: by the type of the question, and by where the answer is seen."""
    first = next(iter(found["runs"].values()))["metrics"]["tags"]
    places = [("type", name) for name in first["type"]] + [("place", name) for name in ("early", "later")]
    cost = ["bytes of state", "parameters", "seeds", "steps", "minutes"]
    head = ["right %", "all", *(name for _, name in places), *cost]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in by_row(found["runs"]).items():
        split = [[run["metrics"]["tags"][tag][name]["accuracy"] for run in runs] for tag, name in places]
        cells = map(percent, [[run["metrics"]["accuracy"] for run in runs], *split])
        minutes = f"{mean(run['seconds'] for run in runs) / 60:.0f}"
        lines.append(f"| {' | '.join([row, *cells, *sizes_of(runs), minutes])} |")
    return lines


def spans(found: dict) -> list[str]:
    """Exact match and F1 of the answers, F1 by where they stand, and how many were held in the end."""
    head = ["policy", "exact match %", "F1 %", "early F1 %", "later F1 %", "held %", "seeds", "steps", "minutes"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, runs in by_row(found["runs"]).items():
        every = [run["metrics"] for run in runs]
        places = ([own["tags"]["place"][place]["f1"] for own in every] for place in ("early", "later"))
        shares = ([own[name] for own in every] for name in ("accuracy", "f1"))
        cells = map(percent, (*shares, *places, [own["held"] for own in every]))
        minutes = f"{mean(run['seconds'] for run in runs) / 60:.0f}"
        lines.append(f"| {' | '.join([row, *cells, str(len(runs)), format(runs[0]['step'], ','), minutes])} |")
    return lines


def percent_of(values: list[float | None]) -> str:
    """As `percent`; "-" for what a system does not have."""
    known = [value for value in values if value is not None]
    return percent(known) if known else "-"
