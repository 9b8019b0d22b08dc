"""docs/from_command_to_slots.md against the calls of a real `memjax train`: all functions, in the page's order."""

import re
import sys
from pathlib import Path

import pytest
from training.tiny import CONFIGS, flags

from memjax import cli

PAGE = (Path(__file__).parents[1] / "docs" / "from_command_to_slots.md").read_text()


def sections():
    """The functions of each section of the page, in order."""
    parts = re.split(r"^## ", PAGE, flags=re.M)[1:]
    return {part.partition("\n")[0]: re.findall(r"^\d+\. `([\w.]+)`", part, re.M) for part in parts}


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """Every function of memjax that a training calls, by its full name, in the order of the first calls."""
    seen = {}

    def profile(frame, event, argument):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("memjax"):
            seen.setdefault(f"{module}.{frame.f_code.co_qualname}", len(seen))

    folder = tmp_path_factory.mktemp("traced") / "run"
    command = ["train", f"--config={CONFIGS / 'evidence.py'}:demo", *flags(training__steps=2), f"--run={folder}"]
    sys.setprofile(profile)
    try:
        assert cli.main(command) == 0
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("section", sections())
def test_the_page_lists_what_is_called_in_the_order_of_the_first_calls(called, section):
    listed = sections()[section]
    assert len(listed) >= 5
    missing = [name for name in listed if name not in called]
    assert not missing, f"never called: {missing}"
    assert listed == sorted(listed, key=called.__getitem__)
