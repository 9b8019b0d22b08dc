"""The tables that bench_write.py and bench_surprise.py print when they are done, from what they found."""

from rich.console import Console
from rich.table import Table


def write(results: dict) -> None:
    """Of bench_write.py: times, ratios, growth, questions, targets."""
    console = Console(width=120)

    def table(title: str, *columns: str) -> Table:
        made = Table(*columns, title=title, title_justify="left")
        for column in made.columns[1:]:
            column.justify = "right"
        return made

    times = table(
        "Seconds per call: median (quartiles), ms", "job", "T", "B", "contender", "ms", "min", "compile s", "temp MB"
    )
    for row in results["rows"]:
        where = row["job"], str(row["T"]), str(row["B"]), row["contender"]
        times.add_row(*where, _milliseconds(row, 2), f"{1e3 * row['min']:.2f}", *_compilation(row))
    console.print(times)
    ratios = table("Ratios, taken turn by turn", "job", "T", "B", "ratio", "median", "quartiles", "min-max")
    for row in results["ratios"]:
        numbers = f"{row['median']:.3f}", f"{row['q1']:.3f}-{row['q3']:.3f}", f"{row['min']:.3f}-{row['max']:.3f}"
        ratios.add_row(row["job"], str(row["T"]), str(row["B"]), row["ratio"], *numbers)
    console.print(ratios)
    grown = table("Growth of memorize, forward", "T", "B", "us per stream and segment", "state bytes")
    for row in results["growth"]:
        grown.add_row(str(row["T"]), str(row["B"]), f"{1e6 * row['seconds_per_segment']:.2f}", str(row["state_bytes"]))
    console.print(grown)
    asked = table(
        "Q questions on one memory (forward)",
        "Q",
        "once ms",
        "readings ms",
        "again for each ms (* Q x one)",
        "again/once",
        "once/write",
    )
    for row in results["questions"]:
        again = _milliseconds(row["again_s"], 2) + ("" if row["again_measured"] else " *")
        gain, share = row["again/once"]["median"], row["once/write"]["median"]
        once, read = _milliseconds(row["once_s"], 2), _milliseconds(row["read_s"], 2)
        asked.add_row(str(row["Q"]), once, read, again, f"{gain:.1f}", f"{share:.3f}")
    console.print(asked)
    _print_end(console, table("Targets", "target", "found", "met"), results)


def surprise(results: dict) -> None:
    """Of bench_surprise.py: times, the rate of a product of matrices, ratios, targets."""
    console = Console(width=120)
    table = Table("job", "L", "contender", "tokens/s", "ms (quartiles)", "compile s", "temp MB", "peak MB", "matmul %")
    for column in table.columns[3:]:
        column.justify = "right"
    for row in results["rows"]:
        peak_mb = f"{row['peak_bytes'] / 1e6:.0f}" if "peak_bytes" in row else "-"
        where = row["job"], str(row["L"]), row["contender"]
        share = f"{100 * row['matmul_share']:.0f}" if "matmul_share" in row else "-"
        pace = f"{row['tokens_per_s']:,.0f}"
        table.add_row(*where, pace, _milliseconds(row, 1), *_compilation(row), peak_mb, share)
    console.print(table)
    for row in results["matmul"]:
        rate = f"{row['flops_per_s']['median'] / 1e9:.0f} GFLOP/s"
        console.print(f"Beside {row['job']}, L={row['L']}, a product of matrices made {rate}.", highlight=False)
    table = Table("job", "L", "ratio, turn by turn", "median", "quartiles")
    for row in results["ratios"]:
        quartiles = f"{row['q1']:.2f}-{row['q3']:.2f}"
        table.add_row(row["job"], str(row["L"]), row["ratio"], f"{row['median']:.2f}", quartiles)
    console.print(table)
    _print_end(console, Table("target", "found", "met"), results)


def _milliseconds(spread: dict, digits: int) -> str:
    median, low, high = (f"{1e3 * spread[key]:.{digits}f}" for key in ("median", "q1", "q3"))
    return f"{median} ({low}-{high})"


def _compilation(row: dict) -> tuple[str, str]:
    """Seconds and MB of a contender that was compiled."""
    compile_s = f"{row['compile_s']:.1f}" if "compile_s" in row else "-"
    return compile_s, f"{row['temp_bytes'] / 1e6:.0f}" if "temp_bytes" in row else "-"


def _print_end(console: Console, targets: Table, results: dict) -> None:
    """Fills in the targets; the notes come last."""
    for row in results["targets"]:
        targets.add_row(row["target"], f"{row['found']:.3f}", "yes" if row["met"] else "[bold red]NO[/]")
    console.print(targets)
    for note in results["notes"]:
        console.print(note, highlight=False, markup=False)
