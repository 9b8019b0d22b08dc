"""The parts that the page is made of: its head and style, tables, pictures. Every text in them is only text."""

import base64
from collections.abc import Sequence
from html import escape

from memjax.reporting.tables import Row

TALL = 20  # a table of more rows is scrolled
STYLE = """
:root { color-scheme: light dark; --page: #fcfcfa; --ink: #222; --faint: #636363; --line: #dcdcd6; --mark: #9a3b00; }
@media (prefers-color-scheme: dark) { :root { --page: #17181a; --ink: #dededb; --faint: #a3a39f; --line: #3a3b3e;
  --mark: #ffb37a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 3rem 1.5rem 4rem; max-width: 74rem; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; font-weight: 600; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; font-weight: 600; margin: 2.8rem 0 .7rem; }
h3 { font-size: 1rem; font-weight: 600; margin: 1.4rem 0 .4rem; }
p, ul { margin: .4rem 0; }
ul { padding-left: 1.2rem; }
.faint, figcaption, caption { color: var(--faint); font-size: .9rem; }
.mark { color: var(--mark); font-weight: 600; }
.headline strong { font-size: 2.2rem; font-weight: 600; font-variant-numeric: tabular-nums; margin-right: .2rem; }
.headline { margin: 1.2rem 0 0; }
.wide { overflow-x: auto; }
.tall { overflow-y: auto; max-height: 34rem; border-bottom: 1px solid var(--line); }
.tall th { position: sticky; top: 0; background: var(--page); }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .35rem .8rem .35rem 0; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--faint); vertical-align: bottom; }
th.words, td.words { text-align: left; min-width: 6rem; }
th, td { white-space: nowrap; }
td.words { white-space: pre-line; overflow-wrap: anywhere; }
figure { margin: 0; break-inside: avoid; }
figure img { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 6px; }
figcaption { margin-top: .45rem; }
details { border-top: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; }
pre { font: .85rem/1.5 ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; white-space: pre-wrap;
  margin: .6rem 0; }
@media print { :root { color-scheme: light; --page: #fff; --ink: #000; --faint: #555; --line: #ccc; --mark: #000; }
  h2 { margin-top: 1.6rem; break-after: avoid; } body { max-width: none; padding: 0; }
  .wide { overflow: visible; max-height: none; }
  table { font-size: .75rem; } th, td { padding-right: .5rem; } tr { break-inside: avoid; } }
"""


def head(title: str) -> str:
    """All before the page's own text."""
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
<body>
<main>"""


def heading(title: str, level: int = 2) -> str:
    """A heading of a section; of a run in it, at level 3."""
    return f"<h{level}>{escape(title)}</h{level}>"


def paragraph(text: str, css: str = "faint") -> str:
    """A paragraph; "" for no text."""
    return f'<p class="{css}">{escape(text)}</p>' if text else ""


def items(texts: Sequence[str]) -> str:
    """A list."""
    return "<ul>\n" + "\n".join(f"<li>{escape(text)}</li>" for text in texts) + "\n</ul>"


def table(title: str, rows: Sequence[Row], words: Sequence[str], note: str = "", *, level: int = 2) -> str:
    """A heading, a table and a note; "" without rows.

    Args:
        title: of the heading.
        rows: of text; the columns are those of the first.
        words: the columns that hold words, and begin at the left.
        note: below the table.
        level: of the heading.
    """
    if not rows:
        return ""
    columns = list(rows[0])

    def cells(kind: str, texts: Sequence[str]) -> str:
        scope = ' scope="col"' if kind == "th" else ""
        css = [' class="words"' if column in words else "" for column in columns]
        return "".join(f"<{kind}{scope}{c}>{escape(text)}</{kind}>" for c, text in zip(css, texts))

    body = "".join(f"<tr>{cells('td', list(row.values()))}</tr>\n" for row in rows)
    css = "wide tall" if len(rows) > TALL else "wide"
    # What can be scrolled can be reached by the keyboard, and has a name.
    return (
        f'{heading(title, level)}\n<div class="{css}" role="region" tabindex="0" aria-label="{escape(title)}"><table>\n'
        f"<thead><tr>{cells('th', columns)}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n{paragraph(note)}"
    )


def picture(title: str, caption: str, data: bytes) -> str:
    """A heading, a picture (the bytes of a PNG), and what it shows."""
    source = base64.b64encode(data).decode("ascii")
    return (
        f'{heading(title)}\n<figure><img alt="{escape(title)}" src="data:image/png;base64,{source}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def folded(title: str, text: str) -> str:
    """A long text that is shown when its title is chosen."""
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def code(text: str) -> str:
    """A text as it was typed."""
    return f"<pre>{escape(text)}</pre>"
