"""What was logged in run folders -> a table in the terminal, plots, one HTML page. NumPy, matplotlib and rich alone."""

from memjax.reporting.comparison import compare, comparison_rows, print_comparison
from memjax.reporting.page import write_report
from memjax.reporting.plots import figures, save
from memjax.reporting.run_folder import Curve, Run, load_run
from memjax.reporting.tables import notes, summary_rows
from memjax.reporting.terminal import print_table

__all__ = [
    "Curve",
    "Run",
    "compare",
    "comparison_rows",
    "figures",
    "load_run",
    "notes",
    "print_comparison",
    "print_table",
    "save",
    "summary_rows",
    "write_report",
]
