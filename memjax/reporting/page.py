"""The runs as one HTML page that needs nothing else: no script, no address, pictures inside."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from memjax.errors import require
from memjax.files import replacing
from memjax.reporting.comparison import MEANING
from memjax.reporting.html_parts import code, folded, head, heading, items, paragraph, picture, table
from memjax.reporting.page_tables import (
    EXAMPLE_WORDS,
    confusion_rows,
    differences,
    example_rows,
    headline,
    validation_rows,
)
from memjax.reporting.plots import Drawn, drawings, save
from memjax.reporting.run_folder import Run, distinct_names, number, pick, with_parts
from memjax.reporting.tables import (
    WORDS,
    Row,
    describe,
    duration,
    notes,
    summary_rows,
    tag_rows,
    tag_tables,
    unfinished,
)

VALIDATION = (
    "The last validation, on as many examples as the config says, beside the evaluation, which may be of another step."
)
SHARES = {
    "error": "The share of answers that are wrong, in %.",
    "percent": "The share of answers that are right, in %.",
}


def write_report(
    runs: Sequence[Run],
    folder: str | Path | None = None,
    *,
    comparison: Sequence[Row] = (),
    noted: Sequence[str] | None = None,
) -> Path:
    """Writes `folder/report.html` and `folder/plots/*.png`, each whole or not at all, and gives the path of the page.

    Args:
        runs: as `load_run` gives them.
        folder: that of the run, if there is one run and none is given.
        comparison: rows of a table that stands before all else, of which each run here is the first seed.
        noted: what is to be said of all that were compared; the notes of these runs, if not given.

    Raises:
        MemjaxError: without runs, without a folder for several runs, and where nothing can be written.
    """
    require(runs, "there are no runs to report")
    require(folder is not None or len(runs) == 1, "say in which folder the report of several runs is to be written")
    folder = Path(runs[0].path if folder is None else folder)
    drawn = drawings(runs)
    paths = save({each.name: each.figure for each in drawn}, folder / "plots")
    page = folder / "report.html"
    read = {name: path.read_bytes() for name, path in paths.items()}
    with replacing(page) as file:
        text = page_text(runs, comparison, notes(runs) if noted is None else noted, drawn, read)
        file.write(text.encode("utf-8", "backslashreplace"))  # half a character, in a name, is none in UTF-8
    return page


def page_text(
    runs: Sequence[Run],
    comparison: Sequence[Row],
    noted: Sequence[str],
    drawn: Sequence[Drawn],
    pictures: Mapping[str, bytes],
) -> str:
    """The HTML of the page.

    Args:
        runs: all of them.
        comparison: as of `write_report`.
        noted: what is said below the results.
        drawn: the pictures' titles and captions.
        pictures: the bytes of each PNG, by its name.
    """
    names, parts = distinct_names(runs), with_parts(runs)
    title = "Compared systems" if comparison else f"{len(runs)} runs"
    if len(runs) == 1 and not comparison:
        title = names[0]
    texts = [f"<h1>{escape(title)}</h1>", paragraph(_subtitle(runs))]
    texts += [paragraph(text, "mark") for text in unfinished(runs)]
    if len(runs) == 1 and not comparison and runs[0].evaluation is not None:
        result, words = headline(runs[0], runs)
        texts.append(f'<p class="headline"><strong>{escape(result)}</strong> {escape(words)}</p>')
    texts.append(table("Comparison", comparison, WORDS, MEANING))
    texts.append(
        table("First seeds" if comparison else "Results", summary_rows(runs, intervals=True), WORDS, describe(runs))
    )
    if noted:
        texts += [heading("Notes"), items(noted)]
    texts.append(table("Test beside validation", validation_rows(runs), ("run", "split"), VALIDATION))
    for panel in tag_tables(runs):
        rows = tag_rows(runs, panel)
        texts.append(table(panel.title, rows, list(rows[0])[:1], SHARES[panel.number]) if len(rows) > 1 else "")
    texts += [picture(each.title, each.caption, pictures[each.name]) for each in drawn]
    texts += _answers(parts)
    if len(runs) > 1 and not comparison and (differing := differences(runs)):
        texts.append(table("What differs", differing, tuple(differing[0]), "The settings in which the configs differ."))
    texts += _commands(runs, names)
    texts.append(heading("Config" if len(runs) == 1 else "Configs"))
    texts += [folded(name, json.dumps(run.config, indent=2, ensure_ascii=False)) for name, run in zip(names, runs)]
    return "\n".join([head(title), *filter(None, texts), "</main>", "</body>", "</html>", ""])


def _answers(parts: Sequence[Run]) -> list[str]:
    """Examples and confusions of every evaluation that has them; under the name of each where there are several."""
    texts = []
    for title, words in (("Examples", EXAMPLE_WORDS), ("Confusions", ("answer", "prediction"))):
        found = []
        for name, part in zip(distinct_names(parts), parts):
            if title == "Examples":
                rows, note = example_rows(part.evaluation), "Answers one by one, as they were given."
            else:
                rows, note = confusion_rows(part.evaluation)
            if rows:
                found.append((name, rows, note))
        if len(found) == 1:
            texts.append(table(title, found[0][1], words, found[0][2]))
        elif found:
            texts.append(heading(title))
            texts += [table(name, rows, words, note, level=3) for name, rows, note in found]
    return texts


def _commands(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """The command of each run that says one, and the versions and devices that it ran with."""
    texts = []
    for name, run in zip(names, runs):
        command, versions = pick(run.evaluation, "command"), pick(run.evaluation, "versions")
        said = [f"{package} {version}" for package, version in versions.items()] if isinstance(versions, dict) else []
        trained, tested = (pick(run.evaluation, key) for key in ("trained_on", "devices"))
        elsewhere = isinstance(trained, str) and trained not in ("", tested)
        if elsewhere:
            said.append(f"trained on {trained}")
        if isinstance(tested, str):
            said.append(f"tested on {tested}" if elsewhere else tested)
        own = [code(command)] if isinstance(command, str) and command else []
        own += [paragraph(", ".join(said))] if said else []
        if own:
            texts += [heading(name, 3), *own] if len(runs) > 1 else own
    return [heading("Command and versions"), *texts] if texts else []


def _subtitle(runs: Sequence[Run]) -> str:
    tasks = ", ".join(dict.fromkeys(run.task for run in runs if run.task))
    said = [f"Task: {tasks}." if tasks else ""]
    evaluated = [run.evaluation for run in runs if run.evaluation]
    if not evaluated:
        said.append("Not evaluated yet.")
    else:
        splits = ", ".join(dict.fromkeys(str(e.get("split", "unknown")) for e in evaluated))
        said.append(f"Evaluated on the split: {splits}.")
        if len(runs) == 1:
            said.append(f"The evaluation took {duration(number(pick(runs[0].evaluation, 'seconds')))}.")
        elif len(evaluated) < len(runs):
            said.append(f"{len(runs) - len(evaluated)} of {len(runs)} not evaluated yet.")
    return " ".join(filter(None, said))
