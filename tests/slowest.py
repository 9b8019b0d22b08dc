"""Where the suite's time goes: at its end, the files and the tests, of all their parameters, that took longest."""

import collections

import pytest

SHOWN = 20
LEAST = 60.0  # seconds of all: of a few tests nobody asks
_files, _tests = collections.Counter(), collections.Counter()  # seconds, by name


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Of each test its preparation, itself, and what it leaves behind; in the process that has started the workers."""
    _files[report.nodeid.partition("::")[0]] += report.duration
    _tests[report.nodeid.partition("[")[0]] += report.duration


def pytest_terminal_summary(terminalreporter) -> None:
    """A line for each of them, in a worker's seconds."""
    if sum(_files.values()) < LEAST:
        return
    for kind, spent in (("files", _files), ("tests", _tests)):
        terminalreporter.write_line(f"slowest {kind}, of {sum(spent.values()):.0f} s of all workers:")
        for name, seconds in spent.most_common(SHOWN):
            terminalreporter.write_line(f"{seconds:8.0f} s  {name}")
