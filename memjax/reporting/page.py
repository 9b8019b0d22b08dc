"""The runs as one HTML page that needs nothing else: no script, no address, pictures inside."""

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from memjax.errors import require
from memjax.files import replacing
from memjax.reporting.plots import CAPTIONS, figures, save
from memjax.reporting.runs import Run, distinct_names, number, pick
from memjax.reporting.tables import MISSING, WORDS, Row, describe, duration, other_tags, summary_rows, tag_rows

TITLES = {
    "losses": "Losses",
    "accuracy": "Accuracy",
    "places": "Where the evidence lies",
    "maps": "Accuracy by two things at once",
    "buffer": "What the buffer held",
    "walk": "What the agent saw and held",
    "slots": "Which slots were written",
}
STYLE = """
:root { color-scheme: light dark; --page: #fcfcfa; --ink: #222; --faint: #6a6a6a; --line: #dcdcd6; }
@media (prefers-color-scheme: dark) { :root { --page: #17181a; --ink: #dededb; --faint: #9b9b97; --line: #3a3b3e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 3rem 1.5rem 4rem; max-width: 68rem; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; font-weight: 600; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; font-weight: 600; margin: 2.8rem 0 .7rem; }
p { margin: .4rem 0; }
.faint, figcaption, caption { color: var(--faint); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .35rem .9rem .35rem 0; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--faint); vertical-align: bottom; }
th.words, td.words { text-align: left; min-width: 6rem; }
th, td { white-space: nowrap; }
td.words { white-space: normal; }
figure { margin: 0; break-inside: avoid; }
figure img { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 6px; }
figcaption { margin-top: .45rem; }
details { border-top: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; }
pre { font: .85rem/1.5 ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; white-space: pre-wrap;
  margin: .6rem 0; }
@media print { :root { color-scheme: light; --page: #fff; --ink: #000; --faint: #555; --line: #ccc; }
  h2 { margin-top: 1.6rem; break-after: avoid; } body { max-width: none; padding: 0; } .wide { overflow: visible; }
  table { font-size: .75rem; } th, td { padding-right: .5rem; } tr { break-inside: avoid; } }
"""


def write_report(runs: Sequence[Run], folder: str | Path | None = None, *, comparison: Sequence[Row] = ()) -> Path:
    """Writes folder/report.html and folder/plots/*.png, each whole or not at all, and gives the path of the page.

    comparison: rows of a table that stands before all else, of which each run here is the first seed.

    The folder is that of the run if there is one run and no other is given. Raises `MemjaxError` without runs, without
    a folder for several runs, and where nothing can be written.
    """
    require(runs, "there are no runs to report")
    require(folder is not None or len(runs) == 1, "say in which folder the report of several runs is to be written")
    folder = Path(runs[0].path if folder is None else folder)
    pictures = save(figures(runs), folder / "plots")
    page = folder / "report.html"
    with replacing(page) as file:
        text = page_text(runs, comparison, {name: path.read_bytes() for name, path in pictures.items()})
        file.write(text.encode("utf-8", "backslashreplace"))  # half a character, in a name, is none in UTF-8
    return page


def page_text(runs: Sequence[Run], comparison: Sequence[Row], pictures: Mapping[str, bytes]) -> str:
    """The HTML of the page, with the pictures (PNG bytes by name) in it."""
    names = distinct_names(runs)
    title = names[0] if len(runs) == 1 else f"{len(runs)} runs"
    rows = summary_rows(runs)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="faint">{escape(_subtitle(runs))}</p>',
    ]
    if comparison:
        parts.append(_table("Comparison", comparison, ("system",), "Means over the seeds, ± their standard deviation."))
    parts.append(_table("First seeds" if comparison else "Results", rows, WORDS, describe(rows)))
    for tag in other_tags(runs):
        tagged = tag_rows(runs, tag)
        note = "The share of answers that are wrong, in %."
        parts.append(_table(f"Error by {tag}", tagged, (), note) if len(tagged) > 1 else "")
    parts += [_picture(name, data) for name, data in pictures.items()]
    if len(runs) > 1 and not comparison and (differing := differences(runs)):
        parts.append(
            _table("What differs", differing, tuple(differing[0]), "The settings in which the configs differ.")
        )
    parts.append(f"<h2>{'Config' if len(runs) == 1 else 'Configs'}</h2>")
    for name, run in zip(names, runs):
        text = json.dumps(run.config, indent=2, ensure_ascii=False)
        parts.append(f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>")
    return "\n".join([_head(title), *filter(None, parts), "</body>", "</html>", ""])


def differences(runs: Sequence[Run]) -> list[Row]:
    """A row for each setting in which the runs' configs differ: its dotted name, then its value in each run."""
    flat = [_flatten(run.config) for run in runs]
    keys = [key for key in dict.fromkeys(k for f in flat for k in f) if len({f.get(key, MISSING) for f in flat}) > 1]
    names = distinct_names(runs)
    return [{"setting of the config": key} | {n: f.get(key, MISSING) for n, f in zip(names, flat)} for key in keys]


def _flatten(tree: Any, prefix: str = "") -> Row:
    if isinstance(tree, dict) and tree:
        return {k: v for name, child in tree.items() for k, v in _flatten(child, f"{prefix}.{name}").items()}
    return {prefix.removeprefix("."): tree if isinstance(tree, str) else json.dumps(tree, ensure_ascii=False)}


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


def _table(title: str, rows: Sequence[Row], words: Sequence[str], note: str) -> str:
    columns = list(rows[0])
    words = words or columns[:1]

    def cells(kind: str, texts: Sequence[str]) -> str:
        css = [' class="words"' if column in words else "" for column in columns]
        return "".join(f"<{kind}{c}>{escape(text)}</{kind}>" for c, text in zip(css, texts))

    body = "".join(f"<tr>{cells('td', list(row.values()))}</tr>\n" for row in rows)
    return (
        f'<h2>{escape(title)}</h2>\n<div class="wide"><table>\n<thead><tr>{cells("th", columns)}</tr></thead>\n'
        f'<tbody>\n{body}</tbody></table></div>\n<p class="faint">{escape(note)}</p>'
    )


def _picture(name: str, data: bytes) -> str:
    caption, source = escape(CAPTIONS.get(name, name)), base64.b64encode(data).decode("ascii")
    return (
        f"<h2>{escape(TITLES.get(name, name))}</h2>\n"
        f'<figure><img alt="{caption}" src="data:image/png;base64,{source}"><figcaption>{caption}</figcaption></figure>'
    )


def _head(title: str) -> str:
    # The policy holds even if something slipped through: this page loads nothing and runs nothing.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} · memjax</title>
<style>{STYLE}</style>
</head>
<body>"""
