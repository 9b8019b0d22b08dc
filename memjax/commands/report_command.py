"""`memjax report`."""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from memjax.commands.shared import make_console, report, run_folders

USAGE = """\
memjax report RUN ... [--out=FOLDER]

A table in the terminal, and a page with plots; several runs side by side. The folder of a comparison stands for all
runs in it. Reads what is in the run folders, and needs neither data nor plugins.
"""


def run(arguments: Sequence[str]) -> None:
    """Runs the command."""
    values = flags.FlagValues()
    flags.DEFINE_string("out", None, "where the page and the plots go", flag_values=values)
    folders = run_folders(arguments, values, "report")
    out = values.out or (folders[0] if len(folders) == 1 else Path("runs") / "report")
    report(folders, Path(out), make_console())
