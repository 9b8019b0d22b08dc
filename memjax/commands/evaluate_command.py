"""`memjax evaluate`."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from memjax.commands.shared import command_line, define_compile_cache, keep_compiled, make_console, run_folders
from memjax.config.overrides import override
from memjax.errors import MemjaxError, require
from memjax.experiments.arguments import place_data
from memjax.experiments.prepare import prepare, read_run
from memjax.experiments.reading import from_mapping, to_mapping
from memjax.reporting import load_run, print_table
from memjax.training import experiment, runs
from memjax.training.data_digests import WORDS
from memjax.training.phase import Experiment, parameter_shapes

LONGEST = 100  # letters of a file's name that say how a run was evaluated
USAGE = """\
memjax evaluate RUN ... [--split=test] [--data_dir=FOLDER] [--config.task.KEY=VALUE ...]
                [--compile_cache=FOLDER|off] [--plugin=MODULE ...]

Tests each run again, or all in the folder of a comparison: its newest checkpoint, or its best one where
config.training.keep says so. With another split, other data or another length of the same task, what is found is kept
beside the first evaluation, as evaluation-NAME.json, and shown by `memjax report`.

  --split                  train, valid or test
  --data_dir               where the task's data lies now
  --config.task.KEY=VALUE  a setting of the task, for this evaluation alone
  --compile_cache          where compiled programs are kept for the next time; off: nowhere. Else the user's cache
"""


def run(arguments: Sequence[str]) -> None:
    """Runs the command."""
    values = flags.FlagValues()
    flags.DEFINE_enum("split", "test", ["train", "valid", "test"], "what is tested", flag_values=values)
    flags.DEFINE_string("data_dir", None, "where the task's data lies now", flag_values=values)
    define_compile_cache(values)
    changes = [a for a in arguments if a.startswith("-") and a.lstrip("-").startswith("config")]
    foreign = [a for a in changes if not a.lstrip("-").startswith("config.task.")]
    require(not foreign, f"{' '.join(foreign)}: a run is tested as it was trained; config.task. alone may be changed")
    folders = run_folders([a for a in arguments if a not in changes], values, "evaluate")
    keep_compiled(values)
    file = evaluation_file(values.split, values.data_dir, changes)
    for folder in folders:  # before anything is tested
        runs.read_settings(folder)
        runs.require_writable(folder)
    console = make_console()
    for folder in folders:
        config = read_run(folder)
        console.out(f"{folder}: compiling ...")
        changed = _changed(config, changes, values.data_dir)
        prepared = prepare(changed)
        if changed.task != config.task:
            _check_same(config, prepared)
        experiment.evaluate(prepared, folder, values.split, file, command_line())
    print_table([load_run(folder) for folder in folders], console)


def evaluation_file(split: str, data_dir: str | None, changes: Sequence[str]) -> str:
    """The file of a run folder that an evaluation is written to: of each way to evaluate a run one of its own."""
    parts = ([split] if split != "test" else []) + ([Path(data_dir).name] if data_dir else [])
    parts += ["-".join(a.lstrip("-").removeprefix("config.task.").split("=", 1)) for a in changes]
    plain = "-".join(["evaluation", *parts])
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in plain)
    if not data_dir and name == plain and len(name) <= LONGEST:
        return f"{name}.json"
    told = json.dumps([split, str(Path(data_dir or "").resolve()), list(changes)])
    return f"{name[:LONGEST]}-{hashlib.sha256(told.encode()).hexdigest()[:6]}.json"


def _changed(config: Any, changes: Sequence[str], data_dir: str | None) -> Any:
    settings = override(to_mapping(config), changes, lambda settings, name: None)
    place_data(settings, data_dir)
    changed = from_mapping(settings)
    for name in getattr(config.task, "divides", ()):
        require(
            getattr(changed.task, name) == getattr(config.task, name),
            f"config.task.{name} decides which examples are for training: the test would have some that the run has "
            "learned from; train another run with it",
        )
    return changed


def _check_same(config: Any, other: Experiment) -> None:
    """Raises `MemjaxError` if other data has other words or answers, whose numbers would mean something else, or if a
    model of these settings has parameters of other shapes than those that were learned.
    """
    try:
        own = prepare(config)
    except MemjaxError:
        return  # the data that it learned from is not here any more
    for name in WORDS:  # a run of an earlier version has no digests of them
        same = getattr(own.task, name, None) == getattr(other.task, name, None)
        require(same, f"the {name} of this data is another than that of the data which the run has learned from")
    same = parameter_shapes(own) == parameter_shapes(other)
    require(same, "these settings of the task make another model than the run has trained; it cannot be tested so")
